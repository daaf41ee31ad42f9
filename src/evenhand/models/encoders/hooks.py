"""Maps applied inside a transformer by hooks, which can be removed without a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError, require
from evenhand.models.encoders.sites import Place, Site, locate

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

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

    def to_torch(self, dtype: Any = None) -> Any:
        """Return a `torch.nn.Module` that computes it."""

    def __call__(self, x: Any, words: Any = None) -> Any:
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

    def reset(self, module: nn.Module, args: Any) -> None:
        """Begin to count calls anew; a hook of the module that makes the calls."""
        self.calls = 0

    def on_output(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        """Return the mapped output; of a tuple, the first item is mapped."""
        if not self._is_due():
            return output
        if isinstance(output, tuple):
            return (self._mapped(output[0], args, kwargs), *output[1:])
        return self._mapped(output, args, kwargs)

    def on_input(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
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

    def _mapped(self, x: torch.Tensor, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
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
    return _attach(place, place.modules, function)


def _attach(place: Place, modules: Sequence[nn.Module], function: TensorFunction) -> InstalledMap:
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

    installed = _attach(place, place.modules[:1], keep)  # several readers of a site read the same
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
        taken = getattr(map, "in_dim", None) in (None, place.width)
    except UsageError:
        result, taken = None, False
    if not taken or result != place.width:
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
    from evenhand.models.input_table import select_words

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
