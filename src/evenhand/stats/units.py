"""The sampling units of an estimate, and exact tests on them: before against after, and against a null value.

An estimate is a function of column sums over units such as words, pairs or templates. A record keeps these columns, so
two estimates from the same units can be compared unit by unit.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from evenhand.arrays import Floats, Matrix64, Rows, Vector64
from evenhand.errors import UsageError
from evenhand.stats.means import SumStatistic

StatisticName = Literal[
    "ratios", "exp-ratio", "effect-size", "pearson", "slope",
    "rate-range", "rate-quotient", "worst-rate-range", "worst-rate-quotient", "lowest-rate",
]  # fmt: skip
NAMES: tuple[StatisticName, ...] = get_args(StatisticName)
MOST_UNITS = 256  # more are summed into as many blocks, which keeps records small and loses next to no power
DIGITS = 10  # significant digits of a record
DRAWS = 9_999  # the smallest p-value is 1e-4
EXACT_UP_TO = 13  # units whose 8,192 exchanges are all made
FEWEST = 3
ROUNDING = 1e-9  # relative: a smaller difference is rounding


def _ratios(sums: Matrix64) -> Vector64:
    """Sum of the ratios numerator / denominator; the columns are (denominator, numerator) pairs."""
    return np.asarray((sums[:, 1::2] / sums[:, 0::2]).sum(axis=1))


def _exp_ratio(sums: Matrix64) -> Vector64:
    return np.asarray(np.exp(sums[:, 1] / sums[:, 0]))


def _effect_size(sums: Matrix64) -> Vector64:
    """Difference of two means over the standard deviation of all values; columns n, sum, sum of squares of each set."""
    n_x, x, xx, n_y, y, yy = sums.T
    n = n_x + n_y
    variance = (xx + yy) / n - ((x + y) / n) ** 2
    return np.asarray((x / n_x - y / n_y) / np.sqrt(np.where(variance > 0, variance, np.nan)))


def _covariance(sums: Matrix64) -> tuple[Vector64, Vector64, Vector64]:
    n, x, y, xy, xx, yy = sums.T
    return xy - x * y / n, xx - x**2 / n, yy - y**2 / n


def _pearson(sums: Matrix64) -> Vector64:
    joint, spread_x, spread_y = _covariance(sums)
    product = spread_x * spread_y
    return np.asarray(joint / np.sqrt(np.where(product > 0, product, np.nan)))


def _slope(sums: Matrix64) -> Vector64:
    joint, spread_x, _ = _covariance(sums)
    return np.asarray(joint / np.where(spread_x > 0, spread_x, np.nan))


def _rates(sums: Matrix64, families: int = 1) -> Matrix64:
    """Rates of groups, (draws, families, groups); the columns are (cases, hits) of each group, family by family."""
    return np.asarray((sums[:, 1::2] / sums[:, 0::2]).reshape(len(sums), families, -1))


def _rate_range(families: int) -> SumStatistic:
    return lambda sums: np.asarray(np.ptp(_rates(sums, families), axis=2).max(axis=1))


def _rate_quotient(families: int) -> SumStatistic:
    def smallest(sums: Matrix64) -> Vector64:
        rates = _rates(sums, families)
        return np.asarray((rates.min(axis=2) / rates.max(axis=2)).min(axis=1))

    return smallest


def _lowest_rate(sums: Matrix64) -> Vector64:
    return np.asarray(_rates(sums).min(axis=(1, 2)))


STATISTICS: Mapping[StatisticName, SumStatistic] = {
    "ratios": _ratios,
    "exp-ratio": _exp_ratio,
    "effect-size": _effect_size,
    "pearson": _pearson,
    "slope": _slope,
    "rate-range": _rate_range(1),
    "rate-quotient": _rate_quotient(1),
    "worst-rate-range": _rate_range(2),
    "worst-rate-quotient": _rate_quotient(2),
    "lowest-rate": _lowest_rate,
}


# How many columns each of them takes; None for any number of pairs.
COLUMNS: Mapping[StatisticName, int | None] = {
    "ratios": None, "exp-ratio": 2, "effect-size": 6, "pearson": 6, "slope": 6,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Units:
    """The units of an estimate: a name and the numbers of each, whose column sums decide the value.

    Attributes:
        statistic: the function of the column sums, one of `STATISTICS`.
        unit: what a unit is, such as "word".
        names: name of each unit; None where many units were summed into blocks by a hash of their names.
        columns: numbers of each unit, (units, columns).
        count: how many units there are.
        factor: the value of the estimate over that of the statistic, such as 100 for a percentage.
    """

    statistic: StatisticName
    unit: str
    names: tuple[str, ...] | None
    columns: Matrix64
    count: int
    factor: float = 1.0

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.values(self.columns.sum(axis=0)[None])[0])

    def values(self, sums: Matrix64) -> Vector64:
        """Return the estimate of each row of column sums; NaN where it is undefined."""
        with np.errstate(all="ignore"):
            return self.factor * STATISTICS[self.statistic](sums)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, rounded to ten digits."""
        return {
            "statistic": self.statistic,
            "unit": self.unit,
            "count": self.count,
            "factor": self.factor,
            "names": None if self.names is None else list(self.names),
            "columns": [[float(f"{number:.{DIGITS}g}") for number in row] for row in self.columns.tolist()],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Units:
        """Read the output of `to_dict`.

        Raises:
            ValueError: If the record is damaged.
        """
        columns = np.array(record["columns"], dtype=np.float64)
        names = None if record["names"] is None else tuple(map(str, record["names"]))
        rows = MOST_UNITS if names is None else len(names)
        if record["statistic"] not in NAMES or columns.ndim != 2 or len(columns) != rows:
            raise ValueError("the units of a measurement are damaged")
        wanted = COLUMNS[record["statistic"]]
        if columns.shape[1] % 2 if wanted is None else columns.shape[1] != wanted:
            raise ValueError("the units of a measurement are damaged")
        if not np.isfinite(columns).all() or (names is not None and len(set(names)) != len(names)):
            raise ValueError("the units of a measurement are damaged")
        return cls(
            record["statistic"], str(record["unit"]), names, columns, int(record["count"]), float(record["factor"])
        )

    def in_blocks(self) -> Units:
        """Return the same sums in blocks of units that a hash of the name chooses."""
        if self.names is None:
            return self
        blocks = np.array([zlib.crc32(name.encode()) % MOST_UNITS for name in self.names], dtype=np.int64)
        return Units(
            self.statistic, self.unit, None, _sum_rows(self.columns, blocks, MOST_UNITS), self.count, self.factor
        )

    def scaled(self, factor: float) -> Units:
        """Return the units of the estimate times a factor."""
        return Units(self.statistic, self.unit, self.names, self.columns, self.count, self.factor * factor)


def units(statistic: StatisticName, unit: str, names: Iterable[object], *columns: Floats) -> Units:
    """Return units with one array for each column.

    Rows with the same name are one unit. More than 256 units are summed into as many blocks.
    """
    if statistic not in NAMES:
        raise UsageError(f"unknown statistic {statistic!r}", hint=f"use {', '.join(NAMES)}")
    distinct: dict[str, int] = {}
    codes = np.array([distinct.setdefault(str(name), len(distinct)) for name in names], dtype=np.int64)
    table = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    estimated = Units(statistic, unit, tuple(distinct), _sum_rows(table, codes, len(distinct)), len(distinct))
    return estimated if len(distinct) <= MOST_UNITS else estimated.in_blocks()


def mean_units(unit: str, names: Iterable[object], values: Floats) -> Units:
    """Return the units of a mean of values; values with the same name are one unit."""
    numbers = np.asarray(values, dtype=np.float64)
    return units("ratios", unit, names, np.ones(len(numbers)), numbers)


def ratio_units(unit: str, names: Iterable[object], numerators: Floats, denominators: Floats) -> Units:
    """Return the units of a ratio of two sums."""
    return units("ratios", unit, names, denominators, numerators)


def contrast_units(
    unit: str, names: Sequence[Iterable[object]], samples: Sequence[Floats], weights: Sequence[float] | None = None
) -> Units:
    """Return the units of a weighted sum of the means of several samples; a name of two samples is two units."""
    factors = [1.0] * len(samples) if weights is None else list(weights)
    sizes = [len(sample) for sample in samples]
    columns = np.zeros((sum(sizes), 2 * len(samples)))
    ends = np.cumsum(sizes)
    for place, (sample, end, size) in enumerate(zip(samples, ends, sizes, strict=True)):
        columns[end - size : end, 2 * place] = 1.0
        columns[end - size : end, 2 * place + 1] = factors[place] * np.asarray(sample, dtype=np.float64)
    labels = [f"{place}:{name}" for place, group in enumerate(names) for name in group]
    return units("ratios", unit, labels, *columns.T)


def rate_units(statistic: StatisticName, unit: str, codes: Sequence[Rows], hits: Sequence[Floats]) -> Units:
    """Return the units of a statistic of rates of groups, whose units are rows in a fixed order.

    Args:
        statistic: "rate-range", "rate-quotient" or "lowest-rate", or for two families of rates "worst-rate-range" or
            "worst-rate-quotient".
        unit: what a row is.
        codes: for each family the group of each row, from 0; -1 for rows that do not count.
        hits: for each family what each row adds to the numerator of its group.
    """
    size = len(codes[0])
    names = tuple(map(str, range(size))) if size <= MOST_UNITS else None
    rows = np.arange(size) if names is not None else np.arange(size) % MOST_UNITS
    blocks = size if names is not None else MOST_UNITS
    parts: list[Vector64] = []
    for own, values in zip(codes, hits, strict=True):
        kept = own >= 0
        groups = int(own.max()) + 1
        places = rows[kept] * groups + own[kept]
        ones, weights = np.ones(len(places)), np.asarray(values, dtype=np.float64)[kept]
        sums = [np.bincount(places, each, blocks * groups).reshape(blocks, groups) for each in (ones, weights)]
        parts += [np.asarray(table[:, group], dtype=np.float64) for group in range(groups) for table in sums]
    return Units(statistic, unit, names, np.stack(parts, axis=1), size)


def effect_size_units(
    unit: str, first: Iterable[object], second: Iterable[object], x: Floats, y: Floats, *, ddof: int = 0
) -> Units:
    """Return the units of an effect size: the difference of two means over the standard deviation of all values."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    # Centre and scale cancel in the effect size. Without them, an exchange compares words, not units of measurement.
    pooled = np.concatenate([x, y])
    centre, scale = pooled.mean(), pooled.std() or 1.0
    x, y = (x - centre) / scale, (y - centre) / scale
    columns = np.zeros((len(x) + len(y), 6))
    columns[: len(x), :3] = np.stack([np.ones(len(x)), x, x * x], axis=1)
    columns[len(x) :, 3:] = np.stack([np.ones(len(y)), y, y * y], axis=1)
    names = [*(f"0:{name}" for name in first), *(f"1:{name}" for name in second)]
    total = len(x) + len(y)
    return units("effect-size", unit, names, *columns.T).scaled(((total - ddof) / total) ** 0.5)


def correlation_units(
    unit: str, names: Iterable[object], x: Floats, y: Floats, *, statistic: Literal["pearson", "slope"] = "pearson"
) -> Units:
    """Return the units of Pearson's r, or of the slope of y on x; for Spearman's rho, pass ranks."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    x, y = x - x.mean(), y - y.mean()
    if statistic == "pearson":  # the scale cancels, see `effect_size_units`
        x, y = x / (x.std() or 1.0), y / (y.std() or 1.0)
    return units(statistic, unit, names, np.ones(len(x)), x, y, x * y, x * x, y * y)


def linearised_units(unit: str, names: Sequence[object], value: float, left_out: Floats) -> Units:
    """Return units for a statistic that is no function of sums, from its values with one unit left out each.

    A unit has its pseudo-value (Tukey 1958), shifted so that their mean is the value itself.
    """
    others = np.asarray(left_out, dtype=np.float64)
    return mean_units(unit, names, value + (len(others) - 1) * (others.mean() - others))


def _sum_rows(table: Matrix64, codes: Rows, size: int) -> Matrix64:
    return np.stack([np.bincount(codes, weights=column, minlength=size) for column in table.T], axis=1)


# Before against after -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedTest:
    """The test of a change on the units that both estimates have.

    Attributes:
        p_moved: p-value of the change of the value.
        p_distance: p-value of the change of the distance from the ideal.
        strength: change of the distance over its standard deviation under exchange.
        common: number of units that both estimates have.
        lost: number of units that only one of them has.
    """

    p_moved: float
    p_distance: float
    strength: float
    common: int
    lost: int


@functools.lru_cache(maxsize=4_096)
def exchange_test(before: Units, after: Units, distance: Callable[[Vector64], Vector64]) -> PairedTest | None:
    """Test whether an estimate changed by exchanging before and after within units.

    If nothing changed, the two rows of a unit could as well have come in the other order. All exchanges are made for up
    to 13 units, 9,999 random ones otherwise; p counts those whose difference is at least the observed one (Phipson &
    Smyth 2010). The test is exact for units that vary independently.

    Args:
        before: units of the first estimate.
        after: units of the second estimate.
        distance: maps values to distances from the ideal.

    Returns:
        The test, or None if the estimates are of different kinds or have fewer than three units in common.
    """
    paired = _paired(before, after)
    if paired is None:
        return None
    old, new, common, lost = paired
    if int(((old != 0) | (new != 0)).any(axis=1).sum()) < FEWEST:
        return None
    moved = new - old
    changed = (np.abs(moved) > ROUNDING * (np.abs(old) + np.abs(new))).any(axis=1)
    if not changed.any():
        return PairedTest(1.0, 1.0, 0.0, common, lost)
    exchanged = _patterns(int(changed.sum())) @ moved[changed]
    first = before.values(old.sum(axis=0) + exchanged)
    second = after.values(new.sum(axis=0) - exchanged)
    differences = second - first
    nearer = distance(second) - distance(first)
    return PairedTest(_share(differences), _share(nearer), _strength(nearer), common, lost)


def _paired(before: Units, after: Units) -> tuple[Matrix64, Matrix64, int, int] | None:
    """Return the columns of the units that both have, how many these are, and how many only one has."""
    if (before.statistic, before.unit) != (after.statistic, after.unit):
        return None
    if before.columns.shape[1] != after.columns.shape[1]:
        return None
    if before.names is None or after.names is None:
        old, new = before.in_blocks(), after.in_blocks()
        return old.columns, new.columns, min(old.count, new.count), abs(old.count - new.count)
    places = {name: row for row, name in enumerate(after.names)}
    common = [(row, places[name]) for row, name in enumerate(before.names) if name in places]
    if not common:
        return None
    mine, theirs = map(list, zip(*common, strict=True))
    lost = before.count + after.count - 2 * len(common)
    return before.columns[mine], after.columns[theirs], len(common), lost


@functools.lru_cache(maxsize=16)
def _patterns(size: int) -> Matrix64:
    """Return which units are exchanged in each draw, (draws, size); the first exchanges none."""
    if size <= EXACT_UP_TO:
        return ((np.arange(1 << size)[:, None] >> np.arange(size)) & 1).astype(np.float64)
    drawn = np.random.default_rng(size).integers(2, size=(DRAWS + 1, size)).astype(np.float64)
    drawn[0] = 0.0
    return drawn


def _share(values: Vector64) -> float:
    """Return the share of draws at least as far from 0 as the first; an undefined one counts as such."""
    if not np.isfinite(values[0]):
        return 1.0
    limit = abs(values[0]) - ROUNDING * np.nanmax(np.abs(values))
    return float(np.mean(~(np.abs(values) < limit)))


def _strength(values: Vector64) -> float:
    spread = float(np.sqrt(np.nanmean(values**2)))
    return abs(float(values[0])) / spread if spread > 0 and np.isfinite(values[0]) else 0.0


# Against a null value -----------------------------------------------------------------------------------------------


def null_p(estimated: Units, null: float = 0.0) -> float | None:
    """Return the two-sided p-value of the hypothesis that the estimate is `null`; None for fewer than three units.

    The units of a mean or ratio change sides at random: without an effect, what a unit adds to numerator - null *
    denominator is as often positive as negative. The tests of correlations are `correlation_p`, those of differences of
    groups `permutation_test`.
    """
    if estimated.statistic not in ("ratios", "exp-ratio") or estimated.columns.shape[1] != 2:
        raise UsageError(f"{estimated.statistic} has no test by change of signs", hint="use a permutation test")
    at = np.log(null) if estimated.statistic == "exp-ratio" else null / estimated.factor
    away = estimated.columns[:, 1] - at * estimated.columns[:, 0]
    away = away[(estimated.columns != 0).any(axis=1)]
    if len(away) < FEWEST:
        return None
    kept = away[away != 0]
    if not len(kept):
        return 1.0
    signs = 1.0 - 2.0 * _patterns(len(kept))
    return _share(signs @ kept)
