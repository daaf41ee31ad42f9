"""What a training leaves behind: the model, its history, and how it was made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.models.lm.vocabulary import TokenVocabulary

if TYPE_CHECKING:
    from evenhand.models.lm.awd_lstm import AWDLSTM


@dataclass(frozen=True)
class Epoch:
    """One reading of the training text.

    `train_loss` is the mean cross-entropy with dropout, `regulariser` the mean of the added term (0 without one),
    `unclipped` the mean share of a gradient that clipping leaves (1: nothing was clipped), `averaging` whether the
    validated weights are averages.
    """

    number: int
    train_loss: float
    valid_perplexity: float
    regulariser: float
    unclipped: float
    averaging: bool
    seconds: float
    tokens_per_second: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class TrainedLM:
    """The weights of the epoch that predicts the validation text best, every epoch's numbers, and the manifest."""

    model: AWDLSTM
    vocabulary: TokenVocabulary
    history: tuple[Epoch, ...]
    manifest: dict[str, Any]

    def save(self, folder: str | Path) -> Path:
        """Write model, vocabulary and manifest into a folder; `storage.load` reads it back."""
        from evenhand.models.lm.storage import save

        return save(self.model, self.vocabulary, folder, manifest=self.manifest)
