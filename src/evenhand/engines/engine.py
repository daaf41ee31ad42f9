"""The engine protocol, and engines by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Protocol, TypeVar

from evenhand.engines.local import LocalEngine
from evenhand.engines.ray import Gpus, RayEngine
from evenhand.errors import UsageError, unknown_name

Job = TypeVar("Job")
Result = TypeVar("Result")
NAMES = ("local", "ray")


class Engine(Protocol):
    """Calls a function on many jobs. Close it when done, which ends only what it started."""

    @property
    def here(self) -> bool:
        """True if the jobs run in this process while the caller waits."""

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the results in the order of the jobs; a bounded number of jobs and results is held at a time.

        The function is sent to each worker once, the jobs one by one: data shared by all jobs belongs in the function.
        Workers keep a `KeptFunction` between two calls. Closing the iterator early cancels the remaining jobs.
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
