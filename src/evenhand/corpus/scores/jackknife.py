"""How sure mean, deviation and slope of word scores are: the jackknife over sets of documents.

Not the bootstrap: a draw of documents with replacement has fewer different ones, so that its scores are noisier, and
mean |bias| grows with noise; bootstrap intervals of it lie above the value itself. Leaving out one part in a hundred
adds next to no noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus import groups as grouping
from evenhand.corpus.counting.count import Plan, Progress, count
from evenhand.corpus.counting.document_folds import Parts
from evenhand.corpus.counting.tokenise import tokeniser
from evenhand.corpus.counting.vocabulary import marks_dropped, stop_list
from evenhand.corpus.readers.source import Source
from evenhand.corpus.scores.beta import ENOUGH as ENOUGH_WORDS
from evenhand.corpus.scores.beta import trimmed_line
from evenhand.corpus.scores.log_ratio import log_ratio, offset, one_against_rest
from evenhand.corpus.scores.word_scores import PARTS, WORDS_AT_ONCE, Scored
from evenhand.engines import Engine

REACH = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The score of every candidate word, and with each part of the text left out: (parts, words), NaN without one."""

    words: tuple[str, ...]
    values: Vector64
    without: Matrix64

    def spread(self, statistic: Callable[[Vector64], float]) -> float | None:
        """The standard error of a statistic of the scored words."""
        return standard_error([statistic(row[np.isfinite(row)]) for row in self.without])


def left_out(
    source: Source, options: dict[str, Any], *, engine: Engine | None = None, progress: Progress = None
) -> LeftOut:
    """Count a text in parts, documents dealt out in turn; `options` are those of `corpus.bias`."""
    how = tokeniser(options["tokenizer"], lower=options["lower"])
    named, _ = grouping.resolve(options["groups"], options["lists"], lower=how.lower)
    stops = tuple(word.lower() if how.lower else word for word in stop_list(options["stop_words"]))
    plan = Plan(named, options["window"], options["decay"], how, parts=PARTS)
    counts = count(source, plan, engine=engine, progress=progress)
    choices: dict[str, Any] = {"min_count": options["min_count"], "smoothing": 0.0, "normalisation": "conditional"}
    dropped = marks_dropped(options.get("marks"), how)
    scored = Scored(counts, plan, stops, drop_marks=dropped, seed=0, params={}, **choices)
    rows = scored.candidates[scored.met]
    words = tuple(counts.words.gather(rows).to_list())
    values = _finite(scored.values(counts.company, 0)[rows])
    without = _without(counts.by_part, rows) if counts.by_part else np.empty((0, len(rows)))
    return LeftOut(words, values, without)


def _without(parts: Parts, rows: Rows) -> Matrix64:
    """(parts, words): the scores with each part left out that has words of a group; a few words at a time."""
    used = np.flatnonzero(parts.hits.sum(axis=0))
    company = [matrix[used].tocsc() for matrix in parts.company]
    totals = _others(np.stack([np.asarray(matrix.sum(axis=1)) for matrix in company]))
    with np.errstate(divide="ignore", invalid="ignore"):  # a group without company leaves every word undefined
        shift = offset("conditional", one_against_rest(totals, 0), one_against_rest(_others(parts.hits[:, used]), 0))
    found = np.empty((len(used), len(rows)))
    for start in range(0, len(rows), WORDS_AT_ONCE):
        some = slice(start, start + WORDS_AT_ONCE)
        others = _others(np.stack([matrix[:, rows[some]].toarray() for matrix in company]))
        found[:, some] = _finite(log_ratio(one_against_rest(others, 0), shift[:, None]))
    return found


def _others(table: NDArray[Any]) -> NDArray[Any]:
    """For each part the sum of all others; parts are the second axis.

    What stands before it plus what stands behind it, never total minus part: weights of a decay span a hundred orders
    of magnitude, and the rounding of a difference would leave a word company that no other part has.
    """
    before, behind = np.zeros_like(table), np.zeros_like(table)
    before[:, 1:] = np.cumsum(table[:, :-1], axis=1)
    behind[:, :-1] = np.cumsum(table[:, :0:-1], axis=1)[:, ::-1]
    return np.asarray(before + behind)


def slope_error(first: LeftOut, second: LeftOut) -> float | None:
    """The standard error of the slope of the second text's scores on the first's, both texts being samples."""
    place = {word: at for at, word in enumerate(first.words)}
    shared = np.array([(place[w], at) for at, w in enumerate(second.words) if w in place], dtype=np.intp).reshape(-1, 2)
    x, y = first.values[shared[:, 0]], second.values[shared[:, 1]]
    errors = (
        standard_error([_slope(row[shared[:, 0]], y) for row in first.without]),
        standard_error([_slope(x, row[shared[:, 1]]) for row in second.without]),
    )
    return None if None in errors else float(np.hypot(*errors))  # type: ignore[arg-type]


def standard_error(estimates: list[float]) -> float | None:
    """The jackknife's: sqrt((n - 1) / n * sum of squared deviations); None for fewer than two parts."""
    n = len(estimates)
    if n < 2 or not np.isfinite(estimates).all():
        return None
    return float(np.sqrt((n - 1) / n * np.square(np.array(estimates) - np.mean(estimates)).sum()))


def _slope(x: Vector64, y: Vector64) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    return trimmed_line(x[both], y[both])[0] if both.sum() >= ENOUGH_WORDS else float("nan")


def _finite(values: Vector64) -> Vector64:
    return np.where(np.isfinite(values), values, np.nan)
