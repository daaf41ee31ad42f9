"""Limits on an audit, for a team that wants to know when a model gets worse."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from evenhand.audit.record import ORIGINAL, Audit
from evenhand.errors import UsageError

LIMIT = re.compile(r"(?P<label>.+?)(?:@(?P<stage>[\w.-]+))?=(?P<limit>[-+.\deE]+)")


@dataclass(frozen=True)
class Breach:
    """A limit that an audit exceeds, or could not be held against."""

    label: str
    stage: str
    value: float | None
    limit: float
    why: str


def check(audit: Audit, *, maximum: Iterable[str] = (), minimum: Iterable[str] = ()) -> list[Breach]:
    """Every limit "weat-6=0.5" or "weat-6@linear=0.5" that does not hold. `maximum` limits the absolute value.

    An undefined measurement breaks its limit: a check that cannot be made has not been passed.
    """
    breaches = []
    for text, upper in [*((text, True) for text in maximum), *((text, False) for text in minimum)]:
        label, stage, limit = parse(text)
        found = audit.get(label, stage)
        if found.value is None:
            breaches.append(Breach(label, stage, None, limit, f"undefined: {found.reason}"))
        elif upper and abs(found.value) > limit:
            breaches.append(Breach(label, stage, found.value, limit, "above its maximum"))
        elif not upper and found.value < limit:
            breaches.append(Breach(label, stage, found.value, limit, "below its minimum"))
    return breaches


def parse(text: str) -> tuple[str, str, float]:
    """Label, stage and number of one limit."""
    found = LIMIT.fullmatch(text)
    try:
        if found:
            return found["label"], found["stage"] or ORIGINAL, float(found["limit"])
    except ValueError:
        pass
    raise UsageError(f"{text!r} is no limit", hint='write "weat-6=0.5", or "weat-6@linear=0.5" for a stage')
