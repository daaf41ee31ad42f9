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

from evenhand.arrays import Matrix64, Vector64
from evenhand.corpus import groups as grouping
from evenhand.corpus.beta import ENOUGH, trimmed_line
from evenhand.corpus.counting import Plan, count
from evenhand.corpus.intervals import PARTS
from evenhand.corpus.readers.source import Source
from evenhand.corpus.scoring import Scored
from evenhand.corpus.stopwords import stop_list
from evenhand.corpus.tokenise import tokeniser

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


def left_out(source: Source, options: dict[str, Any]) -> LeftOut:
    """Count a text in parts, documents dealt out in turn; `options` are those of `corpus.bias`."""
    how = tokeniser(options["tokenizer"], lower=options["lower"])
    named, _ = grouping.resolve(options["groups"], options["lists"], lower=how.lower)
    stops = tuple(word.lower() if how.lower else word for word in stop_list(options["stop_words"]))
    plan = Plan(named, options["window"], options["decay"], how, parts=PARTS)
    counts = count(source, plan)
    choices = {"min_count": options["min_count"], "smoothing": 0.0, "normalisation": "conditional"}
    scored = Scored(counts, plan, stops, seed=0, params={}, **choices)
    rows = scored.candidates[scored.met]
    words = tuple(counts.words.gather(rows).to_list())
    parts = counts.by_part
    used = np.flatnonzero(parts.hits.sum(axis=0)) if parts else ()
    tables = [np.stack([m[[part]].toarray()[0] for m in parts.company]) for part in used] if parts else []
    without = [_finite(scored.values(counts.company - table, 0)[rows]) for table in tables]
    values = _finite(scored.values(counts.company, 0)[rows])
    return LeftOut(words, values, np.array(without).reshape(len(tables), len(rows)))


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
    return trimmed_line(x[both], y[both])[0] if both.sum() >= ENOUGH else float("nan")


def _finite(values: Vector64) -> Vector64:
    return np.where(np.isfinite(values), values, np.nan)
