"""The parts of sites by their definitions: places, hooks, stored maps, what is folded into which weights, what is saved."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenhand.errors import FormatError, OutputError, UsageError  # noqa: E402
from evenhand.mitigations.maps import Affine, LowRank, SoftProjection, WordTable  # noqa: E402
from evenhand.models.encoders import folding  # noqa: E402
from evenhand.models.encoders.folding import (  # noqa: E402
    STATES_NOTE,
    UNTIED_NOTE,
    NotFoldableError,
    fold,
    is_shift,
    output_shares_table,
    require_foldable,
    untie,
    why_not_foldable,
)
from evenhand.models.encoders.hooks import (  # noqa: E402
    MapHook,
    SiteMap,
    SiteReachedError,
    StoredMap,
    TableLookup,
    check_fits,
    hooked,
    install,
    is_hooked,
    mapped_table,
    recorded,
    restore_maps,
    row_words,
    stored_maps,
    write_maps,
)
from evenhand.models.encoders.saving import (  # noqa: E402
    SavedModel,
    check_target,
    copy_other_files,
    inner_name,
    save_changed,
)
from evenhand.models.encoders.sites import Place, Site, count_layers, locate, resolve, sites_of  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402

Folder = Callable[..., Path]


def double(transformer: Transformer) -> Transformer:
    return replace(transformer, model=copy.deepcopy(transformer.model).double())


@pytest.fixture(scope="module")
def load(tiny_folder: Folder) -> Callable[..., Transformer]:
    return lambda name, **options: double(Transformer.load(tiny_folder(name, **options), device="cpu"))


def affine(width: int, *, constant: bool = True) -> LowRank:
    rng = np.random.default_rng(width + 1)
    shift = rng.standard_normal(width) * constant
    return LowRank(rng.standard_normal((width, 2)) / 4, rng.standard_normal((2, width)) / 4, shift)


def shift_of(width: int) -> Affine:
    return Affine(np.eye(width), np.random.default_rng(width).standard_normal(width))


def logits(transformer: Transformer) -> Any:
    rows = transformer.model.get_input_embeddings().weight.shape[0]
    ids = torch.randint(5, rows, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        return transformer.model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]


def hooked_logits(transformer: Transformer, site: Site, map: Any) -> Any:
    with hooked(transformer.model, site, map):
        return logits(transformer)


def relative(a: Any, b: Any) -> float:
    return float((a - b).abs().max() / b.abs().max())


# Sites ---------------------------------------------------------------------------------------------------------------


def test_names_of_sites() -> None:
    for text in (
        "embeddings",
        "positions",
        "pooled",
        "layer:4",
        "attention:1",
        "mlp:-2",
        "attention-out:3",
        "mlp-out:1",
    ):
        site = Site.parse(text)
        assert str(site) == text
        kind, _, number = text.partition(":")
        assert (site.kind, site.number) == (kind, int(number or 0))
        assert Site.parse(site) is site
    for text in ("layer:", "layer:x", "pooled:1", "layer:1.5", "Layer:1", "-out:1"):
        with pytest.raises(UsageError, match="is not a site"):
            Site.parse(text)
    with pytest.raises(UsageError, match="numbered from 1"):
        Site.parse("mlp-out:0")


@pytest.mark.parametrize(
    ("class_name", "names"),
    [
        (
            "BertForMaskedLM",
            {
                "embeddings": "bert.embeddings.word_embeddings", "positions": "bert.embeddings.position_embeddings",
                "layer:3": "bert.encoder.layer.2", "attention-out:2": "bert.encoder.layer.1.attention.output.dense",
                "mlp-out:1": "bert.encoder.layer.0.output.dense", "mlp:2": "bert.encoder.layer.1.intermediate.dense",
            },
        ),
        (
            "GPT2LMHeadModel",
            {
                "embeddings": "transformer.wte", "positions": "transformer.wpe", "layer:1": "transformer.h.0",
                "layer:3": "transformer.ln_f", "attention-out:3": "transformer.h.2.attn.c_proj",
                "mlp-out:1": "transformer.h.0.mlp.c_proj", "attention:1": "transformer.h.0.attn.c_attn",
            },
        ),
        (
            "AlbertForMaskedLM",
            {
                "layer:2": "albert.encoder.albert_layer_groups.0.albert_layers.0",
                "mlp-out:3": "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output",
            },
        ),
        ("DebertaV2ForMaskedLM", {"layer:1": "deberta.encoder.conv", "layer:2": "deberta.encoder.layer.1"}),
        ("BertForSequenceClassification", {"pooled": "bert.pooler"}),
    ],
)  # fmt: skip
def test_places_of_sites(class_name: str, names: dict[str, str], load: Callable[..., Transformer]) -> None:
    model = load(class_name).model
    for text, name in names.items():
        place = locate(model, Site.parse(text))
        assert place.names[0] == name
        assert dict(model.named_modules())[name] is place.modules[0]
        assert (place.side, place.scale) == ("input" if text.startswith(("mlp:", "attention:")) else "output", 1.0)
        assert place.width == (8 if class_name.startswith("Albert") and text == "embeddings" else 16)
        if class_name.startswith("Albert"):
            assert (place.call, place.container) == (int(text[-1]), model.albert.encoder)
        else:
            assert (place.call, place.container) == (0, None)
    assert count_layers(model) == 3
    assert resolve(model, "embeddings") == Site("embeddings")
    assert [str(site) for site, _ in sites_of(model)][-1] == ("pooled" if "pooled" in names else "layer:3")


def test_layers_of_albert_in_two_groups(load: Callable[..., Transformer]) -> None:
    """Five calls of two groups: the first group makes three, as in the model."""
    model = load("AlbertForMaskedLM", num_hidden_groups=2, num_hidden_layers=5).model
    places = [locate(model, Site("layer", number)) for number in range(1, 6)]
    groups = [name.split("groups.")[1][0] for place in places for name in place.names]
    called: list[int] = []
    for number, group in enumerate(model.albert.encoder.albert_layer_groups):
        group.albert_layers[0].register_forward_hook(lambda *_, number=number: called.append(number))
    model(torch.arange(5, 9)[None])
    assert groups == [str(number) for number in called]
    assert [place.call for place in places] == [called[: n + 1].count(called[n]) for n in range(5)]


def test_models_without_a_place_are_named(load: Callable[..., Transformer]) -> None:
    bert = load("BertForMaskedLM")
    odd = bert.share_weights().model
    del odd.bert.encoder.layer[1].output
    with pytest.raises(
        FormatError, match=r"the linear layer that mlp-out writes its output with, in bert\.encoder\.layer\.1"
    ):
        locate(odd, Site("mlp-out", 2))
    with pytest.raises(UsageError, match=r"has no pooler \(none of pooler_activation, pooler\)\n.*use layer:3"):
        locate(odd, Site("pooled"))
    with pytest.raises(UsageError, match="LlamaForCausalLM has no table of positions"):
        locate(load("LlamaForCausalLM").model, Site("positions"))
    for table in (None, SimpleNamespace(), SimpleNamespace(weight=torch.zeros(3))):
        odd.get_input_embeddings = lambda table=table: table
        with pytest.raises(FormatError, match=r"a word table \(get_input_embeddings\(\)\)"):
            locate(odd, Site("embeddings"))
    odd.config.is_encoder_decoder = True
    with pytest.raises(FormatError, match="has an encoder and a decoder"):
        locate(odd, Site("embeddings"))


# Hooks ---------------------------------------------------------------------------------------------------------------


def test_a_hook_maps_the_first_input_or_output() -> None:
    def place(**options: Any) -> Place:
        return Place((), (), "output", 2, **options)

    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 6.0]])
    hook = MapHook(place())
    hook.functions = [lambda v: v + 1, lambda v: v * 10]
    assert hook.on_output(None, (), {}, x).tolist() == [[20, 30]]
    first, second = hook.on_output(None, (), {}, (x, y))
    assert (first.tolist(), second is y) == ([[20, 30]], True)
    (first, second), given = hook.on_input(None, (x, y), {"a": y})
    assert (first.tolist(), second is y, given) == ([[20, 30]], True, {"a": y})
    arguments, given = hook.on_input(None, (), {"mask": y, "hidden_states": x})
    assert (arguments, given["hidden_states"].tolist(), given["mask"] is y) == ((), [[20, 30]], True)
    assert hook.on_input(None, (), {"input": x, "mask": y})[1]["input"].tolist() == [[20, 30]]
    for scale in (1.5, 4.0):
        scaled = MapHook(place(scale=scale))
        scaled.functions = [lambda v: v + 1]
        assert scaled.on_output(None, (), {}, x * scale).tolist() == [[2 * scale, 3 * scale]]
    second_call = MapHook(place(call=2))
    second_call.functions = [lambda v: v + 1]
    for _ in range(2):
        assert [second_call.on_output(None, (), {}, x).tolist()[0][0] for _ in range(3)] == [1, 2, 1]
        second_call.reset(None, ())
    assert second_call.on_input(None, (x,), {})[0][0] is x
    assert second_call.is_at(place(call=2))
    assert not second_call.is_at(place(call=1))
    assert not second_call.is_at(Place((), (), "input", 2, call=2))
    other = copy.deepcopy(hook)
    other.functions.append(len)
    assert len(hook.functions) == 2
    lookup = MapHook(place(scale=2.0))
    lookup.functions = [TableLookup(torch.tensor([[1.0], [7.0]])), lambda v: v + 1]
    ids = torch.tensor([1, 0])
    assert lookup.on_output(None, (ids,), {}, x).tolist() == [[16], [4]]
    assert lookup.on_output(None, (), {"input": ids}, x).tolist() == [[16], [4]]
    with pytest.raises(UsageError, match="needs the ids of the tokens"):
        TableLookup(x)(x)


def test_maps_are_installed_and_removed_one_by_one(load: Callable[..., Transformer]) -> None:
    albert = load("AlbertForMaskedLM")
    plain, module = logits(albert), locate(albert.model, Site("layer", 2)).modules[0]
    one = install(albert.model, "layer:2", affine(16))
    first = logits(albert)
    two, three = install(albert.model, "layer:2", affine(16)), install(albert.model, "layer:3", affine(16))
    assert len(module._forward_hooks) == 2  # one for each call of the module
    assert len(albert.model.albert.encoder._forward_pre_hooks) == 2
    three.remove()
    two.remove()
    assert torch.equal(logits(albert), first)
    assert is_hooked(module)
    one.remove()
    one.remove()  # which does nothing
    assert torch.equal(logits(albert), plain)
    assert not is_hooked(module)
    hooks = [
        getattr(part, name)
        for part in albert.model.modules()
        for name in (
            "_forward_hooks",
            "_forward_pre_hooks",
            "_forward_hooks_with_kwargs",
            "_forward_pre_hooks_with_kwargs",
        )
    ]
    assert not any(hooks)


def test_a_pass_ends_at_the_site_that_is_recorded(load: Callable[..., Transformer]) -> None:
    bert = load("BertForMaskedLM")
    ids = torch.arange(5, 9)[None]
    with torch.inference_mode():
        expected = bert.model(ids, output_hidden_states=True).hidden_states
    for text, number in (("layer:2", 2), ("attention:2", 1)):
        with recorded(bert.model, text) as states, torch.inference_mode(), pytest.raises(SiteReachedError):
            bert.model(ids)
        assert len(states) == 1
        torch.testing.assert_close(states[0], expected[number])
    assert not any(is_hooked(part) for part in bert.model.modules())


def test_maps_that_do_not_fit_are_named() -> None:
    place = Place((), (), "output", 16)
    check_fits(affine(16), "layer:1", place)
    check_fits(WordTable({"he": np.ones(16)}), "embeddings", place)

    class Odd:
        needs_words, in_dim = False, None

        def __init__(self, result: int | None, taken: int | None) -> None:
            self.result, self.in_dim = result, taken

        def out_dim_of(self, dim: int | None) -> int | None:
            if self.result is None:
                raise UsageError("no")
            return self.result

        def __repr__(self) -> str:
            return "odd"

    check_fits(Odd(16, None), "layer:1", place)  # type: ignore[arg-type]
    check_fits(Odd(16, 16), "layer:1", place)  # type: ignore[arg-type]
    for result, taken in ((None, 16), (15, 16), (16, 15), (15, 15)):
        with pytest.raises(UsageError, match="odd does not keep the 16 coordinates of layer:1"):
            check_fits(Odd(result, taken), "layer:1", place)  # type: ignore[arg-type]


def test_rows_of_a_table_are_named_by_their_words(load: Callable[..., Transformer]) -> None:
    bert = load("BertForMaskedLM")
    count = bert.model.get_input_embeddings().weight.shape[0]
    names = row_words(bert.tokenizer, count + 2)
    row = bert.tokenizer.convert_tokens_to_ids
    assert (names[row("he")], names[row("##s")], names[0]) == ("he", "\0##s", "\0[PAD]")
    assert names[count:] == [f"\0{count}", f"\0{count + 1}"]
    assert row_words(bert.tokenizer, 7) == names[:7]
    with pytest.raises(UsageError, match="needs a tokenizer"):
        mapped_table(bert.model, WordTable({"he": np.ones(16)}), None)
    table = bert.model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_allclose(mapped_table(bert.model, affine(16), None).numpy(), affine(16)(table), rtol=1e-12)
    gemma = load("GemmaForCausalLM")
    rows, vm = gemma.model.get_input_embeddings().weight.detach().numpy(), affine(16)
    with hooked(gemma.model, "embeddings", vm):  # the maps that are there, without the scale of the module
        np.testing.assert_allclose(mapped_table(gemma.model, vm, None).numpy(), vm(vm(rows)), rtol=1e-6, atol=1e-8)


# Stored maps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 2.0])
def test_a_stored_map_by_hand(limit: float | None) -> None:
    rng = np.random.default_rng(0)
    left, right, bias = rng.standard_normal((4, 2)), rng.standard_normal((2, 4)), rng.standard_normal(4)
    stored = StoredMap(left, right, bias, "digest", limit)
    x = np.vstack([rng.standard_normal((6, 4)), [[2.0, 0, 0, 0]]])  # the last has the length of the limit
    matrix, constant = stored.to_matrix()
    np.testing.assert_allclose(matrix, np.eye(4) - left @ right)
    assert constant is bias
    mapped = x @ matrix + bias
    if limit is not None:
        long = np.linalg.norm(x, axis=1) > limit
        assert 0 < long.sum() < 6
        mapped[long] = x[long]
    np.testing.assert_allclose(stored(x), mapped)
    np.testing.assert_allclose(stored(x.reshape(7, 1, 4)), mapped.reshape(7, 1, 4))
    layer = stored.to_torch(torch.float64)
    np.testing.assert_allclose(layer(torch.tensor(x)).numpy(), mapped)
    assert layer(torch.tensor(x).float()).dtype == torch.float32
    assert (stored.is_linear, stored.in_dim, stored.out_dim_of(9), stored.needs_words) == (limit is None, 4, 4, False)
    assert stored.within_limit.is_linear
    np.testing.assert_allclose(stored.within_limit(x), x @ matrix + bias)


def test_factors_that_do_not_fit_are_refused() -> None:
    good = np.zeros((4, 2)), np.zeros((2, 4)), np.zeros(4)
    StoredMap(*good, "d", 1e299)
    for place, wrong in ((0, np.zeros((3, 2))), (1, np.zeros((2, 3))), (1, np.zeros((3, 4))), (2, np.zeros(3))):
        parts = [wrong if place == number else part for number, part in enumerate(good)]
        with pytest.raises(ValueError, match="do not fit"):
            StoredMap(*parts, "d")
    for number in range(3):
        parts = [part + (math.nan if place == number else 0) for place, part in enumerate(good)]
        with pytest.raises(ValueError, match="NaN or infinity"):
            StoredMap(*parts, "d")
    for limit in (0, -1.0, math.inf, math.nan, 1e300, True, "2"):
        with pytest.raises(ValueError, match=r"norm_limit is .*, not a length"):
            StoredMap(*good, "d", limit)  # type: ignore[arg-type]


def test_maps_are_written_as_thin_factors(tmp_path: Path, load: Callable[..., Transformer]) -> None:
    from safetensors.numpy import load_file, save

    path = tmp_path / "evenhand-sites.safetensors"
    projection = SoftProjection(np.eye(16)[:2])
    maps = [
        SiteMap(Site("layer", 2), affine(16)),
        SiteMap(Site("embeddings"), projection),
        SiteMap(Site("mlp", 1), shift_of(16)),
    ]
    write_maps(maps, path)
    assert [load_file(path)[f"{number}.left"].shape for number in range(3)] == [(16, 2), (16, 2), (16, 0)]
    found = stored_maps(tmp_path)
    assert [str(each.site) for each in found] == ["layer:2", "embeddings", "mlp:1"]
    x = np.random.default_rng(0).standard_normal((5, 16))
    for one, other in zip(maps, found, strict=True):
        np.testing.assert_allclose(other.map(x), one.map(x), atol=1e-12)
        assert other.map.digest == one.map.digest
        assert other.map.norm_limit is None
    bert = load("BertForMaskedLM")
    assert restore_maps(bert.model, tmp_path) == ("evenhand-sites.safetensors maps layer:2, embeddings, mlp:1",)
    assert is_hooked(bert.model.bert.encoder.layer[1])
    assert stored_maps(None) == stored_maps(tmp_path / "none") == []
    assert restore_maps(bert.model, tmp_path / "none") == ()
    with pytest.raises(UsageError, match=r"at embeddings is not of the form x M \+ b"):
        write_maps([SiteMap(Site("embeddings"), WordTable({"he": np.ones(16)}))], path)
    limited = StoredMap(np.zeros((4, 1)), np.zeros((1, 4)), np.zeros(4), "d", 3.0)
    write_maps([SiteMap(Site("layer", 1), limited)], path)
    assert stored_maps(tmp_path)[0].map.norm_limit == 3.0
    tensors = load_file(path)
    about = {"format": 1, "maps": [{"site": "layer:1", "sha256": "d"}]}
    for changed, numbers, says in (
        ({"format": 2}, tensors, "format 2, this version reads 1"),
        ({}, {name: part.astype(np.float32) for name, part in tensors.items()}, "map 0 is not of float64 numbers"),
        ({}, {**tensors, "0.bias": tensors["0.bias"].astype(np.float32)}, "map 0 is not of float64 numbers"),
        ({}, {"0.left": tensors["0.left"]}, "damaged maps"),
    ):
        path.write_bytes(save(numbers, metadata={"evenhand-sites": json.dumps(about | changed)}))
        with pytest.raises(FormatError, match=says):
            stored_maps(tmp_path)


# Folding -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("class_name", ["BertForMaskedLM", "GPT2LMHeadModel", "DistilBertForMaskedLM"])
@pytest.mark.parametrize("text", ["positions", "attention-out:2", "mlp-out:1", "mlp-out:3"])
def test_what_is_written_is_folded_into_the_weights_that_write_it(
    class_name: str, text: str, load: Callable[..., Transformer]
) -> None:
    transformer, site, vm = load(class_name), Site.parse(text), affine(16)
    place = locate(transformer.model, site)
    before = {name: tensor.clone() for name, tensor in transformer.model.state_dict().items()}
    folded = fold(transformer, SiteMap(site, vm))
    assert (folded.into, folded.notes) == (place.names, ())
    assert relative(logits(folded.transformer), hooked_logits(transformer, site, vm)) < 1e-12
    after = transformer.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    changed = {
        name.rpartition(".")[0]
        for name, tensor in folded.transformer.model.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    assert changed == {place.names[0]}
    weight = dict(folded.transformer.model.named_modules())[place.names[0]].weight
    assert weight.requires_grad


def test_maps_that_no_writer_can_hold(load: Callable[..., Transformer]) -> None:
    llama, albert, bert = load("LlamaForCausalLM"), load("AlbertForMaskedLM"), load("BertForMaskedLM")
    with pytest.raises(
        NotFoldableError, match=r"constant part and model\.layers\.1\.mlp\.down_proj has no bias to hold it"
    ):
        fold(llama, SiteMap(Site("mlp-out", 2), affine(16)))
    vm = affine(16, constant=False)
    folded = fold(llama, SiteMap(Site("mlp-out", 2), vm)).transformer
    assert relative(logits(folded), hooked_logits(llama, Site("mlp-out", 2), vm)) < 1e-12
    with pytest.raises(NotFoldableError, match="cannot be folded at mlp-out:2: the layers share their weights"):
        fold(albert, SiteMap(Site("mlp-out", 2), vm))
    limited = StoredMap(np.zeros((16, 1)), np.zeros((1, 16)), np.ones(16), "d", 3.0)
    for transformer in (bert, albert):
        with pytest.raises(NotFoldableError, match="cannot be folded at mlp-out:2: it is not linear"):
            fold(transformer, SiteMap(Site("mlp-out", 2), limited))
    with pytest.raises(NotFoldableError, match="is not linear, so it cannot be folded at mlp:2"):
        fold(bert, SiteMap(Site("mlp", 2), limited))
    with pytest.raises(NotFoldableError, match=r"constant part and model\.layers\.0\.mlp\.gate_proj has no bias"):
        fold(llama, SiteMap(Site("mlp", 1), affine(16)))


@pytest.mark.parametrize(
    ("class_name", "text", "into"),
    [
        ("BertForMaskedLM", "layer:1", "bert.encoder.layer.0.output.LayerNorm"),
        ("BertForMaskedLM", "layer:3", "bert.encoder.layer.2.output.LayerNorm"),
        ("DistilBertForMaskedLM", "layer:2", "distilbert.transformer.layer.1.output_layer_norm"),
        ("GPT2LMHeadModel", "layer:1", "transformer.h.0.mlp.c_proj"),
        ("GPT2LMHeadModel", "layer:3", "transformer.ln_f"),
    ],
)
def test_a_constant_at_a_layer_goes_into_the_bias_that_is_added_last(
    class_name: str, text: str, into: str, load: Callable[..., Transformer]
) -> None:
    transformer, site, vm = load(class_name), Site.parse(text), shift_of(16)
    folded = fold(transformer, SiteMap(site, vm))
    assert (folded.into, folded.notes) == ((into,), ())
    assert relative(logits(folded.transformer), hooked_logits(transformer, site, vm)) < 1e-12


def test_a_shift_is_the_same_for_every_row() -> None:
    assert is_shift(shift_of(4))
    assert not is_shift(Affine(np.eye(4)[[1, 0, 2, 3]], np.ones(4)))
    assert not is_shift(Affine(np.eye(4)[:, :3], np.ones(3)))
    assert not is_shift(WordTable({"he": np.ones(4)}))
    assert not is_shift(StoredMap(np.zeros((4, 1)), np.zeros((1, 4)), np.ones(4), "d", 3.0))
    assert is_shift(StoredMap(np.zeros((4, 1)), np.zeros((1, 4)), np.ones(4), "d"))


def test_readers_of_a_site_and_the_notes_on_them(load: Callable[..., Transformer]) -> None:
    bert, gpt = load("BertForMaskedLM"), load("GPT2LMHeadModel")
    vm = affine(16, constant=False)
    inner = fold(bert, SiteMap(Site("attention", 2), vm))
    assert inner.into == tuple(f"bert.encoder.layer.1.attention.self.{name}" for name in ("query", "key", "value"))
    assert inner.notes == ()
    last = fold(bert, SiteMap(Site("layer", 3), vm))
    assert (last.into, last.notes) == (("cls.predictions.transform.dense",), (STATES_NOTE,))
    head = fold(gpt, SiteMap(Site("layer", 3), vm))
    assert (head.into, head.notes) == (("lm_head",), (STATES_NOTE, UNTIED_NOTE))
    assert output_shares_table(gpt.model)
    assert not output_shares_table(head.transformer.model)
    assert relative(logits(head.transformer), hooked_logits(gpt, Site("layer", 3), vm)) < 1e-12
    table = fold(gpt, SiteMap(Site("embeddings"), vm))
    assert (table.into, table.notes) == (("transformer.wte",), (UNTIED_NOTE,))
    assert relative(logits(table.transformer), hooked_logits(gpt, Site("embeddings"), vm)) < 1e-12
    tied = fold(gpt, SiteMap(Site("embeddings"), vm), decoder="tied")
    assert tied.notes == (folding.TIED_WARNING,)
    assert output_shares_table(tied.transformer.model)
    plain = fold(load("BertModel"), SiteMap(Site("embeddings"), vm))
    assert plain.notes == ()
    assert output_shares_table(load("BertModel").model) is False


def test_an_output_layer_of_its_own(load: Callable[..., Transformer]) -> None:
    bert = load("BertForMaskedLM").share_weights()
    output, before = bert.model.get_output_embeddings(), logits(bert)
    weight, bias = output.weight, output.bias
    weight.requires_grad_(False)
    untie(bert.model)
    assert output.weight is not weight
    assert output.bias is not bias
    assert torch.equal(output.weight, weight)
    assert torch.equal(output.bias, bias)
    assert (output.weight.requires_grad, output.bias.requires_grad) == (False, True)
    weight.requires_grad_(True)
    assert bert.model.config.tie_word_embeddings is False
    assert torch.equal(logits(bert), before)


def test_why_a_site_cannot_be_folded(load: Callable[..., Transformer]) -> None:
    bert, albert, deberta = load("BertForMaskedLM"), load("AlbertForMaskedLM"), load("DebertaV2ForMaskedLM")
    for text in ("embeddings", "positions", "mlp-out:1", "attention:1", "mlp:3", "layer:3"):
        assert why_not_foldable(bert, Site.parse(text)) == ""
        require_foldable(bert, text)
    says = why_not_foldable(bert, Site("layer", 2))
    assert says.startswith("layer:2 cannot be folded: the residual connection of layer 3 reads it")
    for transformer, text, why, alternatives in (
        (
            bert,
            "layer:1",
            "the residual connection of layer 2",
            "attention:2 and mlp:2 (what the next layer reads) or embeddings",
        ),
        (albert, "mlp:2", "the layers of AlbertForMaskedLM share their weights", "fold at embeddings, or"),
        (deberta, "attention:1", "projections of DebertaV2ForMaskedLM also read relative", "fold at embeddings, or"),
        (load("BertModel"), "layer:3", "BertModel returns it, and no weight follows", "fold at embeddings, or"),
        (load("BertModel"), "pooled", "BertModel returns it, and no weight follows", "fold at embeddings, or"),
    ):
        with pytest.raises(NotFoldableError) as caught:
            require_foldable(transformer, text)
        assert why in caught.value.message
        assert alternatives in (caught.value.hint or "")


def test_a_folded_model_is_compared_on_random_tokens(load: Callable[..., Transformer]) -> None:
    seen: list[Any] = []

    def model(limit: int, padding: int | None) -> Any:
        def call(input_ids: Any, attention_mask: Any) -> Any:
            seen.append((input_ids, attention_mask))
            return SimpleNamespace(logits=torch.ones(3, 2)) if padding else (torch.zeros(2, 2),)

        call.get_input_embeddings = lambda: SimpleNamespace(weight=torch.zeros(4, 2))  # type: ignore[attr-defined]
        call.config = SimpleNamespace(pad_token_id=padding)  # type: ignore[attr-defined]
        return SimpleNamespace(model=call, window=limit, device="cpu")

    for limit, padding, length in ((100, 3, 12), (5, 0, 5), (1, None, 2)):
        result = folding._outputs(model(limit, padding))
        ids, mask = seen.pop()
        drawn = torch.randint(4, (3, length), generator=torch.Generator().manual_seed(0))
        assert ids.tolist() == [
            [(token + 1) % 4 if token == padding else token for token in row] for row in drawn.tolist()
        ]
        assert mask.tolist() == torch.ones_like(ids).tolist()
        assert result.dtype == torch.float64
        assert result.shape == ((3, 2) if padding else (2, 2))


def test_a_fold_that_changes_the_outputs_is_refused(
    load: Callable[..., Transformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    bert, change = load("BertForMaskedLM"), SiteMap(Site("mlp", 2), affine(16))
    single = replace(bert, model=copy.deepcopy(bert.model).float())
    for transformer, scale, difference, refused in (
        (bert, 2.0, 1e-10, False), (bert, 2.0, 2e-10, True), (bert, 0.0, 1e-9, True), (bert, 1.0, math.nan, True),
        (single, 1.0, 1e-4, False), (single, 1.0, 2e-4, True),
    ):  # fmt: skip
        pair = [[-scale, 0.0], [-scale, difference * (scale or 1.0)]]
        outputs = iter(torch.tensor(pair, dtype=torch.float64))
        monkeypatch.setattr(folding, "_outputs", lambda transformer, outputs=outputs: next(outputs))
        if refused:
            with pytest.raises(NotFoldableError, match="folding at mlp:2 changes the outputs of BertForMaskedLM by"):
                folding._compare(transformer, transformer, change)
        else:
            folding._compare(transformer, transformer, change)


# Saving --------------------------------------------------------------------------------------------------------------


def test_a_record_of_what_was_saved() -> None:
    saved = SavedModel(Path("out"), {"mlp:1": ("a", "b")}, ("layer:1",), ("note",))
    assert saved.to_dict() == {
        "folder": "out",
        "folded": {"mlp:1": ["a", "b"]},
        "hooked": ["layer:1"],
        "notes": ["note"],
    }


def test_targets_whose_content_would_be_lost(tmp_path: Path) -> None:
    check_target(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_target(tmp_path / "empty", tmp_path / "source")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "evenhand.json").touch()
    check_target(tmp_path / "ours")
    with pytest.raises(OutputError, match="is the model itself"):
        check_target(tmp_path / "ours" / ".." / "ours", tmp_path / "ours")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file; a model is written as a folder"):
        check_target(tmp_path / "file")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    with pytest.raises(OutputError, match="is not empty and was not written by evenhand debias"):
        check_target(tmp_path / "other")


def test_the_folder_inside_a_folder_of_sentence_transformers(tmp_path: Path) -> None:
    inner = tmp_path / "0_Transformer"
    assert inner_name(None) == inner_name(inner) == ""
    inner.mkdir()
    assert inner_name(inner) == ""
    (tmp_path / "modules.json").write_text(
        json.dumps(
            [{"path": "0_Transformer"}, {"path": "1_Pooling"}, {"path": "../up"}, {"path": "a/b"}, {"path": 3}, 7]
        )
    )
    assert inner_name(inner) == "0_Transformer"
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    (tmp_path / "README.md").write_text("read")
    for name in ("config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json", "evenhand.json"):
        (inner / name).write_text(name)
    (tmp_path / "target").mkdir()
    assert copy_other_files(inner, tmp_path / "target") == []
    copied = sorted(
        path.relative_to(tmp_path / "target").as_posix() for path in (tmp_path / "target").rglob("*") if path.is_file()
    )
    assert copied == ["0_Transformer/tokenizer.json", "1_Pooling/config.json", "README.md", "modules.json"]
    assert copy_other_files(None, tmp_path / "target") == copy_other_files(tmp_path / "README.md", tmp_path) == []


def test_a_model_without_a_folder_is_saved_with_its_tokenizer(tiny_folder: Folder, tmp_path: Path) -> None:
    transformer = replace(Transformer.load(tiny_folder("BertForMaskedLM"), device="cpu"), source=None)
    vm = SoftProjection(np.eye(16)[:1])
    saved = save_changed(transformer, [SiteMap(Site("embeddings"), vm)], tmp_path / "a" / "out", record={"method": "m"})
    out = tmp_path / "a" / "out"
    record = json.loads((out / "evenhand.json").read_text(encoding="utf-8"))
    assert record == {
        "format": 1, "source": "bertformaskedlm", "folder": "", "hooked": [], "notes": [UNTIED_NOTE], "method": "m",
        "folded": {"embeddings": ["bert.embeddings.word_embeddings"]},
    }  # fmt: skip
    assert (out / "evenhand.json").read_text(encoding="utf-8").endswith("}\n")
    assert saved.folder == out
    again = Transformer.load(out, device="cpu")
    assert again.tokenizer.encode("she is") == transformer.tokenizer.encode("she is")
    assert list((tmp_path / "a").iterdir()) == [out]


def test_maps_at_one_site_are_folded_from_the_last(tiny_folder: Folder, tmp_path: Path) -> None:
    transformer = Transformer.load(tiny_folder("BertForMaskedLM"), device="cpu")
    first, second = affine(16), shift_of(16)
    changes = [SiteMap(Site("layer", -2), first), SiteMap(Site("layer", 2), second), SiteMap(Site("mlp", 1), first)]
    with pytest.raises(NotFoldableError, match="residual connection"):
        save_changed(transformer, changes, tmp_path / "out")
    saved = save_changed(transformer, changes, tmp_path / "out", hook=True)
    assert saved.folded == {
        "layer:2": ("bert.encoder.layer.1.output.LayerNorm",),
        "mlp:1": ("bert.encoder.layer.0.intermediate.dense",),
    }
    assert saved.hooked == ["layer:2"]
    assert saved.notes[0].startswith("layer:2 cannot be folded")
    assert saved.notes[-1].startswith("plain transformers ignores evenhand-sites.safetensors")
    kept = save_changed(transformer, list(reversed(changes[:2])), tmp_path / "kept", hook=True)
    assert (dict(kept.folded), kept.hooked) == (
        {},
        ["layer:2"],
    )  # what stands before a map that is kept is kept as well
    assert "a map after it at layer:2 is not folded" in kept.notes
    clone = transformer.share_weights()
    for change in reversed(changes[:2]):
        install(clone.model, change.site, change.map)
    assert relative(logits(Transformer.load(tmp_path / "kept", device="cpu")), logits(clone)) < 1e-5
    with pytest.raises(UsageError, match="does not keep the 16 coordinates of layer:2"):
        save_changed(transformer, [SiteMap(Site("layer", 2), affine(8))], tmp_path / "wrong", hook=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_are_written_in_the_number_format_of_the_source(
    dtype: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    source = tmp_path / "model"
    model = transformers.BertModel.from_pretrained(tiny_folder("BertModel")).to(getattr(torch, dtype))
    model.save_pretrained(source)
    for file in tiny_folder("BertModel").glob("*token*"):
        (source / file.name).write_bytes(file.read_bytes())
    transformer = Transformer.load(source, device="cpu")
    before = transformer.model.dtype
    save_changed(transformer, [SiteMap(Site("embeddings"), SoftProjection(np.eye(16)[:1]))], tmp_path / "out")
    written = safetensors.load_file(tmp_path / "out" / "model.safetensors")
    assert {str(tensor.dtype) for tensor in written.values()} == {f"torch.{dtype}"}
    assert transformer.model.dtype == before == torch.float32
