"""What an engine does, and how one is found by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from evenhand.engines.local import LocalEngine
from evenhand.engines.ray import RayEngine
from evenhand.errors import UsageError, unknown_name

Job = TypeVar("Job")
Result = TypeVar("Result")
NAMES = ("local", "ray")


class Engine(Protocol):
    """Calls a function on many jobs. Close it when done; that ends only what it started."""

    @property
    def here(self) -> bool:
        """Whether the jobs are done in this process, while the caller waits."""

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """The results in the order of the jobs; only a bounded number of jobs and results is held at a time.

        The function is sent to each worker once, the jobs one by one: what all jobs share belongs into the function.
        Closing the iterator before its end gives up the jobs that are left.
        """

    def close(self) -> None:
        """End the workers that this engine started."""


def engine(name: str = "local", *, workers: int | None = None, address: str | None = None) -> Engine:
    """`local` works in this process, or in `workers` processes; `ray` on a cluster by address, or on one of its own."""
    if name not in NAMES:
        raise unknown_name("engine", name, NAMES)
    if name == "ray":
        return RayEngine(address, workers=workers)
    if address is not None:
        raise UsageError(f"the local engine has no address, got {address!r}", hint="choose the engine ray (--engine)")
    return LocalEngine(1 if workers is None else workers)


@contextmanager
def opened(given: str | Engine, *, workers: int | None = None, address: str | None = None) -> Iterator[Engine]:
    """An engine by name, closed at the end; or one that the caller made and will close."""
    if not isinstance(given, str):
        yield given
        return
    made = engine(given, workers=workers, address=address)
    try:
        yield made
    finally:
        made.close()
