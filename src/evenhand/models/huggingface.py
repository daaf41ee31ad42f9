"""Open Hugging Face model folders: the one loader for classifiers, language models and encoders.

Only local files are read. Weights must be safetensors: pickled weights can run any code when they are opened and are
refused, and so is code beside a model. A folder that lacks weights of the model is refused too, because `transformers`
would fill them with random numbers.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from evenhand.errors import EvenhandError, FormatError, InputMissingError, few, require
from evenhand.models.model_files import TensorInfo, read_header, read_json, read_json_value, read_unchanged_json

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Kind = Literal["nli-classifier", "text-classifier", "masked-lm", "causal-lm", "encoder"]
Config = Mapping[str, object]
AUTO_CLASSES: dict[Kind, str] = {
    "nli-classifier": "AutoModelForSequenceClassification",
    "text-classifier": "AutoModelForSequenceClassification",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "encoder": "AutoModel",
}
TITLES: dict[Kind, str] = {
    "nli-classifier": "a trained classifier of sentence pairs",
    "text-classifier": "a trained text classifier",
    "masked-lm": "a masked language model",
    "causal-lm": "a causal language model",
    "encoder": "a text encoder",
}
# Model types whose folders hold a causal language model where the configuration does not name an architecture.
CAUSAL_TYPES = re.compile(
    r"gpt|llama|mistral|mixtral|qwen|gemma|phi|opt$|bloom|falcon|mpt|olmo|stablelm|smollm|mamba|rwkv|codegen|cohere"
)
NLI_TASKS = ("mnli", "snli", "xnli", "anli", "nli")
NLI_STEMS = ("entail", "neutral", "contradict")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SITE_MAPS = "evenhand-sites.safetensors"  # maps that `evenhand debias --hook` keeps beside the weights
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.spm", "*.tiktoken", "vocab-*.json")
BYTE_TOKENIZERS = ("ByT5", "Canine", "Perceiver")  # their vocabularies are not stored
LARGEST_SIZE = 1 << 27
MOST_LAYERS = 1000  # more layers than this must be backed by as many tensors
SIZE_NAMES = re.compile(r".*_(size|dim|positions|embeddings|heads|experts|labels|groups)|n_(embd|ctx|head|inner)|d_\w+")


class LoadedModel(NamedTuple):
    """A model in evaluation mode, and notes on weights that were left out."""

    model: PreTrainedModel
    notes: tuple[str, ...]


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
    hub: Any = require("huggingface_hub", extra="models")
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
        inside = isinstance(path, str) and "/" not in path and ".." not in path
        if inside and os.path.isfile(folder / path / "config.json"):  # noqa: PTH113  does not raise for a long name
            return folder / path
    return None


def read_config(source: str | os.PathLike[str]) -> Config:
    """Return the configuration of a model folder; opening a model asks for it several times."""
    return read_unchanged_json(resolve_folder(source) / "config.json")


def model_kind(source: str | os.PathLike[str]) -> Kind:
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
    if not any("vocab_size" in section for section in _sections(config)):
        raise FormatError(f"{folder / 'config.json'}: no vocab_size, so it is not a text model")
    if (folder / "modules.json").is_file() or (folder.parent / "modules.json").is_file():
        return "encoder"
    return _kind_of(names[0] if names else "", str(model_type or ""), config)


def _kind_of(architecture: str, model_type: str, config: Config) -> Kind:
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
        raise _no_weights(folder)
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
            hint="if you trust the model, load it with transformers and save it again with save_pretrained(folder)",
        )
    if not os.path.isfile(folder / name):  # noqa: PTH113  does not raise for a long name
        raise InputMissingError(f"{folder / name} is missing, and {source} names it", hint="fetch the whole folder")
    return folder / name


def _no_weights(folder: Path) -> EvenhandError:
    """Return the error for a folder without the weights files that are looked for."""
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        return FormatError(
            f"{folder}: the weights are a pickle ({pickles[0]}), which can run any code when it is opened",
            hint="if you trust it, load it with transformers and save it again with save_pretrained(folder)",
        )
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    if "adapter_model.safetensors" in others or (folder / "adapter_config.json").is_file():
        return FormatError(
            f"{folder}: holds an adapter without its base model",
            hint="merge it first: merge_and_unload() of peft, then save_pretrained(folder)",
        )
    if onnx := [path.name for where in (folder, folder / "onnx") for path in where.glob("*.onnx")]:
        hint = f"convert a BERT model first: evenhand convert {folder} NEW_FOLDER"
        return FormatError(f"{folder}: the weights are an ONNX file ({onnx[0]})", hint=hint)
    return InputMissingError(
        f"{folder}: no weights ({WEIGHTS} or {INDEX})" + (f", only {few(others)}" if others else ""),
        hint="fetch the whole folder of the model",
    )


def load_model(
    source: str | os.PathLike[str], kind: Kind | None = None, *, precision: str = "float32", device: str = "cpu"
) -> LoadedModel:
    """Load the model of a folder.

    A pooler without stored weights, as in an encoder that was saved as a language model, is removed rather than filled
    with random numbers. Maps that were saved beside the weights are applied by hooks.

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
    from evenhand.models.encoders.saving import restore_maps  # imports this module

    folder = resolve_folder(source)
    stored = model_kind(folder)
    kind = kind or stored
    if kind in ("masked-lm", "causal-lm") and stored not in (kind, "encoder"):
        # transformers would build the other kind of language model from the same weights, with meaningless scores
        raise FormatError(f"{folder}: holds {TITLES[stored]}, not {TITLES[kind]}", hint=f"use {TITLES[kind]}")
    if (folder / "adapter_config.json").is_file():
        raise _no_weights(folder)
    _check_sizes(folder, read_weight_headers(folder))
    transformers: Any = require("transformers", extra="models")
    with quiet(transformers), _named_errors(folder, TITLES[kind]):
        model, info = getattr(transformers, AUTO_CLASSES[kind]).from_pretrained(
            str(folder),
            **dtype_option(transformers, torch_dtype(precision)),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    notes = _check_loaded(folder, kind, model, info)
    model.to(device).eval()
    return LoadedModel(model, (*notes, *restore_maps(model, folder)))


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
    transformers: Any = require("transformers", extra="models")
    with quiet(transformers), _named_errors(folder, "a tokenizer"):
        return transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


def dtype_option(transformers: Any, dtype: torch.dtype) -> dict[str, torch.dtype]:
    """Return the argument of `from_pretrained` for the number format, whose name changed in version 4.56."""
    recent = tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (4, 56)
    return {"dtype" if recent else "torch_dtype": dtype}


def _reads_bytes(folder: Path) -> bool:
    path = folder / "tokenizer_config.json"
    return path.is_file() and str(read_json(path).get("tokenizer_class", "")).startswith(BYTE_TOKENIZERS)


def _sections(config: Config) -> list[Config]:
    """Return the configuration and those of its parts, such as text_config."""
    return [config, *(value for value in config.values() if isinstance(value, dict))]


def _check_sizes(folder: Path, tensors: Mapping[str, TensorInfo]) -> None:
    """Raise an error for sizes that the stored tensors rule out; building such a model would take all memory."""
    for name, info in tensors.items():
        if info.dtype.startswith("F8") or info.dtype.startswith(("F4", "F6")):
            raise FormatError(
                f"{info.path}: tensor {name!r} is stored as {info.dtype}, which is not supported",
                hint="load the model with transformers and save it in bfloat16 or float32",
            )
    for section in _sections(read_config(folder)):
        for key, value in section.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if "layer" in key and value > max(MOST_LAYERS, len(tensors)):
                reason = f"the weights have {len(tensors)} tensors"
            elif SIZE_NAMES.fullmatch(key) and not -1 <= value <= LARGEST_SIZE:
                reason = f"at most {LARGEST_SIZE:,} is supported"
            else:
                continue
            raise FormatError(f"{folder / 'config.json'}: {key} is {value:,}, and {reason}", hint="fetch it again")


def _check_loaded(folder: Path, kind: Kind, model: Any, info: Mapping[str, Any]) -> tuple[str, ...]:
    """Raise an error for weights that `transformers` made up; return notes on what was left out."""
    missing = sorted(map(str, info["missing_keys"]))
    notes = []
    if kind == "encoder" and missing and all(name.startswith("pooler.") for name in missing):
        model.pooler = None
        notes.append("no weights for the pooler are stored; it is left out, and the hidden states do not depend on it")
        missing = []
    missing += sorted(str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"])
    if missing:
        raise FormatError(
            f"{folder}: no weights for {few(missing, most=4)} of {type(model).__name__}, so it is not {TITLES[kind]}",
            hint="use a model fine-tuned on natural language inference"
            if kind == "nli-classifier"
            else f"use a folder in which {TITLES[kind]} was saved",
        )
    unused = sorted(map(str, info["unexpected_keys"]))
    if unused:
        notes.append(f"{len(unused)} stored tensors do not belong to {type(model).__name__}: {few(unused)}")
    return tuple(notes)


@contextlib.contextmanager
def _named_errors(folder: Path, what: str) -> Iterator[None]:
    """Turn what `transformers` raises into an error that names the folder."""
    try:
        yield
    except EvenhandError:
        raise
    except OSError as error:
        raise InputMissingError(
            f"transformers cannot load {what} from {str(folder)!r} ({_first_line(error)})",
            hint="fetch the whole folder of the model",
        ) from error
    except Exception as error:  # safetensors, tokenizers and the model classes raise errors of many types
        raise FormatError(
            f"transformers cannot load {what} from {str(folder)!r} ({_first_line(error)})",
            hint="check that config.json, the weights and the tokenizer belong together and need no code of their own",
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Silence progress bars and loading reports of `transformers`."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
