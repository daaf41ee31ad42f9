"""The engine protocol, engines by name, and the local engine: this process, or several on this machine."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from evenhand.errors import UsageError, WorkerError, unknown_name

if TYPE_CHECKING:
    from concurrent.futures import Future


_Job = TypeVar("_Job")
_Result = TypeVar("_Result")
NAMES = ("local", "ray")
Gpus = float | Literal["auto"]
"""What a Ray engine reserves for one job."""


class Engine(Protocol):
    """Calls a function on many jobs. Close it when done, which ends only what it started."""

    @property
    def here(self) -> bool:
        """True if the jobs run in this process while the caller waits."""

    def map(self, function: Callable[[_Job], _Result], jobs: Iterable[_Job]) -> Iterator[_Result]:
        """Yield the results in the order of the jobs; a bounded number of jobs and results is held at a time.

        The function is sent to each worker once, the jobs one by one: data shared by all jobs belongs in the function.
        Workers keep a `ResidentFunction` between two calls. Closing the iterator early cancels the remaining jobs.
        """

    def close(self) -> None:
        """End the workers that this engine started."""


def engine(name: str = "local", *, workers: int | None = None, address: str | None = None, gpus: Gpus = 0) -> Engine:
    """Return the engine `local` (this process, or `workers` processes) or `ray` (an existing cluster, or a new one).

    `gpus` are what a Ray engine reserves for one job; `auto` is one where the cluster has any.
    """
    if name not in NAMES:
        raise unknown_name("engine", name, NAMES)
    if name == "ray":
        from evenhand.engines.ray import RayEngine

        return RayEngine(address, workers=workers, gpus=gpus)
    if address is not None:
        raise UsageError(f"the local engine has no address, got {address!r}", hint="choose another: `engine='ray'`")
    return LocalEngine(1 if workers is None else workers)


@contextmanager
def open_engine(
    chosen: str | Engine,
    *,
    workers: int | None = None,
    address: str | None = None,
    gpus: Gpus = 0,
    protect_stdout: bool = False,
) -> Iterator[Engine]:
    """Open an engine by name and close it at the end; an engine object is left open for its owner.

    With `protect_stdout`, everything that the libraries of a Ray engine print to stdout goes to stderr: Ray reports
    workers that die there, between the lines of a result.
    """
    if not isinstance(chosen, str):
        yield chosen
        return
    opened = engine(chosen, workers=workers, address=address, gpus=gpus)
    with _stdout_to_stderr() if protect_stdout and chosen == "ray" else nullcontext():
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send file descriptor 1 to stderr for a while, including what child processes and C libraries write."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


class ResidentFunction(Generic[_Job, _Result]):
    """A function that is costly to send or to set up, such as one that loads a model.

    A Ray cluster receives it with the first call of `map`, and its workers keep the last few. The function must not
    change after that.
    """

    def __init__(self, function: Callable[[_Job], _Result]) -> None:
        self.function = function
        self.key = os.urandom(8).hex()

    def __call__(self, job: _Job) -> _Result:
        """Run a job."""
        return self.function(job)


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

    def map(self, function: Callable[[_Job], _Result], jobs: Iterable[_Job]) -> Iterator[_Result]:
        """Yield the results in the order of the jobs."""
        return iter(map(function, jobs)) if self.workers == 1 else self._in_processes(function, jobs)

    def _in_processes(self, function: Callable[[_Job], _Result], jobs: Iterable[_Job]) -> Iterator[_Result]:
        # Imported here because every command imports this module and few start processes.
        from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
        from multiprocessing import get_context

        pool = ProcessPoolExecutor(
            self.workers, get_context("spawn"), initializer=_start_worker, initargs=(_pickle(function),)
        )
        pending: deque[Future[_Result]] = deque()
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


def _pickle(function: Callable[[_Job], _Result]) -> bytes:
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


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def threads() -> int:
    """Return how many threads a computation may use: as many as there are cores, or fewer by OMP_NUM_THREADS."""
    configured = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), int(configured)) if configured.isdigit() and int(configured) else cores()


# One thread per worker: there are as many workers as cores.
THREAD_VARIABLES = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads() -> None:
    """Limit numerical libraries to one thread unless configured; they read these variables on import."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
