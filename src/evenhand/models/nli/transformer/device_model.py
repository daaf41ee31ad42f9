"""A classifier on its device, in the number format chosen there."""

from __future__ import annotations

from typing import Any

import torch

from evenhand.errors import EvenhandError, FormatError, UsageError, require
from evenhand.models.nli.protocol import LABELS

# Tokens in a batch. On a GPU a batch must outlast the launching of its hundreds of kernels, some 10 ms; on a
# processor it should stay in the cache.
TOKENS = {"cuda": 65_536, "cpu": 4_096}


class Placed:
    """The model ready to answer: ids in, probabilities out, in the order of the model's own labels."""

    def __init__(self, model: Any, device: Any, precision: str, tokens: int | None) -> None:
        torch: Any = require("torch", extra="models")
        if tokens is not None and tokens < 1:
            raise UsageError(f"a batch holds at least 1 token, got {tokens}")
        self.device, self.precision = device, precision
        self.tokens = tokens or TOKENS.get(device.type, TOKENS["cpu"])
        stored = torch.float16 if precision == "float16" else torch.float32
        self.model = model.eval().requires_grad_(False).to(device=device, dtype=stored)
        if precision == "float16":
            self._head_in_float32(torch)
        if precision == "bfloat16":
            split(self.model, outputs=len(LABELS))

    def _head_in_float32(self, torch: Any) -> None:
        """The last layer in float32: short logits have ties, and a tie always goes to the same label."""
        heads = [
            layer
            for layer in self.model.modules()
            if isinstance(layer, torch.nn.Linear) and layer.out_features == len(LABELS)
        ]
        for head in heads[-1:]:
            head.float().register_forward_pre_hook(lambda _, inputs: tuple(part.float() for part in inputs))

    def refuse_strange(self, ids: Any) -> None:
        """An error for ids beyond the model's table; on a GPU they would end the whole process's use of it."""
        rows = self.model.get_input_embeddings().weight.shape[0]
        most = int(ids.max(initial=0))
        if most >= rows:
            raise FormatError(
                f"the tokenizer gives the id {most:,}, and the table of {type(self.model).__name__} has {rows:,} rows",
                hint="take the model's own tokenizer",
            )

    def __call__(self, ids: Any, types: Any | None) -> Any:
        """The softmax in float32, one row for each row of ids; all rows have the same length, so nothing is masked."""
        torch: Any = require("torch", extra="models")
        more = {} if types is None else {"token_type_ids": types}
        try:
            logits = self.model(input_ids=ids, **more).logits
        except torch.cuda.OutOfMemoryError as error:
            raise EvenhandError(
                f"{self.device} has too little memory for {ids.numel():,} tokens at once",
                hint=f"give a smaller batch={max(1, self.tokens // 4)}, or device='cpu'",
            ) from error
        except (ValueError, TypeError) as error:
            raise FormatError(
                f"{type(self.model).__name__} cannot take what its tokenizer gives ({error})",
                hint="is it the model's own tokenizer?",
            ) from error
        if logits.shape != (len(ids), len(LABELS)):
            raise FormatError(
                f"{type(self.model).__name__} gave outputs of shape {tuple(logits.shape)} for {len(ids)} pairs"
            )
        return logits.float().softmax(-1)


class SplitLinear(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A linear layer for float32 in and out, with products in bfloat16 and its weights exact to 16 bits."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        weight = layer.weight.detach()
        high = weight.bfloat16()
        self.register_buffer("weight", high, persistent=False)
        self.register_buffer("rest", (weight - high).bfloat16(), persistent=False)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach(), persistent=False)

    def forward(self, inputs: Any) -> Any:
        """Both products; their sum is made inside the second one, in float32."""
        rows = inputs.flatten(0, -2).bfloat16()
        found = torch.addmm(rows @ self.rest.T, rows, self.weight.T).float()
        found = found if self.bias is None else found.add_(self.bias)
        return found.unflatten(0, inputs.shape[:-1])


def split(model: Any, *, outputs: int) -> None:
    """Change every linear layer of a float32 model in place, but for those with so many outputs: the last one."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            # exactly Linear: its children, as in torch's own attention, have their weights read by others
            if type(layer) is torch.nn.Linear and layer.out_features != outputs:
                setattr(parent, name, SplitLinear(layer))
