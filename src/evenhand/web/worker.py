"""Computations in worker threads, with a time limit, and a bounded cache of their results."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

from evenhand.errors import EvenhandError

Computed = TypeVar("Computed")


class BusyError(EvenhandError):
    """The page computes as much as it may already."""


class SlowError(EvenhandError):
    """A computation takes longer than the page waits; it goes on, and its result is kept."""


class PageWorker:
    """A few threads that answer requests, with a limit on how many wait.

    A thread cannot be stopped. An answer that takes too long is given up, its computation ends in the background and
    leaves its result in the cache, and until then it counts as waiting.
    """

    def __init__(self, *, threads: int, seconds: float, waiting: int) -> None:
        self.seconds, self.waiting = seconds, waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="evenhand-page")
        self._pending: set[Future[object]] = set()

    async def run(self, compute: Callable[[], Computed]) -> Computed:
        """Return the result of a computation.

        Raises:
            BusyError: If too many computations are waiting.
            SlowError: If this one takes longer than the limit.
        """
        if len(self._pending) >= self.waiting:
            raise BusyError("the page is busy with other computations", hint="try again in a few seconds")
        future = self._pool.submit(compute)
        kept = cast("Future[object]", future)
        self._pending.add(kept)
        future.add_done_callback(lambda _: self._pending.discard(kept))
        wrapped = asyncio.wrap_future(future)
        try:
            return await asyncio.wait_for(asyncio.shield(wrapped), self.seconds)
        except TimeoutError:
            wrapped.add_done_callback(lambda late: late.cancelled() or late.exception())  # nobody waits for it
            raise SlowError(
                f"this takes longer than {self.seconds:g} seconds",
                hint="it goes on in the background; reload the page in a while",
            ) from None

    def close(self) -> None:
        """Stop accepting work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class BoundedCache:
    """The results used last, up to a number of entries and of bytes; a result that is asked for twice is made once."""

    def __init__(self, entries: int, bytes: int = 0) -> None:
        self.entries, self.bytes = entries, bytes
        self._kept: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(
        self, key: Hashable, make: Callable[[], Computed], *, size: Callable[[Computed], int] | None = None
    ) -> Computed:
        """Return the result kept under a key, making and keeping it where it is missing."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast(Computed, self._kept[key][0])
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._kept:  # made while this thread waited
                    return cast(Computed, self._kept[key][0])
            try:
                result = make()
            finally:
                with self._lock:
                    self._making.pop(key, None)
            with self._lock:
                self._kept[key] = (result, size(result) if size else 0)
                self._shrink()
        return result

    def _shrink(self) -> None:
        while len(self._kept) > 1 and (
            len(self._kept) > self.entries or (self.bytes and sum(size for _, size in self._kept.values()) > self.bytes)
        ):
            self._kept.popitem(last=False)
