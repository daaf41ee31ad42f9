"""Where a model computes, and in which precision."""

from __future__ import annotations

from typing import Any

import torch

from evenhand.errors import UsageError

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def device_of(name: str) -> Any:
    """A device by its name; `auto` is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"unknown device {name!r}", hint="use auto, cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no GPU that torch can use here", hint="use device='cpu'")
    return device


def dtype_of(name: str, device: Any) -> Any:
    """A precision by its name; `auto` is bf16 on a GPU that has it, single precision elsewhere."""
    if name == "auto":
        name = "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    if name not in PRECISIONS:
        raise UsageError(f"unknown precision {name!r}", hint=f"use auto, {' or '.join(PRECISIONS)}")
    if name == "bf16" and device.type == "cpu":
        raise UsageError("bf16 needs a GPU", hint="use precision='fp32' on a processor")
    return PRECISIONS[name]
