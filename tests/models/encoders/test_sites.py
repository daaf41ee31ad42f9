"""Sites: where they lie in ten architectures, hooks that leave no trace, and maps folded into saved weights."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import FormatError, OutputError, UsageError  # noqa: E402
from evenhand.mitigations.maps import Affine, DropCoordinates, LowRank, SoftProjection, WordTable  # noqa: E402
from evenhand.models.encoders.folding import (  # noqa: E402
    TIED_WARNING,
    UNTIED_NOTE,
    NotFoldableError,
    fold,
    why_not_foldable,
)
from evenhand.models.encoders.hooks import SiteMap, StoredMap, hooked, install, stored_maps  # noqa: E402  # noqa: E402
from evenhand.models.encoders.saving import RECORD, save_changed  # noqa: E402
from evenhand.models.encoders.sites import Site, locate, resolve, sites_of  # noqa: E402
from evenhand.models.encoders.transformer import Transformer, load_model  # noqa: E402
from evenhand.models.huggingface import SITE_MAPS  # noqa: E402

Folder = Callable[..., Path]
HEADS = (
    "BertForMaskedLM",
    "RobertaForMaskedLM",
    "DistilBertForMaskedLM",
    "AlbertForMaskedLM",
    "ElectraForMaskedLM",
    "DebertaV2ForMaskedLM",
    "MPNetForMaskedLM",
    "ModernBertForMaskedLM",
    "GPT2LMHeadModel",
    "LlamaForCausalLM",
    "GemmaForCausalLM",
)
WIDTHS = {"AlbertForMaskedLM": 8, "ElectraForMaskedLM": 8}
LAST = Site("layer", 3)


def loaded(folder: Path) -> Transformer:
    return Transformer.load(folder, device="cpu")


def doubled(transformer: Transformer) -> Transformer:
    """Return a copy in double precision, in which folded and hooked models differ by what folding loses alone."""
    return replace(transformer, model=copy.deepcopy(transformer.model).double())


@pytest.fixture(params=HEADS)
def any_head(request: pytest.FixtureRequest, tiny_folder: Folder) -> Transformer:
    options = {"tie_word_embeddings": True} if request.param == "LlamaForCausalLM" else {}
    return loaded(tiny_folder(request.param, **options))


@pytest.fixture
def bert(tiny_folder: Folder) -> Transformer:
    return loaded(tiny_folder("BertForMaskedLM"))


def projection(width: int, rank: int = 2) -> SoftProjection:
    rows = np.random.default_rng(width).standard_normal((width, rank))
    return SoftProjection(np.linalg.qr(rows)[0].T)


def affine(width: int) -> LowRank:
    rng = np.random.default_rng(width + 1)
    return LowRank(rng.standard_normal((width, 2)) / 4, rng.standard_normal((2, width)) / 4, rng.standard_normal(width))


def ids_of(transformer: Transformer) -> Any:
    rows = transformer.model.get_input_embeddings().weight.shape[0]
    return torch.randint(5, rows, (2, 9), generator=torch.Generator().manual_seed(1))


def logits(transformer: Transformer, **options: Any) -> Any:
    ids = ids_of(transformer)
    with torch.inference_mode():
        return transformer.model(input_ids=ids, attention_mask=torch.ones_like(ids), **options).logits


def relative(a: Any, b: Any) -> float:
    return float((a - b).abs().max() / b.abs().max())


def test_every_site_changes_the_output_and_leaves_no_trace_when_removed(any_head: Transformer) -> None:
    before = logits(any_head)
    found = dict(sites_of(any_head.model))
    assert [str(site) for site in found] == ["embeddings"] + [
        f"{kind}:{n}" for n in (1, 2, 3) for kind in ("attention", "mlp", "layer")
    ]
    for site, place in found.items():
        with hooked(any_head.model, site, projection(place.width)):
            assert relative(logits(any_head), before) > 1e-3, site
        assert torch.equal(logits(any_head), before), site
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in any_head.model.modules()]
    assert sum(hooks) == 0


def test_hidden_states_of_a_layer_are_mapped_even_if_transformers_recorded_them_before(any_head: Transformer) -> None:
    vm = projection(16)
    logits(any_head, output_hidden_states=True)  # transformers installs its own hooks now
    clone = any_head.share_weights()
    ids = ids_of(clone)
    for number in (1, 2, 3):
        with hooked(clone.model, f"layer:{number}", vm), torch.inference_mode():
            states = clone.model(ids, output_hidden_states=True).hidden_states
        left = [float((state @ torch.tensor(vm.basis.T).float()).abs().max()) for state in states]
        assert left[number] < 1e-5
        assert min(left[:number]) > 1e-2


def test_a_map_at_the_table_commutes_with_the_lookup(any_head: Transformer) -> None:
    place = locate(any_head.model, Site("embeddings"))
    assert place.width == WIDTHS.get(type(any_head.model).__name__, 16)
    table, ids, vm = place.modules[0], ids_of(any_head), affine(place.width)
    mapped = torch.tensor(vm(table.weight.detach().double().numpy())) * place.scale
    with hooked(any_head.model, "embeddings", vm), torch.no_grad():
        assert torch.allclose(table(ids).double(), mapped[ids], atol=1e-5)


@pytest.mark.parametrize("site", ["embeddings", "layer:-1"])
def test_a_folded_model_equals_the_hooked_one_in_plain_transformers(
    any_head: Transformer, site: str, tmp_path: Path
) -> None:
    causal = any_head.kind == "causal-lm"
    place = locate(any_head.model, Site.parse(site))
    vm = affine(place.width)
    if site != "embeddings" and (causal or any_head.model.config.model_type == "modernbert"):
        with pytest.raises(NotFoldableError, match="no bias to hold it"):
            save_changed(any_head, [SiteMap(Site.parse(site), vm)], tmp_path / "out")
        vm = projection(place.width)
    original = logits(any_head)
    saved = save_changed(any_head, [SiteMap(Site.parse(site), vm)], tmp_path / "out")
    assert torch.equal(logits(any_head), original)
    auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    model, info = auto.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = ids_of(any_head)
    with torch.inference_mode():
        plain = model.double().eval()(ids, attention_mask=torch.ones_like(ids)).logits
    exact = doubled(any_head)
    with hooked(exact.model, site, vm):
        assert relative(plain, logits(exact)) < 1e-6
    assert relative(plain, original) > 1e-2
    if causal or site == "embeddings":
        assert UNTIED_NOTE in saved.notes
        assert not model.config.tie_word_embeddings
        output = model.get_output_embeddings().weight.float()
        if site == "embeddings":
            assert torch.equal(output, any_head.model.get_output_embeddings().weight)


def test_attention_and_mlp_fold_into_the_layers_that_read_them(any_head: Transformer) -> None:
    name = type(any_head.model).__name__
    for site in (Site("attention", 2), Site("mlp", 2)):
        shared = name.startswith("Albert") or (name.startswith("Deberta") and site.kind == "attention")
        if shared:
            assert why_not_foldable(any_head, site)
            continue
        exact = doubled(any_head)
        folded = fold(exact, SiteMap(site, projection(16))).transformer
        with hooked(exact.model, site, projection(16)):
            assert relative(logits(folded), logits(exact)) < 1e-12


def test_the_output_of_a_layer_that_feeds_the_residual_is_not_folded(any_head: Transformer) -> None:
    with pytest.raises(NotFoldableError, match="residual connection of layer 2") as raised:
        fold(any_head, SiteMap(Site("layer", 1), projection(16)))
    assert "attention:2 and mlp:2" in (raised.value.hint or "")
    assert "`hook=True`" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("class_name", "reader"),
    [
        ("BertForSequenceClassification", "bert.pooler.dense"),
        ("RobertaForSequenceClassification", "classifier.dense"),
        ("DistilBertForSequenceClassification", "pre_classifier"),
        ("AlbertForSequenceClassification", "albert.pooler"),
        ("DebertaV2ForSequenceClassification", "pooler.dense"),
        ("ModernBertForSequenceClassification", "head.dense"),
    ],
)
def test_classifiers_fold_the_last_layer_and_the_pooler(tiny_folder: Folder, class_name: str, reader: str) -> None:
    transformer = doubled(loaded(tiny_folder(class_name, num_labels=3)))
    vm = projection(16) if class_name.startswith("ModernBert") else affine(16)
    folded = fold(transformer, SiteMap(LAST, vm))
    assert folded.into == (reader,)
    with hooked(transformer.model, LAST, vm):
        assert relative(logits(folded.transformer), logits(transformer)) < 1e-12
    if "pooled" not in [str(site) for site, _ in sites_of(transformer.model)]:
        with pytest.raises(UsageError, match="no pooler"):
            locate(transformer.model, Site("pooled"))
        return
    pooled = fold(transformer, SiteMap(Site("pooled"), affine(16)))
    assert pooled.into == ("classifier",)
    with hooked(transformer.model, "pooled", affine(16)):
        assert relative(logits(pooled.transformer), logits(transformer)) < 1e-12


def test_a_bare_encoder_returns_its_last_layer_so_it_is_not_folded(tiny_folder: Folder) -> None:
    encoder = loaded(tiny_folder("BertModel"))
    assert "BertModel returns it" in why_not_foldable(encoder, LAST)
    assert "BertModel returns it" in why_not_foldable(encoder, Site("pooled"))
    assert why_not_foldable(encoder, Site("embeddings")) == ""


def test_a_tied_decoder_is_projected_only_on_request(bert: Transformer) -> None:
    he, she = (bert.tokenizer.convert_tokens_to_ids(word) for word in ("he", "she"))
    rows = bert.model.get_input_embeddings().weight.detach().double().numpy()
    direction = (rows[he] - rows[she]) / np.linalg.norm(rows[he] - rows[she])
    change = SiteMap(Site("embeddings"), SoftProjection(direction[None]))
    tied, untied = fold(bert, change, decoder="tied"), fold(bert, change)
    assert TIED_WARNING in tied.notes
    bias = bert.model.cls.predictions.bias.detach()
    gap = logits(tied.transformer)[..., he] - logits(tied.transformer)[..., she] - (bias[he] - bias[she])
    assert float(gap.abs().max()) < 1e-5
    assert float((logits(untied.transformer)[..., he] - logits(untied.transformer)[..., she]).abs().min()) > 1e-3


def test_several_maps_at_one_site_apply_in_order(bert: Transformer, tmp_path: Path) -> None:
    first, second = affine(16), Affine(np.random.default_rng(5).standard_normal((16, 16)))
    for site in ("embeddings", "layer:3", "layer:1"):
        changes = [SiteMap(Site.parse(site), first), SiteMap(Site.parse(site), second)]
        clone = bert.share_weights()
        for change in changes:
            install(clone.model, change.site, change.map)
        composed = bert.share_weights()
        install(composed.model, site, second @ first)
        assert relative(logits(composed), logits(clone)) < 1e-5
        save_changed(bert, changes, tmp_path / "out", hook=True)
        assert relative(logits(loaded(tmp_path / "out")), logits(clone)) < 1e-5
        again = clone.share_weights()  # a copy keeps the maps
        assert torch.equal(logits(again), logits(clone))


def test_a_map_that_cannot_be_folded_is_kept_beside_the_model(bert: Transformer, tmp_path: Path) -> None:
    out, change = tmp_path / "out", SiteMap(Site("layer", 2), affine(16))
    with pytest.raises(NotFoldableError):
        save_changed(bert, [change], out)
    assert not out.exists()
    saved = save_changed(bert, [change], out, hook=True)
    assert saved.hooked == ["layer:2"]
    assert any("plain transformers ignores" in note for note in saved.notes)
    with hooked(bert.model, "layer:2", change.map):
        assert relative(logits(loaded(out)), logits(bert)) < 1e-6
    assert any("layer:2" in note for note in load_model(out).notes)
    plain = transformers.AutoModelForMaskedLM.from_pretrained(out).eval()
    ids = ids_of(bert)
    with torch.inference_mode():
        assert torch.equal(plain(ids, attention_mask=torch.ones_like(ids)).logits, logits(bert))
    # A second change is added to the first one.
    twice = save_changed(loaded(out), [SiteMap(Site("layer", 1), affine(16))], tmp_path / "twice", hook=True)
    assert twice.hooked == ["layer:2", "layer:1"]
    assert [str(each.site) for each in stored_maps(tmp_path / "twice")] == ["layer:2", "layer:1"]


def test_the_output_folder_is_protected(bert: Transformer, tmp_path: Path) -> None:
    change = SiteMap(Site("embeddings"), projection(16))
    assert bert.source is not None
    with pytest.raises(OutputError, match="the model itself"):
        save_changed(bert, [change], bert.source)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(OutputError, match="not empty"):
        save_changed(bert, [change], tmp_path / "mine")
    save_changed(bert, [change], tmp_path / "out")
    save_changed(bert, [change], tmp_path / "out")
    assert (tmp_path / "out" / RECORD).is_file()
    assert not list(tmp_path.glob(".*partial"))


def test_damaged_maps_beside_a_model_are_refused(bert: Transformer, tmp_path: Path) -> None:
    save_changed(bert, [SiteMap(Site("layer", 2), affine(16))], tmp_path / "out", hook=True)
    content = (tmp_path / "out" / SITE_MAPS).read_bytes()
    for damaged in (content[:40], content.replace(b"layer:2", b"layer:9")):
        (tmp_path / "out" / SITE_MAPS).write_bytes(damaged)
        with pytest.raises(eh.EvenhandError, match=r"damaged maps|there is no layer:9"):
            load_model(tmp_path / "out")


@pytest.mark.parametrize("limit", ["x", True, -1, []])
def test_a_limit_of_a_stored_map_is_a_length(limit: object) -> None:
    factors = np.zeros((4, 1)), np.zeros((1, 4)), np.zeros(4)
    with pytest.raises(ValueError, match="norm_limit is"):
        StoredMap(*factors, "digest", limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("layer:0", "numbered from 1"),
        ("layer:4", "has 3 layers"),
        ("layer:-4", "has 3 layers"),
        ("layer", "is not a site"),
        ("table", "is not a site"),
        ("pooled", "no pooler"),
    ],
)
def test_a_site_that_does_not_exist_is_an_error(bert: Transformer, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        locate(bert.model, Site.parse(text))


def test_negative_numbers_count_from_the_last_layer(bert: Transformer) -> None:
    assert resolve(bert.model, "layer:-1") == LAST
    assert str(resolve(bert.model, "mlp:-3")) == "mlp:1"


def test_an_unknown_structure_says_what_was_looked_for(bert: Transformer) -> None:
    odd = bert.share_weights().model
    odd.bert.encoder.blocks = odd.bert.encoder.layer
    del odd.bert.encoder.layer
    with pytest.raises(FormatError, match=r"a list of 3 layers \(encoder\.layer"):
        locate(odd, Site("layer", 1))
    odd = bert.share_weights().model
    del odd.bert.encoder.layer[0].intermediate
    with pytest.raises(FormatError, match=r"reads its input.*intermediate\.dense"):
        locate(odd, Site("mlp", 1))


def test_a_map_that_does_not_fit_the_site_is_refused(bert: Transformer) -> None:
    with pytest.raises(UsageError, match="16 coordinates of layer:1"):
        install(bert.model, "layer:1", projection(8))
    with pytest.raises(UsageError, match="does not keep"):
        install(bert.model, "embeddings", DropCoordinates([0], 16))
    with pytest.raises(UsageError, match="there are no words"):
        install(bert.model, "layer:1", WordTable({"he": np.ones(16)}))


def test_a_table_of_words_replaces_rows_of_whole_words(bert: Transformer) -> None:
    change = SiteMap(Site("embeddings"), WordTable({"he": np.ones(16)}))
    clone = bert.share_weights()
    install(clone.model, "embeddings", projection(16))
    install(clone.model, "embeddings", change.map, clone.tokenizer)
    he, she = (bert.tokenizer.convert_tokens_to_ids(word) for word in ("he", "she"))
    table = clone.model.get_input_embeddings()
    found = table(torch.tensor([he, she])).detach()
    assert torch.equal(found[0], torch.ones(16))
    expected = projection(16)(table.weight[she].detach())
    assert torch.allclose(found[1], expected, atol=1e-6)


def test_gradients_flow_through_a_hook_and_the_map_stays(bert: Transformer) -> None:
    model, vm = bert.share_weights().model, projection(16)
    install(model, "embeddings", vm)
    table = torch.nn.Parameter(model.get_input_embeddings().weight.detach().clone())
    model.get_input_embeddings().weight = table
    ids = ids_of(bert)
    model(ids).logits.square().mean().backward()
    assert table.grad is not None
    removed = table.grad[ids.flatten()] @ torch.tensor(vm.basis.T).float()
    assert float(table.grad[ids.flatten()].abs().max()) > 1e-6
    assert float(removed.abs().max()) < 1e-6


def test_a_number_names_its_layer(bert: Transformer) -> None:
    def module(site: str) -> str:
        return locate(bert.model, Site.parse(site)).names[0]

    count = len(bert.model.bert.encoder.layer)
    for number in range(1, count + 1):
        layer = f"bert.encoder.layer.{number - 1}"
        assert module(f"layer:{number}") == layer
        assert module(f"attention:{number}") == f"{layer}.attention.self.query"
        assert module(f"mlp:{number}") == f"{layer}.intermediate.dense"
        assert module(f"layer:{number - count - 1}") == layer
    assert [site.number for site, _ in sites_of(bert.model) if site.kind == "layer"] == list(range(1, count + 1))
