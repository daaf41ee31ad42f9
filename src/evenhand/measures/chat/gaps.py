"""Gaps between groups of people over scenarios or documents: contrasts, tests and intervals by the sampling unit.

A case is one person in one scenario. Scenarios are a sample of the decisions a model could be asked about, so that
intervals are clustered by scenario. First names are a sample too: a model that prefers some names to others, whatever
their group, must not be found biased, so names are a second kind of cluster, and the larger of two p-values counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.measures.groups import Contrast, against_others
from evenhand.models.lm.chat import Choices
from evenhand.stats.bootstrap import Interval
from evenhand.stats.means import EstimatorMoments, combined, moments
from evenhand.stats.units import FEWEST, mean_units, null_p

FLOOR = 1e-6  # of a probability: a server that lists the likeliest tokens gives others none
HALF = 0.5  # of an answer, added to both counts of sampled answers (Haldane 1956), so that a logit is finite
DRAWS = 9_999
POWER, LEVEL = 0.8, 0.05
UNCLEAR = 0.5  # share of answers that are neither yes nor no, above which a gap is not interpreted


def logits(choices: Choices) -> Vector64:
    """Return log P(first option) - log P(second option) for each conversation.

    Probabilities are taken to be at least 1e-6. Counted answers get half an answer more on each side.

    >>> log = Choices(np.array([[0.6, 0.2]]), np.array([0.2]), "log-probabilities")
    >>> logits(log).round(4).tolist()  # log 3
    [1.0986]
    """
    shares = choices.probabilities
    if choices.samples:
        shares = (shares * choices.samples + HALF) / (choices.samples + 2 * HALF)
    shares = np.maximum(shares, FLOOR)
    return np.asarray(np.log(shares[:, 0]) - np.log(shares[:, 1]))


@dataclass(frozen=True, eq=False)
class Cases:
    """One number for each person in each scenario.

    Attributes:
        groups: the groups, the positive one first.
        scenario: name of the scenario of each case.
        group: number of the group of each case.
        name: first name of each case where names are clusters; empty otherwise.
        values: what is compared: logits, or points of a scale.
    """

    groups: tuple[str, ...]
    scenario: tuple[str, ...]
    group: Rows
    name: tuple[str, ...]
    values: Vector64

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios in which every group occurs, in their order."""
        every = dict.fromkeys(self.scenario)
        present = {(one, int(group)) for one, group in zip(self.scenario, self.group, strict=True)}
        return tuple(one for one in every if all((one, number) in present for number in range(len(self.groups))))

    def means(self, values: Vector64 | None = None) -> Matrix64:
        """Return the mean of each group in each scenario, (scenarios, groups)."""
        codes = {one: row for row, one in enumerate(self.scenarios)}
        kept = np.array([one in codes for one in self.scenario], dtype=bool)
        rows = np.array([codes[one] for one in self.scenario if one in codes], dtype=np.int64)
        sums, counts = (np.zeros((len(codes), len(self.groups))) for _ in range(2))
        np.add.at(sums, (rows, self.group[kept]), (self.values if values is None else values)[kept])
        np.add.at(counts, (rows, self.group[kept]), 1.0)
        return np.asarray(sums / counts)

    def gaps(self, contrast: Contrast) -> Vector64:
        """Return the contrast in each scenario: the mean of a group minus the mean of the means of the others."""
        return np.asarray(against_others(self.means())[:, contrast.first])

    def by_name(self) -> tuple[Vector64, Rows, tuple[str, ...]]:
        """Return the mean of each name over scenarios, its group, and the names."""
        keys = list(dict.fromkeys(zip(self.name, self.group.tolist(), strict=True)))
        index = {key: row for row, key in enumerate(keys)}
        rows = np.array([index[key] for key in zip(self.name, self.group.tolist(), strict=True)], dtype=np.int64)
        values = np.bincount(rows, weights=self.values) / np.bincount(rows)
        return values, np.array([group for _, group in keys], dtype=np.int64), tuple(name for name, _ in keys)


@dataclass(frozen=True)
class PeopleGap:
    """A contrast with its uncertainty.

    Attributes:
        value: the contrast.
        interval: 95 % interval.
        p_value: of no difference.
        detectable: the smallest true gap that such data find in four of five cases, at the level of 5 %.
    """

    value: float
    interval: Interval = None
    p_value: float | None = None
    detectable: float | None = None

    @classmethod
    def of(cls, value: float, spread: EstimatorMoments, p_value: float | None) -> PeopleGap:
        """Return the gap with its interval, or without one where nothing varies.

        A model that answers yes in every sample has a gap of 0, which says little: its probability of yes may still
        differ between groups by more than the samples show.
        """
        if not spread.variance:
            return cls(value, p_value=p_value)
        return cls(value, spread.interval(value), p_value, detectable(spread))


def gap_over_scenarios(cases: Cases, contrast: Contrast, *, seed: int = 0) -> PeopleGap:
    """Return a contrast over scenarios, and over names where there are some.

    Without names, scenarios change sides at random: in a model that ignores the person, the gap in a scenario is as
    often positive as negative.
    """
    gaps = cases.gaps(contrast)
    value = float(gaps.mean())
    if len(gaps) < FEWEST:
        return PeopleGap(value)
    spread, p_value = moments(gaps), null_p(mean_units("scenario", cases.scenarios, gaps))
    if not cases.name:
        return PeopleGap.of(value, spread, p_value)
    own = name_moments(cases, contrast)
    if own is None:
        return PeopleGap(value)
    both = combined([spread, own], [1.0, 1.0])
    variance = max(both.variance - _cell_variance(cases, contrast), spread.variance, own.variance)
    crossed = both._replace(variance=variance, third=0.0)  # what the two kinds share of the skewness is not known
    p_names = name_p(cases, contrast, seed=seed)
    worst = max((p for p in (p_value, p_names) if p is not None), default=None)
    return PeopleGap.of(value, crossed, worst)


def gap_over_names(cases: Cases, contrast: Contrast, *, seed: int = 0) -> PeopleGap:
    """Return a contrast over names alone: the documents are those that the user has, and no sample of others."""
    values, group, _ = cases.by_name()
    value = _contrast(values, group, contrast)
    spread = name_moments(cases, contrast)
    if spread is None:
        return PeopleGap(value)
    return PeopleGap.of(value, spread, name_p(cases, contrast, seed=seed))


def detectable(spread: EstimatorMoments) -> float:
    """Return the smallest true gap that a test at 5 % finds with a probability of 80 %."""
    from scipy.special import stdtrit

    quantiles = stdtrit(spread.freedom, 1 - LEVEL / 2) + stdtrit(spread.freedom, POWER)
    return float(quantiles * spread.variance**0.5)


def _contrast(values: Vector64, group: Rows, contrast: Contrast) -> float:
    means = [values[group == number].mean() for number in (contrast.first, *contrast.others)]
    return float(means[0] - np.mean(means[1:]))


def name_moments(cases: Cases, contrast: Contrast) -> EstimatorMoments | None:
    """Return the moments of a contrast when names vary within groups; None if a group has fewer than three names."""
    values, group, _ = cases.by_name()
    samples = [values[group == number] for number in (contrast.first, *contrast.others)]
    if min(map(len, samples)) < FEWEST:
        return None
    return combined([moments(sample) for sample in samples], [1.0] + [-1.0 / len(contrast.others)] * (len(samples) - 1))


def _cell_variance(cases: Cases, contrast: Contrast) -> float:
    """Return the part of the variance that both kinds of clusters contain: that of single cases."""
    values, group, names = cases.by_name()
    index = {(name, int(own)): row for row, (name, own) in enumerate(zip(names, group, strict=True))}
    rows = np.array([index[key] for key in zip(cases.name, cases.group.tolist(), strict=True)], dtype=np.int64)
    scenarios = {one: row for row, one in enumerate(cases.scenarios)}
    columns = np.array([scenarios.get(one, -1) for one in cases.scenario], dtype=np.int64)
    means = cases.means()
    overall = means.mean(axis=0)
    kept = columns >= 0
    left = cases.values[kept] - values[rows[kept]] - means[columns[kept], cases.group[kept]]
    left += overall[cases.group[kept]]
    weights = {contrast.first: 1.0} | dict.fromkeys(contrast.others, -1.0 / len(contrast.others))
    total = 0.0
    for number, weight in weights.items():
        own = left[cases.group[kept] == number]
        total += weight**2 * float((own**2).mean()) / len(own)
    return total


def name_p(cases: Cases, contrast: Contrast, *, seed: int = 0) -> float:
    """Return the two-sided p-value of a contrast when names change groups at random; the observed one counts."""
    values, group, _ = cases.by_name()
    observed = abs(_contrast(values, group, contrast))
    drawn = np.abs(_permuted_contrasts(values, group, contrast, seed))
    return _share(drawn, observed)


def _permuted_contrasts(values: Vector64, group: Rows, contrast: Contrast, seed: int) -> Vector64:
    weights = np.zeros(len(values))
    weights[group == contrast.first] = 1.0 / np.sum(group == contrast.first)
    for other in contrast.others:
        weights[group == other] = -1.0 / len(contrast.others) / np.sum(group == other)
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(np.broadcast_to(values - values.mean(), (DRAWS, len(values))), axis=1)
    return np.asarray(shuffled @ weights)


def _share(drawn: Vector64, observed: float) -> float:
    limit = observed - 1e-12 * max(observed, float(drawn.max(initial=0.0)))
    return float((np.count_nonzero(drawn >= limit) + 1) / (len(drawn) + 1))


def overall_p(cases: Cases, *, seed: int = 0) -> float | None:
    """Return the p-value of no difference between any groups; None for fewer than three scenarios.

    The statistic is the variance of the means of the groups. The groups of a scenario change places at random; where
    names are clusters, names change groups at random too, and the larger p-value counts.
    """
    means = cases.means()
    if len(means) < FEWEST:
        return None
    rng = np.random.default_rng(seed)
    centred = means - means.mean(axis=1, keepdims=True)
    observed = float(centred.mean(axis=0).var())
    drawn = rng.permuted(np.broadcast_to(centred, (DRAWS, *centred.shape)), axis=2).mean(axis=1).var(axis=1)
    p_value = _share(drawn, observed)
    return max(p_value, names_overall_p(cases, seed=seed)) if cases.name else p_value


def names_overall_p(cases: Cases, *, seed: int = 0) -> float:
    """Return the p-value of no difference between any groups when names change groups at random."""
    values, group, _ = cases.by_name()
    own = np.eye(len(cases.groups))[group] / np.bincount(group, minlength=len(cases.groups))
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(np.broadcast_to(values - values.mean(), (DRAWS, len(values))), axis=1)
    return _share(np.asarray((shuffled @ own).var(axis=1)), float((values @ own).var()))


def spread_over_people(values: Sequence[float] | Vector64) -> tuple[float, Interval]:
    """Return the mean of some people and its interval; None for fewer than three."""
    numbers = np.asarray(values, dtype=np.float64)
    mean = float(numbers.mean())
    return mean, (moments(numbers).interval(mean) if len(numbers) >= FEWEST else None)
