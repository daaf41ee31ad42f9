"""Group metrics: does a model select, err and estimate alike for the members of different groups? And its accuracy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenhand.arrays import Floats, Rows, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError, few
from evenhand.measures.call import Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.outcomes import Decided, Grouping, Outcomes
from evenhand.stats import share_interval
from evenhand.stats.group_rates import (
    Estimates,
    GroupCounts,
    equal_means_p,
    independence_p,
    quotient_limits,
    range_limits,
    simultaneous_quantile,
)
from evenhand.stats.multiplicity import NORMAL_95
from evenhand.stats.units import StatisticName, Units, rate_units

SMALL = 30  # cases: a rate of fewer is known to about a third at best
BINS = 10
ODDS = ("equal-opportunity", "false-positive-rate")
WORDS: dict[str, str] = {
    "demographic-parity": "the selection rate",
    "equal-opportunity": "the true positive rate",
    "false-positive-rate": "the false positive rate",
    "predictive-parity": "the precision",
    "accuracy": "the accuracy",
    "calibration-in-the-large": "the mean score minus the share of positives",
    "calibration-error": "the expected calibration error",
}
NO_INTERVAL = "no interval: the error of few rows is too large on average"
WORST, ODDS_SCORE = "worst-group-accuracy", "equalised-odds"
FORMS = ("difference", "ratio")
# The decision is independent of the group; given the label; the label is, given decision or score; errors are.
CRITERIA = {
    "independence": ("demographic-parity",),
    "separation": ("equal-opportunity", "false-positive-rate", ODDS_SCORE),
    "sufficiency": ("predictive-parity", "calibration-in-the-large", "calibration-error"),
    "accuracy": ("accuracy",),
}
RATIOS = tuple(f"{score}-ratio" for score in ("demographic-parity", "equal-opportunity", ODDS_SCORE))
INFO = Info(
    id="group-metrics",
    title="Group metrics",
    takes="text",
    better="zero",
    formula=(
        "difference = max_g r_g - min_g r_g, ratio = min_g r_g / max_g r_g, of r_g = P(d=1|g) (demographic parity), "
        "P(d=1|y=1,g) (equal opportunity), P(d=1|y=0,g) (false positive rate), P(y=1|d=1,g) (predictive parity), "
        "P(d=y|g) (accuracy); equalised odds: the larger difference, or the smaller ratio, of the second and the third"
    ),
    reading=(
        "y is the label, d the decision. Difference 0 and ratio 1: all groups are treated alike. A ratio of selection "
        "rates below 0.8 fails the four-fifths rule of US employment law. Calibration: how much the score is too high, "
        "and its expected calibration error in ten bins, by group. Worst group: the lowest accuracy of a group."
    ),
    limits=(
        "Where the groups differ in their share of positive labels, no model but a perfect one can satisfy equalised "
        "odds and predictive parity at once. Labels can be biased themselves. With many or small groups the largest "
        "difference is large by chance: read its interval and p-value."
    ),
    cites=("hardt2016", "chouldechova2017", "barocas2023"),
    scores={**dict.fromkeys(RATIOS, "one"), WORST: "higher"},
    null={f"{score}-difference": 0.0 for score in (*WORDS, ODDS_SCORE)} | dict.fromkeys(RATIOS, 1.0),
    view="outcomes",
    criteria={f"{score}-{form}": name for name, some in CRITERIA.items() for score in some for form in FORMS},
    plain=1,
    charts=("group-metrics",),
    ticked=("outcomes",),
)


@dataclass(frozen=True, eq=False)
class _GroupRates:
    """One rate of every group that has cases, over the rows that count.

    Attributes:
        name: the score's name.
        groups: names of the groups with cases.
        without: names of the others.
        codes: the group of each row among `groups`; -1 for rows that do not count.
        hits: which rows are hits.
    """

    name: str
    groups: tuple[str, ...]
    without: tuple[str, ...]
    codes: Rows
    hits: Vector64

    @classmethod
    def of(cls, name: str, grouping: Grouping, counted_rows: Decided, hits: Decided) -> _GroupRates:
        codes = np.where(counted_rows, grouping.codes, -1)
        present = np.bincount(codes[codes >= 0], minlength=len(grouping.groups)) > 0
        numbers = np.append(np.where(present, np.cumsum(present) - 1, -1), -1)
        named = zip(grouping.groups, present.tolist(), strict=True)
        split: tuple[list[str], list[str]] = ([], [])
        for group, is_there in named:
            split[0 if is_there else 1].append(group)
        return cls(name, tuple(split[0]), tuple(split[1]), numbers[codes], hits.astype(np.float64))

    @cached_property
    def counts(self) -> GroupCounts:
        """Hits and cases of each group."""
        kept = self.codes >= 0
        size = len(self.groups)
        return GroupCounts.of(self.codes[kept], self.hits[kept], size)

    def extremes(self) -> tuple[int, int]:
        """Return the numbers of the groups with the highest and the lowest rate."""
        rates = self.counts.rates
        return int(rates.argmax()), int(rates.argmin())

    def items(self) -> list[dict[str, object]]:
        """Return the rate of each group with its own interval, lowest first."""
        values, low, high = self.counts.estimates()
        totals = self.counts.totals
        return [
            {
                "word": self.groups[k],
                "value": float(values[k]),
                "interval": [float(low[k]), float(high[k])],
                "n": int(totals[k]),
                **({"small": True} if totals[k] < SMALL else {}),
            }
            for k in np.argsort(values, kind="stable").tolist()
        ]

    def note(self) -> str:
        """Say which groups are small, and which have no cases."""
        without = f"{few(self.without)} {'has' if len(self.without) == 1 else 'have'} no case" if self.without else ""
        return "; ".join(filter(None, (_small_note(self.groups, self.counts.totals), without)))

    def sentence(self, *, ratio: float | None = None) -> str:
        """Return which groups are furthest apart, in words."""
        high, low = self.extremes()
        rates = self.counts.rates
        what = WORDS[self.name]
        compared = f"{self.groups[low]} ({rates[low]:.3f}) than for {self.groups[high]} ({rates[high]:.3f})"
        if rates[low] == rates[high]:
            return f"{what} is {rates[low]:.3f} for every group"
        if ratio is not None:
            return f"{what} of {self.groups[low]} ({rates[low]:.3f}) is {ratio:.2f} times that of {self.groups[high]}"
        return f"{what} is lower for {compared}"


@measure(INFO)
def group_metrics(
    call: Call, view: Outcomes, grouping: str = "", *, bins: int = BINS, smallest: int = 1, seed: int = 0
) -> tuple[Measurement, ...]:
    """Compare what was decided about the members of groups with each other and with what is true.

    Args:
        view: rows of group, label, and prediction or score: a table, or the `outcomes` view of a subject.
        grouping: the column of groups, or several joined by " x "; the first of the view by default.
        bins: equally wide bins of the score from 0 to 1, for the calibration error.
        smallest: groups with fewer rows are left out, and named.
        seed: seed of the tests.

    Returns:
        Differences and ratios of rates between the furthest two groups, as far as the columns allow: without labels
        demographic parity alone, calibration only where there are scores between 0 and 1. `items` are the groups. The
        intervals hold for all pairs of groups at once (Wilson's limits of each rate, combined by Newcombe's and Donner
        and Zou's formulas). The p-values are those of the hypothesis that all groups have the same rate: hits are dealt
        to the rows at random, within labels for equalised odds, within bins of the score for the calibration error.
        `calibration-error-difference` has no interval: the error of few rows is too large on average, so that the
        difference depends on the sizes of the groups.

    What it does not tell you: which definition of fairness is right here, and whether the labels are.
    """
    if bins < 1:
        raise UsageError(f"bins must be at least 1, got {bins}")
    groups, left_out = _large_groups(view.grouping(grouping or next(iter(view.groupings))), smallest)
    names = _score_names(view)
    call.describe(groups.name, scores=names, params=dict(view.columns))
    if len(groups.groups) < 2:
        raise DegenerateError(f"fewer than two groups of {groups.name} have {smallest} rows or more")
    details: dict[str, object] = {
        "rows": len(view),
        "unknown_group": view.grouping(groups.name).unknown,
        "dropped": dict(view.dropped),
        "groups": dict(zip(groups.groups, np.bincount(groups.codes[groups.codes >= 0]).tolist(), strict=True)),
    }
    details |= {"left_out": left_out} if left_out else {}
    _warn_of_losses(view, groups.name)
    unit = f"row of {view.rows_digest(groups.name)}"
    rates = _rates(view, groups)
    results: list[Measurement] = []
    compared: dict[str, tuple[_GroupRates, ...]] = {name: (rate,) for name, rate in rates.items()}
    if f"{ODDS_SCORE}-difference" in names:
        compared[ODDS_SCORE] = tuple(rates[name] for name in ODDS)
    for name, some in compared.items():
        both = _ComparedRates(call, name, some, details, unit, seed)
        results += [both.difference(), *([both.ratio()] if f"{name}-ratio" in names else [])]
    if WORST in names:
        results.append(_worst(call, rates["accuracy"], details, unit))
    if "calibration-error-difference" in names and view.score is not None and view.label is not None:
        results.append(_calibration_in_the_large(call, view.score - view.label, groups, details, unit, seed))
        results.append(_calibration_error(call, view.score, view.label, groups, details, bins, seed))
    order = {name: place for place, name in enumerate(names)}
    return tuple(sorted(results, key=lambda item: order[item.score]))


def _warn_of_losses(view: Outcomes, grouping: str) -> None:
    """Say how many rows could not be used, for the record."""
    unknown = view.grouping(grouping).unknown
    lost = {**view.dropped, **({f"without a known {grouping}": unknown} if unknown else {})}
    if lost:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in lost.items())
        every = len(view) + sum(view.dropped.values())
        warnings.warn(
            f"{view.name}: {sum(lost.values()):,} of {every:,} rows are left out: {reasons}",
            EvenhandWarning,
            stacklevel=3,
        )


def _score_names(view: Outcomes) -> list[str]:
    """Return the scores that the columns allow, in the order of a report."""
    names = ["demographic-parity-difference", "demographic-parity-ratio"]
    if view.label is None:
        return names
    for score in ("equal-opportunity", "false-positive-rate", ODDS_SCORE, "predictive-parity", "accuracy"):
        names.append(f"{score}-difference")
        if f"{score}-ratio" in RATIOS:
            names.append(f"{score}-ratio")
    names.append(WORST)
    if view.score is not None and len(view.score) and view.score.min() >= 0 and view.score.max() <= 1:
        names += ["calibration-in-the-large-difference", "calibration-error-difference"]
    return names


def _large_groups(grouping: Grouping, smallest: int) -> tuple[Grouping, dict[str, int]]:
    """Return the groups with enough rows, and the sizes of the others."""
    sizes = np.bincount(grouping.codes[grouping.codes >= 0], minlength=len(grouping.groups))
    kept = sizes >= max(1, smallest)
    numbers = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    named = list(zip(grouping.groups, sizes.tolist(), kept.tolist(), strict=True))
    groups = tuple(group for group, _, is_kept in named if is_kept)
    return Grouping(grouping.name, groups, numbers[grouping.codes]), {g: n for g, n, is_kept in named if not is_kept}


def _rates(view: Outcomes, grouping: Grouping) -> dict[str, _GroupRates]:
    selected = view.prediction
    everyone = np.ones(len(view), dtype=np.bool_)
    counted_rows = {"demographic-parity": (everyone, selected)}
    if view.label is not None:
        counted_rows |= {
            "equal-opportunity": (view.label, selected),
            "false-positive-rate": (~view.label, selected),
            "predictive-parity": (selected, view.label),
            "accuracy": (everyone, selected == view.label),
        }
    return {name: _GroupRates.of(name, grouping, rows, hits) for name, (rows, hits) in counted_rows.items()}


def _units(statistic: StatisticName, unit: str, rates: Sequence[_GroupRates]) -> tuple[Units, ...]:
    if len({rate.groups for rate in rates}) > 1:  # families of other groups have no columns in common
        return ()
    return (rate_units(statistic, unit, [rate.codes for rate in rates], [rate.hits for rate in rates]),)


@dataclass(frozen=True, eq=False)
class _ComparedRates:
    """One rate of all groups; or two, of which the one counts that differs more, as for equalised odds.

    Attributes:
        call: the call of the measure.
        name: the score's name, without its form.
        rates: the rates.
        details: for the record.
        unit: what a row is, for units.
        seed: seed of the tests.
    """

    call: Call
    name: str
    rates: tuple[_GroupRates, ...]
    details: Mapping[str, object]
    unit: str
    seed: int

    def difference(self) -> Measurement:
        """Return the larger difference between two groups."""
        score = f"{self.name}-difference"
        if missing := self._missing(score):
            return missing
        values = [float(np.ptp(rate.counts.rates)) for rate in self.rates]
        widest = self.rates[int(np.argmax(values))]
        limits = [range_limits(each) for each in self._estimates]
        between = "; the other groups lie between" if len(self.rates) == 1 and len(widest.groups) > 2 else ""
        return self._measurement(
            max(values), score, (max(low for low, _ in limits), min(max(high for _, high in limits), 1.0)), widest,
            reading=widest.sentence() + between,
            units=_units("rate-range" if len(self.rates) == 1 else "worst-rate-range", self.unit, self.rates),
        )  # fmt: skip

    def ratio(self) -> Measurement:
        """Return the smaller ratio of two groups."""
        score = f"{self.name}-ratio"
        if missing := self._missing(score):
            return missing
        if zero := [rate for rate in self.rates if not rate.counts.rates.max()]:
            reason = f"{WORDS[zero[0].name]} is 0 for every group"
            return self.call.undefined(reason, score=score, details=self.details)
        values = [float(rate.counts.rates.min() / rate.counts.rates.max()) for rate in self.rates]
        lowest = self.rates[int(np.argmin(values))]
        limits = [quotient_limits(each) for each in self._estimates]
        return self._measurement(
            min(values), score, (min(low for low, _ in limits), min(high for _, high in limits)), lowest,
            reading=lowest.sentence(ratio=min(values)),
            units=_units("rate-quotient" if len(self.rates) == 1 else "worst-rate-quotient", self.unit, self.rates),
        )  # fmt: skip

    def _missing(self, score: str) -> Measurement | None:
        """Return the undefined measurement of a rate that fewer than two groups have."""
        rate = next((rate for rate in self.rates if len(rate.groups) < 2), None)
        if rate is None:
            return None
        has = f"only {rate.groups[0]} has" if rate.groups else "no group has"
        reason = f"{has} rows that {WORDS[rate.name]} is a share of"
        return self.call.undefined(reason, score=score, details=self.details)

    @cached_property
    def _estimates(self) -> list[Estimates]:
        """The limits of the groups that hold for all pairs of groups at once."""
        quantile = simultaneous_quantile([rate.counts.errors for rate in self.rates], seed=self.seed)
        return [rate.counts.estimates(quantile) for rate in self.rates]

    @cached_property
    def _p_value(self) -> float:
        return _p([rate.counts for rate in self.rates], self.seed)

    def _measurement(
        self,
        value: float,
        score: str,
        interval: tuple[float, float],
        decisive: _GroupRates,
        *,
        reading: str,
        units: tuple[Units, ...],
    ) -> Measurement:
        several = len(self.rates) > 1
        notes = [(WORDS[rate.name], text) for rate in self.rates if (text := rate.note())]
        items = [
            {**item, **({"rate": WORDS[rate.name]} if several else {})} for rate in self.rates for item in rate.items()
        ]
        return self.call.measurement(
            value, int(sum(rate.counts.totals.sum() for rate in self.rates)), score=score, details=self.details,
            interval=interval, p_value=self._p_value, positive=decisive.groups[decisive.extremes()[0]], reading=reading,
            note="; ".join(f"{what}: {text}" if several else text for what, text in notes), items=items, units=units,
        )  # fmt: skip


def _p(counts: Sequence[GroupCounts], seed: int) -> float:
    """Return the p-value of independence; 1 where all cases are alike, so that there is nothing to see."""
    p = independence_p(counts, seed=seed)
    return 1.0 if p is None else p


def _worst(call: Call, rate: _GroupRates, details: Mapping[str, object], unit: str) -> Measurement:
    """Return the lowest accuracy of a group; the interval lets any group be the worst."""
    from scipy.special import ndtri

    rates, (_, low) = rate.counts.rates, rate.extremes()
    quantile = float(ndtri(1 - 0.025 / len(rates)))  # Bonferroni's over groups
    _, lows, highs = rate.counts.estimates(quantile)
    return call.measurement(
        float(rates[low]), int(rate.counts.totals.sum()), score=WORST, details=details,
        interval=(float(lows.min()), float(highs.min())), positive=rate.groups[low], note=rate.note(),
        reading=f"the accuracy is lowest for {rate.groups[low]} ({rates[low]:.3f})",
        items=rate.items(), units=_units("lowest-rate", unit, [rate]),
    )  # fmt: skip


def _calibration_in_the_large(
    call: Call, too_high: Vector64, groups: Grouping, details: Mapping[str, object], unit: str, seed: int
) -> Measurement:
    """Compare how much the score is too high on average."""
    rows = groups.codes >= 0
    codes, excess = groups.codes[rows], too_high[rows]
    size = len(groups.groups)
    totals = np.bincount(codes, minlength=size).astype(np.float64)
    means = np.bincount(codes, excess, size) / totals
    spread = np.bincount(codes, (excess - means[codes]) ** 2, size)
    # One more half squared deviation, so that a group whose scores are all right by chance is not known exactly.
    errors = np.sqrt((spread + 0.25) / np.maximum(totals - 1, 1) / totals)
    quantile = simultaneous_quantile([errors], seed=seed)
    limits = Estimates(means, means - quantile * errors, means + quantile * errors)
    high, low = int(means.argmax()), int(means.argmin())
    p = equal_means_p(excess, codes, size, seed=seed)
    return call.measurement(
        float(means[high] - means[low]), len(codes), score="calibration-in-the-large-difference", details=details,
        interval=range_limits(limits), p_value=1.0 if p is None else p, positive=groups.groups[high],
        note=_small_note(groups.groups, totals),
        reading=f"{WORDS['calibration-in-the-large']} is lower for {groups.groups[low]} ({means[low]:+.3f}) than for "
        f"{groups.groups[high]} ({means[high]:+.3f})",
        items=_mean_items(groups.groups, means, errors, totals),
        units=(rate_units("rate-range", unit, [groups.codes], [too_high]),),
    )  # fmt: skip


def _mean_items(groups: Sequence[str], means: Vector64, errors: Vector64, totals: Vector64) -> list[dict[str, object]]:
    return [
        {
            "word": groups[k],
            "value": float(means[k]),
            "interval": [float(means[k] - NORMAL_95 * errors[k]), float(means[k] + NORMAL_95 * errors[k])],
            "n": int(totals[k]),
            **({"small": True} if totals[k] < SMALL else {}),
        }
        for k in np.argsort(means, kind="stable").tolist()
    ]


def _calibration_error(
    call: Call, score: Vector64, label: Decided, groups: Grouping, details: Mapping[str, object], bins: int, seed: int
) -> Measurement:
    """Compare the expected calibration error, in equally wide bins of the score."""
    rows = groups.codes >= 0
    size = len(groups.groups)
    totals = np.bincount(groups.codes[rows], minlength=size).astype(np.float64)
    cells = bin_numbers(score[rows], bins) * size + groups.codes[rows]
    shape = (bins, size)
    cases, positives, sums = (
        np.bincount(cells, weights, bins * size).reshape(shape)
        for weights in (None, label[rows].astype(np.float64), score[rows])
    )
    errors = np.abs(positives - sums).sum(axis=0) / totals
    p = _p([GroupCounts(positives[place], cases[place].astype(np.float64)) for place in range(bins)], seed)
    high, low = int(errors.argmax()), int(errors.argmin())
    order = np.argsort(errors, kind="stable").tolist()
    return call.measurement(
        float(errors[high] - errors[low]), int(rows.sum()), score="calibration-error-difference", p_value=p,
        details={**details, "bins": bins}, positive=groups.groups[high],
        note="; ".join(filter(None, (_small_note(groups.groups, totals), NO_INTERVAL))),
        reading=f"{WORDS['calibration-error']} is lower for {groups.groups[low]} ({errors[low]:.3f}) than for "
        f"{groups.groups[high]} ({errors[high]:.3f})",
        items=[{"word": groups.groups[k], "value": float(errors[k]), "n": int(totals[k])} for k in order],
    )  # fmt: skip


def _small_note(groups: Sequence[str], totals: Floats) -> str:
    """Say which groups are small; empty if none is."""
    small = [group for group, total in zip(groups, totals.tolist(), strict=True) if total < SMALL]
    return f"{few(small)} {'has' if len(small) == 1 else 'have'} fewer than {SMALL} cases" if small else ""


def bin_numbers(scores: Vector64, bins: int) -> Rows:
    """Return the bin of each score: [0, 1/bins), [1/bins, 2/bins), ..., the last one with 1.

    >>> bin_numbers(np.array([0.0, 0.1, 0.95, 1.0]), 10).tolist()
    [0, 1, 9, 9]
    """
    return np.minimum((scores * bins).astype(np.int64), bins - 1)


# What a change of decisions costs ------------------------------------------------------------------------------------

ACCURACY = Info(
    id="decision-accuracy",
    title="Accuracy of decisions",
    takes="text",
    better="higher",
    formula="accuracy = P(d = y); balanced-accuracy = (P(d=1|y=1) + P(d=0|y=0)) / 2",
    reading="The share of rows whose decision d is their label y; balanced, the mean of that share over both labels.",
    limits="Counts all errors alike, and says nothing about whom they concern. The labels may be wrong.",
    cites=("hardt2016",),
    queries=("rows",),
    view="outcomes",
    family="quality",
    role="cost",
    ticked=("outcomes",),
)


@measure(ACCURACY)
def decision_accuracy(call: Call, view: Outcomes, rows: str = "rows", *, seed: int = 0) -> tuple[Measurement, ...]:
    """Compare decisions with labels.

    Args:
        view: rows of label and prediction or score.
        rows: which rows; all of them.
        seed: recorded only; nothing is drawn at random.

    Returns:
        `accuracy` and `balanced-accuracy`, with Wilson's interval over rows, and for the second Newcombe's.
    """
    call.describe("", scores=("accuracy", "balanced-accuracy"), params=dict(view.columns))
    if view.label is None:
        raise DegenerateError("there are no labels to compare the decisions with")
    right = (view.prediction == view.label).astype(np.float64)
    grouping = next(iter(view.groupings.values()), None)
    unit = f"row of {view.rows_digest(grouping.name)}" if grouping else "row"
    everyone = np.zeros(len(right), dtype=np.int64)
    accuracy = call.measurement(
        float(right.mean()), len(right), score="accuracy", interval=share_interval(right),
        reading=f"{100 * right.mean():.1f} % of the decisions are right",
        units=(rate_units("ratios", unit, [everyone], [right]),),
    )  # fmt: skip
    sides = [right[view.label], right[~view.label]]
    if not all(map(len, sides)):
        missing = "positive" if not len(sides[0]) else "negative"
        return accuracy, call.undefined(f"no label is {missing}", score="balanced-accuracy")
    return accuracy, _balanced(call, view.label, right, unit)


def _balanced(call: Call, label: Decided, right: Vector64, unit: str) -> Measurement:
    sides = label.astype(np.int64)
    values, low, high = GroupCounts.of(sides, right, 2).estimates()
    value = float(values.mean())
    below, above = (float(np.sqrt((away**2).sum()) / 2) for away in (values - low, high - values))
    return call.measurement(
        value, len(right), score="balanced-accuracy", interval=(max(0.0, value - below), min(1.0, value + above)),
        reading=f"{100 * value:.1f} % of the decisions are right, averaged over both labels",
        units=(rate_units("ratios", unit, [sides], [right / 2]),),
    )  # fmt: skip
