"""A map as a torch layer, for use after an embedding table or inside an encoder."""

from __future__ import annotations

import numpy as np

from evenhand.errors import UsageError, require
from evenhand.mitigations.maps.application import check_dim
from evenhand.mitigations.maps.backend import Array, Backend, Tensor, Torch, wide_tensor
from evenhand.mitigations.maps.store import arrays_of
from evenhand.mitigations.maps.vectormap import VectorMap


def layer(vm: VectorMap, dtype: Torch = None) -> Torch:
    """Return a `torch.nn.Module` whose buffers, the map's arrays, follow `.to(device)` and are not trained."""
    if vm.needs_words:
        raise UsageError(f"{vm!r} depends on the word, which a layer does not see")
    torch = require("torch", extra="models")

    class MapLayer(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            for name, array in arrays_of(vm).items():
                values = torch.tensor(np.array(array), dtype=dtype or torch.get_default_dtype())
                self.register_buffer(_buffer(name), values)

        def forward(self, x: Tensor) -> Tensor:
            check_dim(vm, x.shape[-1])
            wide = wide_tensor(x)
            arrays = arrays_of(vm)  # kept alive: buffers are looked up by the identity of these arrays
            buffers = {id(array): getattr(self, _buffer(name)) for name, array in arrays.items()}

            def put(constant: Array) -> Tensor:
                return buffers[id(constant)].to(dtype=wide.dtype, device=wide.device)

            mapped = vm.transform(wide.reshape(-1, x.shape[-1]), Backend(torch, put), None)
            return mapped.reshape(*x.shape[:-1], mapped.shape[-1]).to(x.dtype)

        def extra_repr(self) -> str:
            return repr(vm)

    return MapLayer()


def _buffer(name: str) -> str:
    return name.replace(".", "_")  # torch reserves the dot for nested modules
