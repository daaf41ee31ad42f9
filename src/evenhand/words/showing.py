"""How messages and records show the values they are about."""

from __future__ import annotations

from collections.abc import Iterable


def few(items: Iterable[str], *, most: int = 3) -> str:
    """The first few items, for the one line that a record shows of itself."""
    every = list(items)
    return ", ".join(every[:most]) + (", ..." if len(every) > most else "")


def shown(value: object, *, most: int = 60) -> str:
    """The value as Python writes it, cut to a readable length."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python refuses to write out integers of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."
