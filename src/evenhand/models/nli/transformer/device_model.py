"""A classifier on its device, in a chosen precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from evenhand.arrays import Rows
from evenhand.errors import EvenhandError, FormatError, UsageError
from evenhand.models.nli.protocol import LABELS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Tensor = Any  # torch is not typed here

# Tokens in a batch. On a GPU, a batch must take longer than launching its hundreds of kernels, about 10 ms; on a CPU,
# it should stay in the cache.
TOKENS = {"cuda": 65_536, "cpu": 4_096}


class DeviceModel:
    """A model that maps ids to probabilities, in the order of the model's own labels."""

    def __init__(self, model: PreTrainedModel, device: torch.device, precision: str, tokens: int | None) -> None:
        if tokens is not None and tokens < 1:
            raise UsageError(f"batch must be at least 1 token, got {tokens}")
        self.device, self.precision = device, precision
        self.tokens = tokens or TOKENS.get(device.type, TOKENS["cpu"])
        stored = torch.float16 if precision == "float16" else torch.float32
        self.model = model.eval().requires_grad_(False).to(device=device, dtype=stored)
        if precision == "float16":
            self._keep_head_in_float32()
        if precision == "bfloat16":
            split_linear_layers(self.model, outputs=len(LABELS))

    def _keep_head_in_float32(self) -> None:
        """Keep the last layer in float32: half-precision logits have ties, which always favour the same label."""
        heads = [
            layer
            for layer in self.model.modules()
            if isinstance(layer, torch.nn.Linear) and layer.out_features == len(LABELS)
        ]
        for head in heads[-1:]:
            head.float().register_forward_pre_hook(lambda _, inputs: tuple(part.float() for part in inputs))

    def check_ids(self, ids: Rows) -> None:
        """Raise `FormatError` for ids beyond the embedding table; on a GPU they would make the device unusable."""
        rows = self.model.get_input_embeddings().weight.shape[0]
        largest = int(ids.max(initial=0))
        if largest >= rows:
            raise FormatError(
                f"the tokenizer gives the id {largest:,}, but {type(self.model).__name__} has {rows:,} embeddings",
                hint="use the model's own tokenizer",
            )

    def __call__(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """Return the softmax in float32, one row per row of ids; rows have the same length and need no mask."""
        more = {} if types is None else {"token_type_ids": types}
        try:
            logits = self.model(input_ids=ids, **more).logits
        except torch.cuda.OutOfMemoryError as error:
            raise EvenhandError(
                f"{self.device} has too little memory for {ids.numel():,} tokens at once",
                hint=f"use a smaller batch={max(1, self.tokens // 4)}, or device='cpu'",
            ) from error
        except (ValueError, TypeError) as error:
            raise FormatError(
                f"{type(self.model).__name__} does not accept the output of its tokenizer ({error})",
                hint="use the model's own tokenizer",
            ) from error
        if logits.shape != (len(ids), len(LABELS)):
            raise FormatError(
                f"{type(self.model).__name__} returned logits of shape {tuple(logits.shape)} for {len(ids)} pairs"
            )
        return logits.float().softmax(-1)


class SplitLinear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A linear layer with float32 input and output, products in bfloat16, and weights exact to 16 bits."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()
        high = weight.bfloat16()
        self.register_buffer("weight", high, persistent=False)
        self.register_buffer("rest", (weight - high).bfloat16(), persistent=False)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach(), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Add both products; the second one accumulates the sum in float32."""
        rows = inputs.flatten(0, -2).bfloat16()
        outputs = torch.addmm(rows @ self.rest.T, rows, self.weight.T).float()
        outputs = outputs if self.bias is None else outputs.add_(self.bias)
        return outputs.unflatten(0, inputs.shape[:-1])


def split_linear_layers(model: torch.nn.Module, *, outputs: int) -> None:
    """Replace every linear layer of a float32 model, except those with `outputs` outputs, the last one."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            # Exactly Linear: the weights of subclasses, as in torch's attention, are read by other modules.
            if type(layer) is torch.nn.Linear and layer.out_features != outputs:
                setattr(parent, name, SplitLinear(layer))
