"""Open Hugging Face model folders: the one loader for classifiers, language models and encoders.

Only local files are read. Weights must be safetensors: pickled weights can run any code when they are opened and are
refused, and so is code beside a model. A folder that lacks weights of the model is refused too, because `transformers`
would fill them with random numbers.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from evenhand.errors import (
    EvenhandError,
    FormatError,
    InputMissingError,
    few,
    first_line,
    foreign_errors,
    require,
    shown,
)
from evenhand.models import tokenizing
from evenhand.models.huggingface_folder import (
    ModelKind,
    config_sections,
    model_kind,
    no_weights_error,
    read_config,
    read_weight_headers,
    resolve_folder,
)
from evenhand.models.model_files import TensorInfo, read_json

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

AUTO_CLASSES: dict[ModelKind, str] = {
    "nli-classifier": "AutoModelForSequenceClassification",
    "text-classifier": "AutoModelForSequenceClassification",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "encoder": "AutoModel",
}
TITLES: dict[ModelKind, str] = {
    "nli-classifier": "a trained classifier of sentence pairs",
    "text-classifier": "a trained text classifier",
    "masked-lm": "a masked language model",
    "causal-lm": "a causal language model",
    "encoder": "a text encoder",
}
SITE_MAPS = "evenhand-sites.safetensors"  # maps that `evenhand debias --hook` keeps beside the weights
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.spm", "*.tiktoken", "vocab-*.json")
BYTE_TOKENIZERS = ("ByT5", "Canine", "Perceiver")  # their vocabularies are not stored
LARGEST_SIZE = 1 << 27
OLD_NAMES = re.compile(r"\.(gamma|beta)$")  # of weight and bias of a layer norm
STALE_BUFFERS = (r"rotary_emb\.inv_freq", r"(^|\.)position_ids$")  # stored by earlier versions of transformers
LAYER_NUMBER = re.compile(r"\.\d+\.")
MOST_LABELS = 1000  # more labels than this must be backed by a tensor as wide
MOST_LAYERS = 512  # more layers than this must be backed by as many tensors
MOST_UNSTORED = (
    1 << 24
)  # numbers of a model that no file holds, beside as many as are stored: poolers, tables of positions
COUNT_NAMES = re.compile(r"layer|expert|group|block|depth")
SIZE_NAMES = re.compile(r".*_(size|dim|positions|embeddings|heads|experts|labels|groups)|n_(embd|ctx|head|inner)|d_\w+")


class LoadedModel(NamedTuple):
    """A model in evaluation mode, notes on weights left out, and the names of stored ones that it does not use."""

    model: PreTrainedModel
    notes: tuple[str, ...]
    unused: tuple[str, ...] = ()


def read_model(
    source: str | os.PathLike[str], kind: ModelKind | None = None, *, precision: str = "float32", device: str = "cpu"
) -> LoadedModel:
    """Read the model of a folder, without the maps that `evenhand debias --hook` saved beside its weights.

    A pooler without stored weights, as in an encoder that was saved as a language model, is removed rather than filled
    with random numbers. `encoders.transformer.load_model` applies the maps as well.

    Args:
        source: a folder, or a Hub id in the local cache.
        kind: what to load; the kind that `model_kind` returns by default.
        precision: the number format of the weights.
        device: a resolved device.

    Raises:
        InputMissingError: If the folder, its configuration or its weights are missing.
        FormatError: If the files are damaged or unsafe, or do not hold every weight of the model.
    """
    from evenhand.models.device import torch_dtype

    folder = resolve_folder(source)
    stored = model_kind(folder)
    kind = kind or stored
    if kind in ("masked-lm", "causal-lm") and stored not in (kind, "encoder"):
        # transformers would build the other kind of language model from the same weights, with meaningless scores
        raise FormatError(f"{folder}: holds {TITLES[stored]}, not {TITLES[kind]}", hint=f"use {TITLES[kind]}")
    if (folder / "adapter_config.json").is_file():
        raise no_weights_error(folder)
    tensors = read_weight_headers(folder)
    _check_sizes(folder, tensors)
    transformers = require("transformers", extra="models")
    auto = getattr(transformers, AUTO_CLASSES[kind])
    with quiet(transformers), offline(), _named_errors(folder, TITLES[kind]):
        config = _load_config(transformers, folder)
        _check_shapes(folder, auto, config, tensors)
        model, info = auto.from_pretrained(
            str(folder),
            config=config,
            **dtype_option(transformers, torch_dtype(precision)),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # `_check_loaded` refuses them, and names the tensors
        )
    notes = _check_loaded(folder, kind, model, info)
    model.to(device).eval()
    return LoadedModel(model, notes, _unused(tensors, model, info))


def load_tokenizer(source: str | os.PathLike[str]) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder.

    Raises:
        InputMissingError: If the folder has no tokenizer files.
        FormatError: If they are damaged, or need code beside the model.
    """
    folder = resolve_folder(source)
    if not any(next(folder.glob(pattern), None) for pattern in TOKENIZER_FILES) and not _reads_bytes(folder):
        raise InputMissingError(
            f"{folder}: no tokenizer (none of {', '.join(TOKENIZER_FILES[:4])})",
            hint="fetch the whole folder, or write it with tokenizer.save_pretrained(folder)",
        )
    transformers = require("transformers", extra="models")
    tokenizing.check_files(folder)
    with quiet(transformers), offline(), _named_errors(folder, "a tokenizer"):
        tokenizer: PreTrainedTokenizerBase = transformers.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    tokenizing.settle(tokenizer, folder)
    return tokenizer


_OFFLINE_LOCK = threading.Lock()
_offline: list[tuple[bool, str | None]] = []  # the modes that users of `offline` met, the first one's at the beginning


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Keep the libraries of the Hub from the network: some files of a model name others that they would fetch.

    The mode is one for the whole process, and several threads may need it: the last of them restores it.
    """
    constants: Any = require("huggingface_hub.constants", extra="models")
    with _OFFLINE_LOCK:
        _offline.append((constants.HF_HUB_OFFLINE, os.environ.get("HF_HUB_OFFLINE")))
        constants.HF_HUB_OFFLINE, os.environ["HF_HUB_OFFLINE"] = True, "1"
    try:
        yield
    finally:
        with _OFFLINE_LOCK:
            mode, variable = _offline.pop()
            if not _offline:
                constants.HF_HUB_OFFLINE = mode
                os.environ.pop("HF_HUB_OFFLINE", None)
                if variable is not None:
                    os.environ["HF_HUB_OFFLINE"] = variable


def _load_config(transformers: ModuleType, folder: Path) -> PretrainedConfig:
    """Return the configuration; how attention is computed is not its choice, since it can name code on the Hub.

    Raises:
        FormatError: If a part of it that describes the text model is not a configuration, such as a plain text_config.
    """
    config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    text = config.get_text_config()
    if not isinstance(text, transformers.PretrainedConfig):
        raise FormatError(
            f"{folder / 'config.json'}: a part that should describe the text model is {shown(text)}",
            hint="use the configuration that was saved with the weights",
        )
    for section in (config, *vars(config).values()):
        if isinstance(section, transformers.PretrainedConfig):
            section._attn_implementation = None  # the default of the class: sdpa where it supports it, or eager
            section.return_dict = True  # what is computed has names
    return config


def _check_shapes(
    folder: Path, auto: type[PreTrainedModel], config: PretrainedConfig, tensors: Mapping[str, TensorInfo]
) -> None:
    """Raise an error for sizes that the stored tensors do not have, before anything of them is allocated."""
    torch = require("torch", extra="models")
    with torch.device("meta"):
        model = auto.from_config(config)
    prefix, stored = f"{model.base_model_prefix}.", sum(math.prod(info.shape) for info in tensors.values())
    unknown = sum(buffer.numel() for buffer in model.buffers())
    for name, parameter in model.named_parameters():
        names = (name, prefix + name, name.removeprefix(prefix))
        info = next((tensors[key] for key in names if key in tensors), None)
        if info is None:
            unknown += parameter.numel()  # tied, stored in another form, or missing, which `_check_loaded` tells
        elif math.prod(info.shape) != parameter.numel():
            raise _wrong_shapes(folder, [_mismatch((name, info.shape, parameter.shape))])
    if unknown > stored + MOST_UNSTORED:
        raise FormatError(
            f"{folder / 'config.json'}: describes {unknown:,} numbers that are not stored; {stored:,} are",
            hint="use the configuration that was saved with the weights",
        )


def dtype_option(transformers: ModuleType, dtype: torch.dtype) -> dict[str, torch.dtype]:
    """Return the argument of `from_pretrained` for the number format, whose name changed in version 4.56."""
    recent = tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (4, 56)
    return {"dtype" if recent else "torch_dtype": dtype}


def _reads_bytes(folder: Path) -> bool:
    path = folder / "tokenizer_config.json"
    return path.is_file() and str(read_json(path).get("tokenizer_class", "")).startswith(BYTE_TOKENIZERS)


def _check_sizes(folder: Path, tensors: Mapping[str, TensorInfo]) -> None:
    """Raise an error for sizes that the stored tensors rule out; building such a model would take all memory."""
    for name, info in tensors.items():
        if info.dtype.startswith("F8") or info.dtype.startswith(("F4", "F6")):
            raise FormatError(
                f"{info.path}: tensor {name!r} is stored as {info.dtype}, which is not supported",
                hint="load the model with transformers and save it in bfloat16 or float32",
            )
    widest = max((size for info in tensors.values() for size in info.shape), default=0)
    for section in config_sections(read_config(folder)):
        for key, value in section.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if COUNT_NAMES.search(key) and value > max(MOST_LAYERS, len(tensors)):
                reason = f"the weights have {len(tensors)} tensors"
            elif key.endswith("num_labels") and value > max(MOST_LABELS, widest):
                reason = f"no stored tensor is wider than {widest:,}"
            elif SIZE_NAMES.fullmatch(key) and not -1 <= value <= LARGEST_SIZE:
                reason = f"at most {LARGEST_SIZE:,} is supported"
            else:
                continue
            raise FormatError(f"{folder / 'config.json'}: {key} is {value:,}, and {reason}", hint="fetch it again")


def _check_loaded(
    folder: Path, kind: ModelKind, model: PreTrainedModel, info: Mapping[str, Sequence[object]]
) -> tuple[str, ...]:
    """Raise an error for weights that `transformers` made up; return notes on what was left out."""
    name = type(model).__name__
    if info["mismatched_keys"]:
        raise _wrong_shapes(folder, sorted(map(_mismatch, info["mismatched_keys"])))
    missing, notes = sorted(map(str, info["missing_keys"])), []
    if kind == "encoder" and missing and all(key.startswith("pooler.") for key in missing):
        model.pooler = None
        notes.append("no weights for the pooler are stored; it is left out, and the hidden states do not depend on it")
        missing = []
    if missing:
        raise FormatError(
            f"{folder}: no weights for {few(missing, most=4)} of {name}, so it is not {TITLES[kind]}",
            hint="use a model fine-tuned on natural language inference"
            if kind == "nli-classifier"
            else f"use a folder in which {TITLES[kind]} was saved",
        )
    unused = sorted(map(str, info["unexpected_keys"]))
    known = {_numberless(key, model.base_model_prefix) for key in model.state_dict()}
    further = [key for key in unused if LAYER_NUMBER.search(key)]
    if further := [key for key in further if _numberless(key, model.base_model_prefix) in known]:
        raise FormatError(
            f"{folder}: the weights have more layers than config.json gives {name}: {few(further, most=4)}",
            hint="use the configuration that was saved with the weights",
        )
    if unused:
        notes.append(f"{len(unused)} stored tensors do not belong to {name}: {few(unused)}")
    return tuple(notes)


def _unused(stored: Iterable[str], model: PreTrainedModel, info: Mapping[str, Sequence[object]]) -> tuple[str, ...]:
    """Return the stored tensors that belong to no part of the model, also those that `transformers` does not report."""
    ignored = [*(model._keys_to_ignore_on_load_unexpected or ()), *STALE_BUFFERS]
    prefix, own = f"{model.base_model_prefix}.", model.state_dict().keys()
    unexpected = set(map(str, info["unexpected_keys"]))

    def is_unused(name: str) -> bool:
        plain = OLD_NAMES.sub(lambda found: ".weight" if found[0] == ".gamma" else ".bias", name)
        if {plain, prefix + plain, plain.removeprefix(prefix)} & own:
            return False
        return bool({name, plain} & unexpected) or any(re.search(pattern, name) for pattern in ignored)

    return tuple(sorted(filter(is_unused, stored)))


def _numberless(name: str, prefix: str) -> str:
    """Return the name of a tensor without the number of its layer and without the prefix of the body."""
    return LAYER_NUMBER.sub(".", name.removeprefix(f"{prefix}."))


def _wrong_shapes(folder: Path, mismatches: Sequence[str]) -> FormatError:
    more = f", and {len(mismatches) - 1} more" if len(mismatches) > 1 else ""
    return FormatError(
        f"{folder}: the weights do not fit config.json: {mismatches[0]}{more}",
        hint="use the configuration that was saved with the weights",
    )


def _mismatch(key: object) -> str:
    """Describe a stored tensor of the wrong shape."""
    if not isinstance(key, tuple) or len(key) < 3:
        return str(key[0] if isinstance(key, tuple) else key)
    return f"{key[0]} has the shape {tuple(key[1])}, and the model needs {tuple(key[2])}"


@contextlib.contextmanager
def _named_errors(folder: Path, what: str) -> Iterator[None]:
    """Turn what `transformers` raises into an error that names the folder."""
    failure = f"transformers cannot load {what} from {str(folder)!r}"
    hint = "check that config.json, the weights and the tokenizer belong together and need no code of their own"
    with foreign_errors(failure, hint=hint):
        try:
            yield
        except EvenhandError:
            raise
        except OSError as error:
            raise InputMissingError(
                f"{failure} ({first_line(error)})", hint="fetch the whole folder of the model"
            ) from error


@contextlib.contextmanager
def quiet(transformers: ModuleType) -> Iterator[None]:
    """Silence progress bars and reports of `transformers`, which show what files say as it is."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
