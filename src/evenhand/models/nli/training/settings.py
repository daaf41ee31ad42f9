"""Settings of a training run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from evenhand.errors import UsageError, unknown_name
from evenhand.models.device import canonical_precision, resolve_device, resolve_precision
from evenhand.models.nli.training.networks.stacked import ARCHITECTURES

OPTIMISERS = ("adam", "adagrad")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class NLITrainingSettings:
    """Everything that decides the result of training, apart from data, vectors and seed.

    `weight_decay` adds its multiple of the weights to the gradient (an L2 penalty), with either optimiser. `spare` is
    the number of vectors for out-of-vocabulary words.
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
        object.__setattr__(self, "precision", canonical_precision(self.precision))
        for kind, name, names in (
            ("optimiser", self.optimiser, OPTIMISERS),
            ("precision", self.precision, ("auto", *PRECISIONS)),
        ):
            if name not in names:
                raise unknown_name(kind, name, names)
        for name in ("hidden", "epochs", "patience", "batch", "spare"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"learning_rate must be positive, got {self.learning_rate}", hint="try 1e-3 with adam")
        if not 0 <= self.dropout < 1 or not 0 <= self.weight_decay < math.inf:
            raise UsageError(
                "dropout must be in [0, 1) and weight_decay not negative, got "
                f"dropout={self.dropout} and weight_decay={self.weight_decay}"
            )
        ARCHITECTURES.get(self.architecture).check_settings(self)

    def resolve(self) -> NLITrainingSettings:
        """Return settings in which `auto` is replaced by the device and the precision of this machine."""
        device = resolve_device(self.device)
        return replace(self, device=device, precision=resolve_precision(self.precision, device, supported=PRECISIONS))

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return asdict(self)
