"""The array library behind a map: numpy, or torch for tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Backend:
    """Where a map's formula runs. Both libraries give the functions the formulas use the same names."""

    xp: Any
    """The module: numpy or torch."""
    put: Callable[[Any], Any]
    """A constant of the map (float64 numpy) as an array of this backend, of the type and on the device of the input."""


NUMPY = Backend(np, lambda constant: constant)


def is_tensor(x: object) -> bool:
    """Whether this is a torch tensor, found out without importing torch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(x).__mro__)


def torch_like(x: Any) -> Backend:
    """The backend for a tensor: somebody made it, so that torch is loaded already."""
    torch = sys.modules["torch"]

    def put(constant: Any) -> Any:
        array = np.array(constant)  # a copy: the map's own memory is read-only, which torch warns about
        dtype = torch.bool if array.dtype == np.bool_ else x.dtype
        return torch.as_tensor(array, dtype=dtype, device=x.device)

    return Backend(torch, put)


def wide_tensor(x: Any) -> Any:
    """The tensor itself, or in single precision where it is half: sums over a few hundred coordinates need it."""
    return x if x.element_size() >= 4 else x.float()
