"""The folder of a trained AWD-LSTM: settings with the published values, vocabulary, configuration and weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evenhand.errors import EvenhandError, FormatError, InputMissingError, UsageError, shown, unknown_name
from evenhand.files import existing
from evenhand.models.lm.awd_lstm.corpus import EOS, UNK, TokenVocabulary
from evenhand.models.model_files import JSONObject, read_header, read_json, read_tensor
from evenhand.models.vectors import Case, Vectors
from evenhand.outputs import replacing_folder

if TYPE_CHECKING:
    from evenhand.models.lm.awd_lstm.network import AWDLSTM


GATES = 4  # of an LSTM cell


@dataclass(frozen=True)
class LMSettings:
    """Hyper-parameters of the AWD-LSTM (Merity et al. 2018), with the values of Bordia & Bowman 2019.

    Args:
        embedding: width of the word vectors and of the last layer, so that input and output can share a matrix.
        hidden: width of the other layers.
        layers: number of LSTM layers.
        tied: whether input and output words share one matrix.
        dropout_embedding: share of words whose vector is zero throughout a batch.
        dropout_input: share of coordinates of the input dropped, the same at every time step.
        dropout_hidden: the same between layers.
        dropout_output: the same after the last layer.
        weight_drop: share of the hidden-to-hidden weights dropped, drawn anew for each batch.
        alpha: weight of the mean square of the last layer's output (AR).
        beta: weight of the mean square of its change from step to step (TAR).
        learning_rate: for a stretch of `bptt` steps; proportionally less for a shorter stretch.
        weight_decay: L2 penalty on every parameter.
        clip: largest norm of a gradient.
        patience: validations without improvement before averaging starts (n of NT-ASGD).
        bptt: usual number of time steps through which gradients flow.
        batch: columns of the training text that are read side by side.
        eval_batch: columns of the validation text.
        epochs: number of passes over the text.
    """

    embedding: int = 400
    hidden: int = 1150
    layers: int = 3
    tied: bool = True
    dropout_embedding: float = 0.1
    dropout_input: float = 0.65
    dropout_hidden: float = 0.3
    dropout_output: float = 0.4
    weight_drop: float = 0.5
    alpha: float = 2.0
    beta: float = 1.0
    learning_rate: float = 30.0
    weight_decay: float = 1.2e-6
    clip: float = 0.25
    patience: int = 5
    bptt: int = 70
    batch: int = 40
    eval_batch: int = 10
    epochs: int = 750

    def __post_init__(self) -> None:
        for name in ("embedding", "hidden", "layers", "patience", "bptt", "batch", "eval_batch", "epochs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (field.name for field in fields(self) if "drop" in field.name):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if not (self.learning_rate > 0 and self.clip > 0 and min(self.alpha, self.beta, self.weight_decay) >= 0):
            raise UsageError("learning_rate and clip must be above 0; alpha, beta and weight_decay at least 0")

    def layer_widths(self) -> list[int]:
        """Return the input width of the first LSTM layer, followed by the width of each layer."""
        return [self.embedding, *[self.hidden] * (self.layers - 1), self.embedding]

    def to_dict(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return asdict(self)


PRESETS: dict[str, LMSettings] = {
    "ptb": LMSettings(),
    "wikitext-2": LMSettings(batch=80),
    "cnn-dailymail": LMSettings(batch=80, epochs=500),
}


def settings_of(name: str, **changes: float) -> LMSettings:
    """Return the settings of a published corpus, with some of them changed."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    unknown = set(changes) - {field.name for field in fields(LMSettings)}
    if unknown:
        raise unknown_name("setting", min(unknown), (field.name for field in fields(LMSettings)))
    return replace(PRESETS[name], **changes)  # type: ignore[arg-type]  # whole numbers are whole where they must be


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


def word_table(folder: Path, *, name: str = "", case: Case = "auto") -> Vectors:
    """Return the input table of a trained model as vectors; its special tokens are left out."""
    words = read_vocabulary(folder).words
    header = read_header(folder / WEIGHTS)
    info = header.get("encoder.weight")
    if info is None or len(info.shape) != 2 or info.shape[0] != len(words):
        raise FormatError(
            f"{folder / WEIGHTS}: no word table of {len(words):,} rows ('encoder.weight')", hint="write it again"
        )
    rows = [row for row, word in enumerate(words) if word not in (EOS, UNK)]
    if not rows:
        raise InputMissingError(f"{folder}: the vocabulary has no words", hint="train the model again")
    left_out = {"special": len(words) - len(rows)}
    about = {"kind": "input table", "model": "awd-lstm", "tensor": "encoder.weight", "words": len(rows)}
    matrix = read_tensor(info, "encoder.weight", rows)
    return Vectors(
        tuple(words[row] for row in rows),
        matrix,
        name=name or folder.name,
        source={**about, "left_out": left_out},
        case=case,
    )


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
