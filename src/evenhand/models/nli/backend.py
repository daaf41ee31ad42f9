"""Where arrays live: numpy, or torch on a processor or a GPU. Both give the functions used here the same names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import UsageError, require
from evenhand.models.device import torch_device

Array = Any  # of numpy or of torch


@dataclass(frozen=True)
class Backend:
    """The module, how arrays get in and out, and how many blocks it works on at once.

    `alone` makes the library itself single-threaded while our own threads share out the blocks: products of a few
    hundred rows are too small to be split further. `worker` is entered once in each of these threads.
    """

    name: str
    xp: Any
    put: Callable[[Any], Array]
    get: Callable[[Array], Matrix]
    empty: Callable[[tuple[int, ...]], Array]
    workers: int
    pairs_at_once: int
    alone: Callable[[], AbstractContextManager[Any]]
    worker: Callable[[], AbstractContextManager[Any]]

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process it is made anew, for one core: there are as many such processes as cores.
        return partial(backend, workers=1), (self.name,)


def backend(name: str = "numpy", *, workers: int | None = None) -> Backend:
    """`numpy`, or `torch` on the device after a colon: `torch`, `torch:cuda`."""
    library, _, device = name.partition(":")
    if library == "numpy" and not device:
        return _numpy(workers or cores())
    if library == "torch":
        return _torch(device or "cpu", workers or cores())
    raise UsageError(f"unknown backend {name!r}", hint="use numpy, torch or torch:cuda")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _numpy(workers: int) -> Backend:
    def put(array: Any) -> Array:
        kept = np.asarray(array)
        return np.ascontiguousarray(kept, dtype=np.float32 if kept.dtype.kind == "f" else np.int64)

    def alone() -> AbstractContextManager[Any]:
        limits: AbstractContextManager[Any] = import_module("threadpoolctl").threadpool_limits(1, user_api="blas")
        return limits

    return Backend(
        "numpy",
        np,
        put,
        np.asarray,
        lambda shape: np.empty(shape, np.float32),
        workers,
        512,
        alone,
        contextlib.nullcontext,
    )


def _torch(device: str, workers: int) -> Backend:
    torch: Any = require("torch", extra="models")
    on_cpu = torch_device(device).type == "cpu"

    def put(array: Any) -> Array:
        kept = np.array(array)  # a copy: what is read-only torch warns about
        return torch.as_tensor(kept, dtype=torch.float32 if kept.dtype.kind == "f" else torch.int64, device=device)

    @contextlib.contextmanager
    def alone() -> Any:
        threads = torch.get_num_threads()
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    @contextlib.contextmanager
    def worker() -> Any:
        if on_cpu and workers > 1:
            torch.set_num_threads(1)  # holds for the calling thread only
        with torch.inference_mode():
            yield

    return Backend(
        f"torch:{device}",
        torch,
        put,
        lambda array: np.asarray(array.cpu().numpy()),
        lambda shape: torch.empty(shape, dtype=torch.float32, device=device),
        workers if on_cpu else 1,
        1_024 if on_cpu else 200_000,
        alone,
        worker,
    )
