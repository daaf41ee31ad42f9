"""Save a changed transformer as a folder: maps folded into the weights, or kept beside them where that is inexact."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand.errors import OutputError, few, require
from evenhand.files import output_errors, partial_name, remove_partial, sweep_partials, write_text
from evenhand.models.encoders.folding import Decoder, NotFoldableError, fold
from evenhand.models.encoders.hooks import HOOK_WARNING, SiteMap, check_fits, stored_maps, write_maps
from evenhand.models.encoders.sites import locate, resolve
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.huggingface import SITE_MAPS, quiet
from evenhand.models.huggingface_folder import INDEX, is_own_file, read_config, read_weight_headers
from evenhand.models.model_files import TensorInfo, read_json, read_json_value, read_tensor
from evenhand.models.tokenizing import save_tokenizer
from evenhand.outputs import put_in_place

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

RECORD = "evenhand.json"
FORMAT = 1
# Files that hold weights, in any format: copies of the original weights must not stay beside the changed ones.
WEIGHT_SUFFIXES = (
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".ot", ".mlmodel", ".pkl",
)  # fmt: skip
KEPT_NOTE = "{class_name} does not use {names}; they are kept as they were stored, and no map is folded into them"


@dataclass(frozen=True)
class SavedModel:
    """What was written, and how."""

    folder: Path
    folded: Mapping[str, Sequence[str]]
    """The modules that hold the map of each site."""
    hooked: Sequence[str]
    """Sites whose maps lie beside the weights."""
    notes: Sequence[str]

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        folded = {site: list(names) for site, names in self.folded.items()}
        return {
            "folder": str(self.folder),
            "folded": folded,
            "hooked": list(self.hooked),
            "notes": list(self.notes),
        }


def save_changed(
    transformer: Transformer,
    changes: Sequence[SiteMap],
    folder: Path,
    *,
    decoder: Decoder = "untied",
    hook: bool = False,
    record: Mapping[str, object] | None = None,
) -> SavedModel:
    """Write a transformer with maps at sites as a folder that `transformers` loads.

    The folder is complete or absent: it is written aside and renamed. It holds every weight of the source, also those
    that the loaded class does not use. Files beside the weights (tokenizer, model card, modules of
    sentence-transformers) are copied from the source, except links that lead out of it, which the notes name.

    Args:
        transformer: the model as it was loaded, without the changes.
        changes: sites and maps, in the order in which they apply.
        folder: where to write; it must not exist, be empty, or have been written by this function.
        decoder: see `fold`.
        hook: keep maps that cannot be folded beside the weights, where evenhand finds them and others do not.
        record: what is known of the changes, written into evenhand.json.

    Raises:
        NotFoldableError: If a map cannot be folded and `hook` is false.
        OutputError: If the folder cannot be written.
    """
    check_target(folder, transformer.source)
    changed, saved, kept = _fold_all(transformer, changes, folder, decoder=decoder, hook=hook)
    partial = folder.with_name(partial_name(folder))
    try:  # also around its creation, during which Ctrl-C may arrive
        with output_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            sweep_partials(folder.parent, folder)
            partial.mkdir()
            inner = partial / inner_name(transformer.source)
            left_out = copy_other_files(transformer.source, partial)
            saved = replace(saved, notes=[*saved.notes, *_write_model(changed, inner), *left_out])
            if kept:
                write_maps(kept, inner / SITE_MAPS)
            about = {"format": FORMAT, "source": transformer.name, **saved.to_dict(), **(record or {})}
            write_text(partial / RECORD, json.dumps(about | {"folder": ""}, indent=1, default=str) + "\n")
            put_in_place(partial, folder)
    finally:
        remove_partial(partial)
    return saved


def _fold_all(
    transformer: Transformer, changes: Sequence[SiteMap], folder: Path, *, decoder: Decoder, hook: bool
) -> tuple[Transformer, SavedModel, list[SiteMap]]:
    """Fold what can be folded; return the changed transformer, the account, and the maps that are left."""
    resolved = [SiteMap(resolve(transformer.model, change.site), change.map) for change in changes]
    # A layer reads what the last map at its site returns, so that one is folded into it first.
    tables = [change for change in resolved if change.site.kind == "embeddings"]
    others = [change for change in reversed(resolved) if change.site.kind != "embeddings"]
    folded: dict[str, Sequence[str]] = {}
    notes: dict[str, None] = {}
    kept: list[SiteMap] = []
    for change in [*tables, *others]:
        try:
            if any(left.site == change.site for left in kept):
                raise NotFoldableError(f"a map after it at {change.site} is not folded")
            result = fold(transformer, change, decoder=decoder)
        except NotFoldableError as error:
            if not hook:
                raise
            check_fits(change.map, change.site, locate(transformer.model, change.site))
            kept.insert(0, change)
            notes[error.message] = None
            continue
        transformer = result.transformer
        folded[str(change.site)] = result.into
        notes |= dict.fromkeys(result.notes)
    kept = [*stored_maps(transformer.source), *kept]
    sites = list(dict.fromkeys(str(change.site) for change in kept))
    if kept:
        notes[HOOK_WARNING.format(file=SITE_MAPS, sites=", ".join(sites))] = None
    return transformer, SavedModel(folder, folded, sites, list(notes)), kept


def check_target(folder: Path, source: Path | None = None) -> None:
    """Raise `OutputError` for a folder whose content would be lost."""
    if source is not None and folder.resolve() == source.resolve():
        raise OutputError(f"{folder} is the model itself", hint="name another folder: `out=`")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        raise OutputError(f"{folder} is not empty and was not written by evenhand debias", hint="name another folder")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; a model is written as a folder", hint="name a folder")


def inner_name(source: Path | None) -> str:
    """Return the name of the folder of the transformer inside a sentence-transformers folder, or an empty string."""
    nested = source is not None and source.is_dir() and (source.parent / "modules.json").is_file()
    return source.name if nested and source is not None else ""


def copy_other_files(source: Path | None, target: Path) -> list[str]:
    """Copy everything but weights and configuration, and of the folders only the modules of sentence-transformers.

    Returns:
        A note on links that lead out of the folder, which are not copied; empty where there are none.
    """
    if source is None or not source.is_dir():
        return []
    inner = inner_name(source)
    root = source.parent if inner else source
    wanted = [file for folder in dict.fromkeys((root, source)) for file in folder.iterdir() if not _holds_model(file)]
    modules = read_json_value(root / "modules.json") if (root / "modules.json").is_file() else []
    for module in modules if isinstance(modules, list) else []:
        name = module.get("path") if isinstance(module, dict) else None
        if not isinstance(name, str) or name in ("", inner) or "/" in name or ".." in name:
            continue
        if (root / name).is_dir() and not (root / name).is_symlink():
            (target / name).mkdir(exist_ok=True)  # also an empty one
            wanted += (root / name).rglob("*")
    links = []
    for file in sorted(wanted):
        place = file.relative_to(root)
        if is_own_file(file, root):
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / place)
        elif file.is_symlink():
            links.append(place.as_posix())
    return [f"links that lead out of the folder are not copied: {few(links, most=20)}"] if links else []


def _holds_model(file: Path) -> bool:
    """Return whether a file is written anew."""
    return file.name.endswith((*WEIGHT_SUFFIXES, ".index.json")) or file.name in ("config.json", RECORD)


def _write_model(transformer: Transformer, folder: Path) -> list[str]:
    """Write weights and configuration in the number format of the source, and the tokenizer if it was not copied.

    Returns:
        A note on weights that the class does not use; empty where there are none.
    """
    torch = require("torch", extra="models")
    transformers = require("transformers", extra="models")
    model, source = transformer.model, transformer.source
    if source is not None and source.is_dir():
        stored = read_config(source)
        dtype = getattr(torch, str(stored.get("dtype") or stored.get("torch_dtype") or "float32"), model.dtype)
        if dtype != model.dtype:
            model = copy.deepcopy(model).to(dtype)  # a copy: weights may be shared with the caller's model
    folder.mkdir(exist_ok=True)
    with quiet(transformers):
        model.save_pretrained(folder)
        if source is None or not source.is_dir():
            save_tokenizer(transformer.tokenizer, folder)
            return []
    _keep_all_weights(transformer, model, source, folder)
    if architectures := stored.get("architectures"):  # the folder still holds all that they need
        config = read_json(folder / "config.json") | {"architectures": architectures}
        write_text(folder / "config.json", json.dumps(config, indent=2, sort_keys=True) + "\n")
    names = few(transformer.unused, most=4)
    return [KEPT_NOTE.format(class_name=type(model).__name__, names=names)] if transformer.unused else []


def _keep_all_weights(transformer: Transformer, model: PreTrainedModel, source: Path, folder: Path) -> None:
    """Give the weights that were written the names of the source, and add those that the class lacks or ties.

    A model without its head writes `embeddings.weight` for `bert.embeddings.weight`; of weights that are tied, one name
    is written, and the source may hold both.
    """
    safetensors = require("safetensors.torch", extra="models")
    stored, written = read_weight_headers(source), read_weight_headers(folder)
    prefix, state = f"{model.base_model_prefix}.", model.state_dict()
    names = {name: prefix + name if name not in stored and prefix + name in stored else name for name in written}
    table = _table_name(model, stored)
    more = {}
    for name in stored.keys() - set(names.values()):
        own = name if name in state else name.removeprefix(prefix)
        if name in transformer.unused:
            tied = table and getattr(model.config, "tie_word_embeddings", True) and _same_data(stored, name, table)
            more[name] = model.get_input_embeddings().weight.detach().cpu().clone() if tied else _stored(stored, name)
        elif own in state:
            more[name] = state[own].detach().cpu().clone()
    if more or any(old != new for old, new in names.items()):
        index = read_json(folder / INDEX) if (folder / INDEX).is_file() else None
        files = sorted({info.path for info in written.values()})
        for path in files:
            kept = {names[name]: tensor for name, tensor in safetensors.load_file(path).items()}
            safetensors.save_file(kept | (more if path == files[-1] else {}), path, metadata={"format": "pt"})
        if index is not None:
            places = {names[name]: info.path.name for name, info in written.items()}
            index["weight_map"] = places | dict.fromkeys(more, files[-1].name)
            write_text(folder / INDEX, json.dumps(index, indent=2, sort_keys=True) + "\n")


def _table_name(model: PreTrainedModel, stored: Mapping[str, TensorInfo]) -> str:
    """Return the stored name of the input table, or an empty string."""
    table = model.get_input_embeddings()
    own = next((f"{name}.weight" for name, module in model.named_modules() if module is table), "")
    return next((name for name in (own, f"{model.base_model_prefix}.{own}") if name in stored), "")


def _same_data(tensors: Mapping[str, TensorInfo], one: str, other: str) -> bool:
    if (tensors[one].dtype, tensors[one].shape) != (tensors[other].dtype, tensors[other].shape):
        return False
    return np.array_equal(read_tensor(tensors[one], one), read_tensor(tensors[other], other))


def _stored(tensors: Mapping[str, TensorInfo], name: str) -> Tensor:
    from safetensors import safe_open

    with safe_open(str(tensors[name].path), framework="pt") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor
