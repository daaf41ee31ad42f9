"""What a model was trained from and with."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from evenhand.models.nli.training.settings import Settings
    from evenhand.models.nli.training.train import Member


def manifest(settings: Settings, member: Member, about: dict[str, Any], seconds: float, stack: int) -> dict[str, Any]:
    """Data, vectors, settings, versions and device of one member."""
    return {
        "evenhand": import_module("evenhand").__version__,  # by name: the package's front is a layer above this one
        "settings": settings.to_dict(),
        "data": about,
        "words": {
            "name": member.vectors.name,
            "dimensions": member.vectors.dim,
            "history": [dict(step) for step in member.vectors.history],
            "sha256_of_words_read": member.sha256,
        },
        "stack": {"members": stack, "seconds": round(seconds, 2)},
        "device": _device(settings.device),
        "packages": {"python": platform.python_version(), "torch": torch.__version__, "numpy": version("numpy")},
    }


def _device(name: str) -> str:
    return str(torch.cuda.get_device_name(name)) if torch.device(name).type == "cuda" else name
