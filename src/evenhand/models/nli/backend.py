"""Array backends: numpy, or torch on a CPU or GPU. Both offer the functions used here under the same names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix
from evenhand.engines.engine import cores
from evenhand.errors import UsageError, require
from evenhand.models.device import torch_device

Array = Any  # a numpy array or a torch tensor
DeviceLayer = tuple[Array, Array]  # a matrix to the right of the rows, and a bias
DeviceLayers = tuple[DeviceLayer, DeviceLayer]


@dataclass(frozen=True)
class ArrayBackend:
    """An array library on a device.

    Attributes:
        name: The name, such as `torch:cuda`.
        xp: The module, numpy or torch.
        put: Copy an array to the device, as float32 or int64.
        get: Copy an array back as numpy.
        fetch: Start to copy an array back; the function that it returns waits for the copy.
        empty: Allocate a float32 array.
        workers: Number of threads that evaluate blocks.
        pairs_at_once: Size of a block in pairs.
        single_threaded: Limits the library to one thread while our own threads share the blocks: products of a few
            hundred rows are too small to be split further.
        worker: Entered once in each of these threads.
    """

    name: str
    xp: ModuleType
    put: Callable[[ArrayLike], Array]
    get: Callable[[Array], Matrix]
    fetch: Callable[[Array], Callable[[], Matrix]]
    empty: Callable[[tuple[int, ...]], Array]
    workers: int
    pairs_at_once: int
    single_threaded: Callable[[], AbstractContextManager[object]]
    worker: Callable[[], AbstractContextManager[object]]

    def layer(self, arrays: Mapping[str, Matrix], name: str) -> DeviceLayer:
        """Put a layer of named arrays on the device, its matrix transposed: rows times matrix is one product."""
        return self.put(arrays[f"{name}.weight"].T), self.put(arrays[f"{name}.bias"])

    def layers(self, arrays: Mapping[str, Matrix], name: str) -> DeviceLayers:
        """Put the layers `name.0` and `name.1` on the device."""
        return self.layer(arrays, f"{name}.0"), self.layer(arrays, f"{name}.1")

    def __reduce__(self) -> tuple[object, ...]:
        # Another process makes its own with one worker: there are as many such processes as cores.
        return partial(backend, workers=1), (self.name,)


def backend(name: str = "numpy", *, workers: int | None = None) -> ArrayBackend:
    """Return a backend: `numpy`, or `torch` with an optional device, as in `torch:cuda`."""
    library, _, device = name.partition(":")
    if library == "numpy" and not device:
        return _numpy(workers or cores())
    if library == "torch":
        return _torch(device or "cpu", workers or cores())
    raise UsageError(f"unknown backend {name!r}", hint="use numpy, torch or torch:cuda")


def _numpy(workers: int) -> ArrayBackend:
    def put(values: ArrayLike) -> Array:
        array = np.asarray(values)
        return np.ascontiguousarray(array, dtype=np.float32 if array.dtype.kind == "f" else np.int64)

    def single_threaded() -> AbstractContextManager[object]:
        limits: AbstractContextManager[object] = import_module("threadpoolctl").threadpool_limits(1, user_api="blas")
        return limits

    return ArrayBackend(
        "numpy",
        np,
        put,
        np.asarray,
        lambda array: lambda: array,
        lambda shape: np.empty(shape, np.float32),
        workers,
        1_024,
        single_threaded,
        contextlib.nullcontext,
    )


def _torch(device: str, workers: int) -> ArrayBackend:
    torch = require("torch", extra="models")
    on_cpu = torch_device(device).type == "cpu"

    def put(values: ArrayLike) -> Array:
        kind = np.float32 if np.asarray(values).dtype.kind == "f" else np.int64
        tensor = torch.from_numpy(np.array(values, kind))  # a copy: torch warns about read-only arrays
        # A copy from other memory would wait for all that the GPU has to do.
        return tensor if on_cpu else tensor.pin_memory().to(device, non_blocking=True)

    @contextlib.contextmanager
    def single_threaded() -> Iterator[None]:
        threads = torch.get_num_threads()
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    @contextlib.contextmanager
    def worker() -> Iterator[None]:
        if on_cpu and workers > 1:
            torch.set_num_threads(1)  # applies to the calling thread only
        with torch.inference_mode():
            yield

    def fetch(array: Array) -> Callable[[], Matrix]:
        # A copy to page-locked memory does not stop the processor, which prepares the next block meanwhile.
        copied = torch.empty(array.shape, dtype=array.dtype, pin_memory=not on_cpu)
        copied.copy_(array, non_blocking=not on_cpu)
        done = None if on_cpu else torch.cuda.current_stream(device).record_event()

        def wait() -> Matrix:
            if done:
                done.synchronize()
            return np.asarray(copied.numpy())

        return wait

    return ArrayBackend(
        f"torch:{device}",
        torch,
        put,
        lambda array: np.asarray(array.cpu().numpy()),
        fetch,
        lambda shape: torch.empty(shape, dtype=torch.float32, device=device),
        workers if on_cpu else 1,
        1_024 if on_cpu else 200_000,
        single_threaded,
        worker,
    )
