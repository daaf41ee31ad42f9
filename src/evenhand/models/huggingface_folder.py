"""What a Hugging Face folder holds, told from its files without torch: kind of model, configuration, stored tensors."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from evenhand.errors import EvenhandError, FormatError, InputMissingError, few, require
from evenhand.models.model_files import TensorInfo, read_header, read_json, read_json_value, read_unchanged_json

ModelKind = Literal["nli-classifier", "text-classifier", "masked-lm", "causal-lm", "encoder"]
Config = Mapping[str, object]
# Model types whose folders hold a causal language model where the configuration does not name an architecture.
CAUSAL_TYPES = re.compile(
    r"gpt|llama|mistral|mixtral|qwen|gemma|phi|opt$|bloom|falcon|mpt|olmo|stablelm|smollm|mamba|rwkv|codegen|cohere"
)
NLI_TASKS = ("mnli", "snli", "xnli", "anli", "nli")
NLI_STEMS = ("entail", "neutral", "contradict")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
RESAVE_HINT = "if you trust it, load it with transformers and save it again with save_pretrained(folder)"
PICKLE_HINT = "if you trust it, open it with `allow_pickle=True`, which reads tensors alone"


def resolve_folder(source: str | os.PathLike[str]) -> Path:
    """Return the folder of a model: a path, or the local copy of a Hub id that was downloaded before.

    Of a sentence-transformers folder, the folder of its transformer is returned.

    Raises:
        InputMissingError: If there is no such folder, or no config.json in it.
    """
    name = os.fspath(source)
    folder = Path(os.path.expanduser(name))  # noqa: PTH111  leaves unknown home directories unchanged
    if not os.path.exists(folder):  # noqa: PTH110  Path.exists raises on names that are too long
        folder = _cached_folder(name)
    if not folder.is_dir():
        raise InputMissingError(f"{folder} is a file, not a model folder", hint="name the folder that contains it")
    if (folder / "config.json").is_file():
        return folder
    inner = _sentence_transformer(folder)
    if inner is None:
        raise InputMissingError(
            f"{folder}: no config.json, so it is not a Hugging Face model folder",
            hint="name a folder written by save_pretrained",
        )
    return inner


def _cached_folder(name: str) -> Path:
    """Return the snapshot of a Hub id in the local cache."""
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip() or "\\" in name:
        raise InputMissingError(f"there is no folder {name!r}", hint="check the spelling of the path")
    if find_spec("huggingface_hub") is None:  # it reads the cache
        raise InputMissingError(
            f"there is no folder {name!r}",
            hint='name a folder; Hub ids need huggingface_hub: pip install "evenhand[models]"',
        )
    hub = require("huggingface_hub", extra="models")
    config: object = None
    with contextlib.suppress(ValueError):  # not the form of an id
        config = hub.try_to_load_from_cache(name, "config.json")
    if not isinstance(config, str):
        raise InputMissingError(
            f"there is no folder {name!r}, and no model of that id in the local cache",
            hint=f"name a folder, or download the model first: hf download {name}",
        )
    return Path(config).parent


def _sentence_transformer(folder: Path) -> Path | None:
    """Return the transformer inside a sentence-transformers folder that keeps it in a folder of its own."""
    if not (folder / "modules.json").is_file():
        return None
    modules = read_json_value(folder / "modules.json")
    for module in modules if isinstance(modules, list) else []:
        path = module.get("path") if isinstance(module, dict) else None
        if not isinstance(path, str) or "/" in path or ".." in path:
            continue
        if os.path.isfile(folder / path / "config.json"):  # noqa: PTH113  does not raise for a long name
            return folder / path
    return None


def is_own_file(file: Path, folder: Path) -> bool:
    """Return whether a regular file lies in a folder after all links; a copy of any other might be private.

    In the Hub's cache, the files of a snapshot are links into the folder `blobs` of the same model.
    """
    real, home = Path(os.path.realpath(file)), Path(os.path.realpath(folder))
    snapshot = next((place for place in (home, home.parent) if place.parent.name == "snapshots"), None)
    homes = [home, snapshot.parent.parent / "blobs"] if snapshot is not None else [home]
    return real.is_file() and any(real.is_relative_to(place) for place in homes)


def read_config(source: str | os.PathLike[str]) -> Config:
    """Return the configuration of a model folder; opening a model asks for it several times."""
    return read_unchanged_json(resolve_folder(source) / "config.json")


def adapter_config(folder: Path) -> Config:
    """Return the settings of an adapter."""
    return read_unchanged_json(folder / ADAPTER)


def model_kind(source: str | os.PathLike[str]) -> ModelKind:
    """Return the kind of model that a folder holds, from its configuration alone; torch is not imported.

    A classifier with the three labels of natural language inference is an `nli-classifier`, any other a
    `text-classifier`. Encoder-decoder models, and heads other than classifiers and language models, count as `encoder`.

    Raises:
        FormatError: If the configuration does not describe a Hugging Face text model.
    """
    folder = resolve_folder(source)
    config = read_config(folder)
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{folder / 'config.json'}: architectures is not a list of names", hint="fetch it again")
    model_type = config.get("model_type")
    if not names and not isinstance(model_type, str):
        raise FormatError(
            f"{folder / 'config.json'}: neither architectures nor model_type is given, so the kind of model is unknown",
            hint="name a folder written by save_pretrained of transformers",
        )
    if not any("vocab_size" in section for section in config_sections(config)):
        raise FormatError(f"{folder / 'config.json'}: no vocab_size, so it is not a text model")
    if (folder / "modules.json").is_file() or (folder.parent / "modules.json").is_file():
        return "encoder"
    return _kind_of(names[0] if names else "", str(model_type or ""), config)


def _kind_of(architecture: str, model_type: str, config: Config) -> ModelKind:
    if architecture.endswith("ForSequenceClassification"):
        return "nli-classifier" if _has_nli_labels(config) else "text-classifier"
    if architecture.endswith("ForMaskedLM") or (
        architecture.endswith("ForPreTraining") and model_type not in ("electra", "xlnet")
    ):
        return "masked-lm"
    if architecture.endswith(("ForCausalLM", "LMHeadModel")):
        return "causal-lm"
    return "causal-lm" if not architecture and CAUSAL_TYPES.match(model_type) else "encoder"


def _has_nli_labels(config: Config) -> bool:
    """Return whether the labels are entailment, neutral and contradiction, by their names or by the task."""
    labels = config.get("id2label")
    names = [str(name).lower() for name in labels.values()] if isinstance(labels, dict) else []
    if len(names) != len(NLI_STEMS):
        return False
    named = all(sum(stem in name for name in names) == 1 for stem in NLI_STEMS)
    return named or str(config.get("finetuning_task", "")).lower() in NLI_TASKS


def unnamed_labels(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the labels of a classifier with three outputs that have no names, which may be an NLI model."""
    if model_kind(source) != "text-classifier":
        return ()
    labels = read_config(source).get("id2label")
    names = tuple(map(str, labels.values())) if isinstance(labels, dict) else ()
    unnamed = all(re.fullmatch(r"(LABEL_)?\d+", name) for name in names)
    return names if len(names) == len(NLI_STEMS) and unnamed else ()


def classifier_labels(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the labels of a classifier in the order of its outputs; transformers writes no names of its default."""
    labels = read_config(source).get("id2label")
    names = {int(key): str(name) for key, name in labels.items()} if isinstance(labels, dict) else {}
    return tuple(names[key] for key in sorted(names)) or ("LABEL_0", "LABEL_1")


def read_weight_headers(source: str | os.PathLike[str]) -> dict[str, TensorInfo]:
    """Return every stored tensor of a model folder by name, from the headers of its safetensors files.

    Raises:
        InputMissingError: If the folder has no weights, or a file that its index names is missing.
        FormatError: If the weights are pickled, or the index names anything but safetensors files of the folder.
    """
    folder = resolve_folder(source)
    tensors: dict[str, TensorInfo] = {}
    for path in _weight_files(folder):
        tensors.update(read_header(path))
    return tensors


def _weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that `transformers` would read."""
    explicit = read_config(folder).get("transformers_weights")
    names = (str(explicit),) if explicit else (WEIGHTS, INDEX)
    name = next((name for name in names if os.path.isfile(folder / name)), None)  # noqa: PTH113  for a long name
    if name is None:
        raise no_weights_error(folder)
    if not name.endswith(".json"):
        return [_safe_file(folder, name, "config.json")]
    shards = read_json(folder / name).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise FormatError(f"{folder / name}: no weight_map", hint="fetch the file again")
    return [_safe_file(folder, shard, name) for shard in sorted({str(shard) for shard in shards.values()})]


def _safe_file(folder: Path, name: str, source: str) -> Path:
    """Return the path of a weights file that another file names."""
    if not name.endswith(".safetensors") or Path(name).name != name:
        raise FormatError(
            f"{folder / source}: names the weights file {name!r}; only .safetensors files in the same folder are read",
            hint=RESAVE_HINT,
        )
    if not os.path.isfile(folder / name):  # noqa: PTH113  does not raise for a long name
        raise InputMissingError(f"{folder / name} is missing, and {source} names it", hint="fetch the whole folder")
    return folder / name


def no_weights_error(folder: Path) -> EvenhandError:
    """Return the error for a folder without the weights files that are looked for."""
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        readable = any(name.startswith(("pytorch_model", "adapter_model")) for name in pickles)
        return FormatError(
            f"{folder}: the weights are a pickle ({pickles[0]}), which can run any code when it is opened",
            hint=PICKLE_HINT if readable else RESAVE_HINT,
        )
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    if "adapter_model.safetensors" in others or (folder / "adapter_config.json").is_file():
        return FormatError(
            f"{folder}: holds an adapter without its base model",
            hint="open it as a subject, which merges a LoRA adapter with its base model: eh.open('hf:FOLDER')",
        )
    if onnx := [path.name for where in (folder, folder / "onnx") for path in where.glob("*.onnx")]:
        hint = f"convert a BERT model first: evenhand convert {folder} NEW_FOLDER"
        return FormatError(f"{folder}: the weights are an ONNX file ({onnx[0]})", hint=hint)
    return InputMissingError(
        f"{folder}: no weights ({WEIGHTS} or {INDEX})" + (f", only {few(others)}" if others else ""),
        hint="fetch the whole folder of the model",
    )


def config_sections(config: Config) -> list[Config]:
    """Return the configuration and those of its parts, such as text_config."""
    return [config, *(value for value in config.values() if isinstance(value, dict))]
