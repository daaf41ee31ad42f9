"""Numbers as people read them: three significant digits, a p-value that is never 0."""

from __future__ import annotations

from evenhand.measures import Measurement


def number(value: float | None) -> str:
    """Three significant digits, plain notation where it stays short."""
    if value is None:
        return "–"
    if value == 0 or abs(value) < 5e-7:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    digits = 3 if size < 1 else 2 if size < 100 else 1
    return f"{value:.{digits}f}" if size >= 0.001 else f"{value:.1e}"


def interval(measurement: Measurement) -> str:
    """The 95 % interval, or nothing."""
    if not measurement.interval:
        return ""
    digits = 2 if max(map(abs, measurement.interval)) >= 0.1 else 3
    return f"[{measurement.interval[0]:.{digits}f}, {measurement.interval[1]:.{digits}f}]"


def p_value(measurement: Measurement) -> str:
    """The p-value with its sign, or nothing."""
    p = measurement.p_value
    if p is None:
        return ""
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)


def words(measurement: Measurement) -> str:
    """Words found of words asked."""
    return str(measurement.coverage)
