"""A Ray cluster: one that is there, or a small one on this machine for the time of the work."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from evenhand.engines.local import one_thread_each
from evenhand.errors import UsageError, WorkerError, require

Job = TypeVar("Job")
Result = TypeVar("Result")
RETRIES = 3
AHEAD = 2  # jobs given out for each core of the cluster
PATIENCE = 10.0  # seconds

_function: tuple[str, Callable[[Any], Any]] = ("", repr)  # in a worker: what it was sent last, with its key


class RayEngine:
    """Jobs as Ray tasks: a job whose worker dies is done again elsewhere, up to three times.

    `address` names a cluster ("auto", "10.0.0.1:6379", "ray://head:10001"); unless given it is that of RAY_ADDRESS, and
    without one a cluster starts on this machine, with `workers` cores or all, and ends with `close`. On a cluster that
    is there `workers` limits how many jobs run at a time. The workers need the same version of this package. `cpus` and
    `gpus` are what Ray sets aside for one job.
    """

    def __init__(
        self, address: str | None = None, *, workers: int | None = None, cpus: float = 1, gpus: float = 0
    ) -> None:
        if workers is not None and workers < 1:
            raise UsageError(f"there must be at least 1 worker, got {workers}")
        self.address, self.workers, self.cpus, self.gpus = address, workers, cpus, gpus
        self._joined = False
        self._found: bool | None = None  # whether the cluster was there before

    def __repr__(self) -> str:
        return f"RayEngine({self.address or 'of its own'!r})"

    @property
    def here(self) -> bool:
        """Never in this process."""
        return False

    def map(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
        """The results in the order of the jobs."""
        ray = self._ray()
        # Inside a list Ray hands the reference itself to the task, which then fetches the function once per process.
        sent = [ray.put(function)]
        key, here = os.urandom(8).hex(), _version()
        task = ray.remote(_work).options(max_retries=RETRIES, num_cpus=self.cpus, num_gpus=self.gpus)
        waiting: deque[Any] = deque()
        try:
            for job in jobs:
                waiting.append(task.remote(key, sent, here, job))
                if len(waiting) >= self._at_once(ray):
                    yield _result(ray, waiting.popleft())
            while waiting:
                yield _result(ray, waiting.popleft())
        finally:
            for left in waiting:  # not by force: Ray 2.60 then crashes now and then when Ctrl-C reached its workers too
                ray.cancel(left)

    def close(self) -> None:
        """Leave the cluster; one that this engine started ends."""
        if self._joined:
            _module().shutdown()
            self._joined = False

    def _ray(self) -> Any:
        ray = _module()
        if ray.is_initialized():
            self._found = True if self._found is None else self._found
            return ray
        address = self.address or os.environ.get("RAY_ADDRESS")
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if address:
                _knock(address)
                ray.init(address=address, **quiet)
            else:
                ray.init(address="local", num_cpus=self.workers, include_dashboard=False, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise WorkerError(
                f"no Ray cluster at {address!r} ({_last_line(error)})" if address else f"Ray did not start ({error})",
                hint="check the address (--address, RAY_ADDRESS); a cluster that asks for a token wants "
                "RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN here too",
            ) from error
        self._joined, self._found = True, bool(address)
        return ray

    def _at_once(self, ray: Any) -> int:
        """Asked again each time, for a cluster may grow."""
        cores = int(ray.cluster_resources().get("CPU", 1) / max(self.cpus, 1e-3))
        at_once = AHEAD * max(cores, 1)
        return min(at_once, self.workers) if self.workers and self._found else at_once


def _knock(address: str) -> None:
    """An error at once where nobody listens: Ray itself goes on trying for two minutes."""
    import socket

    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _module() -> Any:
    # Both are read when Ray is imported or started. Nothing is reported to anybody; and a task that asks for no GPU may
    # still see those of its machine, which is what Ray itself announces for its next versions.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return require("ray", extra="ray")


def _result(ray: Any, reference: Any) -> Any:
    errors = ray.exceptions
    try:
        return ray.get(reference)
    except errors.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and not isinstance(cause, errors.RayError):
            raise cause from error  # the job's own error, as the local engine raises it
        raise WorkerError(
            f"a worker could not begin its job ({_last_line(error)})",
            hint="modules of yours that a job needs, such as that of a tokenizer, must be importable on the workers",
        ) from error
    except errors.RayError as error:
        raise WorkerError(
            f"a job of the cluster failed though it was tried {RETRIES + 1} times ({_last_line(error)})",
            hint="workers that run out of memory are the usual cause: give fewer jobs at a time, or look at Ray's logs",
        ) from error


def _last_line(error: BaseException) -> str:
    """Ray's messages are long and end with the cause."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _version() -> str:
    from importlib.metadata import version  # costs more than all else here, and only a cluster needs it

    return version("evenhand")


def _work(key: str, sent: list[Any], wanted: str, job: Any) -> Any:
    """A job in a worker, which keeps the function for the jobs that follow."""
    global _function
    if _function[0] != key:
        if wanted != _version():
            raise UsageError(f"evenhand {_version()} on a worker, {wanted} here", hint="install one version everywhere")
        one_thread_each()
        _function = key, _module().get(sent[0])
    return _function[1](job)
