"""The arrays a map keeps: checked once, in double precision, never written again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.errors import UsageError


def frozen(values: Any, *, ndim: int, what: str) -> Matrix64:
    """A read-only float64 copy; a wrong number of axes, NaN or infinity is an error that names the array."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} must be numbers in a regular array: {error}") from error
    if array.ndim != ndim:
        raise UsageError(f"{what} must have {ndim} axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise UsageError(f"{what} holds NaN or infinity")
    array.flags.writeable = False
    return array


def same_length(first: int, second: int, *, what: str) -> None:
    """An error when two sizes that must agree do not."""
    if first != second:
        raise UsageError(f"{what} do not fit: {first} against {second}")


def plain_words(words: Iterable[str], *, what: str) -> tuple[str, ...]:
    """The words without repeats, in their order; one string in place of a list is an error."""
    if isinstance(words, str):
        raise UsageError(f"{what} takes a list of words, got the string {words!r}", hint=f"write [{words!r}]")
    return tuple(dict.fromkeys(words))
