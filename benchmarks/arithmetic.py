"""The arithmetic of the benchmark: ratios with their spread, exponents of growth, floors, agreement of results."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from operation import Work

RATES = {"flop": "flop_per_s", "copied": "copied_bytes_per_s", "read": "read_bytes_per_s", "lookups": "lookups_per_s"}


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the ratio of the medians, and the smallest and largest ratio of neighbouring runs."""
    pairs = [their / our for our, their in zip(ours, theirs, strict=True)]
    return statistics.median(theirs) / statistics.median(ours), min(pairs), max(pairs)


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds on log size by least squares: the exponent of growth."""
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    x_mean, y_mean = statistics.mean(xs), statistics.mean(ys)
    products = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return products / sum((x - x_mean) ** 2 for x in xs)


def exponent(sizes: Sequence[float], repeats: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the slope of the median seconds, and the smallest and largest slope of a single repeat."""
    medians = [statistics.median(column) for column in zip(*repeats, strict=True)]
    slopes = [slope(sizes, row) for row in repeats]
    return slope(sizes, medians), min(slopes), max(slopes)


def floor(work: Work, machine: Mapping[str, float]) -> tuple[float, str]:
    """Return the seconds below which the machine cannot do the work, and which part of it takes them.

    The parts can overlap, so that the floor is the slowest of them.
    """
    amounts = asdict(work)
    parts = {name: amounts[name] / machine[rate] for name, rate in RATES.items()}
    parts["starts"] = work.starts * machine["start_seconds"]
    parts["bare_starts"] = work.bare_starts * machine["bare_start_seconds"]
    slowest = max(parts, key=lambda name: parts[name])
    return parts[slowest], slowest


def difference(ours: object, theirs: object) -> float:
    """Return the largest difference of two results, absolute or relative, whichever is smaller for a number."""
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            return math.inf
        return max((difference(one, other) for one, other in zip(ours, theirs, strict=True)), default=0.0)
    if not isinstance(ours, (int, float)) or not isinstance(theirs, (int, float)):
        return math.inf
    apart = abs(ours - theirs)
    return apart / max(1.0, abs(ours), abs(theirs)) if math.isfinite(apart) else math.inf
