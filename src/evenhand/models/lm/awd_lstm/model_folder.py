"""Save and load trained AWD-LSTM language models: weights, vocabulary and configuration in one folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evenhand.errors import EvenhandError, FormatError, InputMissingError, shown
from evenhand.files import existing
from evenhand.models.lm.awd_lstm.corpus import TokenVocabulary
from evenhand.models.lm.awd_lstm.settings import GATES, LMSettings
from evenhand.models.model_files import JSONObject, read_header, read_json, read_tensor
from evenhand.outputs import replacing_folder

if TYPE_CHECKING:
    from evenhand.models.lm.awd_lstm.network import AWDLSTM

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
WORDS = "vocabulary.txt"
MODEL_FORMAT = 1
KIND = "awd-lstm"

Manifest = JSONObject
Shapes = dict[str, tuple[int, ...]]


class FolderConfig(NamedTuple):
    """The configuration of a model folder."""

    words: int
    settings: LMSettings
    manifest: Manifest


def save(
    model: AWDLSTM, vocabulary: TokenVocabulary, folder: str | Path, *, manifest: Mapping[str, object] | None = None
) -> Path:
    """Write weights, vocabulary and configuration; the folder holds the old model or the new one, also if killed."""
    from safetensors.torch import save as to_bytes

    target = Path(folder)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.named_parameters()}
    config = {"format": MODEL_FORMAT, "kind": KIND, "words": len(vocabulary), "settings": model.settings.to_dict()}
    with replacing_folder(target, keep_others=True) as partial:
        (partial / WEIGHTS).write_bytes(to_bytes(tensors))
        (partial / WORDS).write_text("".join(f"{word}\n" for word in vocabulary.words), encoding="utf-8", newline="")
        about = json.dumps({**config, "manifest": dict(manifest or {})}, indent=1) + "\n"
        (partial / CONFIG).write_text(about, encoding="utf-8")
    return target


def is_saved(folder: str | Path) -> bool:
    """Return whether a folder holds a model of this kind."""
    try:
        return bool(read_json(Path(folder) / CONFIG).get("kind") == KIND)
    except EvenhandError:
        return False


def load(folder: str | Path, *, device: str = "cpu") -> tuple[AWDLSTM, TokenVocabulary, Manifest]:
    """Return model, vocabulary and manifest of a folder.

    Raises:
        InputMissingError: If the folder or one of its files does not exist.
        FormatError: If the files are damaged or do not belong together; the message names the file.
    """
    from evenhand.models.lm.awd_lstm.network import AWDLSTM

    path = Path(folder)
    if not path.is_dir():
        raise InputMissingError(f"folder {str(path)!r} does not exist", hint="name a folder written by `lm train`")
    config = read_folder_config(path)
    vocabulary = read_vocabulary(path)
    if len(vocabulary) != config.words:
        raise FormatError(f"{path / WORDS}: {len(vocabulary):,} words, expected {config.words:,}")
    _check_shapes(path / WEIGHTS, config)
    model = AWDLSTM(config.words, config.settings)
    _fill(model, path / WEIGHTS)
    return model.to(device).eval(), vocabulary, config.manifest


def read_folder_config(folder: Path) -> FolderConfig:
    """Return the configuration of a model folder."""
    path = existing(folder / CONFIG, what="config")
    content = read_json(path)
    if content.get("kind") != KIND or content.get("format") != MODEL_FORMAT:
        kind, version = shown(content.get("kind")), shown(content.get("format"))
        raise FormatError(f"{path}: a {kind} of format {version}, expected {KIND!r} of {MODEL_FORMAT}")
    words, manifest = content.get("words"), content.get("manifest", {})
    if type(words) is not int or words < 1 or not isinstance(manifest, dict):
        raise FormatError(f"{path}: words is {shown(words)}, expected the size of the vocabulary")
    return FolderConfig(words, _read_settings(content.get("settings"), path), manifest)


def _read_settings(content: object, path: Path) -> LMSettings:
    types = {field.name: type(field.default) for field in fields(LMSettings)}
    if not isinstance(content, dict) or not set(content) <= set(types):
        raise FormatError(f"{path}: not the configuration of an evenhand language model (settings)")
    for name, value in content.items():
        allowed = (int, float) if types[name] is float else (types[name],)
        if type(value) not in allowed:
            raise FormatError(f"{path}: {name} is {shown(value)}, expected {types[name].__name__}")
    try:
        return LMSettings(**content)
    except EvenhandError as error:
        raise FormatError(f"{path}: not the configuration of an evenhand language model ({error.message})") from error


def read_vocabulary(folder: Path) -> TokenVocabulary:
    """Return the vocabulary of a model folder."""
    path = existing(folder / WORDS, what="vocabulary")
    try:
        return TokenVocabulary(tuple(path.read_bytes().decode().split("\n")[:-1]))
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not UTF-8 text (byte {error.start:,})", hint="write the folder again") from error
    except EvenhandError as error:
        raise FormatError(f"{path}: {error.message}", hint="write the folder again") from error


def _check_shapes(path: Path, config: FolderConfig) -> None:
    """Raise an error unless the stored tensors are those of the configuration, before memory is taken for them."""
    header = read_header(path)
    if config.settings.layers > len(header):
        raise FormatError(f"{path}: {len(header)} tensors for {config.settings.layers:,} layers", hint="write it again")
    for name, shape in _expected_shapes(config).items():
        if name not in header:
            raise FormatError(f"{path}: no tensor {name!r}", hint="write the folder again")
        if header[name].shape != shape:
            raise FormatError(f"{path}: tensor {name!r} has the shape {header[name].shape}, expected {shape}")


def _expected_shapes(config: FolderConfig) -> Shapes:
    settings = config.settings
    shapes: Shapes = {"encoder.weight": (config.words, settings.embedding), "decoder.bias": (config.words,)}
    if not settings.tied:
        shapes["decoder.weight"] = (config.words, settings.embedding)
    for number, (inputs, units) in enumerate(pairwise(settings.layer_widths())):
        shapes[f"layers.{number}.weight_ih"] = (GATES * units, inputs)
        shapes[f"layers.{number}.weight_hh"] = (GATES * units, units)
        shapes |= {f"layers.{number}.bias_{part}": (GATES * units,) for part in ("ih", "hh")}
    return shapes


def _fill(model: AWDLSTM, path: Path) -> None:
    import torch

    header = read_header(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(read_tensor(header[name], name)))


@dataclass(frozen=True)
class Epoch:
    """The results of one pass over the training text.

    `train_loss` is the mean cross-entropy with dropout, `regulariser` the mean of the added term (0 without one),
    `unclipped` the mean share of the gradient that clipping leaves (1 if nothing was clipped), and `averaging` whether
    the validated weights are averages.
    """

    number: int
    train_loss: float
    valid_perplexity: float
    regulariser: float
    unclipped: float
    averaging: bool
    seconds: float
    tokens_per_second: float

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class TrainedLM:
    """A trained model with the weights of its best epoch on the validation text, its history and its manifest."""

    model: AWDLSTM
    vocabulary: TokenVocabulary
    history: tuple[Epoch, ...]
    manifest: Manifest

    def save(self, folder: str | Path) -> Path:
        """Write model, vocabulary and manifest into a folder; `load` reads it back."""
        return save(self.model, self.vocabulary, folder, manifest=self.manifest)
