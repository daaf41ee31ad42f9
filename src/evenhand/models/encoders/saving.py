"""Save a changed transformer as a folder: maps folded into the weights, or kept beside them where that is inexact."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import FormatError, OutputError, UsageError, require
from evenhand.files import output_errors, partial_name, remove_partial, sweep_partials, write_text, writing
from evenhand.folders import put_in_place
from evenhand.models.encoders.folding import Decoder, NotFoldableError, fold
from evenhand.models.encoders.hooks import SiteMap, check_fits, install
from evenhand.models.encoders.sites import Site, locate, resolve
from evenhand.models.huggingface import SITE_MAPS, quiet
from evenhand.models.huggingface_folder import read_config
from evenhand.models.transformer import Transformer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RECORD = "evenhand.json"
FORMAT = 1
METADATA = "evenhand-sites"
RANK_RTOL = 1e-12  # singular values below this share of the largest are rounding errors of double precision
# Files that hold weights, in any format: copies of the original weights must not stay beside the changed ones.
WEIGHT_SUFFIXES = (
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".ot", ".mlmodel", ".pkl",
)  # fmt: skip
HOOK_WARNING = "plain transformers ignores {file} and loads the model without the map at {sites}; evenhand applies it"


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

    The folder is complete or absent: it is written aside and renamed. Files beside the weights (tokenizer, model card,
    modules of sentence-transformers) are copied from the source.

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
            inner = partial / _inner(transformer.source)
            _copy_other_files(transformer.source, partial)
            _write_model(changed, inner)
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
        raise OutputError(f"{folder} is the model itself", hint="name another folder with --out")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        raise OutputError(f"{folder} is not empty and was not written by evenhand debias", hint="name another folder")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; a model is written as a folder", hint="name a folder")


def _inner(source: Path | None) -> str:
    """Return the name of the folder of the transformer inside a sentence-transformers folder, or an empty string."""
    nested = source is not None and source.is_dir() and (source.parent / "modules.json").is_file()
    return source.name if nested and source is not None else ""


def _copy_other_files(source: Path | None, target: Path) -> None:
    """Copy everything but weights, and of the folders only the modules of sentence-transformers."""
    if source is None or not source.is_dir():
        return
    inner = _inner(source)
    root = source.parent if inner else source
    _copy_files(root, target)
    if inner:
        (target / inner).mkdir()
        _copy_files(source, target / inner)
    if not (root / "modules.json").is_file():
        return
    modules = json.loads((root / "modules.json").read_text(encoding="utf-8"))
    for module in modules if isinstance(modules, list) else []:
        name = module.get("path") if isinstance(module, dict) else None
        safe = isinstance(name, str) and name not in ("", inner) and "/" not in name and ".." not in name
        if safe and (root / str(name)).is_dir():
            shutil.copytree(root / str(name), target / str(name))


def _copy_files(source: Path, target: Path) -> None:
    for file in sorted(source.iterdir()):
        weights = file.name.endswith(WEIGHT_SUFFIXES) or file.name.endswith(".index.json")
        if file.is_file() and not weights and file.name not in ("config.json", RECORD):
            shutil.copyfile(file, target / file.name)


def _write_model(transformer: Transformer, folder: Path) -> None:
    """Write weights and configuration in the number format of the source, and the tokenizer if it was not copied."""
    torch = require("torch", extra="models")
    transformers: Any = require("transformers", extra="models")
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
            transformer.tokenizer.save_pretrained(folder)


# Maps beside the weights -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StoredMap:
    """x - (x L) R + b, as it is stored beside a model; every affine map that keeps the dimension has this form."""

    left: Matrix64
    right: Matrix64
    bias: Vector64
    digest: str
    norm_limit: float | None = None
    """The length above which vectors stay unchanged."""
    needs_words = False

    def __post_init__(self) -> None:
        width, rank = self.left.shape
        if self.right.shape != (rank, width) or self.bias.shape != (width,):
            raise ValueError(f"shapes {self.left.shape}, {self.right.shape} and {self.bias.shape} do not fit")
        if not all(np.isfinite(part).all() for part in (self.left, self.right, self.bias)):
            raise ValueError("NaN or infinity")

    @property
    def is_linear(self) -> bool:
        """Whether it is x M + b for all vectors."""
        return self.norm_limit is None

    @property
    def within_limit(self) -> StoredMap:
        """The map of vectors up to the limit."""
        return replace(self, norm_limit=None)

    @property
    def in_dim(self) -> int:
        """The number of coordinates."""
        return int(self.left.shape[0])

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return the same number of coordinates."""
        return self.in_dim

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return (I - L R, b)."""
        return np.eye(self.in_dim) - self.left @ self.right, self.bias

    def __call__(self, x: Any, words: Any = None) -> Any:
        """Return the mapped rows of an array."""
        mapped = x - (x @ self.left) @ self.right + self.bias
        if self.norm_limit is None:
            return mapped
        return np.where(np.linalg.norm(x, axis=-1, keepdims=True) > self.norm_limit, x, mapped)

    def to_torch(self, dtype: Any = None) -> Any:
        """Return a function of tensors that computes the map in the precision of the buffers."""
        torch = require("torch", extra="models")

        limit = self.norm_limit

        class StoredLayer(torch.nn.Module):  # type: ignore[name-defined, misc]
            def __init__(self, stored: StoredMap) -> None:
                super().__init__()
                for name in ("left", "right", "bias"):
                    self.register_buffer(name, torch.tensor(getattr(stored, name), dtype=dtype))

            def forward(self, x: Any) -> Any:
                wide = x.to(self.left.dtype)
                mapped = wide - (wide @ self.left) @ self.right + self.bias
                if limit is not None:
                    mapped = torch.where(wide.norm(dim=-1, keepdim=True) > limit, wide, mapped)
                return mapped.to(x.dtype)

        return StoredLayer(self)


def write_maps(maps: Sequence[SiteMap], path: Path) -> None:
    """Write affine maps as thin factors, with their sites in the metadata."""
    from safetensors.numpy import save

    tensors: dict[str, Any] = {}
    entries = []
    for number, change in enumerate(maps):
        limit, inner = change.map.norm_limit, change.map.within_limit
        if not inner.is_linear:
            raise UsageError(
                f"{change.map!r} at {change.site} is not of the form x M + b, so it cannot be kept beside a model",
                hint="use linear, span, inlp or leace",
            )
        matrix, bias = inner.to_matrix()
        left, right = _thin_factors(np.eye(len(matrix)) - matrix)
        for name, values in (("left", left), ("right", right), ("bias", bias)):
            tensors[f"{number}.{name}"] = np.ascontiguousarray(values, dtype=np.float64)
        limited = {} if limit is None else {"norm_limit": limit}
        entries.append({"site": str(change.site), "sha256": change.map.digest, **limited})
    with writing(path) as out:
        out.write(save(tensors, metadata={METADATA: json.dumps({"format": FORMAT, "maps": entries})}))


def _thin_factors(change: Matrix64) -> tuple[Matrix64, Matrix64]:
    left, strength, right = np.linalg.svd(change)
    rank = int(np.count_nonzero(strength > RANK_RTOL * max(1.0, float(strength[0])))) if strength.size else 0
    return left[:, :rank] * strength[:rank], right[:rank]


def stored_maps(folder: Path | None) -> list[SiteMap]:
    """Return the maps that lie beside a model."""
    from safetensors import SafetensorError, safe_open

    path = folder / SITE_MAPS if folder is not None else None
    if path is None or not path.is_file():
        return []
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})[METADATA])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if about["format"] != FORMAT:
            raise FormatError(f"{path}: format {about['format']!r}, this version reads {FORMAT}")
        maps = []
        for number, entry in enumerate(about["maps"]):
            left, right, bias = (arrays[f"{number}.{name}"] for name in ("left", "right", "bias"))
            stored = StoredMap(left, right, bias, entry["sha256"], entry.get("norm_limit"))
            maps.append(SiteMap(Site.parse(entry["site"]), stored))
        return maps
    except (SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged maps ({error})", hint="write the folder again") from error


def restore_maps(model: PreTrainedModel, folder: Path) -> tuple[str, ...]:
    """Apply the maps that lie beside a model, and return a note on them; empty where there are none."""
    maps = stored_maps(folder)
    for change in maps:
        install(model, change.site, change.map)
    sites = ", ".join(dict.fromkeys(str(change.site) for change in maps))
    return (f"{SITE_MAPS} maps {sites}",) if maps else ()
