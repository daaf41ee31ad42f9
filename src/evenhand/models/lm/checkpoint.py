"""A training on disk: one safetensors file, replaced as a whole, from which it goes on as if it had never stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from evenhand.errors import FormatError, UsageError
from evenhand.files import existing, writing
from evenhand.models.device import canonical_precision
from evenhand.models.lm.model_folder import Epoch
from evenhand.models.lm.training_state import Run

FORMAT = 2  # 1 did not have what clipping left
METADATA = "evenhand-lm-training"


def keep(run: Run, path: Path, identity: Mapping[str, Any]) -> None:
    """Write the state of a training, at the end of an epoch or between two steps of one."""
    from safetensors.torch import save

    optimiser = run.optimiser
    about = {
        "format": FORMAT,
        "identity": dict(identity),
        "place": {"epoch": run.epoch, "step": run.step, "seconds": run.seconds},
        "optimiser": {
            "losses": optimiser.losses,
            "averaged": optimiser.averaged,
            "averaging": optimiser.averaging,
        },
        "best": {"loss": run.best_loss if run.best else None, "epoch": run.best_epoch},
        "history": [epoch.to_dict() for epoch in run.history],
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(run).items()}
    with writing(path) as out:
        out.write(save(tensors, metadata={METADATA: json.dumps(about)}))


def take_up(run: Run, path: Path, identity: Mapping[str, Any]) -> None:
    """Bring a fresh training to where the file left off; a file of another training is an error that says why."""
    about, tensors = _read(path)
    about["identity"]["precision"] = canonical_precision(str(about["identity"].get("precision")))
    if differing := sorted(name for name in identity if about["identity"].get(name) != identity[name]):
        then, now = (_short(kept.get(differing[0])) for kept in (about["identity"], identity))
        raise UsageError(
            f"{path}: of another training: {differing[0]} was {then}, is {now}",
            hint="give the same arguments as then, or another checkpoint",
        )
    place, optimiser = about["place"], about["optimiser"]
    run.begin(place["epoch"])
    run.step, run.seconds = place["step"], place["seconds"]
    run.history = [Epoch(**epoch) for epoch in about["history"]]
    run.optimiser.losses = list(optimiser["losses"])
    run.optimiser.averaged, run.optimiser.averaging = optimiser["averaged"], optimiser["averaging"]
    if about["best"]["loss"] is not None:
        run.best_loss, run.best_epoch = about["best"]["loss"], about["best"]["epoch"]
    try:
        _restore(run, tensors)
    except (KeyError, RuntimeError) as error:
        raise FormatError(f"{path}: its tensors do not fit its settings ({error})") from error


def _tensors(run: Run) -> dict[str, torch.Tensor]:
    names = [name for name, _ in run.model.named_parameters()]
    found = {f"model.{name}": parameter for name, parameter in run.model.named_parameters()}
    found |= {f"average.{name}": tensor for name, tensor in zip(names, run.optimiser.averages, strict=False)}
    found |= {f"best.{name}": tensor for name, tensor in zip(names, run.best, strict=False)}
    for place, (hidden, cell) in enumerate(run.state):
        found |= {f"state.{place}.hidden": hidden, f"state.{place}.cell": cell}
    return found | {"records": run.records, "generator": run.generator.get_state()}


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def _restore(run: Run, tensors: Mapping[str, torch.Tensor]) -> None:
    names = [name for name, _ in run.model.named_parameters()]
    device = run.text.device
    for name, parameter in run.model.named_parameters():
        parameter.copy_(tensors[f"model.{name}"])
    if run.optimiser.averaging:
        run.optimiser.averages = [tensors[f"average.{name}"].to(device) for name in names]
    if run.best_epoch:
        run.best = [tensors[f"best.{name}"].to(device) for name in names]
    run.state = tuple(
        (tensors[f"state.{place}.hidden"].to(device), tensors[f"state.{place}.cell"].to(device))
        for place in range(len(run.state))
    )
    run.records.copy_(tensors["records"])
    run.generator.set_state(tensors["generator"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="checkpoint"), framework="pt") as file:
            about = json.loads((file.metadata() or {})[METADATA])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if about["format"] != FORMAT:
            raise FormatError(f"{path}: a checkpoint of format {about['format']}, expected {FORMAT}")
        return about, tensors
    except SafetensorError as error:
        raise FormatError(f"{path}: not a whole safetensors file ({error})", hint="start without it") from error
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise FormatError(f"{path}: no checkpoint of a training of ours", hint="name another file") from error


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
