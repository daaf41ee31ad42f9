"""Model folders that need a step before they are read: LoRA adapters and pickled weights."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand import data
from evenhand.errors import EvenhandError, FormatError, InputMissingError, few, require, shown
from evenhand.files import cache_folder
from evenhand.models.encoders.saving import copy_other_files, inner_name
from evenhand.models.huggingface import SITE_MAPS, quiet
from evenhand.models.huggingface_folder import (
    ADAPTER,
    INDEX,
    WEIGHTS,
    ModelKind,
    adapter_config,
    model_kind,
    no_weights_error,
    read_config,
    read_weight_headers,
    resolve_folder,
)
from evenhand.models.model_files import read_header, read_json
from evenhand.outputs import replacing_folder

if TYPE_CHECKING:
    from torch import Tensor


PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
ADAPTER_WEIGHTS, PICKLED_ADAPTER = "adapter_model.safetensors", "adapter_model.bin"
LAYOUT = "1"  # of prepared folders; part of their names
MERGE_HINT = "merge it first: merge_and_unload() of peft, then save_pretrained(folder)"
# Settings of LoRA that change what the two factors mean.
UNSUPPORTED = ("use_dora", "layer_replication", "megatron_config", "target_parameters", "trainable_token_indices")
CHANGES_BASE = ("pissa", "olora", "corda", "loftq")  # initialisations that change the base model too
FACTOR = re.compile(r"(?P<module>.+)\.lora_(?P<table>embedding_)?(?P<factor>[AB])(\.weight)?")


def prepared(source: str | os.PathLike[str], *, allow_pickle: bool = False) -> Path:
    """Return a folder with safetensors weights: the given one, or a copy in the cache.

    A LoRA adapter is merged into its base model, which must be on this disk: a folder, a catalog id that was fetched,
    or a Hub id in the local cache. Pickled weights are converted if that is allowed.

    Raises:
        InputMissingError: If the base model of an adapter is not at hand.
        FormatError: If weights are pickled and that is not allowed, or are not plain tensors.
    """
    folder = Path(os.path.expanduser(os.fspath(source)))  # noqa: PTH111  leaves unknown home directories unchanged
    if not folder.is_dir():
        return folder
    if (folder / ADAPTER).is_file():
        base = prepared(base_folder(folder), allow_pickle=allow_pickle)
        return _kept(folder, base, allow_pickle, _state(folder, base))
    if not allow_pickle or not _is_pickled(folder):
        return folder
    return _kept(folder, None, allow_pickle, _state(folder))


def adapter_kind(folder: Path) -> ModelKind:
    """Return the kind of model that an adapter makes of its base model; nothing is merged."""
    if (folder / "config.json").is_file():
        return model_kind(folder)
    kind = model_kind(base_folder(folder))
    is_head = adapter_config(folder).get("task_type") == "SEQ_CLS" and "classifier" not in kind
    return "text-classifier" if is_head else kind


def base_folder(folder: Path) -> Path:
    """Return the folder of the base model that an adapter names, from this disk alone.

    Raises:
        InputMissingError: If it is not there.
    """
    name = adapter_config(folder).get("base_model_name_or_path")
    if not isinstance(name, str) or not name.strip():
        raise FormatError(f"{folder / ADAPTER}: base_model_name_or_path is {shown(name)}", hint=MERGE_HINT)
    beside = [Path(name).expanduser(), folder / name, folder.parent / Path(name).name]
    found = next((place for place in beside if os.path.isfile(place / "config.json")), None)  # noqa: PTH113
    if found is None and name in data.catalog():
        found = data.locate(name)
    try:
        return resolve_folder(found if found is not None else name)
    except EvenhandError as error:
        raise InputMissingError(
            f"{folder}: holds a LoRA adapter of the base model {name!r}, which is not on this disk",
            hint=f"put its folder beside the adapter's, or download it first: hf download {name}",
        ) from error


def _is_pickled(folder: Path) -> bool:
    try:
        inner = resolve_folder(folder)
    except EvenhandError:
        return False  # the reader says what is missing
    has_safetensors = any((inner / name).is_file() for name in (WEIGHTS, INDEX))
    return not has_safetensors and any((inner / name).is_file() for name in (PICKLED, PICKLED_INDEX))


def _state(*folders: Path) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and times of the files of folders, so that unchanged ones are hashed once."""
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)


@lru_cache(maxsize=16)
def _kept(folder: Path, base: Path | None, allow_pickle: bool, state: tuple[tuple[str, int, int], ...]) -> Path:
    """Return the prepared folder in the cache, written if it is not there yet."""
    hasher = hashlib.sha256(LAYOUT.encode())
    for name, *_ in state:
        with Path(name).open("rb") as stream:
            hasher.update(f"{Path(name).name}\0{hashlib.file_digest(stream, 'sha256').hexdigest()}\0".encode())
    target = cache_folder() / "models" / hasher.hexdigest()[:32] / folder.name
    if not target.is_dir():  # which is complete or absent
        with replacing_folder(target) as partial:
            if base is None:
                _convert(resolve_folder(folder), partial)
            else:
                _merge(folder, base, partial, allow_pickle=allow_pickle)
    return target


def _write(tensors: Mapping[str, Tensor], config: Mapping[str, object], folder: Path) -> None:
    safetensors = require("safetensors.torch", extra="models")
    folder.mkdir(exist_ok=True)
    safetensors.save_file(dict(tensors), folder / WEIGHTS, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


# Pickled weights ---------------------------------------------------------------------------------------------------


def _convert(folder: Path, target: Path) -> None:
    """Write a folder whose weights are pickled with its weights as safetensors."""
    if (folder / PICKLED).is_file():
        names = [PICKLED]
    else:
        shards = read_json(folder / PICKLED_INDEX).get("weight_map")
        names = sorted(set(map(str, shards.values()))) if isinstance(shards, dict) else []
    tensors: dict[str, Tensor] = {}
    for name in names:
        if Path(name).name != name or not name.endswith(".bin") or not (folder / name).is_file():
            raise FormatError(f"{folder / PICKLED_INDEX}: names the file {name!r}", hint="fetch the whole folder")
        tensors |= read_pickled(folder / name)
    copy_other_files(folder, target)
    _write(tensors, dict(read_config(folder)), target / inner_name(folder))
    if (folder / SITE_MAPS).is_file():
        shutil.copyfile(folder / SITE_MAPS, target / inner_name(folder) / SITE_MAPS)


def read_pickled(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a torch checkpoint, of which nothing else is unpickled, each with memory of its own.

    Raises:
        FormatError: If it holds anything but tensors by name, or more than the file can hold.
    """
    torch = require("torch", extra="models")
    size = path.stat().st_size
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                unpacked = sum(member.file_size for member in packed.infolist())
            if unpacked > 2 * size:  # torch stores tensors without compression
                raise FormatError(f"{path}: {size:,} bytes would expand to {unpacked:,}", hint="fetch it again")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except EvenhandError:
        raise
    except Exception as error:  # pickle, zip and torch raise errors of many types
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise FormatError(f"{path}: not a checkpoint of plain tensors ({reason})", hint="fetch it again") from error
    if not isinstance(content, dict) or not content:
        raise FormatError(f"{path}: holds a {type(content).__name__}, not tensors by name", hint="fetch it again")
    tensors, total = {}, 0
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.is_sparse or tensor.is_meta:
            raise FormatError(f"{path}: {shown(name)} is not a plain tensor", hint="fetch it again")
        total += tensor.numel() * tensor.element_size()
        if total > 2 * size:  # a view can repeat a number at will, and tied weights are stored once
            raise FormatError(f"{path}: its tensors have more numbers than the file", hint="fetch it again")
        tensors[name] = tensor.clone(memory_format=torch.contiguous_format)
    return tensors


# Adapters ----------------------------------------------------------------------------------------------------------


def _merge(folder: Path, base: Path, target: Path, *, allow_pickle: bool) -> None:
    """Write the base model with the low-rank changes of an adapter added to its weights."""
    settings = adapter_config(folder)
    _require_plain(folder, settings)
    tensors = _load(sorted({info.path for info in read_weight_headers(base).values()}))
    factors: dict[str, dict[str, Tensor]] = {}
    replaced: dict[str, Tensor] = {}
    for name, tensor in _adapter_weights(folder, allow_pickle=allow_pickle).items():
        plain = name.removeprefix("base_model.model.").replace(".base_layer.", ".").replace(".modules_to_save.", ".")
        found = FACTOR.fullmatch(plain)
        if found is None:
            replaced[plain] = tensor
        else:
            kind = "table" if found["table"] else "linear"
            factors.setdefault(found["module"], {"kind": kind})[found["factor"]] = tensor
    prefix = ""
    for module, parts in factors.items():
        stored, missing = _stored_name(f"{module}.weight", tensors)
        if not stored or not {"A", "B"} <= parts.keys():
            raise FormatError(f"{folder}: the base model {base.name} has no weights {module!r}", hint=MERGE_HINT)
        prefix = prefix or missing
        tensors[stored] = _changed(folder, module, tensors[stored], parts, settings)
    for name, tensor in replaced.items():
        stored, missing = _stored_name(name, tensors)
        prefix = prefix or missing
        tensors[stored or name] = tensor.to(tensors[stored].dtype) if stored else tensor
    own = {prefix + name if name not in replaced else name: tensor for name, tensor in tensors.items()}
    copy_other_files(base, target)
    copy_other_files(folder, target)
    (target / ADAPTER).unlink(missing_ok=True)
    _write(own, _merged_config(folder, base, settings, replaced), target)


def _adapter_weights(folder: Path, *, allow_pickle: bool) -> dict[str, Tensor]:
    if (folder / ADAPTER_WEIGHTS).is_file():
        return _load([folder / ADAPTER_WEIGHTS])
    if not (folder / PICKLED_ADAPTER).is_file():
        raise InputMissingError(f"{folder}: holds no {ADAPTER_WEIGHTS}", hint="fetch the whole folder of the adapter")
    if not allow_pickle:
        raise no_weights_error(folder)
    return read_pickled(folder / PICKLED_ADAPTER)


def _require_plain(folder: Path, settings: Mapping[str, object]) -> None:
    start = str(settings.get("init_lora_weights", "")).lower()
    strange = [name for name in UNSUPPORTED if settings.get(name)]
    strange += ["init_lora_weights"] if start.startswith(CHANGES_BASE) else []
    if settings.get("peft_type") != "LORA" or strange:
        what = few(strange) if strange else f"peft_type {shown(settings.get('peft_type'))}"
        raise FormatError(f"{folder}: an adapter with {what}, and plain LoRA is supported", hint=MERGE_HINT)


def _load(paths: list[Path]) -> dict[str, Tensor]:
    safetensors = require("safetensors.torch", extra="models")
    tensors: dict[str, Tensor] = {}
    for path in paths:
        read_header(path)  # names what is damaged
        try:
            tensors |= safetensors.load_file(path)
        except Exception as error:  # SafetensorError is not an error of one type
            raise FormatError(f"{path}: cannot be read ({error})", hint="fetch it again") from error
    return tensors


def _stored_name(name: str, tensors: Mapping[str, Tensor]) -> tuple[str, str]:
    """Return the name under which a weight is stored, and the prefix of the class that the stored names lack."""
    if name in tensors:
        return name, ""
    longer = [stored for stored in tensors if stored.endswith(f".{name}")]
    shorter = [stored for stored in tensors if name.endswith(f".{stored}")]
    if len(longer) == 1:
        return longer[0], ""
    return (shorter[0], name.removesuffix(shorter[0])) if len(shorter) == 1 else ("", "")


def _changed(
    folder: Path, module: str, weight: Tensor, parts: Mapping[str, Tensor], settings: Mapping[str, object]
) -> Tensor:
    """Return W + scale B A, computed in single precision."""
    first, second = parts["A"].float(), parts["B"].float()
    if first.ndim != 2 or second.ndim != 2 or first.shape[0] != second.shape[1]:
        raise FormatError(f"{folder}: the factors of {module} do not fit together", hint="fetch it again")
    change = _scale(folder, module, int(first.shape[0]), settings) * (second @ first)
    flipped = parts["kind"] == "table" or bool(settings.get("fan_in_fan_out"))
    if flipped or change.shape != weight.shape:
        change = change.T
    if change.shape != weight.shape:
        raise FormatError(
            f"{folder}: the change of {module} has the shape {tuple(change.shape)}, its weight {tuple(weight.shape)}",
            hint="use the base model that the adapter was trained on",
        )
    return (weight.float() + change).to(weight.dtype).contiguous()


def _scale(folder: Path, module: str, rank: int, settings: Mapping[str, object]) -> float:
    """Return alpha / r, or alpha / sqrt(r) of rank-stabilised LoRA; a pattern may give a module its own alpha."""
    alpha, patterns = settings.get("lora_alpha"), settings.get("alpha_pattern")
    for pattern, value in patterns.items() if isinstance(patterns, dict) else ():
        if module == pattern or module.endswith(f".{pattern}"):
            alpha = value
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha) or not rank:
        raise FormatError(f"{folder / ADAPTER}: lora_alpha is {shown(alpha)}", hint=MERGE_HINT)
    return alpha / math.sqrt(rank) if settings.get("use_rslora") else alpha / rank


def _merged_config(
    folder: Path, base: Path, settings: Mapping[str, object], replaced: Mapping[str, Tensor]
) -> dict[str, object]:
    """Return the adapter's own configuration, or that of the base model with the head that the adapter adds."""
    if (folder / "config.json").is_file():
        return dict(read_config(folder))
    config = dict(read_config(base))
    if settings.get("task_type") != "SEQ_CLS" or "classifier" in model_kind(base):
        return config
    transformers = require("transformers", extra="models")
    with quiet(transformers):
        names: Mapping[str, str] = (
            transformers.models.auto.modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
        )
    head = names.get(str(config.get("model_type")))
    outputs = next((len(tensor) for name, tensor in reversed(list(replaced.items())) if name.endswith(".weight")), 0)
    if head is None or not outputs:
        raise FormatError(f"{folder}: an adapter of a classifier without its head", hint=MERGE_HINT)
    labels = {str(number): f"LABEL_{number}" for number in range(outputs)}
    return config | {
        "architectures": [head],
        "id2label": labels,
        "label2id": {label: int(number) for number, label in labels.items()},
    }
