"""A map as a torch layer, to put behind an embedding table or inside an encoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.errors import UsageError, require
from evenhand.mitigations.maps.application import check_dim
from evenhand.mitigations.maps.backend import Backend, wide_tensor
from evenhand.mitigations.maps.store import arrays_of
from evenhand.mitigations.maps.vectormap import VectorMap


def layer(vm: VectorMap, dtype: Any = None) -> Any:
    """A `torch.nn.Module` with the map's arrays as buffers: they move with `.to(device)` and are not trained."""
    if vm.needs_words:
        raise UsageError(f"{vm!r} treats words differently, and a layer sees no words")
    torch = require("torch", extra="models")

    class MapLayer(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            for name, array in arrays_of(vm).items():
                values = torch.tensor(np.array(array), dtype=dtype or torch.get_default_dtype())
                self.register_buffer(_buffer(name), values)

        def forward(self, x: Any) -> Any:
            check_dim(vm, x.shape[-1])
            wide = wide_tensor(x)
            arrays = arrays_of(vm)  # held until the end: the buffers are found by the identity of these arrays
            buffers = {id(array): getattr(self, _buffer(name)) for name, array in arrays.items()}

            def put(constant: Any) -> Any:
                return buffers[id(constant)].to(dtype=wide.dtype, device=wide.device)

            mapped = vm.transform(wide.reshape(-1, x.shape[-1]), Backend(torch, put), None)
            return mapped.reshape(*x.shape[:-1], mapped.shape[-1]).to(x.dtype)

        def extra_repr(self) -> str:
            return repr(vm)

    return MapLayer()


def _buffer(name: str) -> str:
    return name.replace(".", "_")  # torch keeps the dot for modules inside modules
