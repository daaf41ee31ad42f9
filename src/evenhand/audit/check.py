"""Limits on an audit, for a team that wants to know when a model gets worse."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evenhand.audit.comparison import RowChange, compare
from evenhand.audit.record import ORIGINAL, Audit
from evenhand.errors import UsageError

PATTERN = re.compile(r"(?P<label>.+?)(?:@(?P<stage>[\w.:@-]+))?=(?P<number>[-+.\deE]+)")
Kind = Literal["maximum", "minimum", "baseline"]


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def check(
    audit: Audit,
    *,
    maximum: Iterable[str] = (),
    minimum: Iterable[str] = (),
    baseline: Audit | None = None,
) -> list[Limit]:
    """Compare an audit with limits "weat-6=0.5" or "weat-6@linear=0.5", and with an earlier audit.

    Without a stage a limit applies to every mitigated stage, or to the original where nothing was mitigated. `maximum`
    limits the absolute value. An undefined measurement, and one marked as not interpretable, does not hold: a check
    that cannot be made has not been passed. Against a baseline, a row fails when it is worse beyond the intervals, and
    when it is undefined or not interpretable now and was neither before.
    """
    limits = [limit for text in maximum for limit in _limits(audit, text, "maximum")]
    limits += [limit for text in minimum for limit in _limits(audit, text, "minimum")]
    if baseline is not None:
        limits += _against(audit, baseline)
    return limits


def _limits(audit: Audit, text: str, kind: Kind) -> list[Limit]:
    label, stage, number = parse_limit(text)
    row = audit.find_label(label)
    stages = (stage,) if stage else audit.mitigated or (ORIGINAL,)
    chosen = [(subject, name) for subject in audit.subjects for name in stages if row in audit.rows(subject)]
    return [_limit(audit, row, subject, name, kind, number) for subject, name in chosen]


def _limit(audit: Audit, row: str, subject: str, stage: str, kind: Kind, number: float) -> Limit:
    measurement = audit.get(row, stage, subject)
    value = measurement.value
    if value is None:
        return Limit(row, subject, stage, kind, number, None, False, f"undefined: {measurement.reason}")
    if measurement.not_interpretable:
        return Limit(row, subject, stage, kind, number, value, False, measurement.not_interpretable)
    holds = abs(value) <= number if kind == "maximum" else value >= number
    reason = "" if holds else f"{'above' if kind == 'maximum' else 'below'} its {kind}"
    return Limit(row, subject, stage, kind, number, value, holds, reason)


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
        holds, reason = False, "worse than the baseline, beyond the intervals"
    return Limit(change.label, change.subject, change.stage, "baseline", before.value, after.value, holds, reason)


def parse_limit(text: str) -> tuple[str, str, float]:
    """Return label, stage (may be empty) and number of one limit."""
    match = PATTERN.fullmatch(text)
    try:
        if match:
            return match["label"], match["stage"] or "", float(match["number"])
    except ValueError:
        pass
    raise UsageError(f"{text!r} is not a limit", hint='write "weat-6=0.5", or "weat-6@linear=0.5" for a stage')
