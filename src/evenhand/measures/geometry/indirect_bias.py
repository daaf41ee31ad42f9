"""Indirect bias: the share of two words' similarity that is due to the concept (Bolukbasi et al. 2016, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evenhand.arrays import Matrix64, Vector64, unit_rows
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.geometry.bias_score import (
    Direction,
    How,
    concept_direction,
    describe_direction,
    direction_lists,
    direction_source,
)
from evenhand.measures.geometry.word_selection import select_words
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.stats import mean_interval
from evenhand.stats.units import mean_units
from evenhand.subspaces import Subspace
from evenhand.words import Concept, Pairs, as_concept
from evenhand.words import pairs as find_pairs

INFO = Info(
    id="indirect-bias",
    title="Indirect bias",
    takes="words",
    better="zero",
    formula="beta(w, v) = (w.v - cos(w', v')) / w.v,  unit w and v, w' = w without its component along g",
    reading="The share of the similarity of two words that is due to the direction; below 0 when it hid some.",
    limits=(
        "It sees the similarity along one direction only, grows without bound as w.v nears 0, and a pair says nothing "
        "about other pairs. Words that share nothing but the concept have beta near 1, which may be justified."
    ),
    cites=("bolukbasi2016",),
    queries=(),  # no published list of pairs; proximity-bias and gipe measure it over whole neighbourhoods
    family="geometry",
    definition=3,
)
SMALLEST = 1e-6  # below this w.v and the length of w' are rounding of float32 vectors, and beta is a quotient of noise


@measure(INFO)
def indirect_bias(
    call: Call,
    vectors: Vectors,
    pairs: Pairs | str | Iterable[Sequence[str]],
    *,
    subspace: Subspace | None = None,
    concept: Concept | str = "gender",
    how: How = "pairs",
    direction: Direction = "own",
    smallest: float = SMALLEST,
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the mean beta over pairs of words.

    Args:
        vectors: the vectors to measure.
        pairs: pairs of words, their id or their file.
        subspace: the direction or subspace g; learned from the concept by default.
        concept: the concept whose pairs give g, as in `direct_bias`; any number of groups.
        how: how g is learned, as in `direct_bias`.
        direction: "own" learns g on these vectors, "original" on the reference.
        smallest: a pair whose similarity (or whose length off the direction) is below this has no beta; it is listed
            with the reason and left out of the mean.
        min_share: smallest share of the pairs, and of the concept's pairs, that the vocabulary must have.
        reference: vectors before mitigation.
        seed: recorded only; nothing is drawn at random.

    Returns:
        The mean, with beta and the similarity of each pair in `items`.

    What it does not tell you: whether that share is unjust. See `evenhand show indirect-bias`.
    """
    wanted = find_pairs(pairs) if isinstance(pairs, str | Pairs) else Pairs("pairs", pairs)
    concept, source = as_concept(concept), direction_source(vectors, reference, direction)
    selection = select_words(vectors, dict.fromkeys(wanted.first + wanted.second), concept=concept)
    index = {word: row for row, word in enumerate(selection.words)}
    complete = [(w, v) for w, v in wanted if w in index and v in index]
    call.describe(wanted.name, coverage=selection.coverage, params={"direction": "given" if subspace else direction})
    pairs_list = ListCoverage(wanted.name, len(complete), len(wanted), "pair")
    lists = (pairs_list, *(() if subspace else direction_lists(source, concept, how=how)))
    call.require(lists, min_share)
    axis = subspace or concept_direction(source, concept, how=how)
    unit = unit_rows(selection.matrix(vectors))
    first, second = (unit[[index[pair[side]] for pair in complete]] for side in (0, 1))
    similarities = np.einsum("ij,ij->i", first, second)
    values = beta(similarities, axis.coordinates(first), axis.coordinates(second), smallest=smallest)
    items = tuple(_item(*row) for row in zip(complete, similarities, values, strict=True))
    defined = values[np.isfinite(values)]
    if not len(defined):
        return call.undefined("no pair has a beta: all similarities are nearly 0", items=items)
    return call.measurement(
        float(defined.mean()),
        len(defined),
        interval=mean_interval(defined),
        units=(mean_units("pair", (" ".join(pair) for pair in _defined(complete, values)), defined),),
        reading=f"{100 * defined.mean():.1f} % of the similarity of a pair is along the {concept.name} direction",
        items=items,
        details={
            "asked": len(wanted),
            "lost": len(wanted) - len(complete),
            "undefined": len(complete) - len(defined),
            **describe_direction(axis),
        },
    )


def _defined(pairs: Sequence[tuple[str, str]], values: Vector64) -> list[tuple[str, str]]:
    return [pair for pair, value in zip(pairs, values, strict=True) if np.isfinite(value)]


def beta(similarities: Matrix64, first: Matrix64, second: Matrix64, *, smallest: float = SMALLEST) -> Vector64:
    """Return beta from w.v and the coordinates (..., k) of unit w and v in the subspace; NaN where it is undefined.

    cos(w', v') = (w.v - <a_w, a_v>) / sqrt((1 - |a_w|^2) (1 - |a_v|^2)), so that no word has to be projected.
    """
    off = np.sqrt(np.clip(1 - (first**2).sum(axis=-1), 0, None) * np.clip(1 - (second**2).sum(axis=-1), 0, None))
    defined = (np.abs(similarities) >= smallest) & (off >= smallest)
    divisor = np.where(defined, off * similarities, 1.0)
    return np.asarray(np.where(defined, 1 - (similarities - (first * second).sum(axis=-1)) / divisor, np.nan))


def _item(pair: tuple[str, str], similarity: float, value: float) -> MeasuredItem:
    item = {"pair": " ".join(pair), "value": None, "similarity": float(similarity)}
    if np.isfinite(value):
        return {**item, "value": float(value)}
    return {**item, "reason": "the similarity, or the length off the direction, is nearly 0"}
