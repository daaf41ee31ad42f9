"""Limits by hand: which end of an interval counts, boundaries, stages, subjects, and what a baseline says."""

from __future__ import annotations

import pytest

import evenhand as eh
from evenhand.audit import Limit, check
from evenhand.audit.check import parse_limit
from evenhand.errors import UnknownNameError, UsageError
from made_audits import audit_of, measured, result

FAILED = {"not_interpretable": "controls failed"}


def weat(value: float | None, half: float | None = None, query: str = "weat-6", **more: object) -> eh.Measurement:
    return measured("weat", value, half, query=query, **more)


def limits(m: eh.Measurement, **asked: object) -> Limit:
    (found,) = check(audit_of([result("original", m)]), **asked)
    return found


@pytest.mark.parametrize(
    ("value", "half", "kind", "number", "by", "holds", "reason"),
    [
        (0.5, None, "maximum", 0.5, "value", True, ""),
        (-0.5, 0.1, "maximum", 0.5, "value", True, ""),
        (-0.5, 0.1, "maximum", 0.49, "value", False, "above its maximum"),
        (0.5, 0.25, "maximum", 0.75, "interval", True, ""),
        (-0.5, 0.25, "maximum", 0.75, "interval", True, ""),
        (-0.5, 0.25, "maximum", 0.7, "interval", False, "its interval is above its maximum"),
        (0.5, None, "minimum", 0.5, "value", True, ""),
        (0.5, 0.1, "minimum", 0.51, "value", False, "below its minimum"),
        (0.5, 0.25, "minimum", 0.25, "interval", True, ""),
        (0.5, 0.25, "minimum", 0.26, "interval", False, "its interval is below its minimum"),
        (0.5, None, "minimum", 0.1, "interval", False, "it has no interval"),
        (None, None, "minimum", 0.1, "value", False, "undefined: no words"),
    ],
)
def test_limits_on_values_and_intervals(
    value: float | None, half: float | None, kind: str, number: float, by: str, holds: bool, reason: str
) -> None:
    m = weat(value, half)
    made = limits(m, by=by, **{kind: [f"weat-6={number}"]})
    assert made == Limit("weat-6", "v", "original", kind, number, value, holds, reason, m.interval, by)
    assert made.to_dict() == {
        "label": "weat-6", "subject": "v", "stage": "original", "kind": kind, "limit": number, "value": value,
        "holds": holds, "reason": reason, "interval": m.interval, "by": by, "p_value": None, "paired": None,
    }  # fmt: skip


def test_a_score_that_says_nothing_does_not_hold() -> None:
    made = limits(weat(0.0, 0.1, details=FAILED), maximum=["weat-6=9"])
    assert (made.holds, made.reason) == (False, "controls failed")


def test_limits_go_to_every_subject_that_has_the_row_and_to_the_named_stage() -> None:
    rows = [
        result("original", weat(0.5), subject="a"), result("linear", weat(0.2), subject="a"),
        result("original", weat(0.6), subject="b"), result("linear", weat(0.1), subject="b"),
        result("original", weat(0.6, query="weat-7"), subject="b"), result("linear", weat(0.6, query="weat-7"), subject="b"),
    ]  # fmt: skip
    audit = audit_of(rows)

    def places(**asked: object) -> list[tuple[str, str, str]]:
        return [(one.label, one.subject, one.stage) for one in check(audit, **asked)]

    every = [("weat-6", subject, stage) for subject in "ab" for stage in ("original", "linear")]
    assert places(maximum=["weat-6=1"]) == every
    assert places(maximum=["weat-6@linear=1"]) == [every[1], every[3]]
    assert places(maximum=["weat-6=1"], stages=["linear"]) == [every[1], every[3]]
    assert places(maximum=["weat-7@original=1"], minimum=["weat-6@linear=0", "weat-7@linear=0"]) == [
        ("weat-7", "b", "original"), every[1], every[3], ("weat-7", "b", "linear")
    ]  # fmt: skip
    assert places() == []
    assert places(baseline=audit, stages=["linear"]) == [
        ("weat-6", "a", "linear"), ("weat-6", "b", "linear"), ("weat-7", "b", "linear")
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match="stage 'hard'"):
        check(audit, stages=["linear", "hard"])
    with pytest.raises(UnknownNameError, match="way to check"):
        check(audit, by="luck")


def against(before: eh.Measurement, after: eh.Measurement) -> Limit:
    return limits(after, baseline=audit_of([result("original", before)]))


def test_what_a_baseline_says() -> None:
    worse = against(weat(0.5, 0.05), weat(1.0, 0.05))
    assert worse == Limit(
        "weat-6", "v", "original", "baseline", 0.5, 1.0, False, "significantly worse than the baseline",
        (0.95, 1.05), "value", worse.p_value, False,
    )  # fmt: skip
    assert 0 < worse.p_value < 1e-6
    better = against(weat(1.0, 0.05), weat(0.5, 0.05))
    assert (better.holds, better.reason, better.paired) == (True, "", False)
    undefined = against(weat(0.5), weat(None))
    assert (undefined.holds, undefined.reason) == (False, "undefined: no words")
    both = against(weat(None), weat(None))
    assert (both.holds, both.reason, both.p_value, both.paired) == (True, "undefined: no words", None, None)
    failed = against(weat(0.5), weat(0.5, details=FAILED))
    assert (failed.holds, failed.reason) == (False, "controls failed")
    assert against(weat(0.5, details=FAILED), weat(0.5, details=FAILED)).holds
    untested = against(weat(0.5), weat(0.9))
    assert (untested.holds, untested.reason, untested.p_value, untested.paired) == (
        True, "the change was not tested", None, None,
    )  # fmt: skip
    same = against(weat(0.5), weat(0.5))
    assert (same.holds, same.reason, same.interval) == (True, "", None)
    exact = against(weat(0.5, 0.0), weat(0.9, 0.0))
    assert (exact.holds, exact.reason, exact.p_value, exact.paired) == (True, "", 1.0, False)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("weat-6=0.5", ("weat-6", "", 0.5)),
        ("weat-6@linear=-1.5e-3", ("weat-6", "linear", -0.0015)),
        ("a:b@leace@layer:4.hard=+2", ("a:b", "leace@layer:4.hard", 2.0)),
        ("a=b=3", ("a=b", "", 3.0)),
    ],
)
def test_a_limit_in_words(text: str, parts: tuple[str, str, float]) -> None:
    assert parse_limit(text) == parts


@pytest.mark.parametrize("text", ["weat-6=1-2", "weat-6=e", "=1", "weat-6"])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(UsageError, match="is not a limit"):
        parse_limit(text)
