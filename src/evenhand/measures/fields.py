"""The fields that every measurement of word vectors repeats, and the rules under which it has no value.

The coverage rule: when more than half of a list is missing from the vocabulary, there is no number. A list is a word
set of a query, the words of a measure, a group of names, or the complete pairs, rows or questions of a data set.
`min_share` sets another limit. A vocabulary that is measured as a whole is not a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evenhand.arrays import row_norms
from evenhand.errors import UsageError
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import info
from evenhand.models.vectors import Coverage, Vectors
from evenhand.stats.bootstrap import Interval, Statistic, percentile_interval
from evenhand.stats.units import Units
from evenhand.words import Pairs

# A list that lost most of its words no longer asks what its author asked: the GoogleNews cut of 26,423 words has one of
# the eight female names of WEAT 6. Half is a choice of this package; WEFE uses 0.8, other codes use whatever is there.
MIN_SHARE = 0.5
COLLAPSED = 1e-6  # of the reference's median norm, or of 1: what is left of such vectors is rounding
SAMPLED_ROWS = 2_000  # rows that decide whether the norms collapsed
Item = Mapping[str, object]


class ListCoverage(NamedTuple):
    """How many entries of a list the vocabulary has; an entry is a word, or a pair or row that needs all its words."""

    name: str
    found: int
    total: int
    unit: str = "word"

    @classmethod
    def of_words(cls, name: str, coverage: Coverage) -> ListCoverage:
        """Return the coverage of a list of words."""
        return cls(name, len(coverage.found), coverage.asked)

    @classmethod
    def of_pairs(cls, vectors: Vectors, pairs: Pairs) -> ListCoverage:
        """Return the coverage of a list of pairs, of which both words must be in the vocabulary."""
        complete = sum(all(vectors.find(word) is not None for word in pair) for pair in pairs)
        return cls(pairs.name, complete, len(pairs), "pair")


def coverage_problem(lists: Iterable[ListCoverage], min_share: float = MIN_SHARE) -> str:
    """Return why these lists cannot be measured: one is empty, or lost more than `1 - min_share`; else ""."""
    if not 0 <= min_share <= 1:
        raise UsageError(
            f"min_share must be between 0 and 1, got {min_share}", hint="use 0.5 to require half of each list"
        )
    checked = tuple(lists)
    if empty := [entry for entry in checked if entry.found == 0]:
        names = ", ".join(entry.name for entry in empty if entry.unit == empty[0].unit)
        return f"no {empty[0].unit} of {names} is in the vocabulary"
    if short := [entry for entry in checked if entry.found < min_share * entry.total]:
        same = [entry for entry in short if entry.unit == short[0].unit]
        counts = ", ".join(f"{entry.name} {entry.found} of {entry.total}" for entry in same)
        return f"too few {same[0].unit}s are in the vocabulary: {counts} (min_share={min_share:g})"
    return ""


def collapse_problem(vectors: Vectors, reference: Vectors | None = None) -> str:
    """Return why vectors whose norms collapsed cannot be measured; "" for all others.

    The median norm of a sample of rows is compared with that of the reference, or with 1 where there is none.
    """
    norm = _median_norm(vectors)
    scale = _median_norm(reference) if reference is not None else 1.0
    if not len(vectors) or norm > COLLAPSED * scale:
        return ""
    compared = "of the reference's" if reference is not None else "of 1"
    return f"the vectors collapsed: their median norm is {norm:.2g}, below {COLLAPSED:g} {compared}"


def _median_norm(vectors: Vectors) -> float:
    if not len(vectors):
        return 0.0
    rows = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), SAMPLED_ROWS)).astype(np.int64))
    return float(np.median(row_norms(vectors.matrix[rows])))


@dataclass(frozen=True, eq=False)
class MeasurementFields:
    """The fields that all results of one call of a measure share, whether they have a value or not."""

    measure: str
    vectors: Vectors
    query: str
    params: Mapping[str, object]
    seed: int
    positive: str = ""
    score: str = ""
    reference: Vectors | None = field(default=None, repr=False)

    @property
    def recorded_params(self) -> Mapping[str, object]:
        """The parameters, with the language of the vectors where it is not English."""
        language = self.vectors.language
        return self.params if language in ("", "en") else {"language": language, **self.params}

    def problem(self, lists: Iterable[ListCoverage] = (), min_share: float = MIN_SHARE) -> str:
        """Return why there is no value by the rules that hold for every measure; "" when there is one."""
        return collapse_problem(self.vectors, self.reference) or coverage_problem(lists, min_share)

    def undefined(self, reason: str, coverage: Coverage, *, items: tuple[Item, ...] = ()) -> Measurement:
        """Return a measurement without a value that says why."""
        return Measurement(
            self.measure,
            None,
            0,
            coverage,
            status="undefined",
            reason=reason,
            query=self.query,
            score=self.score,
            model=self.vectors.name,
            positive=self.positive,
            items=items,
            params=self.recorded_params,
            seed=self.seed,
            definition=info(self.measure).definition,
        )

    def measurement(
        self,
        value: float,
        n: int,
        coverage: Coverage,
        *,
        reading: str,
        interval: Interval = None,
        p_value: float | None = None,
        items: tuple[Item, ...] = (),
        details: Mapping[str, object] | None = None,
        units: tuple[Units, ...] = (),
    ) -> Measurement:
        """Return a measurement with a value."""
        return Measurement(
            self.measure,
            float(value),
            n,
            coverage,
            interval=interval,
            p_value=p_value,
            query=self.query,
            score=self.score,
            model=self.vectors.name,
            positive=self.positive,
            reading=reading,
            items=items,
            details=details or {},
            params=self.recorded_params,
            seed=self.seed,
            definition=info(self.measure).definition,
            units=units,
        )


FEWEST = 3  # one or two words leave nothing to resample


def word_interval(statistic: Statistic, units: int, *, seed: int) -> Interval:
    """Return the percentile interval of a statistic of (draws, units) rows; None for fewer than three units."""
    return percentile_interval(statistic, units, seed=seed) if units >= FEWEST else None
