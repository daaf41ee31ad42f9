"""Analogies: is a : b as c : d found by vector arithmetic? (Mikolov et al. 2013)."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.measures.measurement import Measurement, undefined
from evenhand.measures.quality.rated_sets import Questions, here, questions
from evenhand.measures.registry import Info, measure
from evenhand.models.vectors import Coverage, Vectors
from evenhand.models.vectors.neighbours import EPSILON, unit_float32
from evenhand.stats import clustered_means, interval

SETS = ("google-analogies", "msr-analogies")
RESTRICT = 30_000  # as word2vec's own script demo-word-accuracy.sh; gensim's default is 300,000
SYNTACTIC = "gram"  # how the names of Google's nine syntactic sections begin
ABSENT = -1
Flags = NDArray[np.bool_]


def available() -> tuple[str, ...]:
    """The sets that lie on this disk."""
    return here("analogy", SETS)


INFO = Info(
    id="analogy",
    title="Word analogies",
    takes="dataset",
    better="higher",
    formula="share of questions with argmax_d [cos(d, b) - cos(d, a) + cos(d, c)] = the word asked for, d not a, b, c",
    reading="Share answered correctly, of the questions whose four words have vectors.",
    limits=(
        "The three words of a question are barred from the answer, which hides that the nearest word is often one of "
        "them; results depend on how much of the vocabulary is searched, so compare equal `restrict` only."
    ),
    cites=("mikolov2013efficient", "mikolov2013linguistic", "levy2014"),
    queries=(),
    available=available,
    family="quality",
)


@measure(INFO)
def analogy(
    vectors: Vectors,
    dataset: Questions | str | os.PathLike[str],
    *,
    method: Method = "3cosadd",
    restrict: int | None = RESTRICT,
    unknown: Literal["skip", "wrong"] = "skip",
    reference: Vectors | None = None,
    seed: int = 0,
) -> Measurement:
    """Accuracy over all questions, for each section, and for Google's semantic and syntactic halves.

    The search is exact, over the first `restrict` words (None: all); a question with a word outside them is skipped
    and counted, or counts as `unknown="wrong"`. `method="3cosmul"` multiplies the cosines, shifted to [0, 1], instead
    of adding them (Levy & Goldberg 2014). The interval is a bootstrap over the pairs a : b, because the questions that
    share such a pair rise and fall together.

    What it does not tell you: whether the relation is what finds the answer. See `evenhand show analogy`.
    """
    _check(method, restrict, unknown)
    asked = questions(dataset)
    searched = vectors if restrict is None or restrict >= len(vectors) else vectors.head(restrict)
    rows, coverage = _rows(searched, asked)
    known = (rows != ABSENT).all(axis=1)
    params = {"method": method, "restrict": restrict, "unknown": unknown, "case": vectors.case}
    common = {"query": asked.name, "model": vectors.name, "params": params, "seed": seed}
    if not known.any():
        reason = f"no question of {asked.name} has all its words among the first {len(searched):,}"
        return undefined("analogy", reason, coverage, **common)
    right = np.zeros(len(rows), dtype=np.bool_)
    right[known] = answers(unit_float32(searched), rows[known, :3], method=method) == rows[known, 3]
    counted = known | (unknown == "wrong")
    value = float(right[counted].mean())
    return Measurement(
        "analogy",
        value,
        int(counted.sum()),
        coverage,
        interval=_interval(asked, right, counted, seed),
        reading=f"{100 * value:.1f} % of {int(counted.sum()):,} questions answered, {int((~known).sum()):,} unknown",
        items=_sections(asked, right, counted),
        details={
            **_halves(asked, right, counted, seed),
            "questions": len(rows),
            "unknown": int((~known).sum()),
            "vocabulary": len(searched),
        },
        **common,  # type: ignore[arg-type]
    )


def _check(method: str, restrict: int | None, unknown: str) -> None:
    if method not in ("3cosadd", "3cosmul"):
        raise UsageError(f"unknown analogy method {method!r}", hint="use 3cosadd or 3cosmul")
    if unknown not in ("skip", "wrong"):
        raise UsageError(f"unknown policy {unknown!r} for words without a vector", hint="use skip or wrong")
    if restrict is not None and restrict < 1:
        raise UsageError(f"restrict must be at least 1, got {restrict}", hint="use None for the whole vocabulary")


def _rows(searched: Vectors, asked: Questions) -> tuple[NDArray[np.int64], Coverage]:
    found, coverage = searched.locate(word for question in asked.questions for word in question)
    place = dict(zip(coverage.found, found.tolist(), strict=True))
    return np.array([[place.get(word, ABSENT) for word in four] for four in asked.questions], dtype=np.int64), coverage


def _sections(asked: Questions, right: Flags, counted: Flags) -> tuple[dict[str, Any], ...]:
    names = np.array(asked.sections)
    inside = {name: names == name for name in dict.fromkeys(asked.sections)}
    return tuple(
        {
            "section": name,
            "value": float(right[rows & counted].mean()) if (rows & counted).any() else None,
            "n": int((rows & counted).sum()),
            "asked": int(rows.sum()),
        }
        for name, rows in inside.items()
    )


def _halves(asked: Questions, right: Flags, counted: Flags, seed: int) -> dict[str, Any]:
    """The semantic and the syntactic half, where a set has both."""
    syntactic = np.array([name.startswith(SYNTACTIC) for name in asked.sections])
    if syntactic.all() or not syntactic.any():
        return {}
    halves = {"semantic": ~syntactic & counted, "syntactic": syntactic & counted}
    return {
        name: {
            "value": float(right[rows].mean()),
            "n": int(rows.sum()),
            "interval": list(_interval(asked, right, rows, seed) or ()) or None,
        }
        for name, rows in halves.items()
        if rows.any()
    }


def _interval(asked: Questions, right: Flags, counted: Flags, seed: int) -> tuple[float, float] | None:
    pairs = [
        (section, a, b)
        for section, (a, b, _, _), counts in zip(asked.sections, asked.questions, counted, strict=True)
        if counts
    ]
    if len(set(pairs)) < 3:
        return None  # resampling one or two pairs says nothing
    return interval(clustered_means(right[counted].astype(np.float64), [pairs], seed=seed))


Method = Literal["3cosadd", "3cosmul"]
Table = NDArray[np.float32]
CANDIDATES_AT_ONCE = 2048
SCORES_AT_ONCE = 1 << 20


def answers(unit: Table, asked: Rows, *, method: Method = "3cosadd") -> Rows:
    """The row that best completes each question (a, b, c), given as rows of `unit`; never one of the three.

    Equal scores go to the lower row, so that the answer does not depend on the size of a block.
    """
    used, place = np.unique(asked, return_inverse=True)
    places = place.reshape(asked.shape)
    best = np.full(len(asked), -np.inf, dtype=np.float32)
    found = np.zeros(len(asked), dtype=np.int64)
    for start in range(0, len(unit), CANDIDATES_AT_ONCE):
        candidates = unit[start : start + CANDIDATES_AT_ONCE]
        table = _factors(unit[used] @ candidates.T, method)
        step = max(1, SCORES_AT_ONCE // len(candidates))
        for first in range(0, len(asked), step):
            part = slice(first, first + step)
            scores = _scores(table, places[part], method)
            _exclude(scores, asked[part] - start)
            _keep_better(scores, start, best[part], found[part])
    return found


def _factors(cosines: Table, method: Method) -> Table:
    """What is added, or multiplied, for each word of a question. 3CosMul shifts cosines to [0, 1]."""
    if method == "3cosadd":
        return cosines
    shifted: Table = np.maximum((1 + cosines) / 2, 0)
    return shifted


def _scores(table: Table, places: Rows, method: Method) -> Table:
    """cos(d, b) - cos(d, a) + cos(d, c), or cos(d, b) cos(d, c) / (cos(d, a) + epsilon)."""
    a, b, c = places.T
    scores: Table = table[b]
    if method == "3cosadd":
        scores -= table[a]
        scores += table[c]
    else:
        scores *= table[c]
        scores /= table[a] + np.float32(EPSILON)
    return scores


def _exclude(scores: Table, columns: Rows) -> None:
    """The words of the question are no answers; a column outside this block is left alone."""
    question, which = np.nonzero((columns >= 0) & (columns < scores.shape[1]))
    scores[question, columns[question, which]] = -np.inf


def _keep_better(scores: Table, start: int, best: Table, found: Rows) -> None:
    top = scores.argmax(axis=1)
    value = scores[np.arange(len(scores)), top]
    better = value > best
    best[better], found[better] = value[better], top[better] + start
