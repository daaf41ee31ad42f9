"""Fold a map into the weights of a transformer, so that the saved model needs no hook; only where that is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import UsageError, require
from evenhand.models.device import model_errors
from evenhand.models.encoders.hooks import SiteMap, TensorMap, check_fits, install, mapped_table
from evenhand.models.encoders.sites import Place, Site, count_layers, locate, resolve
from evenhand.models.encoders.transformer import Transformer

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

Decoder = Literal["untied", "tied"]
TIED_WARNING = (
    "the output layer shares the mapped word table: it was projected too, so differences of logits along the removed "
    "directions are zero in every context, and measures of likelihood say nothing about them"
)
UNTIED_NOTE = "the output layer shared the word table; it was separated first and keeps the original table"
STATES_NOTE = "the layers after the site read mapped vectors; the hidden states that the model returns are not mapped"
LAST_NORMS = ("output.LayerNorm", "output_layer_norm")  # of layers that normalise what they return
# Relative difference of the outputs up to which a folded model counts as equal to the hooked one, by number format.
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}


class NotFoldableError(UsageError):
    """A site where no change of weights equals the map."""


@dataclass(frozen=True)
class Folded:
    """A transformer with maps in its weights, where each went, and notes for the record."""

    transformer: Transformer
    into: tuple[str, ...]
    notes: tuple[str, ...]


def fold(transformer: Transformer, change: SiteMap, *, decoder: Decoder = "untied") -> Folded:
    """Return a transformer with a map folded into its weights; the given one stays as it is.

    The result is compared with the hooked model on random tokens.

    Args:
        transformer: the model, without a hook at the site.
        change: site and map.
        decoder: what becomes of an output layer that shares the word table, for the site `embeddings`: `untied`
            separates it first, so that it keeps the original table; `tied` maps it as well.

    Raises:
        NotFoldableError: If no change of weights is equal to the map; the message says why, and what would be.
    """
    model = transformer.model
    site = resolve(model, change.site)
    place = locate(model, site)
    check_fits(change.map, site, place)
    copy = transformer.share_weights()
    if site.kind == "embeddings":
        into, notes = _fold_table(copy, change.map, decoder)
    elif site.kind == "positions" or site.kind.endswith("-out"):
        into, notes = _fold_writer(copy, place, change.map, site)
    elif site.kind == "layer" and is_shift(change.map) and (shifted := _fold_shift(transformer, site, change.map)):
        return shifted
    else:
        readers = _readers(transformer, site, place)
        notes = _fold_readers(copy, readers, change.map, site)
        into = tuple(readers)
    if decoder != "tied" or site.kind != "embeddings":
        _compare(transformer, copy, SiteMap(site, change.map))
    return Folded(copy, into, notes)


def _fold_table(transformer: Transformer, map: TensorMap, decoder: Decoder) -> tuple[tuple[str, ...], tuple[str, ...]]:
    torch = require("torch", extra="models")
    model = transformer.model
    table = model.get_input_embeddings()
    mapped = mapped_table(model, map, transformer.tokenizer)
    notes: tuple[str, ...] = ()
    shared = output_shares_table(model)
    if shared and decoder == "untied":
        untie(model)
        notes = (UNTIED_NOTE,)
    elif shared:
        notes = (TIED_WARNING,)
    # Only the numbers are replaced: the module keeps its padding index, scale and type.
    table.weight = torch.nn.Parameter(mapped, requires_grad=table.weight.requires_grad)
    if shared and decoder == "tied":
        model.get_output_embeddings().weight = table.weight
    return locate(model, Site("embeddings")).names, notes


def output_shares_table(model: PreTrainedModel) -> bool:
    """Return whether the output layer uses the word table."""
    output = model.get_output_embeddings()
    return output is not None and getattr(output, "weight", None) is model.get_input_embeddings().weight


def untie(model: PreTrainedModel) -> None:
    """Give the output layer a weight and a bias of its own, and say so in the configuration.

    The bias is separated too: with `tie_word_embeddings=False` transformers no longer ties it to the head's bias, and
    would start it anew when the model is loaded.
    """
    torch = require("torch", extra="models")
    output = model.get_output_embeddings()
    for name in ("weight", "bias"):
        values = getattr(output, name, None)
        if values is not None:
            own = torch.nn.Parameter(values.detach().clone(), requires_grad=values.requires_grad)
            setattr(output, name, own)
    for config in (model.config, model.config.get_text_config()):
        config.tie_word_embeddings = False
    if getattr(model, "all_tied_weights_keys", None):
        model.all_tied_weights_keys = {}


def is_shift(map: TensorMap) -> bool:
    """Return whether a map adds the same vector to every row."""
    if map.needs_words or not map.is_linear:
        return False
    matrix, _ = map.to_matrix()
    return bool(matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all())


def _fold_writer(
    transformer: Transformer, place: Place, map: TensorMap, site: Site
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace the weights that write a site by those that write what the map makes of it."""
    if not map.is_linear or place.call:
        why = "it is not linear" if not map.is_linear else "the layers share their weights"
        raise NotFoldableError(f"{map!r} cannot be folded at {site}: {why}", hint="keep it as a hook: `hook=True`")
    matrix, shift = map.to_matrix()
    layer = dict(transformer.model.named_modules())[place.names[0]]
    weight, bias = layer.weight, getattr(layer, "bias", None)
    if bias is None and np.abs(shift).max(initial=0.0) > 0 and site.kind != "positions":
        raise NotFoldableError(
            f"the map has a constant part and {place.names[0]} has no bias to hold it",
            hint="keep the map as a hook: `hook=True`",
        )
    rows = weight.detach().double().cpu().numpy()
    by_row = site.kind == "positions" or type(layer).__name__ == "Conv1D"  # the last axis is what is written
    mapped = rows @ matrix if by_row else matrix.T @ rows
    if site.kind == "positions":
        mapped = mapped + shift

    layer.weight = _parameter(mapped, weight)
    if bias is not None:
        layer.bias = _parameter(bias.detach().double().cpu().numpy() @ matrix + shift, bias)
    return place.names, ()


def _fold_shift(transformer: Transformer, site: Site, map: TensorMap) -> Folded | None:
    """Add a constant to the bias that is added last at the output of a layer; None if there is no such bias.

    It is the bias of what the layer writes, or that of the norm after it. Which of them equals the hook is tried.
    """
    model = transformer.model
    place = locate(model, site)
    names = [*place.names, *(f"{place.names[0]}.{name}" for name in LAST_NORMS)]
    if site.number < count_layers(model) or place.names[0].endswith(f".{site.number - 1}"):
        names += locate(model, Site("mlp-out", site.number)).names
    _, shift = map.to_matrix()
    for name in names:
        copy = transformer.share_weights()
        layer = dict(copy.model.named_modules()).get(name)
        bias = getattr(layer, "bias", None)
        if layer is None or bias is None or bias.shape != shift.shape:
            continue
        layer.bias = _parameter(bias.detach().double().cpu().numpy() + shift, bias)
        try:
            _compare(transformer, copy, SiteMap(site, map))
        except NotFoldableError:
            continue
        return Folded(copy, (name,), ())
    return None


def _readers(transformer: Transformer, site: Site, place: Place) -> dict[str, Place]:
    """Return the linear layers that alone read a site, by name."""
    model, last = transformer.model, count_layers(transformer.model)
    if place.side == "input":
        if place.call:
            raise NotFoldableError(
                f"{site} cannot be folded: the layers of {type(model).__name__} share their weights",
                hint=_alternatives(model, site),
            )
        if not all(_is_linear(module) for module in place.modules):
            raise NotFoldableError(
                f"{site} cannot be folded: the projections of {type(model).__name__} also read relative positions",
                hint=_alternatives(model, site),
            )
        return dict.fromkeys(place.names, place)
    if site.kind == "layer" and site.number < last:
        raise NotFoldableError(
            f"{site} cannot be folded: the residual connection of layer {site.number + 1} reads it beside the linear "
            "layers, and no weight lies between",
            hint=_alternatives(model, site),
        )
    is_output = site.kind == "layer" and model.base_model is model
    names = [] if is_output else _linear_readers(transformer, place)
    if not names:
        raise NotFoldableError(
            f"{site} cannot be folded: {type(model).__name__} returns it, and no weight follows to hold the map",
            hint=_alternatives(model, site),
        )
    return dict.fromkeys(names, place)


def _alternatives(model: PreTrainedModel, site: Site) -> str:
    """Return the hint that names the exact sites nearest to one that is not."""
    layers = count_layers(model)
    exact = []
    if site.kind == "layer" and site.number < layers:
        exact.append(f"attention:{site.number + 1} and mlp:{site.number + 1} (what the next layer reads)")
    exact.append("embeddings")
    return f"fold at {' or '.join(exact)}, or keep the map beside the model as a hook: `hook=True`"


def _linear_readers(transformer: Transformer, place: Place) -> list[str]:
    """Return the names of linear layers whose input is the output of a module, or a slice of it."""
    torch = require("torch", extra="models")
    model = transformer.share_weights()
    (writer,) = locate(model.model, _site_of(transformer, place)).modules
    written: list[Tensor] = []
    readers: dict[str, None] = {}

    def record(module: nn.Module, args: object, output: object) -> None:
        tensor = output[0] if isinstance(output, tuple) else output
        if isinstance(tensor, torch.Tensor):
            written.append(tensor)  # kept alive, so that no other tensor gets its memory
            readers.clear()  # where layers share their modules, only the last call counts

    def check(name: str, tensor: object) -> None:
        if not isinstance(tensor, torch.Tensor) or not written:
            return
        if tensor.untyped_storage().data_ptr() == written[-1].untyped_storage().data_ptr():
            readers[name] = None

    handles = [writer.register_forward_hook(record)]
    for name, module in model.model.named_modules():
        if _is_linear(module):
            handles.append(
                module.register_forward_pre_hook(lambda _, args, name=name: check(name, args[0] if args else None))
            )
    _outputs(model)
    for handle in handles:
        handle.remove()
    return list(readers)


def _site_of(transformer: Transformer, place: Place) -> Site:
    last = Site("layer", count_layers(transformer.model))
    return last if locate(transformer.model, last).names == place.names else Site("pooled")


def _is_linear(module: nn.Module) -> bool:
    torch = require("torch", extra="models")
    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"


def _fold_readers(transformer: Transformer, readers: dict[str, Place], map: TensorMap, site: Site) -> tuple[str, ...]:
    """Replace W by what equals the map followed by W, in every linear layer that reads the site."""
    model = transformer.model
    if not map.is_linear:
        raise NotFoldableError(
            f"{map!r} is not linear, so it cannot be folded at {site}", hint="use linear, span, inlp or leace"
        )
    matrix, shift = map.to_matrix()
    notes: tuple[str, ...] = (STATES_NOTE,) if site.kind in ("layer", "pooled") else ()
    modules = dict(model.named_modules())
    if any(modules[name] is model.get_output_embeddings() for name in readers) and output_shares_table(model):
        untie(model)
        notes += (UNTIED_NOTE,)
    for name in readers:
        _fold_linear(modules[name], matrix, shift, name)
    return notes


def _parameter(values: Matrix64 | Vector64, like: Tensor) -> nn.Parameter:
    """Return numbers as a parameter of the same format and device as another."""
    torch = require("torch", extra="models")
    tensor = torch.as_tensor(np.ascontiguousarray(values), dtype=like.dtype, device=like.device)
    return torch.nn.Parameter(tensor, requires_grad=like.requires_grad)


def _fold_linear(layer: nn.Module, matrix: Matrix64, shift: Vector64, name: str) -> None:
    weight, bias = layer.weight, getattr(layer, "bias", None)
    columns = weight.detach().double().cpu().numpy()
    columns = columns if type(layer).__name__ == "Conv1D" else columns.T  # (in, out)
    offset = shift @ columns
    if bias is None and np.abs(shift).max(initial=0.0) > 0:
        raise NotFoldableError(
            f"the map has a constant part and {name} has no bias to hold it",
            hint="use a method without one (linear, span, inlp), another site, or keep the map as a hook: `hook=True`",
        )
    folded = matrix @ columns
    folded = folded if type(layer).__name__ == "Conv1D" else folded.T

    layer.weight = _parameter(folded, weight)
    if bias is not None:
        layer.bias = _parameter(bias.detach().double().cpu().numpy() + offset, bias)


def _outputs(transformer: Transformer) -> Tensor:
    """Return what the model says about a few random tokens, as one matrix."""
    torch = require("torch", extra="models")
    model = transformer.model
    rows = int(model.get_input_embeddings().weight.shape[0])
    length = max(2, min(12, transformer.window))
    ids = torch.randint(rows, (3, length), generator=torch.Generator().manual_seed(0)).to(transformer.device)
    padding = getattr(model.config, "pad_token_id", None)
    if padding is not None:
        ids[ids == padding] = (padding + 1) % rows  # sequence classifiers look for the last token before the padding
    with torch.inference_mode(), model_errors(model):
        output = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    result = output.logits if getattr(output, "logits", None) is not None else output[0]
    return result.double()


def _compare(before: Transformer, folded: Transformer, change: SiteMap) -> None:
    hooked = before.share_weights()
    install(hooked.model, change.site, change.map, hooked.tokenizer)
    expected, given = _outputs(hooked), _outputs(folded)
    scale = float(expected.abs().max()) or 1.0
    difference = float((expected - given).abs().max()) / scale
    if not difference <= TOLERANCE.get(str(before.model.dtype).removeprefix("torch."), 1e-4):
        raise NotFoldableError(
            f"folding at {change.site} changes the outputs of {type(before.model).__name__} by {difference:.1e} of "
            "their size against the hook, so something else reads this site too",
            hint=_alternatives(before.model, change.site),
        )


def require_foldable(transformer: Transformer, site: Site | str) -> None:
    """Raise `NotFoldableError` if no linear map can be folded at a site; fits and folds nothing."""
    where = resolve(transformer.model, site)
    if where.kind not in ("embeddings", "positions") and not where.kind.endswith("-out"):
        _readers(transformer, where, locate(transformer.model, where))


def why_not_foldable(transformer: Transformer, site: Site) -> str:
    """Return why no linear map can be folded at a site, or an empty string."""
    try:
        require_foldable(transformer, site)
    except NotFoldableError as error:
        return error.message
    return ""
