"""Numbers as people read them: three significant digits, more where an interval is narrow, p-values never 0."""

from __future__ import annotations

import math

from evenhand.measures.measurement import Measurement

MOST_DECIMALS = 6


def digits_for(size: float) -> int:
    """Return the decimals that show about three significant digits."""
    return 3 if size < 1 else 2 if size < 100 else 1


def number(value: float | None, digits: int | None = None) -> str:
    """Format a value in plain notation where that is short; never -0."""
    if value is None:
        return "–"
    size = abs(value)
    if size < 5e-7:
        return "0"
    if digits is None and size >= 1000:
        return f"{value:,.0f}"
    if digits is None and size < 0.001:
        return f"{value:.1e}"
    return f"{value:z.{digits_for(size) if digits is None else digits}f}"


def _shared_digits(measurement: Measurement) -> int | None:
    """Return the decimals of a value and its interval: those of the value, or more until the ends differ by two units.

    None without an interval.
    """
    if not measurement.interval:
        return None
    low, high = measurement.interval
    size = max(abs(measurement.value or 0.0), abs(low), abs(high))
    digits = digits_for(abs(measurement.value or size)) if size < 1000 else 0
    return max(digits, min(math.ceil(-math.log10((high - low) / 2)), MOST_DECIMALS)) if high > low else digits


def value(measurement: Measurement) -> str:
    """Format the value, with the decimals of its interval where there is one, so that it lies inside."""
    digits = _shared_digits(measurement)
    if not digits or not measurement.value:
        return number(measurement.value)
    text = number(measurement.value, digits)
    if float(text) == 0 and measurement.interval:  # a small value in a wide interval keeps its own digits
        low, high = (float(number(end, digits)) for end in measurement.interval)
        return number(measurement.value) if low <= measurement.value <= high else text
    return text


def interval(measurement: Measurement) -> str:
    """Format the 95 % interval with the decimals of the value, or as many as it needs; empty without one."""
    if not measurement.interval:
        return ""
    low, high = (number(end, _shared_digits(measurement)) for end in measurement.interval)
    return f"[{low}, {high}]"


def p_value(measurement: Measurement) -> str:
    """Format the p-value with its sign; empty without one."""
    return "" if measurement.p_value is None else format_p(measurement.p_value)


def format_p(p: float) -> str:
    """Format a p-value with three decimals; never 0, never above 1, and never as .050 where it is below .05."""
    if p < 0.05 and round(p, 3) >= 0.05:
        return "p < .05"
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)


def mark(measurement: Measurement) -> str:
    """Return the mark of a value that is not a score of bias, such as one whose controls failed; empty without one."""
    return "not interpretable" if measurement.not_interpretable else ""


def words(measurement: Measurement) -> str:
    """Format words found of words asked; the number of observations where no list of words was asked."""
    return str(measurement.coverage) if measurement.coverage.asked else f"n {measurement.n:,}"


def cell(measurement: Measurement) -> str:
    """Format value, interval, p-value and mark on one line."""
    if measurement.status != "ok":
        return "undefined"
    parts = (value(measurement), interval(measurement), p_value(measurement), mark(measurement))
    return " ".join(filter(None, parts))
