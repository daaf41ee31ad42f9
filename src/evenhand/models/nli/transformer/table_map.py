"""A map at the word-piece table of a classifier: as a hook during training, and folded into the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from evenhand.arrays import Floats
from evenhand.errors import UsageError
from evenhand.models.nli.transformer.device_model import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TableMap(Protocol):
    """What fine-tuning needs of a map: `VectorMap` has it."""

    @property
    def digest(self) -> str:
        """SHA-256 of its content."""

    @property
    def needs_words(self) -> bool:
        """Whether it depends on the word."""

    def __call__(self, x: Floats) -> Floats:
        """Return the mapped rows."""

    def to_torch(self, dtype: Any = None) -> Any:
        """Return the map as a torch module."""

    def step(self) -> dict[str, Any]:
        """Return the entry for a history."""


@contextlib.contextmanager
def hooked(model: PreTrainedModel, change: TableMap | None, *, device: str = "cpu") -> Iterator[None]:
    """Apply a map to every vector that the model looks up in its word-piece table, within the block."""
    if change is None:
        yield
        return
    layer, kind = change.to_torch().to(device), torch.device(device).type

    def apply(_module: object, _inputs: object, output: Tensor) -> Tensor:
        with torch.autocast(kind, enabled=False):  # a projection in half precision leaves a part of what it removes
            return layer(output)

    handle = model.get_input_embeddings().register_forward_hook(apply)
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def fold_into_table(model: PreTrainedModel, change: TableMap) -> None:
    """Replace the word-piece table by the mapped one; products are computed in double precision.

    Raises:
        UsageError: If the table is also the output layer, which would change with it.
    """
    outputs = model.get_output_embeddings()
    table = model.get_input_embeddings().weight
    if outputs is not None and outputs.weight is table:
        raise UsageError(
            f"{type(model).__name__} uses its word table as output layer, which the map would change as well",
            hint="untie them first",
        )
    mapped = change(np.asarray(table.double().cpu().numpy()))
    table.copy_(torch.as_tensor(np.ascontiguousarray(mapped)).to(table.device, table.dtype))
