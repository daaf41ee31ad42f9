"""The state of a stack after an epoch in one safetensors file: tensors, and the rest as JSON in its metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from evenhand.errors import FormatError, UsageError
from evenhand.files import existing, writing
from evenhand.models.nli.training.early_stopping import Standing

if TYPE_CHECKING:
    from evenhand.models.nli.training.loop import Stack

METADATA = "evenhand-nli-checkpoint"
FORMAT = 1


def save(stack: Stack, path: Path, fingerprint: Mapping[str, Any]) -> None:
    """Write everything that the next epoch depends on; the file before stays until this one is complete."""
    from safetensors.torch import save as to_bytes

    about = {"format": FORMAT, "fingerprint": fingerprint, "standing": stack.standing.to_dict()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(stack).items()}
    with writing(path) as out:
        out.write(to_bytes(tensors, metadata={METADATA: json.dumps(about)}))


def load(stack: Stack, path: Path, fingerprint: Mapping[str, Any]) -> None:
    """Put a stack where the checkpoint was; one of other settings, data or vectors is refused."""
    about, tensors = _read(path)
    _refuse_other(about["fingerprint"], json.loads(json.dumps(fingerprint)), path)
    standing = Standing.from_dict(about["standing"])
    if standing.epoch > stack.settings.epochs:
        raise UsageError(
            f"the checkpoint {path} has {standing.epoch} epochs, {stack.settings.epochs} were asked for",
            hint="ask for at least as many, or train anew in another folder",
        )
    with torch.no_grad():
        for name, parameter in stack.network.named_parameters():
            parameter.copy_(tensors[f"now.{name}"])
        for kept, (name, _) in zip(stack.best, stack.network.named_parameters(), strict=True):
            kept.copy_(tensors[f"best.{name}"])
    stack.optimiser.load_state_dict(_optimiser_state(stack, tensors))
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"], stack.settings.device)
    stack.standing = standing


def _tensors(stack: Stack) -> dict[str, Any]:
    found = {f"now.{name}": parameter for name, parameter in stack.network.named_parameters()}
    names = [name for name, _ in stack.network.named_parameters()]
    found |= {f"best.{name}": kept for name, kept in zip(names, stack.best, strict=True)}
    for place, entries in stack.optimiser.state_dict()["state"].items():
        found |= {f"optimiser.{place}.{key}": value for key, value in entries.items()}
    found["random.cpu"] = torch.get_rng_state()
    if torch.device(stack.settings.device).type == "cuda":
        found["random.cuda"] = torch.cuda.get_rng_state(stack.settings.device)
    return found


def _optimiser_state(stack: Stack, tensors: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimiser":
            place, _, key = rest.partition(".")
            state.setdefault(int(place), {})[key] = tensor
    return {"state": state, "param_groups": stack.optimiser.state_dict()["param_groups"]}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="checkpoint"), framework="pt") as file:
            about = json.loads(dict(file.metadata() or {})[METADATA])
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}, expected {FORMAT}")
            return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FormatError(
            f"{path}: no checkpoint of ours, or a damaged one ({error})", hint="delete it to begin anew"
        ) from error


def _refuse_other(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    differing = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
    if differing:
        shown = "; ".join(f"{key} was {found.get(key)!r}, is {wanted.get(key)!r}" for key in differing[:4])
        raise UsageError(
            f"the checkpoint {path} belongs to another training: {shown}",
            hint="give the same data and settings to go on, another folder to train anew, or delete the checkpoint",
        )
