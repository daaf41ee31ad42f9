"""The Ray engine: an existing cluster, or a temporary one on this machine."""

from __future__ import annotations

import os
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from evenhand.engines.engine import Gpus, ResidentFunction, limit_threads
from evenhand.errors import UsageError, WorkerError, require

if TYPE_CHECKING:
    from ray import ObjectRef

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")
RETRIES = 3
AHEAD = 2  # jobs submitted per core of the cluster
TIMEOUT = 10.0  # seconds to reach the cluster
POLL = 1.0  # seconds between checks that the cluster still answers

KEPT = 4  # functions that a worker keeps: a subject and its changed form, with two views each

# In a worker, by key: the last function it received, and the last few that it keeps.
_last: dict[str, Callable[[Any], object]] = {}
_kept: OrderedDict[str, Callable[[Any], object]] = OrderedDict()


class RayEngine:
    """Runs jobs as Ray tasks; a job whose worker dies is repeated elsewhere, up to three times.

    `address` names a cluster ("auto", "10.0.0.1:6379", "ray://head:10001"); the default is RAY_ADDRESS. Without either,
    a cluster with `workers` cores (or all) starts on this machine and ends with `close`. On an existing cluster
    `workers` limits how many jobs run at a time. The workers need the same version of this package. `cpus` and `gpus`
    are what Ray reserves for one job; `gpus="auto"` is one where the cluster has any.
    """

    def __init__(
        self, address: str | None = None, *, workers: int | None = None, cpus: float = 1, gpus: Gpus = 0
    ) -> None:
        if workers is not None and workers < 1:
            raise UsageError(f"workers must be at least 1, got {workers}")
        self.address, self.workers, self.cpus, self.gpus = address, workers, cpus, gpus
        self._joined = False
        self._existing: bool | None = None  # True if the cluster was running before
        self._kept: WeakKeyDictionary[ResidentFunction[Any, Any], ObjectRef[object]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"RayEngine({self.address or 'own cluster'!r})"

    @property
    def here(self) -> bool:
        """Always False."""
        return False

    def map(self, function: Callable[[_Job], _Result], jobs: Iterable[_Job]) -> Iterator[_Result]:
        """Yield the results in the order of the jobs."""
        ray = self._connect()
        key, reference = self._send(ray, function)
        # Inside a list Ray passes the reference itself to the task, which then fetches the function once per process.
        sent, version, keep = [reference], _version(), isinstance(function, ResidentFunction)
        # By default a worker with a GPU ends after each job, and would load its model again for the next one.
        task = ray.remote(max_calls=0, max_retries=RETRIES, num_cpus=self.cpus, num_gpus=self._gpus(ray))(_run_job)
        pending: deque[ObjectRef[object]] = deque()
        alive = True
        try:
            for job in jobs:
                pending.append(task.remote(key, sent, version, keep, job))
                if len(pending) >= self._at_once(ray):
                    yield _result(ray, pending.popleft())
            while pending:
                yield _result(ray, pending.popleft())
        except ClusterLostError:
            alive = False
            raise
        finally:
            # Not by force: Ray 2.60 sometimes crashes if Ctrl-C has reached its workers too.
            for reference in pending if alive else ():
                ray.cancel(reference)

    def close(self) -> None:
        """Leave the cluster; a cluster that this engine started ends."""
        if self._joined:
            _module().shutdown()
            self._joined = False
        self._kept.clear()

    def _connect(self) -> ModuleType:
        ray = _module()
        if ray.is_initialized():
            self._existing = True if self._existing is None else self._existing
            return ray
        address = self.address or os.environ.get("RAY_ADDRESS")
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if address:
                _check_reachable(address)
                ray.init(address=address, **quiet)
            else:
                ray.init(address="local", num_cpus=self.workers, include_dashboard=False, **quiet)
        except Exception as error:  # a node that does not start in time raises nothing narrower
            raise WorkerError(
                f"no Ray cluster at {address!r} ({_last_line(error)})" if address else f"Ray did not start ({error})",
                hint="check the address (`address=`, RAY_ADDRESS); a cluster with token authentication needs "
                "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here too",
            ) from error
        self._joined, self._existing = True, bool(address)
        return ray

    def _send(self, ray: ModuleType, function: Callable[[_Job], _Result]) -> tuple[str, ObjectRef[object]]:
        """Return the key and the reference of a function; a `ResidentFunction` is sent once."""
        if not isinstance(function, ResidentFunction):
            return os.urandom(8).hex(), ray.put(function)
        if function not in self._kept:
            self._kept[function] = ray.put(function.function)
        return function.key, self._kept[function]

    def _gpus(self, ray: ModuleType) -> float:
        """Return the number of GPUs to reserve for a job."""
        if self.gpus == "auto":
            return 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0
        return self.gpus

    def _at_once(self, ray: ModuleType) -> int:
        """Return how many jobs to submit; computed each time because a cluster may grow."""
        resources, gpus = ray.cluster_resources(), self._gpus(ray)
        slots = int(resources.get("CPU", 1) / max(self.cpus, 1e-3))
        if gpus:
            slots = min(slots, int(resources.get("GPU", 1) / gpus))
        at_once = AHEAD * max(slots, 1)
        return min(at_once, self.workers) if self.workers and self._existing else at_once


class ClusterLostError(WorkerError):
    """The Ray cluster no longer answers."""


def _check_reachable(address: str) -> None:
    """Raise OSError at once if nobody listens at an address; Ray itself retries for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=TIMEOUT).close()


def _module() -> ModuleType:
    # Both are read when Ray is imported or started. No usage statistics are sent, and a task that asks for no GPU still
    # sees those of its machine, as announced for the next versions of Ray.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return require("ray", extra="ray")


def _result(ray: ModuleType, reference: ObjectRef[object]) -> Any:
    errors = ray.exceptions
    try:
        while not ray.wait([reference], timeout=POLL)[0]:
            _check_reachable(ray.get_runtime_context().gcs_address)
        return ray.get(reference)
    except errors.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and not isinstance(cause, errors.RayError):
            raise cause from error  # the job's own error, as the local engine raises it
        raise WorkerError(
            f"a worker could not start its job ({_last_line(error)})",
            hint="modules that a job needs, such as that of a tokenizer, must be importable on the workers",
        ) from error
    except errors.RayError as error:
        raise WorkerError(
            f"a job failed on the cluster after {RETRIES + 1} attempts ({_last_line(error)})",
            hint="workers that run out of memory are the usual cause: submit fewer jobs at a time, or see Ray's logs",
        ) from error
    except OSError as error:
        raise ClusterLostError(
            f"the Ray cluster no longer answers ({_last_line(error)})", hint="check that Ray runs, then start again"
        ) from error


def _last_line(error: BaseException) -> str:
    """Return the last line of a message; Ray's long messages end with the cause."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _version() -> str:
    from importlib.metadata import version  # slow to import, and only a cluster needs it

    return version("evenhand")


def _run_job(key: str, sent: list[ObjectRef[object]], wanted: str, keep: bool, job: Any) -> object:
    """Run a job in a worker, which keeps the function for the following jobs."""
    held = _kept if keep else _last
    if key not in held:
        if wanted != _version():
            raise UsageError(
                f"the worker has evenhand {_version()}, the caller {wanted}", hint="install one version everywhere"
            )
        limit_threads()
        while len(held) >= (KEPT if keep else 1):
            del held[next(iter(held))]
        held[key] = _module().get(sent[0])
    if keep:
        _kept.move_to_end(key)
    return held[key](job)
