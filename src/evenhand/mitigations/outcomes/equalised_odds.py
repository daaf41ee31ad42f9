"""Equalised odds by post-processing (Hardt et al. 2016): thresholds by group, randomised where needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import UsageError
from evenhand.mitigations.json_change import JsonChange
from evenhand.mitigations.method import Mitigation, Target
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.models.outcomes import Decided, Outcomes
from evenhand.subjects.subject import Subject

if TYPE_CHECKING:
    from evenhand.words import Concept

OUTCOMES = Target("tables of predictions and classifiers of labelled texts", "outcomes")
SAME = 1e-12


class Hull(NamedTuple):
    """The upper convex hull of a ROC curve, from (0, 0) to (1, 1), with the threshold of each corner."""

    false_positives: Vector64
    true_positives: Vector64
    thresholds: Vector64

    def at(self, place: Vector64) -> Vector64:
        """Return the largest true positive rate at false positive rates."""
        return np.asarray(np.interp(place, self.false_positives, self.true_positives))


@dataclass(frozen=True)
class GroupRule:
    """How the members of a group are decided about.

    A share `ignored` is selected with the probability `rate`, whatever their score; of the others, a share `weight` is
    selected from the score `low`, the rest from the score `high`.
    """

    ignored: float
    rate: float
    low: float
    high: float
    weight: float

    def probabilities(self, scores: Vector64) -> Vector64:
        """Return the probability with which each score is selected."""
        mixed = self.weight * (scores >= self.low) + (1 - self.weight) * (scores >= self.high)
        return np.asarray(self.ignored * self.rate + (1 - self.ignored) * mixed)


@dataclass(frozen=True, eq=False)
class GroupThresholds(JsonChange):
    """A frozen change of decisions: a rule for each group of a grouping.

    Rows of other groups, and of none, keep their decisions.
    """

    kind: ClassVar[str] = "group-thresholds"
    acts_on: ClassVar[str] = "outcomes"
    title: ClassVar[str] = "thresholds by group"

    grouping: str
    rules: Mapping[str, GroupRule]
    seed: int = 0
    report: Mapping[str, object] = field(default_factory=dict, kw_only=True, repr=False)

    def decide(self, outcomes: Outcomes) -> Outcomes:
        """Return the rows with the decisions of the rules; random ones depend on the seed and the number of the row."""
        grouping = outcomes.grouping(self.grouping)
        scores = scores_of(outcomes)
        drawn = np.random.default_rng(self.seed).random(len(outcomes))
        decided = outcomes.prediction.copy()
        for number, group in enumerate(grouping.groups):
            if rule := self.rules.get(group):
                rows = grouping.codes == number
                decided[rows] = drawn[rows] < rule.probabilities(scores[rows])
        return outcomes.decided(decided)

    def state(self) -> dict[str, object]:
        """Return the content as plain data."""
        rules = {group: asdict(rule) for group, rule in self.rules.items()}
        return {"grouping": self.grouping, "rules": rules, "seed": self.seed}

    def content(self) -> list[object]:
        """Return kind and state."""
        return [self.kind, self.state()]

    def stored(self) -> dict[str, object]:
        """Return kind and state."""
        return {"kind": self.kind, "state": self.state()}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GroupThresholds:
        """Read what `save` wrote."""
        return cls._read(path, cls._from_record)

    @classmethod
    def _from_record(cls, about: Mapping[str, Any]) -> GroupThresholds:
        if about["kind"] != cls.kind:
            raise ValueError(f"kind {about['kind']!r}")
        state = about["state"]
        rules = {str(group): GroupRule(**rule) for group, rule in state["rules"].items()}
        return cls(str(state["grouping"]), rules, int(state["seed"]), report=dict(about["report"]))


@MITIGATIONS.register("equalised-odds")
@dataclass(frozen=True)
class EqualisedOdds(Mitigation):
    """Choose thresholds for each group so that all groups have the same true and false positive rate.

    Args:
        group: The grouping that is equalised, such as `sex` or `sex x race`; the first of the table by default.
        seed: Seed of the random decisions.
    """

    id: ClassVar[str] = "equalised-odds"
    title: ClassVar[str] = "Equalised odds by thresholds"
    formula: ClassVar[str] = "max accuracy subject to P(d=1|y,g) = P(d=1|y), d a mix of thresholds of the score in g"
    cites: ClassVar[tuple[str, ...]] = ("hardt2016",)
    limits: ClassVar[str] = (
        "Needs the group when it decides, and labels when it is fitted. Some decisions are random. Makes the better "
        "group as bad as the worst, and repeats every bias of the labels."
    )
    works_on = (OUTCOMES,)

    group: str = ""
    seed: int = 0

    def _fit_subject(self, subject: Subject, concept: Concept) -> GroupThresholds:
        outcomes: Outcomes = subject.view("outcomes")
        grouping = outcomes.grouping(self.group or next(iter(outcomes.groupings)))
        if outcomes.label is None:
            raise UsageError(f"{self.id} needs labels, and {subject.name} has none", hint="name a column: `label=`")
        scores = scores_of(outcomes)
        hulls: dict[str, Hull] = {}
        for number, group in enumerate(grouping.groups):
            rows = grouping.codes == number
            labels = outcomes.label[rows]
            if labels.all() or not labels.any():
                which = "positive" if labels.all() else "negative"
                raise UsageError(
                    f"{self.id}: every label of {grouping.name} {group} is {which}, so its errors are not known",
                    hint="leave the group out, or add rows",
                )
            hulls[group] = roc_hull(scores[rows], labels)
        known = grouping.codes >= 0
        target = best_point(list(hulls.values()), float(outcomes.label[known].mean()))
        rules = {group: rule_at(hull, *target) for group, hull in hulls.items()}
        change = GroupThresholds(grouping.name, rules, self.seed)
        return GroupThresholds(grouping.name, rules, self.seed, report=self._report(outcomes, change, target))

    def _report(self, outcomes: Outcomes, change: GroupThresholds, target: tuple[float, float]) -> dict[str, object]:
        after = change.decide(outcomes).prediction
        label = outcomes.label if outcomes.label is not None else after
        accuracy = {name: float((d == label).mean()) for name, d in (("before", outcomes.prediction), ("after", after))}
        return {
            "method": self.id,
            "params": self.params(),
            "concept": change.grouping,
            "false_positive_rate": target[0],
            "true_positive_rate": target[1],
            "rules": change.state()["rules"],
            "accuracy": accuracy,
            "decisions_changed": int(np.count_nonzero(after != outcomes.prediction)),
            "rows": len(outcomes),
        }


def scores_of(outcomes: Outcomes) -> Vector64:
    """Return the scores; of a table without them, the decisions as scores of 0 and 1."""
    return outcomes.prediction.astype(np.float64) if outcomes.score is None else outcomes.score


def roc_hull(scores: Vector64, labels: Decided) -> Hull:
    """Return the upper convex hull of the rates that thresholds reach.

    >>> hull = roc_hull(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, True, False, True]))
    >>> hull.false_positives.tolist(), hull.true_positives.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    values, codes = np.unique(-scores, return_inverse=True)
    hits = np.cumsum(np.bincount(codes, labels.astype(np.float64), len(values))) / labels.sum()
    misses = np.cumsum(np.bincount(codes, (~labels).astype(np.float64), len(values))) / (~labels).sum()
    points = [(0.0, 0.0, np.inf), *zip(misses.tolist(), hits.tolist(), (-values).tolist(), strict=True)]
    kept: list[tuple[float, float, float]] = []
    for point in points:
        while len(kept) > 1 and _turn(kept[-2], kept[-1], point) >= -SAME:
            kept.pop()
        kept.append(point)
    x, y, thresholds = np.array(kept).T
    return Hull(x, y, thresholds)


def _turn(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    """Return a number above 0 if b lies below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def best_point(hulls: list[Hull], positives: float) -> tuple[float, float]:
    """Return the false and true positive rate that all groups can have, with the highest accuracy.

    The region that all groups reach lies below the lowest hull, whose corners are those of the hulls and their
    crossings. Of points with the same accuracy, the first is taken.

    Args:
        hulls: the hull of each group.
        positives: the share of positive labels among all rows.
    """
    corners = np.unique(np.concatenate([hull.false_positives for hull in hulls]))
    places = [corners]
    for one, other in combinations(hulls, 2):
        apart = one.at(corners) - other.at(corners)
        crossing = np.flatnonzero(apart[:-1] * apart[1:] < 0)
        share = apart[crossing] / (apart[crossing] - apart[crossing + 1])
        places.append(corners[crossing] + share * (corners[crossing + 1] - corners[crossing]))
    every = np.unique(np.concatenate(places))
    lowest = np.min([hull.at(every) for hull in hulls], axis=0)
    # A hull rises at its first corner: the highest true positive rate at the place counts.
    accuracy = positives * lowest + (1 - positives) * (1 - every)
    best = int(np.argmax(accuracy > accuracy.max() - SAME))
    return float(every[best]), float(lowest[best])


def rule_at(hull: Hull, false_positive: float, true_positive: float) -> GroupRule:
    """Return the rule by which a group reaches a point below its hull."""
    reached = float(hull.at(np.array([false_positive]))[0])
    above = reached - false_positive
    ignored = 0.0 if above <= SAME else min(1.0, max(0.0, (reached - true_positive) / above))
    x = hull.false_positives
    right = int(np.searchsorted(x, false_positive, side="left"))
    while right + 1 < len(x) and x[right] == x[right + 1]:
        right += 1  # the upper end of a vertical edge
    if x[right] == false_positive:
        threshold = _finite(hull.thresholds[right])
        return GroupRule(ignored, false_positive, threshold, threshold, 1.0)
    left = right - 1
    weight = (false_positive - x[left]) / (x[right] - x[left])
    low, high = (_finite(hull.thresholds[place]) for place in (right, left))
    return GroupRule(ignored, false_positive, low, high, float(weight))


def _finite(threshold: float) -> float:
    """Return a threshold that JSON can hold; no score is as high as the largest number."""
    return float(np.finfo(np.float64).max) if np.isinf(threshold) else float(threshold)
