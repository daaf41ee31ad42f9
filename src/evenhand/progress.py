"""The callback by which long operations report how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of finished parts, the number of all parts and a short description."""

_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def followed(listener: Progress | None) -> Iterator[None]:
    """Let a function hear how far operations are that are called meanwhile, however deep, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(done: int, total: int, unit: str) -> None:
    """Tell whoever follows how far an operation is: texts written, texts read."""
    if listener := _listener.get():
        listener(done, total, unit)
