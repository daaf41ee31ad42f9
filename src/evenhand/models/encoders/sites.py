"""Sites: named places inside a transformer where vectors can be read or changed.

- `embeddings`: the word table alone, after the lookup and before positions, segments and normalisation;
- `layer:N`: the output of layer N, from 1 to the number of layers. The last one is the state after the final norm, if
  the model has one, as `transformers` reports it;
- `attention:N` and `mlp:N`: what the attention and the feed-forward part of layer N read. In models that normalise
  first this is the output of the norm before them; the residual connection does not see a change here;
- `attention-out:N` and `mlp-out:N`: what the attention and the feed-forward part of layer N write;
- `positions`: the table of positions, if there is one;
- `pooled`: the output of the pooler, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from evenhand.errors import FormatError, UsageError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

SiteKind = Literal["embeddings", "positions", "layer", "attention", "mlp", "attention-out", "mlp-out", "pooled"]
FORMS = "embeddings, positions, layer:N, attention:N, mlp:N, attention-out:N, mlp-out:N or pooled"
NUMBERED = re.compile(r"(layer|attention|mlp|attention-out|mlp-out):(-?\d+)")

# Names below the base model, the first that exists is used.
LAYER_LISTS = ("encoder.layer", "transformer.layer", "encoder.layers", "layers", "h", "decoder.layers", "blocks")
SHARED_LAYERS = "encoder.albert_layer_groups"
FINAL_NORMS = ("final_norm", "ln_f", "norm", "final_layer_norm", "decoder.final_layer_norm")
POOLERS = ("pooler_activation", "pooler")
POSITIONS = ("wpe", "embeddings.position_embeddings", "decoder.embed_positions", "embed_positions")
# Names inside a layer. DeBERTa's projections also read relative positions, so the whole module is taken there.
ATTENTION_READERS = (
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    ("attention.self",),
    ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    ("attention.query", "attention.key", "attention.value"),
    ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    ("attention.query_key_value",),
    ("attn.Wqkv",),
    ("attn.c_attn",),
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.qkv_proj",),
)
MLP_READERS = (
    ("intermediate.dense",),
    ("ffn.lin1",),
    ("ffn",),
    ("mlp.Wi",),
    ("mlp.c_fc",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.gate_up_proj",),
    ("mlp.dense_h_to_4h",),
    ("mlp.fc1",),
    ("fc1",),
)
ATTENTION_WRITERS = (
    "attention.output.dense", "attention.out_lin", "attention.attn.o", "attention.dense", "attn.Wo", "attn.c_proj",
    "self_attn.o_proj", "self_attn.out_proj", "self_attn.dense",
)  # fmt: skip
MLP_WRITERS = (
    "output.dense", "ffn.lin2", "ffn_output", "mlp.Wo", "mlp.c_proj", "mlp.down_proj", "mlp.dense_4h_to_h", "mlp.fc2",
    "fc2",
)  # fmt: skip


@dataclass(frozen=True)
class Site:
    """The name of a place, such as `layer:4`. Negative numbers count layers from the last."""

    kind: SiteKind
    number: int = 0

    @classmethod
    def parse(cls, text: str | Site) -> Site:
        """Return the site that a text names.

        >>> str(Site.parse("layer:4")), Site.parse("embeddings").kind
        ('layer:4', 'embeddings')
        """
        if isinstance(text, Site):
            return text
        single: dict[str, SiteKind] = {"embeddings": "embeddings", "positions": "positions", "pooled": "pooled"}
        if text in single:
            return cls(single[text])
        match = NUMBERED.fullmatch(text)
        if match is None:
            raise UsageError(f"{text!r} is not a site", hint=f"use {FORMS}")
        kind: SiteKind = next(kind for kind in get_args(SiteKind) if kind == match[1])
        number = int(match[2])
        if number == 0:
            raise UsageError(
                f"there is no site {text!r}: layers are numbered from 1",
                hint="use embeddings for the word table before the first layer",
            )
        return cls(kind, number)

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind


@dataclass(frozen=True, eq=False)
class Place:
    """Where a site lies in a model.

    Attributes:
        modules: the modules that write the site (`side="output"`) or read it (`side="input"`).
        names: their names in the model.
        side: whether the site is what the modules return or what they are called with.
        width: number of coordinates there.
        scale: the factor that the module applies to stored vectors, as in Gemma.
        call: which call of a module in a pass is meant, where layers share their weights; 0 for every call.
        container: the module whose call starts the count.
    """

    modules: tuple[nn.Module, ...]
    names: tuple[str, ...]
    side: Literal["input", "output"]
    width: int
    scale: float = 1.0
    call: int = 0
    container: nn.Module | None = None


def locate(model: PreTrainedModel, site: Site) -> Place:
    """Return where a site lies in a model.

    Raises:
        UsageError: If the model has no such layer or no pooler.
        FormatError: If the structure of the model is not known; the message says what was looked for.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        raise FormatError(
            f"{type(model).__name__} has an encoder and a decoder, and sites are known for models with one stack",
            hint="use an encoder or a decoder-only language model",
        )
    if site.kind == "embeddings":
        return _embeddings(model)
    if site.kind == "positions":
        return _positions(model)
    if site.kind == "pooled":
        return _pooled(model)
    number = resolve_number(model, site)
    if _find(model.base_model, SHARED_LAYERS) is not None:
        return _shared_layer(model, site.kind, number)
    layers_name, layers = _layers(model)
    if site.kind == "layer":
        return _layer_output(model, layers_name, layers, number)
    if site.kind.endswith("-out"):
        return _writer(model, site.kind, layers[number - 1], f"{layers_name}.{number - 1}")
    return _readers(model, site.kind, layers[number - 1], f"{layers_name}.{number - 1}")


def resolve(model: PreTrainedModel, site: Site | str) -> Site:
    """Return the site with its layer counted from 1."""
    parsed = Site.parse(site)
    return Site(parsed.kind, resolve_number(model, parsed)) if parsed.number else parsed


def resolve_number(model: PreTrainedModel, site: Site) -> int:
    """Return the number of the layer of a site, counted from 1."""
    count = count_layers(model)
    number = site.number + count + 1 if site.number < 0 else site.number
    if not 1 <= number <= count:
        raise UsageError(f"there is no {site}: the model has {count} layers", hint=f"use a layer from 1 to {count}")
    return number


def count_layers(model: PreTrainedModel) -> int:
    """Return the number of layers."""
    return int(model.config.get_text_config().num_hidden_layers)


def sites_of(model: PreTrainedModel) -> Iterator[tuple[Site, Place]]:
    """Yield every site of a model with its place."""
    yield Site("embeddings"), locate(model, Site("embeddings"))
    for number in range(1, count_layers(model) + 1):
        kinds: tuple[SiteKind, ...] = ("attention", "mlp", "layer")
        for kind in kinds:
            yield Site(kind, number), locate(model, Site(kind, number))
    if _pooler(model) is not None:
        yield Site("pooled"), locate(model, Site("pooled"))


def _embeddings(model: PreTrainedModel) -> Place:
    table = model.get_input_embeddings()
    if table is None or getattr(table, "weight", None) is None or table.weight.ndim != 2:
        raise _unknown(model, "a word table (get_input_embeddings())")
    scale = getattr(table, "scalar_embed_scale", getattr(table, "embed_scale", 1.0))
    return Place((table,), (_name(model, table),), "output", int(table.weight.shape[1]), scale=float(scale))


def _positions(model: PreTrainedModel) -> Place:
    table = next((part for name in POSITIONS if (part := _find(model.base_model, name)) is not None), None)
    if table is None or getattr(table, "weight", None) is None:
        raise UsageError(f"{type(model).__name__} has no table of positions", hint="use embeddings")
    return Place((table,), (_name(model, table),), "output", int(table.weight.shape[1]))


def _writer(model: PreTrainedModel, kind: SiteKind, layer: nn.Module, layer_name: str) -> Place:
    names = ATTENTION_WRITERS if kind == "attention-out" else MLP_WRITERS
    found = next(((name, part) for name in names if (part := _find(layer, name)) is not None), None)
    if found is None:
        raise _unknown(model, f"the linear layer that {kind} writes its output with, in {layer_name}")
    return Place((found[1],), (f"{layer_name}.{found[0]}",), "output", _width(model))


def _pooler(model: PreTrainedModel) -> nn.Module | None:
    for owner in (model, model.base_model):
        found = next((part for name in POOLERS if (part := _find(owner, name)) is not None), None)
        if found is not None:
            return found
    return None


def _pooled(model: PreTrainedModel) -> Place:
    pooler = _pooler(model)
    if pooler is None:
        raise UsageError(
            f"{type(model).__name__} has no pooler (none of {', '.join(POOLERS)})",
            hint=f"use layer:{count_layers(model)}, the output of its last layer",
        )
    return Place((pooler,), (_name(model, pooler),), "output", _width(model))


def _layers(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    from torch import nn

    base, count = model.base_model, count_layers(model)
    for name in LAYER_LISTS:
        found = _find(base, name)
        if isinstance(found, nn.ModuleList) and len(found) == count:
            return _name(model, found), found
    raise _unknown(model, f"a list of {count} layers ({', '.join(LAYER_LISTS)} or {SHARED_LAYERS})")


def _layer_output(model: PreTrainedModel, layers_name: str, layers: nn.ModuleList, number: int) -> Place:
    module, name = layers[number - 1], f"{layers_name}.{number - 1}"
    convolution = _find(model.base_model, "encoder.conv")
    if number == 1 and convolution is not None:  # DeBERTa adds a convolution to the output of its first layer
        module, name = convolution, _name(model, convolution)
    if number == len(layers):
        norm = next(
            (part for part in (_find(model.base_model, each) for each in FINAL_NORMS) if part is not None), None
        )
        if norm is not None:
            module, name = norm, _name(model, norm)
    return Place((module,), (name,), "output", _width(model))


def _shared_layer(model: PreTrainedModel, kind: SiteKind, number: int) -> Place:
    """Return the place of a layer of ALBERT, whose layers are calls of the same modules."""
    encoder = _find(model.base_model, "encoder")
    groups = _find(model.base_model, SHARED_LAYERS)
    layers = [layer for group in groups for layer in group.albert_layers] if groups is not None else []
    if encoder is None or groups is None or len(layers) != len(groups):
        raise _unknown(model, f"groups of one layer each in {SHARED_LAYERS}")
    each = count_layers(model) / len(groups)  # the same rounding as in the model
    index = int((number - 1) / each)
    first = next(i for i in range(number) if int(i / each) == index)
    name = _name(model, layers[index])
    if kind == "layer":
        place = Place((layers[index],), (name,), "output", _width(model))
    elif kind.endswith("-out"):
        place = _writer(model, kind, layers[index], name)
    else:
        place = _readers(model, kind, layers[index], name)
    return Place(place.modules, place.names, place.side, place.width, 1.0, number - first, encoder)


def _readers(model: PreTrainedModel, kind: SiteKind, layer: nn.Module, layer_name: str) -> Place:
    groups = ATTENTION_READERS if kind == "attention" else MLP_READERS
    for names in groups:
        modules = [_find(layer, name) for name in names]
        if names == ("attention.self",) and _find(layer, "attention.self.query_proj") is None:
            continue
        if all(module is not None for module in modules):
            found = tuple(module for module in modules if module is not None)
            return Place(found, tuple(f"{layer_name}.{name}" for name in names), "input", _width(model))
    looked_for = "; ".join(", ".join(names) for names in groups)
    raise _unknown(model, f"the linear layers that {kind} reads its input with, in {layer_name} ({looked_for})")


def _width(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config().hidden_size)


def _find(module: nn.Module, name: str) -> nn.Module | None:
    for part in name.split("."):
        module = getattr(module, part, None)
        if module is None:
            return None
    return module


def _name(model: PreTrainedModel, module: nn.Module) -> str:
    return next((name for name, part in model.named_modules() if part is module), type(module).__name__)


def _unknown(model: PreTrainedModel, looked_for: str) -> FormatError:
    return FormatError(
        f"the structure of {type(model).__name__} is not known: looked for {looked_for}",
        hint="use an architecture that the how-to on debiasing a model lists",
    )
