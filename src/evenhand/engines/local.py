"""This machine: in the process itself, or in several."""

from __future__ import annotations

import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from evenhand.errors import UsageError, WorkerError

if TYPE_CHECKING:
    from concurrent.futures import Future

Job = TypeVar("Job")
Result = TypeVar("Result")
AHEAD = 2  # jobs given out for each worker, so that none waits while results are taken in

_function: Callable[[Any], Any]  # in a worker process: what it was started for


class LocalEngine:
    """One job after the other in this process, or `workers` of them at a time, each in a process of its own.

    Processes start afresh rather than as copies (spawn): the thread pools underneath polars and torch do not survive
    a fork. A script that uses several must therefore be guarded by `if __name__ == "__main__":`.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"there must be at least 1 worker, got {workers}")
        self.workers = workers

    def __repr__(self) -> str:
        return f"LocalEngine(workers={self.workers})"

    @property
    def here(self) -> bool:
        """Whether the jobs are done in this process."""
        return self.workers == 1

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """The results in the order of the jobs."""
        return iter(map(function, jobs)) if self.workers == 1 else self._in_processes(function, jobs)

    def _in_processes(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        # Imported here: every command of ours passes this module, few start processes.
        from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
        from multiprocessing import get_context

        pool = ProcessPoolExecutor(
            self.workers, get_context("spawn"), initializer=_begin, initargs=(_packed(function),)
        )
        waiting: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(_work, job))
                if len(waiting) >= AHEAD * self.workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker process ended before its job was done",
                hint="if the system ended it for memory, use fewer workers; a script needs the guard "
                'if __name__ == "__main__":; the engine ray does such jobs again',
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Nothing is left running between two calls of `map`."""


def _packed(function: Callable[[Any], Any]) -> bytes:
    """The function as bytes: it is opened in the worker only after the worker has been set up."""
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"this cannot be sent to another process ({error})",
            hint="define functions at the top of a module, use one worker, or the engine ray",
        ) from error


def _begin(packed: bytes) -> None:
    global _function
    # Ctrl-C reaches every process of a terminal: the one that gave out the jobs tells of it, the others just end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    one_thread_each()
    _function = pickle.loads(packed)


def _work(job: Any) -> Any:
    return _function(job)


# One thread in each worker: there are as many workers as cores.
LIMITS = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each() -> None:
    """Tell the numerical libraries, which read these when they are first imported; what is set already stays."""
    for name in LIMITS:
        os.environ.setdefault(name, "1")
