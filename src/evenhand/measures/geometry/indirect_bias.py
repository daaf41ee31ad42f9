"""Indirect bias: the share of two words' similarity that is due to the concept (Bolukbasi et al. 2016, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.errors import DegenerateError, VocabularyError
from evenhand.measures.geometry.bias_score import Direction, How, axis, described, learned_on
from evenhand.measures.geometry.intervals import mean_interval
from evenhand.measures.geometry.word_selection import Restriction, pool
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.words import Concept, Pairs, as_concept
from evenhand.words import pairs as find_pairs

INFO = Info(
    id="indirect-bias",
    title="Indirect bias",
    takes="words",
    better="zero",
    formula="beta(w, v) = (w.v - cos(w', v')) / w.v,  unit w and v, w' = w without its part along g",
    reading="The share of the similarity of two words that lies along the direction; below 0 when it hid some.",
    limits=(
        "It sees the similarity along one direction only, grows without bound as w.v nears 0, and a pair says nothing "
        "about other pairs. Words that share nothing but the concept have beta near 1, which may be quite right."
    ),
    cites=("bolukbasi2016",),
    queries=(),  # no published list of pairs; proximity-bias and gipe ask it of whole neighbourhoods
    family="geometry",
)
SMALLEST = 1e-6  # below this w.v and the length of w' are rounding of float32 vectors, and beta is a quotient of noise


@measure(INFO)
def indirect_bias(
    vectors: Vectors,
    pairs: Pairs | str | Iterable[Sequence[str]],
    *,
    subspace: Subspace | None = None,
    concept: Concept | str = "gender",
    how: How = "pairs",
    direction: Direction = "own",
    smallest: float = SMALLEST,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Mean beta over the pairs, with beta and the two similarities of each, and a bootstrap interval over the pairs.

    g is as in `direct_bias`. A pair whose similarity (or whose part off the direction) is below `smallest` has no
    beta; it is listed with the reason and left out of the mean.

    What it does not tell you: whether that share is unjust. See `evenhand show indirect-bias`.
    """
    asked = find_pairs(pairs) if isinstance(pairs, str | Pairs) else Pairs("pairs", pairs)
    about, source = as_concept(concept), learned_on(vectors, reference, direction)
    every = pool(vectors, dict.fromkeys(asked.first + asked.second), concept=about, restriction=Restriction())
    place = {word: row for row, word in enumerate(every.words)}
    there = [(w, v) for w, v in asked if w in place and v in place]
    given: dict[str, Any] = {"direction": "given"} if subspace else {"direction": direction, "how": how}
    common: dict[str, Any] = {
        "query": asked.name,
        "model": vectors.name,
        "params": {"concept": about.name, "smallest": smallest} | given,
        "seed": seed,
    }
    try:
        along = subspace or axis(source, about, how=how)
        unit = unit_rows(every.matrix(vectors))
    except (DegenerateError, VocabularyError) as error:
        return undefined("indirect-bias", error.message, every.coverage, **common)
    first, second = (unit[[place[two[side]] for two in there]].reshape(-1, vectors.dim) for side in (0, 1))
    dots = np.einsum("ij,ij->i", first, second)
    values = beta(dots, along.coordinates(first), along.coordinates(second), smallest=smallest)
    defined = values[np.isfinite(values)]
    common["items"] = tuple(_item(two, dot, value) for two, dot, value in zip(there, dots, values, strict=True))
    if not len(defined):
        reason = "no pair has a beta: words are missing, or their similarity is nearly 0"
        return undefined("indirect-bias", reason, every.coverage, **common)
    return Measurement(
        "indirect-bias",
        float(defined.mean()),
        len(defined),
        every.coverage,
        interval=mean_interval(defined, seed=seed),
        reading=f"{100 * defined.mean():.1f} % of the similarity of a pair lies along the {about.name} direction",
        details={"asked": len(asked), "lost": len(asked) - len(there), "undefined": len(there) - len(defined)}
        | described(along),
        **common,
    )


def beta(dots: Vector64, first: Matrix64, second: Matrix64, *, smallest: float = SMALLEST) -> Vector64:
    """Beta from w.v and the coordinates (..., k) of unit w and v in the subspace; NaN marks where it is undefined.

    cos(w', v') = (w.v - <a_w, a_v>) / sqrt((1 - |a_w|^2) (1 - |a_v|^2)), so that no word has to be projected.
    """
    off = np.sqrt(np.clip(1 - (first**2).sum(axis=-1), 0, None) * np.clip(1 - (second**2).sum(axis=-1), 0, None))
    good = (np.abs(dots) >= smallest) & (off >= smallest)
    off = np.where(good, off, 1.0)
    return np.asarray(
        np.where(good, 1 - (dots - (first * second).sum(axis=-1)) / (off * np.where(good, dots, 1.0)), np.nan)
    )


def _item(pair: tuple[str, str], dot: float, value: float) -> dict[str, Any]:
    item = {"pair": " ".join(pair), "value": float(value) if np.isfinite(value) else None, "similarity": float(dot)}
    return (
        item if np.isfinite(value) else item | {"reason": "the similarity, or what is off the direction, is nearly 0"}
    )
