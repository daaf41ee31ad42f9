"""Devices and precisions: the names that commands and functions accept, and what they mean on this machine.

A device is `auto`, `cpu`, `cuda` or `cuda:N`. A precision is `auto`, `float32`, `bfloat16` or `float16`; the short
names `fp32`, `bf16` and `fp16` mean the same. Names are resolved without importing torch where they do not require it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from evenhand.errors import UsageError, require

if TYPE_CHECKING:
    import torch

PRECISIONS = ("float32", "bfloat16", "float16")
SHORT_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
DEVICE = re.compile(r"cpu|cuda(?::(\d{1,3}))?")
DRIVERS = ("libcuda.so.1", "nvcuda.dll")


def resolve_device(name: str = "auto") -> str:
    """Return `cpu`, `cuda` or `cuda:N`; `auto` is the GPU where torch can use one.

    The prefix `torch:` and the backend name `torch`, which means the CPU, are accepted as well.

    Raises:
        UsageError: If the name is not a device or the device is not available.
    """
    device = {"torch": "cpu"}.get(name, name.removeprefix("torch:"))
    if device == "auto":
        return "cuda" if has_gpu() else "cpu"
    match = DEVICE.fullmatch(device)
    if match is None:
        raise UsageError(f"unknown device {name!r}", hint="use auto, cpu, cuda or cuda:1")
    if device != "cpu":
        count = int(require("torch", extra="models").cuda.device_count())
        if int(match[1] or 0) >= count:
            available = f"torch finds {count} GPU{'' if count == 1 else 's'}" if count else "torch finds no GPU"
            raise UsageError(f"device {device!r} is not available: {available}", hint="use auto or cpu")
    return device


def device_kind(device: object) -> str:
    """Return `cpu` or `cuda` for a device: two GPUs of a machine give the same numbers."""
    return str(device).removeprefix("torch:").partition(":")[0]


def torch_device(name: str = "auto") -> torch.device:
    """Return the torch device that a name means."""
    device: torch.device = require("torch", extra="models").device(resolve_device(name))
    return device


def canonical_precision(name: str) -> str:
    """Return the full name of a precision: `bf16` becomes `bfloat16`; unknown names are returned unchanged."""
    return SHORT_NAMES.get(name, name)


def resolve_precision(name: str, device: str | torch.device, *, supported: Sequence[str] = PRECISIONS) -> str:
    """Return the full name of a precision; `auto` is bfloat16 on a GPU that supports it and float32 elsewhere.

    Args:
        name: a precision or its short name.
        device: a resolved device.
        supported: the precisions that the caller supports on this device.

    Raises:
        UsageError: If the precision is unknown or not supported.
    """
    precision = canonical_precision(name)
    if precision == "auto":
        on_gpu = str(device).startswith("cuda") and require("torch", extra="models").cuda.is_bf16_supported()
        return "bfloat16" if on_gpu and "bfloat16" in supported else "float32"
    if precision not in PRECISIONS:
        raise UsageError(f"unknown precision {name!r}", hint=f"use auto, {', '.join(PRECISIONS)}")
    if precision not in supported:
        raise UsageError(
            f"precision {precision} is not supported on {device} here", hint=f"use auto, {', '.join(supported)}"
        )
    return precision


def torch_dtype(precision: str) -> torch.dtype:
    """Return the torch dtype of a precision."""
    dtype: torch.dtype = getattr(require("torch", extra="models"), canonical_precision(precision))
    return dtype


def has_gpu() -> bool:
    """Return whether torch is installed and can use a GPU; the driver is checked first, as importing torch is slow."""
    if find_spec("torch") is None or not any(map(_library_loads, DRIVERS)):
        return False
    return bool(require("torch", extra="models").cuda.is_available())


def _library_loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
