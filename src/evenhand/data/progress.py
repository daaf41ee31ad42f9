"""How a long download says where it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called now and then with the bytes that are here and, where the server says it, how many there will be."""

    def __call__(self, done: int, total: int | None, /) -> None:
        """Take note of the bytes done so far."""


def silent(done: int, total: int | None, /) -> None:
    """Report nothing."""
