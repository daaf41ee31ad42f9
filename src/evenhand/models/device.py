"""Where a model runs, in which precision, and how much at once.

A device is `auto`, `cpu`, `cuda` or `cuda:N`. A precision is `auto`, `float32`, `bfloat16` or `float16`; the short
names `fp32`, `bf16` and `fp16` mean the same. Names are resolved without importing torch where they do not require it.
Sequences are processed in batches of similar length, within a number of tokens; a batch that does not fit is halved.
Large products of linear layers on a CPU are computed by oneDNN.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import MethodType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import EvenhandError, FormatError, UsageError, first_line, require
from evenhand.progress import tell

if TYPE_CHECKING:
    import torch


PRECISIONS = ("float32", "bfloat16", "float16")
SHORT_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
DEVICE = re.compile(r"cpu|cuda(?::(\d{1,3}))?")
DRIVERS = ("libcuda.so.1", "nvcuda.dll")
# What the code of a model raises for sizes, types or ids that do not fit.
LAYER_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError)


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


TOKENS_AT_ONCE = {"cuda": 65_536}  # tokens in a batch, padding included
FEW_TOKENS = 2_048  # on a CPU, a batch should stay in the cache


def tokens_at_once(device: str) -> int:
    """Return the default number of tokens in a batch on a device."""
    return TOKENS_AT_ONCE.get(device.partition(":")[0], FEW_TOKENS)


def run_in_batches(
    lengths: Sequence[int] | Rows,
    compute: Callable[[Rows], None],
    *,
    tokens: int,
    most: int | None = None,
    unit: str = "texts",
) -> None:
    """Call `compute` with the indices of sequences of similar length, longest first.

    A batch holds at most `tokens` tokens, padding included, or a single sequence. When the device runs out of memory,
    the batch is split in two and computed again, and later batches have its size at most.

    Args:
        lengths: number of tokens of each sequence.
        compute: processes the sequences with these indices; it must be repeatable.
        tokens: the largest number of tokens in a batch.
        most: the largest number of sequences in a batch.
        unit: what progress is counted in.

    Raises:
        EvenhandError: If a single sequence does not fit into memory.
    """
    if tokens < 1:
        raise UsageError(f"a batch must have at least 1 token, got {tokens}")
    if most is not None and most < 1:
        raise UsageError(f"batch must be at least 1, got {most}")
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(sizes[order[start]]))
        count = max(1, tokens // longest)
        rows = order[start : start + (count if most is None else min(count, most))]
        try:
            compute(rows)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                raise EvenhandError(
                    f"a single text of {longest:,} tokens does not fit into memory",
                    hint="use shorter texts, a lower precision or device='cpu'",
                ) from error
            free_cache()
            tokens = longest * (len(rows) // 2)
            continue
        start += len(rows)
        tell(start, len(order), unit)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether torch ran out of memory, on a GPU or on the CPU."""
    return type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and "not enough memory" in str(error)
    )


@contextmanager
def model_errors(model: torch.nn.Module) -> Iterator[None]:
    """Turn what the layers of a model raise into a `FormatError` that names it.

    Sizes of a configuration that do not fit together, such as the width of a head, often show in the first product.
    """
    try:
        yield
    except EvenhandError:
        raise
    except LAYER_ERRORS as error:
        if is_out_of_memory(error):
            raise
        name = getattr(getattr(model, "config", None), "name_or_path", "") or type(model).__name__
        raise FormatError(
            f"the model {name} cannot compute its output ({first_line(error)})",
            hint="use the configuration and the tokenizer that were saved with the weights",
        ) from error


def free_cache() -> None:
    """Give memory that torch keeps for later back to the GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Padded(NamedTuple):
    """Token ids (sequences, longest length), and the length of each sequence."""

    ids: Rows
    lengths: Rows


def pad(sequences: Sequence[np.ndarray]) -> Padded:
    """Return sequences as one array, each continued with its own last token; a causal model does not look there."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ids = np.empty((len(sequences), int(lengths.max())), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        ids[row, len(sequence) :] = sequence[-1]
    return Padded(ids, lengths)


FEWEST_PRODUCTS = 1 << 23  # below, a kernel takes longer to compile than the layers save that use it


def use_onednn(model: torch.nn.Module) -> None:
    """Let the linear layers of a model, and those of GPT-2, compute large float32 products on a CPU by oneDNN.

    torch leaves these products to MKL, which uses half the width of the vector units of an AMD EPYC of the fifth
    generation and takes 2.2 times as long as oneDNN there, which comes with torch too. oneDNN compiles a kernel for
    each new shape, in .2 to .5 ms, so small products stay with MKL. The two add in another order: results differ by
    rounding. While a model is trained, MKL computes all of them.
    """
    import torch

    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # torch was built without oneDNN
        return
    for module in model.modules():
        if type(module) is torch.nn.Linear or type(module).__name__ == "Conv1D":
            module.forward = MethodType(_linear, module)


def _linear(layer: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    import torch

    weight = layer.weight if isinstance(layer, torch.nn.Linear) else layer.weight.T
    if (
        torch.is_grad_enabled()  # the product has no gradient
        or torch.is_autocast_enabled("cpu")  # which asks for products in half precision
        or not x.dtype == weight.dtype == torch.float32
        or not x.device.type == weight.device.type == "cpu"
        or x.numel() * len(weight) < FEWEST_PRODUCTS
    ):
        return type(layer).forward(layer, x)
    return _product(x, weight, layer.bias)


def _product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    import torch

    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product
