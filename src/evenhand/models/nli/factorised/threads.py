"""Blocks of a probe shared out among threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from evenhand.models.nli.backend import Backend
from evenhand.models.nli.protocol import Grid


def shared_out(jobs: Iterator[Callable[[], Grid]], backend: Backend) -> Iterator[Grid]:
    """The jobs' results in order, a few of them in work at any time."""
    if backend.workers < 2:
        with backend.alone():
            yield from (job() for job in jobs)
        return
    with backend.alone(), ThreadPoolExecutor(backend.workers) as pool:
        waiting: deque[Future[Grid]] = deque()
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > backend.workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
