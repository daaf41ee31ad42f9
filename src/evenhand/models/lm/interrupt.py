"""Ctrl-C as a question: what is under way finishes its step, keeps its state and then stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed in the block; a second time it interrupts at once.

    Only where Python's own handler is at work: a program that does something of its own on the signal goes on doing it,
    and other threads than the first cannot have one.
    """
    asked: list[int] = []

    def heard(number: int, _: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    first = threading.current_thread() is threading.main_thread()
    if not first or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, heard)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
