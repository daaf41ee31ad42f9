"""Direct bias: how much of neutral words lies along the direction of a concept (Bolukbasi et al. 2016, section 5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64, row_norms, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.geometry.bias_score import Direction, How, axis, described, learned_on
from evenhand.measures.geometry.intervals import mean_interval
from evenhand.measures.geometry.word_selection import Restriction, pool
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept, WordSet, as_concept

INFO = Info(
    id="direct-bias",
    title="Direct bias",
    takes="words",
    better="lower",
    formula="DB_c = mean_w |cos(w, g)|^c;  in k dimensions |cos| is the length of the unit word's part in the subspace",
    reading="0: the words have no part along the direction. Random words in d dimensions have about sqrt(2 / (pi d)).",
    limits=(
        "Projecting the direction out makes it 0 by construction while neighbours and classifiers still find the "
        "concept (Gonen & Goldberg 2019): a 0 here does not mean that bias is gone."
    ),
    cites=("bolukbasi2016", "gonen2019"),
    queries=("bolukbasi2016-professions",),
    family="geometry",
    variants={"old-direction": {"direction": "original"}, "new-direction": {"direction": "own"}},
)
NOTHING = 1e-6  # a part below the precision of float32 vectors is none: 0^0 would count it as a whole word


@measure(INFO)
def direct_bias(
    vectors: Vectors,
    words: WordSet | str | Iterable[str],
    *,
    subspace: Subspace | None = None,
    concept: Concept | str = "gender",
    how: How = "pairs",
    direction: Direction = "own",
    c: float = 1.0,
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean |cos(w, g)|^c over the words, with the signed cosine of each and a bootstrap interval over the words.

    Without a `subspace`, g is the first principal direction of the concept's pairs with unit vectors, as in the paper;
    `how="pair"` takes she - he alone, as Dawkins 2021 does over `words="vocabulary"` (V_t, see `Restriction`).
    It is learned on these very vectors (`direction="own"`: what is left to find after a mitigation) or on the
    `reference`, the vectors before it (`direction="original"`: what is left along the direction that was removed).
    c=0 is the paper's strictest case: the share of words with any part along g.

    What it does not tell you: whether bias is gone, see `evenhand show direct-bias`.
    """
    about, rules = as_concept(concept), restriction or Restriction()
    if not c >= 0:
        raise UsageError(f"c must not be negative, got {c}")
    source = learned_on(vectors, reference, direction)
    asked = pool(vectors, words, concept=about, restriction=rules)
    given: dict[str, Any] = {"direction": "given"} if subspace else {"direction": direction, "how": how}
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"c": c, "concept": about.name} | given | asked.rules,
        "seed": seed,
    }
    if not len(asked):
        return undefined("direct-bias", f"no word of {asked.name} is in the vocabulary", asked.coverage, **common)
    try:
        along = subspace or axis(source, about, how=how)
        cosines = along.coordinates(unit_rows(asked.matrix(vectors)))
    except (DegenerateError, VocabularyError) as error:
        return undefined("direct-bias", error.message, asked.coverage, **common)
    parts = _parts(cosines, c)
    return Measurement(
        "direct-bias",
        float(parts.mean()),
        len(parts),
        asked.coverage,
        interval=mean_interval(parts, seed=seed),
        reading=_reading(float(parts.mean()), c, about.name),
        items=word_items(asked.words, cosines[:, 0]),
        details={"random_level": float(np.sqrt(2 / (np.pi * vectors.dim))), "sizes": dict(asked.sizes)}
        | described(along),
        **common,
    )


def _parts(cosines: Matrix64, c: float) -> Vector64:
    """The length of each unit word's part in the subspace, to the power c."""
    lengths = row_norms(cosines)
    return np.where(lengths > NOTHING, lengths**c, 0.0)


def _reading(value: float, c: float, concept: str) -> str:
    if c == 1:
        return f"on average {100 * value:.1f} % of a word's length lies along the {concept} direction"
    return f"the mean share along the {concept} direction, to the power {c:g}, is {value:.4f}"
