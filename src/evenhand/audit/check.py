"""Limits on an audit, for a team that wants to know when a model gets worse."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evenhand.audit.record import Audit
from evenhand.audit.significance import RowChange, compare
from evenhand.errors import UsageError, unknown_name
from evenhand.measures import Measurement

PATTERN = re.compile(r"(?P<label>.+?)(?:@(?P<stage>[\w.:@-]+))?=(?P<number>[-+.\deE]+)")
Kind = Literal["maximum", "minimum", "baseline"]
By = Literal["value", "interval"]
BY: tuple[By, ...] = ("value", "interval")


@dataclass(frozen=True)
class Limit:
    """One comparison that `check` made: the value it read, the number it is compared with, and whether it holds."""

    label: str
    subject: str
    stage: str
    kind: Kind
    limit: float | None
    value: float | None
    holds: bool
    reason: str = ""
    interval: tuple[float, float] | None = None
    by: By = "value"
    p_value: float | None = None
    """Against a baseline: the corrected p-value of the change."""
    paired: bool | None = None
    """Against a baseline: whether both values were compared on the same units; None where nothing was tested."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def check(
    audit: Audit,
    *,
    maximum: Iterable[str] = (),
    minimum: Iterable[str] = (),
    baseline: Audit | None = None,
    stages: Collection[str] = (),
    by: By = "value",
) -> list[Limit]:
    """Compare an audit with limits "weat-6=0.5" or "weat-6@linear=0.5", and with an earlier audit.

    A limit without a stage applies to every stage, the original included, or to `stages`. `maximum` limits the
    absolute value. With `by="interval"` the limit is on the end of the 95 % interval that is nearer to it, because a
    value can be inside by luck. An undefined measurement, and one marked as not interpretable, does not hold: a check
    that cannot be made has not been passed. Against a baseline, a row fails when it is significantly worse (see
    `audit.significance`), and when it is undefined or not interpretable now and was neither before.

    Args:
        audit: the record that is checked.
        maximum: limits on absolute values.
        minimum: limits on values from below.
        baseline: an earlier audit.
        stages: the stages that are checked; empty for all.
        by: whether limits are on the value or on the end of its interval.
    """
    if by not in BY:
        raise unknown_name("way to check", by, BY)
    if unknown := [stage for stage in stages if stage not in audit.stage_names]:
        raise unknown_name("stage", unknown[0], audit.stage_names)
    chosen = tuple(stages) or audit.stage_names
    limits = [limit for text in maximum for limit in _limits(audit, text, "maximum", chosen, by)]
    limits += [limit for text in minimum for limit in _limits(audit, text, "minimum", chosen, by)]
    if baseline is not None:
        limits += [limit for limit in _against(audit, baseline) if limit.stage in chosen]
    return limits


def _limits(audit: Audit, text: str, kind: Kind, stages: tuple[str, ...], by: By) -> list[Limit]:
    label, stage, number = parse_limit(text)
    row = audit.find_label(label)
    return [
        _limit(audit.get(row, name, subject), row, subject, name, kind, number, by)
        for subject in audit.subjects
        if row in audit.rows(subject)
        for name in ((stage,) if stage else stages)
    ]


def _limit(measurement: Measurement, row: str, subject: str, stage: str, kind: Kind, number: float, by: By) -> Limit:
    value, interval = measurement.value, measurement.interval
    holds, reason = False, ""
    if value is None:
        reason = f"undefined: {measurement.reason}"
    elif measurement.not_interpretable:
        reason = measurement.not_interpretable
    elif by == "interval" and interval is None:
        reason = "it has no interval"
    else:
        ends = interval if by == "interval" and interval is not None else (value, value)
        holds = max(map(abs, ends)) <= number if kind == "maximum" else min(ends) >= number
        side = "above" if kind == "maximum" else "below"
        reason = "" if holds else f"{'its interval is ' if by == 'interval' else ''}{side} its {kind}"
    return Limit(row, subject, stage, kind, number, value, holds, reason, interval, by)


def _against(audit: Audit, baseline: Audit) -> list[Limit]:
    changes = compare(baseline, audit)
    if not changes:
        raise UsageError("the two audits have no row in common", hint="run both with the same measures and concept")
    return [_limit_of_change(change) for change in changes]


def _limit_of_change(change: RowChange) -> Limit:
    before, after = change.before, change.after
    holds, reason = True, ""
    if after.value is None:
        holds, reason = before.value is None, f"undefined: {after.reason}"
    elif after.not_interpretable:
        holds, reason = bool(before.not_interpretable), after.not_interpretable
    elif change.verdict == "worse":
        holds, reason = False, "significantly worse than the baseline"
    elif change.p is None and change.change:
        reason = "the change was not tested"
    return Limit(
        change.label, change.subject, change.stage, "baseline", before.value, after.value, holds, reason,
        after.interval, "value", change.p, None if change.p is None else change.paired,
    )  # fmt: skip


def parse_limit(text: str) -> tuple[str, str, float]:
    """Return label, stage (may be empty) and number of one limit."""
    match = PATTERN.fullmatch(text)
    try:
        if match:
            return match["label"], match["stage"] or "", float(match["number"])
    except ValueError:
        pass
    raise UsageError(f"{text!r} is not a limit", hint='write "weat-6=0.5", or "weat-6@linear=0.5" for a stage')
