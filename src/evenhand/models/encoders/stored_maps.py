"""Maps that lie beside a model: affine maps at sites that no weight can hold, as thin factors in a safetensors file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import FormatError, UsageError, require
from evenhand.files import writing
from evenhand.models.encoders.hooks import SiteMap, install
from evenhand.models.encoders.sites import Site
from evenhand.models.huggingface import SITE_MAPS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FORMAT = 1
METADATA = "evenhand-sites"
RANK_RTOL = 1e-12  # singular values below this share of the largest are rounding errors of double precision
HOOK_WARNING = "plain transformers ignores {file} and loads the model without the map at {sites}; evenhand applies it"


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
        limit = self.norm_limit
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ValueError(f"norm_limit is {limit!r}, not a length")

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
