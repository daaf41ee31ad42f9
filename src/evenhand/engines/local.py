"""The local engine: this process, or several on this machine."""

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
AHEAD = 2  # jobs submitted per worker, so that none waits while results are processed

_function: Callable[[object], object]  # in a worker process: the function of its jobs


class LocalEngine:
    """Runs one job after the other in this process, or `workers` at a time in separate processes.

    Processes are spawned, not forked, because the thread pools of polars and torch do not survive a fork. A script that
    uses several workers therefore needs the guard `if __name__ == "__main__":`.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"workers must be at least 1, got {workers}")
        self.workers = workers

    def __repr__(self) -> str:
        return f"LocalEngine(workers={self.workers})"

    @property
    def here(self) -> bool:
        """True if the jobs run in this process."""
        return self.workers == 1

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the results in the order of the jobs."""
        return iter(map(function, jobs)) if self.workers == 1 else self._in_processes(function, jobs)

    def _in_processes(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        # Imported here because every command imports this module and few start processes.
        from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
        from multiprocessing import get_context

        pool = ProcessPoolExecutor(
            self.workers, get_context("spawn"), initializer=_start_worker, initargs=(_pickle(function),)
        )
        pending: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                pending.append(pool.submit(_run_job, job))
                if len(pending) >= AHEAD * self.workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker process ended before its job was finished",
                hint="if it ran out of memory, use fewer workers; a script needs the guard "
                'if __name__ == "__main__":; the engine ray repeats such jobs',
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Nothing is left running between two calls of `map`."""


def _pickle(function: Callable[[Job], Result]) -> bytes:
    """Pickle the function; the worker unpickles it only after its own set-up."""
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"the function cannot be sent to another process ({error})",
            hint="define functions at the top of a module, use one worker, or the engine ray",
        ) from error


def _start_worker(pickled: bytes) -> None:
    global _function
    from evenhand.engines.processes import end_with_parent

    end_with_parent()
    # Ctrl-C reaches every process of a terminal: the main process reports it, the workers just end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit_threads()
    _function = pickle.loads(pickled)


def _run_job(job: Any) -> Any:
    return _function(job)


# One thread per worker: there are as many workers as cores.
THREAD_VARIABLES = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads() -> None:
    """Limit numerical libraries to one thread unless configured; they read these variables on import."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
