"""Linear layers on a CPU: large products in float32 by oneDNN, which comes with torch.

torch leaves these products to MKL, which uses half the width of the vector units of an AMD EPYC of the fifth generation
and takes 2.2 times as long as oneDNN there. oneDNN compiles a kernel for each new shape, in .2 to .5 ms, so small
products stay with MKL. The two add in another order: results differ by rounding.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.pytorch_utils import Conv1D

FEWEST_PRODUCTS = 1 << 23  # below, a kernel takes longer to compile than the layers save that use it


def use_onednn(model: PreTrainedModel) -> None:
    """Let the linear layers of a model compute large products by oneDNN where they are not trained; GPT-2's too."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # torch was built without oneDNN
        return
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.forward = MethodType(_linear, module)
        elif type(module).__name__ == "Conv1D":
            module.forward = MethodType(_transposed, module)


def _linear(layer: torch.nn.Linear, input: torch.Tensor) -> torch.Tensor:
    if _is_large(input, layer.weight):
        return _product(input, layer.weight, layer.bias)
    return functional.linear(input, layer.weight, layer.bias)


def _transposed(layer: Conv1D, x: torch.Tensor) -> torch.Tensor:
    if _is_large(x, layer.weight):
        return _product(x, layer.weight.T, layer.bias)
    return type(layer).forward(layer, x)


def _is_large(input: torch.Tensor, weight: torch.Tensor) -> bool:
    return (
        not torch.is_grad_enabled()  # the product has no gradient
        and input.dtype == weight.dtype == torch.float32
        and input.device.type == weight.device.type == "cpu"
        and input.numel() // max(1, input.shape[-1]) * weight.numel() >= FEWEST_PRODUCTS
    )


def _product(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(input, weight, bias, "none", [], "")
    return product
