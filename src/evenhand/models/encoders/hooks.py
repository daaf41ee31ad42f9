"""Maps applied inside a transformer by hooks, which can be removed without a trace, and maps stored beside a model.

Affine maps at sites that no weight can hold are stored as thin factors in a safetensors file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import FormatError, UsageError, foreign_errors, require
from evenhand.files import writing
from evenhand.models.encoders.sites import Place, Site, locate
from evenhand.models.huggingface import SITE_MAPS

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.utils import ModelOutput


TensorFunction = Callable[["torch.Tensor"], "torch.Tensor"]


class TensorMap(Protocol):
    """A function of vectors that also works on tensors, such as a `VectorMap`."""

    @property
    def digest(self) -> str:
        """Hash of its numbers."""

    @property
    def needs_words(self) -> bool:
        """Whether it needs the word of each row."""

    @property
    def is_linear(self) -> bool:
        """Whether it is x M + b."""

    @property
    def norm_limit(self) -> float | None:
        """The length above which vectors stay unchanged."""

    @property
    def within_limit(self) -> TensorMap:
        """The map of vectors up to that length."""

    def out_dim_of(self, dim: int | None) -> int | None:
        """Return the number of coordinates of the result."""

    def to_matrix(self) -> tuple[Matrix64, Vector64]:
        """Return M and b of x M + b."""

    def to_torch(self, dtype: torch.dtype | None = None) -> nn.Module:
        """Return a `torch.nn.Module` that computes it."""

    def __call__(self, x: Tensor, words: Sequence[str] | None = None) -> Tensor:
        """Return the mapped rows; `words` names them."""


@dataclass(frozen=True, eq=False)
class SiteMap:
    """A map at a site."""

    site: Site
    map: TensorMap


class MapHook:
    """A hook that applies functions, in the order in which they were added, to one input or output of a module.

    A copy of the model copies the hook but shares the functions, which never change.
    """

    def __init__(self, place: Place) -> None:
        self.call, self.scale = place.call, place.scale
        self.side = place.side
        self.functions: list[TensorFunction] = []
        self.calls = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self), functions=list(self.functions))
        return other

    def is_at(self, place: Place) -> bool:
        """Return whether the hook serves this place."""
        return (self.call, self.side) == (place.call, place.side)

    def reset(self, module: nn.Module, args: tuple[Tensor, ...]) -> None:
        """Begin to count calls anew; a hook of the module that makes the calls."""
        self.calls = 0

    def on_output(
        self, module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor], output: ModelOutput
    ) -> ModelOutput:
        """Return the mapped output; of a tuple, the first item is mapped."""
        if not self._is_due():
            return output
        if isinstance(output, tuple):
            return (self._mapped(output[0], args, kwargs), *output[1:])
        return self._mapped(output, args, kwargs)

    def on_input(
        self, module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]
    ) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Return the arguments with the first one, or `hidden_states`, mapped."""
        if not self._is_due():
            return args, kwargs
        if args:
            return (self._mapped(args[0], args, kwargs), *args[1:]), kwargs
        name = "hidden_states" if "hidden_states" in kwargs else next(iter(kwargs))
        return args, kwargs | {name: self._mapped(kwargs[name], args, kwargs)}

    def _is_due(self) -> bool:
        self.calls += 1
        return not self.call or self.calls == self.call

    def _mapped(self, x: torch.Tensor, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> torch.Tensor:
        torch = require("torch", extra="models")
        x = x if self.scale == 1.0 else x / self.scale
        # Mixed precision would round the products of a projection, which then leaves part of what it removes.
        with torch.autocast(x.device.type, enabled=False):
            for function in self.functions:
                if isinstance(function, TableLookup):
                    x = function.look_up(args[0] if args else next(iter(kwargs.values()))).to(x.dtype)
                else:
                    x = function(x)
        return x if self.scale == 1.0 else x * self.scale


class TableLookup:
    """The rows of a mapped table, for maps that treat words differently; the ids take the place of the vectors."""

    def __init__(self, table: torch.Tensor) -> None:
        self.table = table

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of ids."""
        return self.table[ids]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Refuse vectors, which have no ids."""
        raise UsageError("a map that treats words differently needs the ids of the tokens")


class InstalledMap:
    """A map in a model, which `remove` takes out again."""

    def __init__(self, hooks: Sequence[tuple[MapHook, nn.Module]], function: TensorFunction, place: Place) -> None:
        self._hooks, self._function, self._place = list(hooks), function, place

    def remove(self) -> None:
        """Take the map out; without any map left, the hooks of the module are removed as well."""
        for hook, module in self._hooks:
            hook.functions = [function for function in hook.functions if function is not self._function]
            if not hook.functions:
                for owner in (module, self._place.container):
                    _unregister(hook, owner)
        self._hooks = []


def install(
    model: PreTrainedModel, site: Site | str, map: TensorMap, tokenizer: PreTrainedTokenizerBase | None = None
) -> InstalledMap:
    """Apply a map at a site of a model from now on, after the maps that are there already.

    Gradients flow through the map, and its numbers are not trained: with a map that does not depend on the word, the
    model can be fine-tuned in this state.

    Args:
        model: the model, which is changed in place.
        site: where.
        map: the map.
        tokenizer: names the rows of the word table, for a map that treats words differently.

    Raises:
        UsageError: If the map does not fit the site.
    """
    torch = require("torch", extra="models")
    place = locate(model, Site.parse(site))
    check_fits(map, site, place)
    weight = next(model.parameters())
    if map.needs_words:
        function: TensorFunction = TableLookup(mapped_table(model, map, tokenizer))
    else:
        layer = map.to_torch(torch.float64 if weight.dtype == torch.float64 else torch.float32)
        function = layer.to(weight.device)
    return attach(place, place.modules, function)


def attach(place: Place, modules: Sequence[nn.Module], function: TensorFunction) -> InstalledMap:
    """Call a function with what modules have at a place, after the maps there, and go on with what it returns."""
    hooks = [(_hook_at(module, place), module) for module in modules]
    for hook, _ in hooks:
        hook.functions.append(function)
    return InstalledMap(hooks, function, place)


@contextmanager
def hooked(
    model: PreTrainedModel, site: Site | str, map: TensorMap, tokenizer: PreTrainedTokenizerBase | None = None
) -> Iterator[None]:
    """Apply a map at a site inside a `with` block; afterwards the model is as it was."""
    installed = install(model, site, map, tokenizer)
    try:
        yield
    finally:
        installed.remove()


class SiteReachedError(Exception):
    """Ends a pass at the site that it was run for."""


@contextmanager
def recorded(model: PreTrainedModel, site: Site | str) -> Iterator[list[torch.Tensor]]:
    """Yield a list for what one pass has at a site, after the maps there.

    The pass ends there with `SiteReachedError`, because what follows is not needed.
    """
    place = locate(model, Site.parse(site))
    states: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        states.append(x.detach())
        raise SiteReachedError

    installed = attach(place, place.modules[:1], keep)  # several readers of a site read the same
    try:
        yield states
    finally:
        installed.remove()


def check_fits(map: TensorMap, site: Site | str, place: Place) -> None:
    """Raise `UsageError` unless a map keeps the number of coordinates of a site and needs nothing that it lacks."""
    if map.needs_words and str(site) != "embeddings":
        raise UsageError(
            f"{map!r} treats words differently, and at {site} there are no words",
            hint="use the site embeddings, or a method that maps every vector the same way, such as linear or leace",
        )
    try:
        result = map.out_dim_of(place.width)
    except UsageError:
        result = None
    if result != place.width or getattr(map, "in_dim", None) not in (None, place.width):
        raise UsageError(
            f"{map!r} does not keep the {place.width} coordinates of {site}",
            hint="fit the method at this site, and use one that keeps the dimension",
        )


def mapped_table(
    model: PreTrainedModel, map: TensorMap, tokenizer: PreTrainedTokenizerBase | None = None
) -> torch.Tensor:
    """Return the mapped word table, computed in double precision after the maps that are at the table already.

    Rows of whole words are named by the word, all others by their piece, which no list of words contains.
    """
    torch = require("torch", extra="models")
    place = locate(model, Site("embeddings"))
    (table,) = place.modules
    weight = table.weight.detach()
    with torch.no_grad():
        present = table(torch.arange(len(weight), device=weight.device)) if is_hooked(table) else weight
    rows = (present.double() / (place.scale if is_hooked(table) else 1.0)).cpu().numpy()
    if map.needs_words:
        if tokenizer is None:
            raise UsageError(f"{map!r} treats words differently and needs a tokenizer", hint="pass tokenizer=")
        mapped = map(rows, row_words(tokenizer, len(rows)))
    else:
        mapped = map(rows)
    return torch.as_tensor(mapped, dtype=weight.dtype, device=weight.device)


def row_words(tokenizer: PreTrainedTokenizerBase, count: int) -> list[str]:
    """Return the word of each row of a table, or the spelling of a piece that is not a whole word."""
    from evenhand.models.tokenizing import select_words

    pieces: dict[str, int] = tokenizer.get_vocab()
    special = set(map(str, tokenizer.all_special_tokens))
    words = select_words(pieces, special=special, added=set(tokenizer.get_added_vocab()) - special).rows
    names = [f"\0{row}" for row in range(count)]  # a row without a token
    for piece, row in pieces.items():
        if row < count:
            names[row] = f"\0{piece}"
    for word, row in words.items():
        if row < count:
            names[row] = word
    return names


def is_hooked(module: nn.Module) -> bool:
    """Return whether maps are applied at a module."""
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    return any(isinstance(getattr(hook, "__self__", None), MapHook) for hook in hooks)


def _hook_at(module: nn.Module, place: Place) -> MapHook:
    """Return the hook that a module has for a place, or register one."""
    existing = module._forward_hooks if place.side == "output" else module._forward_pre_hooks
    for registered in existing.values():
        owner = getattr(registered, "__self__", None)
        if isinstance(owner, MapHook) and owner.is_at(place):
            return owner
    hook = MapHook(place)
    # The hook goes first, so that what transformers records of the layers is already mapped.
    if place.side == "output":
        module.register_forward_hook(hook.on_output, prepend=True, with_kwargs=True)
    else:
        module.register_forward_pre_hook(hook.on_input, prepend=True, with_kwargs=True)
    if place.container is not None:
        place.container.register_forward_pre_hook(hook.reset)
    return hook


def _unregister(hook: MapHook, owner: nn.Module | None) -> None:
    """Remove every hook of a module that belongs to a `MapHook`."""
    if owner is None:
        return
    for hooks in (owner._forward_hooks, owner._forward_pre_hooks):
        for key in [key for key, value in hooks.items() if getattr(value, "__self__", None) is hook]:
            del hooks[key]
            owner._forward_hooks_with_kwargs.pop(key, None)
            owner._forward_pre_hooks_with_kwargs.pop(key, None)


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
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < 1e300
        ):
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

    def __call__(self, x: Tensor, words: Sequence[str] | None = None) -> Tensor:
        """Return the mapped rows of an array."""
        mapped = x - (x @ self.left) @ self.right + self.bias
        if self.norm_limit is None:
            return mapped
        return np.where(np.linalg.norm(x, axis=-1, keepdims=True) > self.norm_limit, x, mapped)

    def to_torch(self, dtype: torch.dtype | None = None) -> nn.Module:
        """Return a function of tensors that computes the map in the precision of the buffers."""
        torch = require("torch", extra="models")

        limit = self.norm_limit

        class StoredLayer(torch.nn.Module):  # type: ignore[name-defined, misc]
            def __init__(self, stored: StoredMap) -> None:
                super().__init__()
                for name in ("left", "right", "bias"):
                    self.register_buffer(name, torch.tensor(getattr(stored, name), dtype=dtype))

            def forward(self, x: Tensor) -> Tensor:
                wide = x.to(self.left.dtype)
                mapped = wide - (wide @ self.left) @ self.right + self.bias
                if limit is not None:
                    mapped = torch.where(wide.norm(dim=-1, keepdim=True) > limit, wide, mapped)
                return mapped.to(x.dtype)

        return StoredLayer(self)


def write_maps(maps: Sequence[SiteMap], path: Path) -> None:
    """Write affine maps as thin factors, with their sites in the metadata."""
    from safetensors.numpy import save

    tensors: dict[str, Tensor] = {}
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
    rank = int(np.count_nonzero(strength > RANK_RTOL * max(1.0, float(strength[0]))))
    return left[:, :rank] * strength[:rank], right[:rank]


def stored_maps(folder: Path | None) -> list[SiteMap]:
    """Return the maps that lie beside a model."""
    from safetensors import safe_open

    path = folder / SITE_MAPS if folder is not None else None
    if path is None or not path.is_file():
        return []
    with foreign_errors(f"{path}: damaged maps", hint="write the folder again"):
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})[METADATA])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if about["format"] != FORMAT:
            raise FormatError(f"{path}: format {about['format']!r}, this version reads {FORMAT}")
        return [_stored_map(path, entry, number, arrays) for number, entry in enumerate(about["maps"])]


def _stored_map(path: Path, entry: dict[str, Any], number: int, arrays: dict[str, Matrix64]) -> SiteMap:
    left, right, bias = (arrays[f"{number}.{name}"] for name in ("left", "right", "bias"))
    if {left.dtype, right.dtype, bias.dtype} != {np.dtype(np.float64)}:
        raise FormatError(f"{path}: map {number} is not of float64 numbers", hint="write the folder again")
    stored = StoredMap(left, right, bias, str(entry["sha256"]), entry.get("norm_limit"))
    return SiteMap(Site.parse(entry["site"]), stored)


def restore_maps(model: PreTrainedModel, folder: Path) -> tuple[str, ...]:
    """Apply the maps that lie beside a model, and return a note on them; empty where there are none."""
    maps = stored_maps(folder)
    for change in maps:
        install(model, change.site, change.map)
    sites = ", ".join(dict.fromkeys(str(change.site) for change in maps))
    return (f"{SITE_MAPS} maps {sites}",) if maps else ()
