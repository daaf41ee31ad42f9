"""The array library of a map: numpy, or torch for tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

# torch is optional, and numpy arrays and tensors share no type: these aliases name the values that may be either.
Tensor: TypeAlias = Any
Torch: TypeAlias = Any
Array: TypeAlias = Any


@dataclass(frozen=True)
class Backend:
    """The library that computes a map's formula. Both libraries use the same names for the functions needed."""

    xp: Torch
    """The module: numpy or torch."""
    put: Callable[[Array], Array]
    """Convert a constant of the map (float64 numpy) to an array of the input's type and device."""


NUMPY = Backend(np, lambda constant: constant)


def is_tensor(x: object) -> bool:
    """Return whether x is a torch tensor, without importing torch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(x).__mro__)


def torch_like(x: Tensor) -> Backend:
    """Return the backend for a tensor; torch is loaded already, since the tensor exists."""
    torch = sys.modules["torch"]

    def put(constant: Array) -> Tensor:
        array = np.array(constant)  # a copy: torch warns about the map's read-only memory
        dtype = torch.bool if array.dtype == np.bool_ else x.dtype
        return torch.as_tensor(array, dtype=dtype, device=x.device)

    return Backend(torch, put)


def wide_tensor(x: Tensor) -> Tensor:
    """Return the tensor, in single precision if it is half precision: sums over hundreds of coordinates need it."""
    return x if x.element_size() >= 4 else x.float()
