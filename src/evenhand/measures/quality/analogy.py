"""Analogies: is a : b as c : d found by vector arithmetic? (Mikolov et al. 2013)."""

from __future__ import annotations

import os
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.measures.call import MIN_SHARE, Call, ListCoverage, measure
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.quality.rated_sets import Questions, local_ids, questions
from evenhand.measures.registry import Info
from evenhand.models.vectors import Coverage, Vectors
from evenhand.models.vectors.neighbours import EPSILON, unit_float32
from evenhand.stats import clustered_interval
from evenhand.stats.bootstrap import Interval
from evenhand.stats.units import mean_units

SETS = ("google-analogies", "msr-analogies")
RESTRICT = 30_000  # as word2vec's own script demo-word-accuracy.sh; gensim's default is 300,000
SYNTACTIC = "gram"  # how the names of Google's nine syntactic sections begin
ABSENT = -1
CANDIDATES_AT_ONCE = 16384
QUESTIONS_AT_ONCE = 32
Method = Literal["3cosadd", "3cosmul"]
UnknownPolicy = Literal["skip", "wrong"]
Flags = NDArray[np.bool_]
Scores = NDArray[np.float32]


def available() -> tuple[str, ...]:
    """Return the ids of the analogy sets on this disk."""
    return local_ids("analogy", SETS)


INFO = Info(
    id="analogy",
    title="Word analogies",
    takes="dataset",
    better="higher",
    formula="share of questions with argmax_d [cos(d, b) - cos(d, a) + cos(d, c)] = the expected word, d not a, b, c",
    reading="Share answered correctly, of the questions whose four words have vectors.",
    limits=(
        "The three words of a question are excluded as answers, which hides that the nearest word is often one of "
        "them; results depend on how much of the vocabulary is searched, so compare equal `restrict` only."
    ),
    cites=("mikolov2013efficient", "mikolov2013linguistic", "levy2014"),
    queries=(),
    available=available,
    family="quality",
    definition=3,
    role="cost",
)


@measure(INFO)
def analogy(
    call: Call,
    vectors: Vectors,
    dataset: Questions | str | os.PathLike[str],
    *,
    method: Method = "3cosadd",
    restrict: int | None = RESTRICT,
    unknown: UnknownPolicy = "skip",
    min_share: float = MIN_SHARE,
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the accuracy over all questions, for each section, and for Google's semantic and syntactic halves.

    Args:
        vectors: the vectors to measure.
        dataset: an id of the catalog (google-analogies, msr-analogies) or a file with four words a line.
        method: "3cosadd" adds cosines; "3cosmul" multiplies them, shifted to [0, 1] (Levy & Goldberg 2014).
        restrict: number of words to search, exactly; None for all.
        unknown: "skip" leaves out questions with a word outside these, and counts them; "wrong" counts them as wrong.
        min_share: smallest share of the questions that must have all their words, with `unknown="skip"`.
        reference: vectors before mitigation.
        seed: recorded only. The interval is over the pairs a : b: questions that share a pair are not independent.

    Returns:
        The accuracy, with that of each section in `items`.

    What it does not tell you: whether the relation is what finds the answer. See `evenhand show analogy`.
    """
    _check(method, restrict, unknown)
    source = questions(dataset)
    searched = vectors if restrict is None or restrict >= len(vectors) else vectors.head(restrict)
    rows, coverage = _question_rows(searched, source)
    complete = (rows != ABSENT).all(axis=1)
    call.describe(source.name, coverage=coverage)
    questions_list = ListCoverage(source.name, int(complete.sum()), len(rows), "complete question")
    call.require([questions_list], min_share if unknown == "skip" else 0.0)
    correct = np.zeros(len(rows), dtype=np.bool_)
    correct[complete] = answers(unit_float32(searched), rows[complete, :3], method=method) == rows[complete, 3]
    counted = complete | (unknown == "wrong")
    value, n, n_unknown = float(correct[counted].mean()), int(counted.sum()), int((~complete).sum())
    return call.measurement(
        value,
        n,
        interval=_interval(source, correct, counted),
        reading=f"{100 * value:.1f} % of {n:,} questions answered correctly, {n_unknown:,} unknown",
        items=_sections(source, correct, counted),
        units=(mean_units("pair", _first_pairs(source, counted), correct[counted]),),
        details={
            **_halves(source, correct, counted, seed),
            "questions": len(rows),
            "unknown": n_unknown,
            "vocabulary": len(searched),
        },
    )


def _check(method: str, restrict: int | None, unknown: str) -> None:
    if method not in get_args(Method):
        raise UsageError(f"unknown analogy method {method!r}", hint="use 3cosadd or 3cosmul")
    if unknown not in get_args(UnknownPolicy):
        raise UsageError(f"unknown policy {unknown!r} for words without a vector", hint="use skip or wrong")
    if restrict is not None and restrict < 1:
        raise UsageError(f"restrict must be at least 1, got {restrict}", hint="use None for the whole vocabulary")


def _question_rows(searched: Vectors, source: Questions) -> tuple[Rows, Coverage]:
    rows, coverage = searched.locate(word for question in source.questions for word in question)
    index = dict(zip(coverage.found, rows.tolist(), strict=True))
    by_question = [[index.get(word, ABSENT) for word in question] for question in source.questions]
    return np.array(by_question, dtype=np.int64), coverage


def _sections(source: Questions, correct: Flags, counted: Flags) -> tuple[MeasuredItem, ...]:
    names = np.array(source.sections)
    members = {name: names == name for name in dict.fromkeys(source.sections)}
    return tuple(
        {
            "section": name,
            "value": float(correct[rows & counted].mean()) if (rows & counted).any() else None,
            "n": int((rows & counted).sum()),
            "asked": int(rows.sum()),
        }
        for name, rows in members.items()
    )


def _halves(source: Questions, correct: Flags, counted: Flags, seed: int) -> dict[str, dict[str, object]]:
    """Return the semantic and the syntactic half, where a set has both."""
    syntactic = np.array([name.startswith(SYNTACTIC) for name in source.sections])
    if syntactic.all() or not syntactic.any():
        return {}
    halves = {"semantic": ~syntactic & counted, "syntactic": syntactic & counted}
    return {
        name: {
            "value": float(correct[rows].mean()),
            "n": int(rows.sum()),
            "interval": list(_interval(source, correct, rows) or ()) or None,
        }
        for name, rows in halves.items()
        if rows.any()
    }


def _interval(source: Questions, correct: Flags, counted: Flags) -> Interval:
    pairs = _first_pairs(source, counted)
    return clustered_interval(correct[counted].astype(np.float64), [pairs], share=True)


def _first_pairs(source: Questions, counted: Flags) -> list[tuple[str, str, str]]:
    """Return section and first two words of each question that counts; questions that share them vary as one."""
    return [
        (section, a, b)
        for section, (a, b, _, _), counts in zip(source.sections, source.questions, counted, strict=True)
        if counts
    ]


def answers(unit: Scores, queries: Rows, *, method: Method = "3cosadd") -> Rows:
    """Return the row that best completes each question (a, b, c), given as rows of `unit`; never one of the three.

    Equal scores go to the lower row, so that the answer does not depend on the size of a block.
    """
    used, inverse = np.unique(queries, return_inverse=True)
    indices = inverse.reshape(queries.shape)
    pieces = _pieces(indices)
    best = np.full(len(queries), -np.inf, dtype=np.float32)
    answer = np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(unit), CANDIDATES_AT_ONCE):
        candidates = unit[start : start + CANDIDATES_AT_ONCE]
        factors = _factors(unit[used] @ candidates.T, method)
        top, value = _best(factors, indices, pieces, queries - start, method)
        better = value > best
        best[better], answer[better] = value[better], top[better] + start
    return answer


def _pieces(indices: Rows) -> list[Rows]:
    """Return which questions are scored together: some that share the pair a : b."""
    order = np.lexsort((indices[:, 1], indices[:, 0]))
    ordered = indices[order, :2]
    groups = np.split(order, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1)
    return [group[k : k + QUESTIONS_AT_ONCE] for group in groups for k in range(0, len(group), QUESTIONS_AT_ONCE)]


def _factors(cosines: Scores, method: Method) -> Scores:
    """Return what is added, or multiplied, for each word of a question. 3CosMul shifts cosines to [0, 1]."""
    if method == "3cosadd":
        return cosines
    shifted: Scores = np.maximum((1 + cosines) / 2, 0)
    return shifted


def _best(factors: Scores, indices: Rows, pieces: list[Rows], columns: Rows, method: Method) -> tuple[Rows, Scores]:
    """Return the best candidate of a block for each question, and its score.

    The score is cos(d, b) - cos(d, a) + cos(d, c), or cos(d, b) / (cos(d, a) + epsilon) * cos(d, c). The part of a : b
    is computed once for the questions that share it.
    """
    width = factors.shape[1]
    inside = (columns >= 0) & (columns < width)
    excluded = np.where(inside, columns, width)  # a column that is never an answer
    top = np.empty(len(columns), dtype=np.int64)
    value = np.empty(len(columns), dtype=np.float32)
    scores = np.full((QUESTIONS_AT_ONCE, width + 1), -np.inf, dtype=np.float32)
    numbers = np.arange(QUESTIONS_AT_ONCE)
    join = np.add if method == "3cosadd" else np.multiply
    for piece in pieces:
        a, b, _ = indices[piece[0]]
        pair = factors[b] - factors[a] if method == "3cosadd" else factors[b] / (factors[a] + np.float32(EPSILON))
        for row, c in zip(scores, indices[piece, 2].tolist(), strict=False):
            join(pair, factors[c], out=row[:width])
        used, rows = scores[: len(piece)], numbers[: len(piece)]
        used[rows[:, None], excluded[piece]] = -np.inf
        found = used.argmax(axis=1)
        top[piece], value[piece] = found, used[rows, found]
    return top, value
