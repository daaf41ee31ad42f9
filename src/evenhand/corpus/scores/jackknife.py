"""Standard errors of mean, deviation and slope of word scores: the jackknife over folds of documents.

The bootstrap does not suit these statistics: a resample with replacement has fewer different documents, its scores are
noisier, and mean |bias| grows with noise, so that its bootstrap intervals lie above the value itself. Leaving out one
fold in a hundred adds almost no noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus.counting.accumulators import FoldCounts, SparseMatrix, Table
from evenhand.corpus.counting.count import count
from evenhand.corpus.options import CorpusOptions
from evenhand.corpus.readers.source import TextSource
from evenhand.corpus.scores.beta import ENOUGH as ENOUGH_WORDS
from evenhand.corpus.scores.beta import trimmed_line
from evenhand.corpus.scores.log_ratio import log_ratio, normalising_shift, one_against_rest
from evenhand.corpus.scores.noise_corrected import LEAST_COUNT, MOST_WORDS, FoldTable
from evenhand.corpus.scores.word_scores import FOLDS, WORDS_AT_ONCE, Scorer
from evenhand.engines import Engine
from evenhand.progress import Progress

QUANTILE = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The score of every candidate word, and its score without each fold: (folds, words), NaN where there is none."""

    words: tuple[str, ...]
    values: Vector64
    without: Matrix64
    counts: tuple[SparseMatrix, ...] = ()
    """Co-occurrences by fold and word with the first group and with each other one; empty with a decay, whose weights
    are not counts."""

    def fold_tables(self, other: LeaveOneOut | None = None) -> tuple[FoldTable, ...]:
        """Return the co-occurrences by fold, with the first group and the rest, of words that occur often enough.

        With another text, only words that occur often enough in both, in the same order.
        """
        texts = (self, *([other] if other else []))
        if not all(text.counts for text in texts):
            return ()
        often = [dict(zip(text.words, text._totals(), strict=True)) for text in texts]
        least = {word: min(totals.get(word, 0.0) for totals in often) for word in self.words}
        chosen = sorted((word for word, n in least.items() if n >= LEAST_COUNT), key=lambda word: -least[word])
        return tuple(text._fold_table(chosen[:MOST_WORDS]) for text in texts)

    def _totals(self) -> Vector64:
        totals = [np.asarray(matrix.sum(axis=0), dtype=np.float64).ravel() for matrix in self.counts]
        return np.asarray(np.sum(totals, axis=0))

    def _fold_table(self, words: list[str]) -> FoldTable:
        index = {word: column for column, word in enumerate(self.words)}
        columns = np.array([index[word] for word in words], dtype=np.intp)
        counts = np.stack([matrix[:, columns].toarray() for matrix in self.counts])
        return one_against_rest(counts, 0).astype(np.float64)

    def spread(self, statistic: Callable[[Vector64], float]) -> float | None:
        """Return the standard error of a statistic of the scored words."""
        return standard_error([statistic(row[np.isfinite(row)]) for row in self.without])


def leave_one_out(
    source: TextSource, options: CorpusOptions, *, engine: Engine | None = None, progress: Progress | None = None
) -> LeaveOneOut:
    """Score a text without each of its folds; documents are assigned to folds in turn."""
    plan = options.plan(folds=FOLDS)
    counts = count(source, plan, engine=engine, progress=progress)
    scorer = Scorer(counts, plan, options)
    rows = scorer.candidates[scorer.met]
    words = tuple(counts.words.gather(rows).to_list())
    values = _nan_where_undefined(scorer.values(counts.cooccurrence, 0)[rows])
    without = _scores_without(counts.by_fold, rows, scorer) if counts.by_fold else np.empty((0, len(rows)))
    by_fold = _used_folds(counts.by_fold)[0] if counts.by_fold and options.decay is None else []
    return LeaveOneOut(words, values, without, tuple(matrix[:, rows] for matrix in by_fold))


def _used_folds(folds: FoldCounts) -> tuple[list[SparseMatrix], Rows]:
    """Return the co-occurrences by fold and word, and which folds these are: those that have group words."""
    used = np.flatnonzero(folds.hits.sum(axis=0))
    return [matrix[used].tocsc() for matrix in folds.cooccurrence], used


def _scores_without(folds: FoldCounts, rows: Rows, scorer: Scorer) -> Matrix64:
    """Return (folds, words): the scores without each fold that has group words; computed a few words at a time."""
    counts, used = _used_folds(folds)
    smoothing = scorer.options.smoothing
    totals = _sum_of_others(np.stack([np.asarray(matrix.sum(axis=1)) for matrix in counts]))
    shift = normalising_shift(
        scorer.normalisation,
        one_against_rest(totals, 0),
        one_against_rest(_sum_of_others(folds.hits[:, used]), 0),
        smoothing=smoothing,
        vocabulary=scorer.vocabulary,
    )
    scores = np.empty((len(used), len(rows)))
    for start in range(0, len(rows), WORDS_AT_ONCE):
        some = slice(start, start + WORDS_AT_ONCE)
        others = _sum_of_others(np.stack([matrix[:, rows[some]].toarray() for matrix in counts]))
        values = log_ratio(one_against_rest(others, 0), np.asarray(shift)[:, None], smoothing)
        scores[:, some] = _nan_where_undefined(values)
    return scores


def _sum_of_others(table: Table) -> Table:
    """Return for each fold (the second axis) the sum of all others.

    Computed as the sum before plus the sum after, never as total minus fold: the weights of a decay span a hundred
    orders of magnitude, and the rounding error of a difference would pass for a co-occurrence.
    """
    before, after = np.zeros_like(table), np.zeros_like(table)
    before[:, 1:] = np.cumsum(table[:, :-1], axis=1)
    after[:, :-1] = np.cumsum(table[:, :0:-1], axis=1)[:, ::-1]
    return before + after


def slope_error(first: LeaveOneOut, second: LeaveOneOut) -> float | None:
    """Return the standard error of the slope of the second text's scores on the first's, both texts being samples."""
    index = {word: row for row, word in enumerate(first.words)}
    pairs = [(index[word], row) for row, word in enumerate(second.words) if word in index]
    shared = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    x, y = first.values[shared[:, 0]], second.values[shared[:, 1]]
    of_first = standard_error([_slope(row[shared[:, 0]], y) for row in first.without])
    of_second = standard_error([_slope(x, row[shared[:, 1]]) for row in second.without])
    return None if of_first is None or of_second is None else float(np.hypot(of_first, of_second))


def standard_error(estimates: list[float]) -> float | None:
    """Return sqrt((n - 1) / n * sum of squared deviations), or None for fewer than two estimates."""
    n = len(estimates)
    if n < 2 or not np.isfinite(estimates).all():
        return None
    return float(np.sqrt((n - 1) / n * np.square(np.array(estimates) - np.mean(estimates)).sum()))


def _slope(x: Vector64, y: Vector64) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    return trimmed_line(x[both], y[both])[0] if both.sum() >= ENOUGH_WORDS else float("nan")


def _nan_where_undefined(values: Vector64) -> Vector64:
    return np.where(np.isfinite(values), values, np.nan)
