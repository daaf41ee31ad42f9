"""Direct bias: how much of neutral words lies along the direction of a concept (Bolukbasi et al. 2016, section 5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from evenhand import subspaces
from evenhand.arrays import unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.asking import asked_concept, asked_words
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.stats import bootstrap
from evenhand.subspaces import Subspace
from evenhand.words import Concept, WordSet

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
)


@measure(INFO)
def direct_bias(
    vectors: Vectors,
    words: WordSet | str | Iterable[str],
    *,
    subspace: Subspace | None = None,
    concept: Concept | str = "gender",
    direction: Literal["own", "original"] = "own",
    c: float = 1.0,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean |cos(w, g)|^c over the words, with the signed cosine of each and a bootstrap interval over the words.

    Without a `subspace`, g is the first principal direction of the concept's pairs with unit vectors, as in the paper.
    It is learned on these very vectors (`direction="own"`: what is left to find after a mitigation) or on the
    `reference`, the vectors before it (`direction="original"`: what is left along the direction that was removed).
    """
    asked, about = asked_words(words), asked_concept(concept)
    if c < 0:
        raise UsageError(f"c must not be negative, got {c}")
    rows, coverage = vectors.take(asked)
    common = {
        "query": asked.name,
        "model": vectors.name,
        "positive": about.positive,
        "params": {"c": c, "concept": about.name, "direction": "given" if subspace else direction},
        "seed": seed,
    }
    if not len(rows):
        return undefined("direct-bias", f"no word of {asked.name} is in the vocabulary", coverage, **common)
    learned_on = (reference or vectors) if direction == "original" else vectors
    try:
        along = subspace or subspaces.pairs(learned_on, about.pairs, k=1, normalise=True)
    except (DegenerateError, VocabularyError) as error:
        return undefined("direct-bias", error.message, coverage, **common)
    cosines = unit_rows(rows) @ along.basis.T
    shares = np.sqrt((cosines**2).sum(axis=1)) ** c
    return Measurement(
        "direct-bias",
        float(shares.mean()),
        len(shares),
        coverage,
        interval=bootstrap.interval(shares[bootstrap.resamples(len(shares), seed=seed)].mean(axis=1)),
        reading=f"on average {100 * shares.mean():.1f} % of a word's length lies along the {about.name} direction",
        items=tuple(
            {"word": word, "value": float(cosine)} for word, cosine in zip(coverage.found, cosines[:, 0], strict=True)
        ),
        details={"dimensions": len(along.basis), "random_level": float(np.sqrt(2 / (np.pi * vectors.dim)))},
        **common,  # type: ignore[arg-type]
    )
