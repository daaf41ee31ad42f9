"""The accuracy of decisions: what a change of them costs."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError
from evenhand.measures.call import Call, measure
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.outcomes import Decided, Outcomes
from evenhand.stats import share_interval
from evenhand.stats.group_rates import GroupCounts
from evenhand.stats.units import rate_units

INFO = Info(
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
)


@measure(INFO)
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
