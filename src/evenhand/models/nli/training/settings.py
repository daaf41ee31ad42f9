"""The choices of a training run, checked once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from evenhand.errors import UsageError, unknown_name
from evenhand.models.device import torch_device
from evenhand.models.nli.training.networks.registry import ARCHITECTURES

OPTIMISERS = ("adam", "adagrad")
PRECISIONS = ("float32", "bf16")


@dataclass(frozen=True)
class Settings:
    """What moves the result of training, apart from data, vectors and seed.

    `weight_decay` adds its multiple of the weights to the gradient (an L2 penalty), with either optimiser.
    """

    architecture: str = "decomposable"
    hidden: int = 200
    epochs: int = 20
    patience: int = 5
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.2
    optimiser: str = "adam"
    lower: bool = True
    normalise: bool = False
    intra_attention: bool = False
    spare: int = 100
    device: str = "auto"
    precision: str = "auto"

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("architecture", self.architecture, ARCHITECTURES),
            ("optimiser", self.optimiser, OPTIMISERS),
            ("precision", self.precision, ("auto", *PRECISIONS)),
        ):
            if name not in known:
                raise unknown_name(kind, name, known)
        for name in ("hidden", "epochs", "patience", "batch", "spare"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is at least 1, got {getattr(self, name)}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"the learning rate lies above 0, got {self.learning_rate}", hint="1e-3 suits adam")
        if not 0 <= self.dropout < 1 or not 0 <= self.weight_decay < math.inf:
            raise UsageError(f"dropout {self.dropout} and weight decay {self.weight_decay}: 0 or more, dropout below 1")
        if self.architecture == "bilstm" and self.hidden % 2:
            raise UsageError(
                f"the two directions of a BiLSTM share its hidden width, and {self.hidden} is odd",
                hint="an even number",
            )
        if self.intra_attention and self.architecture != "decomposable":
            raise UsageError(f"intra-attention belongs to decomposable attention, not to {self.architecture!r}")

    def placed(self) -> Settings:
        """With the device and the precision that `auto` means here."""
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        kind, precision = torch_device(device).type, self.precision
        if precision == "auto":
            precision = "bf16" if kind == "cuda" else "float32"
        return Settings(**{**asdict(self), "device": device, "precision": precision})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)
