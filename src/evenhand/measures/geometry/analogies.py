"""Analogies of a concept: generated ones (Bolukbasi et al. 2016), and the choices of SemBias (Zhao et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, as_float64, row_norms, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.geometry.biased_words import (
    NOTHING,
    VOCABULARY,
    DirectionSource,
    PolePair,
    Poles,
    Restriction,
    WordSource,
    concept_poles,
    direction_source,
    select_words,
)
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.neighbours import unit_float32
from evenhand.stats import clustered_interval, crossed_share_note
from evenhand.stats.units import mean_units
from evenhand.subspaces import Subspace
from evenhand.subspaces.differences import SAME_WORD
from evenhand.words import Concept, Table, as_concept
from evenhand.words import table as find_table

AnalogyScore = Literal["strength", "neutral-share"]
FREQUENT = 15_000  # rows searched by default, since the time grows with their square (the paper: 50,000)
K = 150  # analogies that Bolukbasi et al. had rated
BLOCK = 2_048  # words a side of a block: 16 MB of float32 cosines
CLOSEST = 1e-2  # vectors nearer than this differ by too little for a direction in single precision
ANALOGY_GENERATION_INFO = Info(
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


@measure(ANALOGY_GENERATION_INFO)
def analogy_generation(
    call: Call,
    vectors: Vectors,
    words: WordSource = VOCABULARY,
    *,
    k: int = K,
    delta: float = 1.0,
    score: AnalogyScore | None = None,
    direction: DirectionSource = "own",
    pair: PolePair | None = None,
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


def _strength(call: Call, pairs: list[PolePair], scores: Vector64, poles: Poles) -> Measurement:
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


def _neutral_share(call: Call, pairs: list[PolePair], scores: Vector64, poles: Poles, concept: Concept) -> Measurement:
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


def _text(poles: Poles, pair: PolePair) -> str:
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


SEMBIAS_INFO = Info(
    id="sembias",
    title="SemBias",
    takes="table",
    better="higher",
    formula="share of the rows whose definitional pair (a, b) has the largest cos(he - she, a - b) of the four",
    reading="1: gender is found where it belongs to the meaning. `stereotype` in the details is the share gone wrong.",
    limits=(
        "Only 22 definitional and 20 stereotypical pairs, so that 440 rows are far fewer independent ones. Vectors in "
        "which he and she are nearly equal, or in which every row is undecided, have no value."
    ),
    cites=("zhao2018learning",),
    queries=("sembias", "sembias-subset"),
    family="geometry",
    concepts=("gender",),
    definition=3,
    two_groups=True,
)
UNDECIDED = 1e-4  # cosines nearer than this are rounding of single (and of the embedded half) precision
CHOICES = ("definition", "stereotype", "none", "undecided")
TableRow = tuple[str, ...]


@measure(SEMBIAS_INFO)
def sembias(
    call: Call,
    vectors: Vectors,
    table: Table | str | Path = "sembias",
    *,
    direction: DirectionSource = "own",
    pair: PolePair | None = None,
    undecided: float = UNDECIDED,
    min_share: float = MIN_SHARE,
    concept: Concept | str = "gender",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the share of rows whose definitional pair is most like the poles; vectors keep their lengths.

    Args:
        vectors: the vectors to measure.
        table: rows of pairs in columns definition, stereotype and any others; its id or its file.
        direction: "own" takes he - she of these vectors, "original" that of the reference.
        pair: the two poles; by default those of the concept.
        undecided: a row whose two largest cosines differ by less than this chooses nothing (the released code takes
            the first, which is the definitional one). When every row is undecided, there is no value.
        min_share: smallest share of complete rows, and of the concept's groups, that the vocabulary must have.
        concept: the concept that the table is about. Without a published pair, its positive group is compared with
            all others together.
        reference: vectors before mitigation.
        seed: recorded only. The interval is over definitional and stereotypical pairs: rows that share one are not
            independent.

    Returns:
        The share of rows that choose the definitional pair; the shares of the other choices are in `details`.

    What it does not tell you: anything about words outside its 42 pairs. See `evenhand show sembias`.
    """
    table_rows, concept = find_table(table), as_concept(concept)
    if "definition" not in table_rows.columns or "stereotype" not in table_rows.columns:
        raise UsageError(
            f"table {table_rows.name!r} needs columns definition and stereotype, has {', '.join(table_rows.columns)}",
            hint="use the table sembias, or one with these columns and cells like doctor:nurse",
        )
    source, poles = direction_source(vectors, reference, direction), concept_poles(concept, pair)
    coverage = vectors.locate(word for two in _split_cells(table_rows) for word in two)[1]
    vocabulary = frozenset(coverage.found)
    complete = [row for row in table_rows if all(word in vocabulary for cell in row for word in cell.split(":"))]
    call.describe(table_rows.name, coverage=coverage, params=poles.to_dict())
    rows_list = ListCoverage(table_rows.name, len(complete), len(table_rows), "complete row")
    call.require((rows_list, *poles.lists(source)), min_share)
    cosines, equal = _cosines(vectors, complete, poles.axis(source, normalise=False))
    choices = _choices(cosines, table_rows.columns, undecided)
    items = _items(complete, table_rows.columns, choices, cosines)
    if set(choices) == {"undecided"}:
        reason = f"every row is undecided: its two largest cosines differ by less than {undecided:g}"
        return call.undefined(reason, items=items)
    hits = np.array([choice == "definition" for choice in choices], dtype=np.float64)
    clusters = [[row[table_rows.columns.index(name)] for row in complete] for name in ("definition", "stereotype")]
    first, second = poles.names
    return call.measurement(
        float(hits.mean()),
        len(complete),
        note=crossed_share_note(float(hits.mean()), clusters),
        interval=clustered_interval(hits, clusters, share=True),
        units=tuple(
            mean_units(f"{name} pair", labels, hits)
            for name, labels in zip(("definition", "stereotype"), clusters, strict=True)
        ),
        reading=f"in {100 * hits.mean():.1f} % of the rows the definitional pair is most like {second} - {first}",
        items=items,
        details={
            **{name: choices.count(name) / len(choices) for name in CHOICES},
            "rows": len(table_rows),
            "lost_rows": len(table_rows) - len(complete),
            "equal_pairs": equal,
        },
    )


def _split_cells(table: Table) -> list[tuple[str, str]]:
    """Return every pair of the table; raise `UsageError` for a cell that is not a pair."""
    cells = [cell.split(":") for row in table for cell in row]
    if wrong := [cell for cell in cells if len(cell) != 2]:
        raise UsageError(f"table {table.name!r}: {':'.join(wrong[0])!r} is not a pair", hint="write first:second")
    return [(first, second) for first, second in cells]


def _cosines(vectors: Vectors, rows: list[TableRow], axis: Subspace) -> tuple[Matrix64, int]:
    """Return (rows, columns) cosines of each pair with the axis, and how many pairs have two equal words.

    The difference of equal words is rounding, and its cosine with anything is noise: it counts as 0.
    """
    pairs = list(dict.fromkeys(cell for row in rows for cell in row))
    # The tables have the male word first and the axis points to the female pole, hence second minus first.
    first, second = (_word_rows(vectors, [pair.split(":")[side] for pair in pairs]) for side in (0, 1))
    lengths = np.maximum(row_norms(first), row_norms(second))
    equal = row_norms(second - first) <= SAME_WORD * lengths
    cosines = np.where(equal, 0.0, axis.coordinates(unit_rows(second - first))[:, 0])
    index = {pair: number for number, pair in enumerate(pairs)}
    return cosines[[[index[cell] for cell in row] for row in rows]], int(equal.sum())


def _word_rows(vectors: Vectors, words: list[str]) -> Matrix64:
    """Return one row for each word, repeated words included."""
    rows, coverage = vectors.take(words)
    index = {word: row for row, word in enumerate(coverage.found)}
    return rows[[index[word] for word in words]]


def _choices(cosines: Matrix64, columns: Sequence[str], undecided: float) -> list[str]:
    ordered = np.sort(cosines, axis=1)
    decided = ordered[:, -1] - ordered[:, -2] >= undecided
    best = [columns[column] for column in np.argmax(cosines, axis=1)]
    named = [name if name in CHOICES else "none" for name in best]
    return [name if clear else "undecided" for name, clear in zip(named, decided, strict=True)]


def _items(
    rows: list[TableRow], columns: Sequence[str], choices: list[str], cosines: Matrix64
) -> tuple[MeasuredItem, ...]:
    definition, stereotype = (columns.index(name) for name in ("definition", "stereotype"))
    return tuple(
        {
            "row": f"{row[definition]} {row[stereotype]}",
            "value": float(values[definition]),
            "stereotype": float(values[stereotype]),
            "choice": choice,
        }
        for row, choice, values in zip(rows, choices, cosines, strict=True)
    )
