"""Analogy generation: which pairs of words differ as she differs from he? (Bolukbasi et al. 2016, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows, Vector64, as_float64, row_norms
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.geometry.bias_score import Direction, Pair, Poles, concept_poles, direction_source
from evenhand.measures.geometry.word_selection import NOTHING, VOCABULARY, Restriction, Words, select_words
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import unit_float32
from evenhand.words import Concept, as_concept

AnalogyScore = Literal["strength", "neutral-share"]
FREQUENT = 15_000  # rows searched by default, since the time grows with their square (the paper: 50,000)
K = 150  # analogies that Bolukbasi et al. had rated
BLOCK = 2_048  # words a side of a block: 16 MB of float32 cosines
CLOSEST = 1e-2  # vectors nearer than this differ by too little for a direction in single precision
INFO = Info(
    id="analogy-generation",
    title="Generated analogies",
    takes="words",
    better="lower",
    formula=(
        "the k pairs (x, y) with the largest S(x, y) = cos(she - he, x - y) among |x - y| <= delta, one y for each x; "
        "strength = their mean S, neutral-share = share of pairs with a word that is not specific to the concept"
    ),
    reading=(
        "strength near 1: the k best pairs differ exactly as the poles do. neutral-share: 0 when all pairs are about "
        "the concept by their meaning (queen : king), 1 when none is (sewing : carpentry)."
    ),
    limits=(
        "The k largest of hundreds of millions of scores are large in any vectors, so that only a comparison with the "
        "reference is informative. A pair with a neutral word need not be a stereotype: Bolukbasi et al. asked "
        "people, who called 29 of 150 biased. The list of specific words decides neutral-share, and is never complete."
    ),
    cites=("bolukbasi2016",),
    queries=(VOCABULARY,),
    family="geometry",
    two_groups=True,
)


class GeneratedAnalogy(NamedTuple):
    """positive : first :: negative : second, with its score."""

    first: str
    second: str
    score: float


def generate_analogies(
    vectors: Vectors, pair: Sequence[str] = ("she", "he"), k: int = K, *, delta: float = 1.0, first: int = 50_000
) -> list[GeneratedAnalogy]:
    """Return the k best analogies "she : x :: he : y", best first.

    Args:
        vectors: the vectors to search; rows are scaled to length 1.
        pair: the two words that x and y correspond to.
        k: most analogies to return.
        delta: largest distance |x - y|; 1 is an angle of 60 degrees.
        first: number of rows to consider, of which lower-case words of at most 19 letters are used, as in the paper.

    >>> v = Vectors(["she", "he", "queen", "king"], [[1, 0, 0], [0, 1, 0], [0.6, 0, 0.8], [0, 0.6, 0.8]])
    >>> [(x, y) for x, y, score in generate_analogies(v)]
    [('queen', 'king')]
    """
    concept = Concept("pair", {"positive": [pair[0]], "negative": [pair[1]]})
    poles = concept_poles(concept, pair)
    selection = select_words(vectors, concept=concept, restriction=Restriction(first))
    analogies = _search(vectors, selection.rows, poles.axis(vectors, normalise=True).basis[0], k, delta)
    return [
        GeneratedAnalogy(selection.words[x], selection.words[y], float(score))
        for x, y, score in zip(*analogies, strict=True)
    ]


@measure(INFO)
def analogy_generation(
    call: Call,
    vectors: Vectors,
    words: Words = VOCABULARY,
    *,
    k: int = K,
    delta: float = 1.0,
    score: AnalogyScore | None = None,
    direction: Direction = "own",
    pair: Pair | None = None,
    concept: Concept | str = "gender",
    restriction: Restriction | None = None,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement | tuple[Measurement, ...]:
    """Measure the k pairs of words whose difference is most like that of the poles of a concept.

    S(x, y) = cos(a - b, x - y) where |x - y| <= delta, 0 elsewhere, for unit vectors, a and b being she and he, or
    what `concept_poles` returns for another concept: the mean of the positive group and that of all others. Each word
    is the first word of at most one pair, as in the paper; the released code also uses each second word only once.

    Args:
        vectors: the vectors to measure.
        words: a list of candidate words; by default the restricted vocabulary, with the words of the concept, since
            analogies such as sister : brother are wanted. The poles themselves are not candidates.
        k: number of pairs.
        delta: largest distance |x - y|.
        score: return only this score, `strength` or `neutral-share`.
        direction: "own" takes a - b from these vectors, "original" from the reference.
        pair: another pair of words as poles.
        concept: the concept whose poles and whose `specific` words are used.
        restriction: how the vocabulary is restricted; by default as in the paper, but to the first 15,000 rows.
        reference: vectors before mitigation.
        seed: recorded; nothing here is random.

    Returns:
        Two measurements, without intervals since the pairs are the best ones and not a sample, with the pairs as
        items: `strength`, the mean score, and `neutral-share`, the share of pairs with a word that is not on the
        concept's `specific` list, undefined for a concept without such a list.

    What it does not tell you: whether people would call a pair a stereotype.
    """
    if k < 1 or not 0 < delta <= 2:
        raise UsageError(f"k must be at least 1 and delta between 0 and 2, got k={k} and delta={delta}")
    if score is not None and score not in get_args(AnalogyScore):
        raise UsageError(f"unknown score {score!r}", hint="use strength or neutral-share")
    concept = as_concept(concept)
    poles = concept_poles(concept, pair)
    selection = select_words(
        vectors, words, concept=concept, restriction=restriction or Restriction(FREQUENT, exclude=NOTHING)
    )
    call.describe(
        selection.name, positive=concept.positive, coverage=selection.coverage,
        scores=score or get_args(AnalogyScore), params={**poles.to_dict(), **selection.restriction},
    )  # fmt: skip
    source = direction_source(vectors, reference, direction)
    call.require((*selection.lists(), *poles.lists(source)))
    axis = poles.axis(source, normalise=True).basis[0]
    candidates = _without_poles(vectors, selection.rows, poles)
    first, second, scores = _search(vectors, selection.rows[candidates], axis, k, delta)
    pairs = [
        (selection.words[candidates[x]], selection.words[candidates[y]]) for x, y in zip(first, second, strict=True)
    ]
    if not pairs:
        raise DegenerateError(f"no two words of {selection.name} are within {delta:g} of each other")
    strength = _strength(call, pairs, scores, poles)
    neutral = _neutral_share(call, pairs, scores, poles, concept)
    return {"strength": strength, "neutral-share": neutral}[score] if score else (strength, neutral)


def _strength(call: Call, pairs: list[Pair], scores: Vector64, poles: Poles) -> Measurement:
    value = float(scores.mean())
    return call.measurement(
        value,
        len(pairs),
        score="strength",
        params={"score": "strength"},
        reading=f"the {len(pairs)} best pairs differ as {poles.names[0]} and {poles.names[1]} with cosine {value:.2f}",
        items=tuple({"pair": _text(poles, pair), "value": float(s)} for pair, s in zip(pairs, scores, strict=True)),
        details={"best": float(scores[0]), "last": float(scores[-1])},
    )


def _neutral_share(call: Call, pairs: list[Pair], scores: Vector64, poles: Poles, concept: Concept) -> Measurement:
    """Return the share of pairs of which at least one word is not specific to the concept."""
    if not len(concept.specific):
        reason = f"concept {concept.name!r} has no list of specific words"
        return call.undefined(reason, score="neutral-share", params={"score": "neutral-share"})
    specific = frozenset(Restriction().excluded(concept))
    neutral = [not (x in specific and y in specific) for x, y in pairs]
    value = sum(neutral) / len(neutral)
    return call.measurement(
        value,
        len(pairs),
        score="neutral-share",
        params={"score": "neutral-share"},
        reading=f"{sum(neutral)} of {len(neutral)} analogies have a word that is not specific to {concept.name}",
        items=tuple(
            {"pair": _text(poles, pair), "value": float(flag), "score": float(score)}
            for pair, flag, score in zip(pairs, neutral, scores, strict=True)
        ),
        details={"specific": len(specific)},
    )


def _text(poles: Poles, pair: Pair) -> str:
    return f"{poles.names[0]} : {pair[0]} :: {poles.names[1]} : {pair[1]}"


def _without_poles(vectors: Vectors, rows: Rows, poles: Poles) -> Rows:
    """Return the indices of the rows that are not one of two pole words."""
    if not poles.is_pair:
        return np.arange(len(rows))
    return np.flatnonzero(~np.isin(rows, vectors.locate(poles.positive + poles.negative)[0]))


def _search(vectors: Vectors, rows: Rows, axis: Vector64, k: int, delta: float) -> tuple[Rows, Rows, Vector64]:
    """Return the indices of x and y of the k best pairs and their scores, best first; each x occurs once.

    Blocks of the upper triangle serve both orders of a pair, because S(y, x) = -S(x, y). Only the best partner of each
    word is kept, so that memory does not depend on the number of pairs.
    """
    unit = unit_float32(vectors, rows)
    along = unit @ axis.astype(np.float32)
    best = np.zeros(len(rows), dtype=np.float32)
    partner = np.full(len(rows), -1, dtype=np.int64)
    for top in range(0, len(rows), BLOCK):
        for left in range(top, len(rows), BLOCK):
            cosines = unit[top : top + BLOCK] @ unit[left : left + BLOCK].T
            x, y, squares = _near_pairs(cosines, delta)
            x, y = x + top, y + left
            scores: NDArray[np.float32] = np.divide(along[x] - along[y], np.sqrt(squares), dtype=np.float32)
            _keep_best(x, y, scores, best, partner)
            _keep_best(y, x, -scores, best, partner)
    first = np.argsort(-best, kind="stable")[: min(k, int(np.count_nonzero(partner >= 0)))]
    difference = as_float64(unit[first]) - unit[partner[first]]
    exact = difference @ axis / row_norms(difference)
    order = np.argsort(-exact, kind="stable")
    return first[order], partner[first][order], exact[order]


def _near_pairs(cosines: NDArray[np.float32], delta: float) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """Return rows, columns and squared distances of the pairs of unit vectors at most delta apart, but not equal.

    Few pairs are that near, so that everything after the product of the blocks works on short lists.
    """
    squared = delta**2 * (1 + 1e-6)
    cells = np.flatnonzero(cosines >= np.float32(1 - squared / 2))
    squares = 2 - 2 * cosines.ravel()[cells]
    distinct = squares > CLOSEST**2
    rows, columns = np.divmod(cells[distinct], cosines.shape[1])
    return rows, columns, squares[distinct]


def _keep_best(
    first: Rows, second: Rows, scores: NDArray[np.float32], best: NDArray[np.float32], partner: Rows
) -> None:
    """Record for each first word the second word with the largest score, where it is above the best one so far."""
    better = scores > best[first]
    first, second, scores = first[better], second[better], scores[better]
    order = np.lexsort((second, -scores, first))
    words, start = np.unique(first[order], return_index=True)
    best[words], partner[words] = scores[order][start], second[order][start]
