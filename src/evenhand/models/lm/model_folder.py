"""A trained language model and the folder it is saved in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from evenhand.errors import FormatError, InputMissingError
from evenhand.files import existing, write_text, writing
from evenhand.models.lm.awd_lstm import AWDLSTM
from evenhand.models.lm.settings import Settings
from evenhand.models.lm.vocabulary import TokenVocabulary

if TYPE_CHECKING:
    from evenhand.models.lm.awd_lstm import AWDLSTM


WEIGHTS = "model.safetensors"
CONFIG = "config.json"
WORDS = "vocabulary.txt"


def save(
    model: AWDLSTM, vocabulary: TokenVocabulary, folder: str | Path, *, manifest: Mapping[str, Any] | None = None
) -> Path:
    """Write the three files; the config comes last, so that a folder with one is whole."""
    from safetensors.torch import save as to_bytes

    place = Path(folder)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.named_parameters()}
    with writing(place / WEIGHTS) as out:
        out.write(to_bytes(tensors))
    write_text(place / WORDS, "".join(f"{word}\n" for word in vocabulary.words))
    about = {"format": MODEL_FORMAT, "kind": KIND, "words": len(vocabulary), "settings": model.settings.to_dict()}
    write_text(place / CONFIG, json.dumps({**about, "manifest": dict(manifest or {})}, indent=1) + "\n")
    return place


def is_saved(folder: str | Path) -> bool:
    """Whether a folder holds a model of this kind."""
    path = Path(folder) / CONFIG
    try:
        return path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("kind") == KIND
    except (OSError, ValueError, AttributeError):
        return False


def load(folder: str | Path, *, device: str = "cpu") -> tuple[AWDLSTM, TokenVocabulary, dict[str, Any]]:
    """Read model, vocabulary and manifest back; anything missing or misshapen is an error that names the file."""
    place = Path(folder)
    if not place.is_dir():
        raise InputMissingError(f"folder {str(place)!r} does not exist", hint="name a folder written by `lm train`")
    about = _about(place / CONFIG)
    words = existing(place / WORDS, what="vocabulary").read_bytes().decode().split("\n")[:-1]
    vocabulary = TokenVocabulary(tuple(words))
    if len(vocabulary) != about["words"]:
        raise FormatError(f"{place / WORDS}: {len(vocabulary):,} words, expected {about['words']:,}")
    model = AWDLSTM(len(vocabulary), Settings(**about["settings"]))
    _fill(model, place / WEIGHTS)
    return model.to(device).eval(), vocabulary, dict(about["manifest"])


def _about(path: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(existing(path, what="config").read_bytes())
        if about["kind"] != KIND or about["format"] != MODEL_FORMAT:
            raise FormatError(
                f"{path}: a {about['kind']!r} of format {about['format']}, expected {KIND!r} of {MODEL_FORMAT}"
            )
        Settings(**about["settings"])
        return {"words": about["words"], "settings": about["settings"], "manifest": about.get("manifest", {})}
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: not the config of a language model of ours ({error})") from error


def _fill(model: AWDLSTM, path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(existing(path, what="model file"), framework="pt") as file, torch.no_grad():
            for name, parameter in model.named_parameters():
                tensor = file.get_tensor(name)
                if tensor.shape != parameter.shape:
                    shapes = f"{tuple(tensor.shape)}, expected {tuple(parameter.shape)}"
                    raise FormatError(f"{path}: the array {name!r} has the shape {shapes}")
                parameter.copy_(tensor)
    except SafetensorError as error:
        raise FormatError(f"{path}: not a whole file of this model ({error})", hint="write it again") from error


MODEL_FORMAT = 1
KIND = "awd-lstm"


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
        return save(self.model, self.vocabulary, folder, manifest=self.manifest)
