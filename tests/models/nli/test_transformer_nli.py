"""Sequence classifiers: ids joined as the tokenizer joins them, label order, limits, and what is refused."""

import itertools
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from evenhand import data  # noqa: E402
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, InputMissingError, UsageError  # noqa: E402
from evenhand.measures.inference import probe as run  # noqa: E402
from evenhand.models.encoders.transformer import Transformer  # noqa: E402
from evenhand.models.nli import LABELS, GridModel, NLIModel  # noqa: E402
from evenhand.models.nli.protocol import FixedVocabulary  # noqa: E402
from evenhand.models.nli.transformer import (  # noqa: E402  # noqa: E402  # noqa: E402
    DeviceModel,
    Float32Linear,
    LengthBatches,
    TransformerNLI,
    from_text,
    keep_head_in_float32,
    meaning,
    phrase_blocks,
    read_label_order,
)
from evenhand.words.probes import Points, probe  # noqa: E402

# the module of DeBERTa compiles its functions with it
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

ORDER = ("contradiction", "entailment", "neutral")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def asked():
    """A probe whose fillers have one to three pieces, so that many lengths occur."""
    return probe("mab-explicit").restrict(verb=["bought", "met"], object=["apron", "urchin", "van"])


def words():
    some = asked()
    texts = [text for side in some.texts(some.points(0, some.n_pairs)) for text in side]
    return sorted({word for text in texts for word in text.lower().rstrip(".").split()})


def wrapped(made, **special):
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)


def bert_tokenizer(ending="$A:0 [SEP]:0 $B:1 [SEP]:1", start="[CLS]:0 "):
    """Word pieces; words of more than four letters fall apart into two."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "."]
    pieces = itertools.chain.from_iterable(
        (word[:4], "##" + word[4:]) if len(word) > 4 else (word,) for word in words()
    )
    vocabulary = {token: place for place, token in enumerate(dict.fromkeys([*special, *pieces]))}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=start + ending, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return wrapped(made, **names, model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def roberta_tokenizer():
    """Bytes, two separators between the sentences, no token types."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: place for place, token in enumerate([*special, *alphabet])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return wrapped(made, **names, model_input_names=["input_ids", "attention_mask"])


def deberta_tokenizer():
    """A unigram model over text whose spaces are written as a sign of their own."""
    special = [("[PAD]", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), ("[UNK]", -20.0)]
    letters = [(letter, -5.0) for letter in "abcdefghijklmnopqrstuvwxyzASH."]
    whole = [("▁" + word, -1.0) for word in words() if len(word) < 6]
    made = tokenizers.Tokenizer(tokenizers.models.Unigram([*special, ("▁", -3.0), *letters, *whole], 3))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return wrapped(made, **names, model_input_names=["input_ids", "token_type_ids", "attention_mask"])


TOKENIZERS = {"bert": bert_tokenizer, "roberta": roberta_tokenizer, "deberta-v2": deberta_tokenizer}


def classifier(kind="bert", labels=ORDER, **choices):
    """Random weights, large enough that the answers differ from pair to pair."""
    choices = {
        "vocab_size": 300,
        "max_position_embeddings": 128,
        "type_vocab_size": 3,
        "num_labels": len(labels),
        **choices,
    }
    if kind == "deberta-v2":
        choices |= {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
    config = transformers.AutoConfig.for_model(
        kind,
        **SIZES,
        **choices,
        pad_token_id=1 if kind == "roberta" else 0,
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
    )
    torch.manual_seed(7)
    return transformers.AutoModelForSequenceClassification.from_config(config).eval()


def folder(path, kind="bert", tokenizer=None, **choices):
    classifier(kind, **choices).save_pretrained(path)
    (tokenizer or TOKENIZERS[kind]()).save_pretrained(path)
    return path


def changed(path, **values):
    """The configuration with other values; None takes one out."""
    file = path / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | values
    file.write_text(json.dumps({k: v for k, v in config.items() if v is not None}), encoding="utf-8")
    return path


def reference(model, tokenizer, premises, hypotheses):
    """One pair after the other, by the book."""
    rows = []
    for pair in zip(premises, hypotheses, strict=True):
        with torch.inference_mode():
            rows.append(model(**tokenizer(*pair, return_tensors="pt")).logits.softmax(-1)[0].tolist())
    return np.array(rows)[:, [ORDER.index(label) for label in LABELS]]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_both_ways_through_a_probe_answer_like_the_model_itself(tmp_path, kind):
    model, some = TransformerNLI(folder(tmp_path / "tiny", kind), device="cpu", batch=100), asked()
    texts = some.texts(some.points(0, some.n_pairs))
    expected = reference(classifier(kind), TOKENIZERS[kind](), *texts)
    assert expected.std(axis=0).max() > 0.005, "the answers must differ for the comparison to say anything"
    np.testing.assert_allclose(model.predict(*texts).matrix, expected, atol=1e-5)
    assert model.pair_format(some) is not None
    found = np.empty((*some.shape, 3))
    for grid in model.grids(some):
        found[grid.phrases] = grid.probabilities
    np.testing.assert_allclose(found.reshape(-1, 3), expected, atol=1e-5)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_ids_joined_from_sentences_are_those_of_the_tokenizer(kind):
    tokenizer, some = TOKENIZERS[kind](), asked()
    model = TransformerNLI(classifier(kind), tokenizer, device="cpu")
    frame = model.pair_format(some)
    assert (frame.types is None) == (kind == "roberta")
    seen = []
    for block in phrase_blocks(some, model.tokenize, frame, tokens=40):
        for place, pair in enumerate(itertools.product(block.phrases, range(some.shape[1]), range(some.shape[2]))):
            t, p, h = pair[0] - block.phrases[0], pair[1], pair[2]
            parts = [(block.first, t * some.shape[1] + p), (block.second, t * some.shape[2] + h)]
            ids = np.concatenate([r.ids[r.starts[row] : r.starts[row] + r.lengths[row]] for r, row in parts])
            given = tokenizer(*(texts[0] for texts in some.texts(Points(*(np.array([x]) for x in pair)))))
            assert ids.tolist() == given["input_ids"]
            if frame.types:
                both = [[kind] * parts[side][0].lengths[parts[side][1]] for side, kind in enumerate(frame.types)]
                assert both[0] + both[1] == given["token_type_ids"]
            seen.append(place)
    assert len(seen) == some.n_pairs


def test_a_tokenizer_with_an_unusual_ending_is_asked_pair_by_pair():
    # as XLNet writes pairs: the classification token last, with a type of its own
    tokenizer = bert_tokenizer("$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2", start="")
    model, some = TransformerNLI(classifier(), tokenizer, device="cpu"), asked()
    assert model.pair_format(some) is None
    found = np.concatenate([grid.probabilities.reshape(-1, 3) for grid in model.grids(some)])
    expected = reference(classifier(), tokenizer, *some.texts(some.points(0, some.n_pairs)))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_it_is_a_model_like_all_others(tmp_path):
    model = from_text(f"hf:{folder(tmp_path / 'tiny')}", device="cpu")
    assert isinstance(model, NLIModel)
    assert isinstance(model, GridModel)
    assert isinstance(model, FixedVocabulary)
    assert model.name == "tiny"
    assert "BertForSequenceClassification on cpu in float32" in repr(model)
    found = run(model, asked(), controls=False, draws=0)
    assert found.n_pairs == asked().n_pairs
    assert 0 < found.neutrality.net_neutral.value < 1
    assert len(model.predict([], [])) == 0
    with pytest.raises(UsageError, match="does not name a model"):
        from_text("hf:")


@pytest.mark.parametrize("order", list(itertools.permutations(LABELS)), ids="-".join)
def test_named_probabilities_do_not_depend_on_the_order_of_outputs(tmp_path, order):
    model = classifier()
    rows = [ORDER.index(label) for label in order]
    model.classifier.weight.data = model.classifier.weight.data[rows]
    model.classifier.bias.data = model.classifier.bias.data[rows]
    model.config.id2label = {place: f"MNLI_{label.upper()}" for place, label in enumerate(order)}
    model.save_pretrained(tmp_path)
    bert_tokenizer().save_pretrained(tmp_path)
    texts = asked().texts(asked().points(0, 20))
    found = TransformerNLI(tmp_path, device="cpu")
    assert found.labels == order
    expected = reference(classifier(), bert_tokenizer(), *texts)
    np.testing.assert_allclose(found.predict(*texts).matrix, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ENTAILMENT", "entailment"),
        ("LABEL_1 (neutral)", "neutral"),
        ("contradictory", "contradiction"),
        ("entails", "entailment"),
        ("not_entailment", ""),
        ("Non-Entailment", ""),
        ("no entailment", ""),
        ("neutral/contradiction", ""),
        ("LABEL_2", ""),
        ("", ""),
    ],
)
def test_what_a_label_means(name, expected):
    assert meaning(name) == expected


class Config:
    def __init__(self, id2label, label2id=None):
        self.id2label, self.label2id, self.num_labels = id2label, label2id, len(id2label)


def test_label_order_from_either_entry_and_refused_where_they_disagree():
    unnamed = {place: f"LABEL_{place}" for place in range(3)}
    assert read_label_order(Config(dict(enumerate(ORDER))), where="m") == ORDER
    assert read_label_order(Config(unnamed, {label: place for place, label in enumerate(ORDER)}), where="m") == ORDER
    with pytest.raises(FormatError, match="id2label says contradiction, entailment, neutral, label2id says entailment"):
        read_label_order(
            Config(dict(enumerate(ORDER)), {label: place for place, label in enumerate(LABELS)}), where="m"
        )
    twice = {0: "entailment", 1: "entailment", 2: "neutral"}
    with pytest.raises(FormatError, match="order of its labels is unknown"):
        read_label_order(Config(twice), where="m")


def test_an_order_that_contradicts_the_configuration_is_taken_and_told(tmp_path):
    place = folder(tmp_path / "m")
    with pytest.warns(EvenhandWarning, match="though its configuration says contradiction, entailment, neutral"):
        assert TransformerNLI(place, device="cpu", labels=LABELS).labels == LABELS
    assert TransformerNLI(place, device="cpu", labels=ORDER).labels == ORDER


def test_unnamed_labels_are_refused_until_said(tmp_path):
    place = changed(folder(tmp_path / "m"), id2label={str(n): f"LABEL_{n}" for n in range(3)}, label2id=None)
    with pytest.raises(FormatError, match="LABEL_0, LABEL_1, LABEL_2") as caught:
        TransformerNLI(place, device="cpu")
    assert "labels=" in str(caught.value)
    said = TransformerNLI(place, device="cpu", labels=ORDER)
    texts = asked().texts(asked().points(0, 5))
    np.testing.assert_allclose(
        said.predict(*texts).matrix, reference(classifier(), bert_tokenizer(), *texts), atol=1e-5
    )
    with pytest.raises(UsageError, match="order of labels"):
        TransformerNLI(place, device="cpu", labels=("yes", "maybe", "no"))


@pytest.mark.parametrize("labels", [("entailment", "not_entailment"), ("a", "b", "c", "d")])
@pytest.mark.parametrize("said", [None, ORDER])
def test_other_than_three_labels_are_refused(tmp_path, labels, said):
    place = folder(tmp_path / "m", labels=labels)
    with pytest.raises(FormatError, match=f"has {len(labels)} labels") as caught:
        TransformerNLI(place, device="cpu", labels=said)
    assert ("does not distinguish" in str(caught.value)) == (len(labels) == 2)


def test_folders_that_are_no_model(tmp_path):
    with pytest.raises(InputMissingError, match="no folder"):
        TransformerNLI(tmp_path / "none")
    with pytest.raises(InputMissingError, match=r"no config\.json"):
        TransformerNLI(tmp_path)
    place = folder(tmp_path / "m")
    with pytest.raises(InputMissingError, match="is a file"):
        TransformerNLI(place / "config.json")
    (place / "model.safetensors").unlink()
    with pytest.raises(InputMissingError, match="no weights"):
        TransformerNLI(place)
    torch.save(classifier().state_dict(), place / "pytorch_model.bin")
    with pytest.raises(FormatError, match=r"pickle \(pytorch_model\.bin\)") as caught:
        TransformerNLI(place)
    assert "`allow_pickle=True`" in str(caught.value)


def test_an_id_that_is_not_in_the_cache_says_how_to_fetch_it(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputMissingError, match="nobody/nothing") as caught:
        TransformerNLI("nobody/nothing", device="cpu")
    assert "hf download nobody/nothing" in str(caught.value)


def test_damaged_weights_and_untrained_heads(tmp_path):
    place = folder(tmp_path / "m")
    (place / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="not a complete safetensors file"):
        TransformerNLI(place, device="cpu")
    classifier().bert.save_pretrained(place)
    with pytest.raises(FormatError, match="no weights for classifier"):
        TransformerNLI(place, device="cpu")


def test_nan_is_refused_both_ways():
    model = classifier()
    model.classifier.bias.data[1] = float("nan")
    broken = TransformerNLI(model, bert_tokenizer(), device="cpu", name="broken")
    with pytest.raises(FormatError, match=r"broken, pair 0: .*not finite"):
        broken.predict(["a man ate."], ["a woman ate."])
    with pytest.raises(FormatError, match=r"broken, pair 0: .*not finite"):
        run(broken, asked(), controls=False)


def test_long_pairs_are_cut_with_a_warning():
    tokenizer, some = bert_tokenizer(), asked()
    model = TransformerNLI(classifier(max_position_embeddings=16), tokenizer, device="cpu")
    assert model.limit == 16
    long = "a man bought a van " * 5
    with pytest.warns(EvenhandWarning, match="1 of 2 pairs are longer than the model's limit of 16 tokens"):
        found = model.predict(["a man", long], ["a van", long])
    ids = tokenizer(long, long, truncation=True, max_length=16, return_tensors="pt")
    expected = classifier(max_position_embeddings=16)(**ids).logits.softmax(-1)[0].tolist()
    assert found.neutral[1] == pytest.approx(expected[ORDER.index("neutral")], abs=1e-5)
    with pytest.warns(EvenhandWarning, match="limit of 16 tokens and were truncated"):
        assert run(model, some, controls=False, draws=0).n_pairs == some.n_pairs


def test_positions_of_roberta_begin_behind_the_padding():
    model = TransformerNLI(classifier("roberta", max_position_embeddings=60), roberta_tokenizer(), device="cpu")
    assert model.limit == 58
    with pytest.warns(EvenhandWarning, match="58 tokens"):
        model.predict(["x" * 100], ["y" * 100])


def test_fillers_that_only_the_unknown_token_can_write():
    model = TransformerNLI(classifier(), bert_tokenizer(), device="cpu")
    assert model.out_of_vocabulary(["man", "zebra", "woman"]) == ("zebra",)
    assert TransformerNLI(classifier("roberta"), roberta_tokenizer(), device="cpu").out_of_vocabulary(["zebra"]) == ()


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize(("precision", "most"), [("bfloat16", 0.02), ("float16", 0.003)])
def test_shorter_numbers_answer_nearly_the_same(kind, precision, most):
    texts = asked().texts(asked().points(0, asked().n_pairs))
    short, full = (
        TransformerNLI(classifier(kind), TOKENIZERS[kind](), device="cpu", precision=choice)
        for choice in (precision, "float32")
    )
    difference = np.abs(short.predict(*texts).matrix - full.predict(*texts).matrix).mean()
    assert 0 < difference < most


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_last_layer_stays_in_float32(precision):
    model = TransformerNLI(classifier(), bert_tokenizer(), device="cpu", precision=precision).device_model
    kinds = {}
    for name in ("bert.pooler.dense", "classifier"):
        model.model.get_submodule(name).register_forward_hook(lambda *a, name=name: kinds.update({name: a[-1].dtype}))
    rounded = model(torch.tensor([[2, 7, 3, 9, 3]]), torch.tensor([[0, 0, 0, 1, 1]]), precision)
    assert kinds == {"bert.pooler.dense": getattr(torch, precision), "classifier": torch.float32}
    assert rounded.dtype == torch.float32


def overflowing() -> DeviceModel:
    """A model whose first layer gives numbers beyond float16, and which may go on in float32, as on a GPU."""
    model = classifier()
    with torch.no_grad():
        model.bert.encoder.layer[0].intermediate.dense.bias.fill_(1e5)
    found = DeviceModel(model, torch.device("cpu"), "float16", None)
    found.may_widen = True
    return found


def test_values_beyond_float16_are_computed_in_float32():
    ids, types = torch.tensor([[2, 7, 3, 9, 3]]), torch.tensor([[0, 0, 0, 1, 1]])
    model = overflowing()
    with pytest.warns(EvenhandWarning, match="values beyond float16: float32 is used there"):
        found = model.probabilities(lambda precision: model(ids, types, precision).numpy())
    assert np.isfinite(found).all()
    assert np.array_equal(found, model(ids, types, "float32").numpy())
    again = model.probabilities(lambda precision: model(ids, types, precision).numpy())  # no second warning
    assert np.array_equal(found, again)


def test_answers_after_an_overflow_are_those_before_it():
    """Results are stored under the precision of the model, so they must not depend on what was asked before."""
    ids, types = torch.tensor([[2, 7, 3, 9, 3]]), torch.tensor([[0, 0, 0, 1, 1]])
    model = DeviceModel(classifier(), torch.device("cpu"), "float16", None)
    model.may_widen = True
    before = model.probabilities(lambda precision: model(ids, types, precision).numpy())
    with pytest.warns(EvenhandWarning, match="values beyond float16"):
        wide = model.probabilities(lambda precision: np.full((1, 3), np.nan if precision == "float16" else 0.5))
    assert (wide == 0.5).all()
    assert model.precision == "float16"
    after = model.probabilities(lambda precision: model(ids, types, precision).numpy())
    assert np.array_equal(before, after)
    assert not np.array_equal(before, model(ids, types, "float32").numpy())


def test_the_head_is_the_last_layer_also_where_an_inner_one_is_as_narrow():
    inner = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 4))
    model = torch.nn.ModuleDict({"body": inner, "head": torch.nn.Linear(4, 3)})
    keep_head_in_float32(model, outputs=3)
    assert type(model["head"]) is Float32Linear
    assert [type(layer) for layer in inner] == [torch.nn.Linear, torch.nn.Linear]


def test_values_beyond_a_chosen_float16_are_an_error():
    model = classifier()
    with torch.no_grad():
        model.bert.encoder.layer[0].intermediate.dense.bias.fill_(1e5)
    chosen = TransformerNLI(model, bert_tokenizer(), device="cpu", precision="float16")
    with pytest.raises(EvenhandError, match="has values beyond float16"):
        chosen.predict(["a man eats"], ["a person eats"])


def test_a_model_handed_in_is_left_as_it_was():
    model = classifier().train()
    TransformerNLI(model, bert_tokenizer(), device="cpu", precision="bfloat16")
    assert model.training
    assert model.dtype == torch.float32
    with pytest.raises(UsageError, match="alone is not an NLI model"):
        TransformerNLI(model)


@pytest.mark.parametrize(
    ("choice", "match"),
    [
        ({"device": "numpy"}, "unknown device 'numpy'"),
        ({"device": "cuda:99"}, "'cuda:99' is not available"),
        ({"precision": "int8"}, "int8"),
        ({"batch": 0}, "at least 1 token"),
    ],
)
def test_choices_that_make_no_sense(choice, match):
    with pytest.raises(UsageError, match=match):
        TransformerNLI(classifier(), bert_tokenizer(), **{"device": "cpu", **choice})


def test_another_models_tokenizer_is_told():
    model = TransformerNLI(classifier(vocab_size=8), bert_tokenizer(), device="cpu")
    for ask in (lambda: model.predict(["a man met a woman."], ["a person."]), lambda: list(model.grids(asked()))):
        with pytest.raises(FormatError, match="BertForSequenceClassification has 8 embeddings"):
            ask()


def test_batches_have_one_length_and_at_most_so_many_tokens():
    lengths = np.array([5, 3, 5, 5, 3, 9, 5])
    found = LengthBatches.of(lengths, 10)
    assert sorted(found.order.tolist()) == list(range(7))
    assert [cut.length * (cut.stop - cut.start) for cut in found.cuts] == [6, 10, 10, 9]
    assert all((lengths[found.order[cut.start : cut.stop]] == cut.length).all() for cut in found.cuts)
    assert found.longest == 9


@pytest.mark.data
def test_a_published_encoder_and_its_tokenizer():
    """MiniLM with a random head: its tokenizer, its weights, both ways through a probe."""
    place = data.locate("all-minilm-l6-v2")
    if place is None:
        pytest.skip("all-minilm-l6-v2 is not fetched")
    with pytest.raises(FormatError, match="no weights for classifier"):
        TransformerNLI(place, device="cpu")
    torch.manual_seed(1)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(place, num_labels=3)
    tokenizer, some = transformers.AutoTokenizer.from_pretrained(place), asked()
    ours = TransformerNLI(model, tokenizer, labels=ORDER, device="cpu", batch=400)
    texts = some.texts(some.points(0, some.n_pairs))
    expected = reference(model.eval(), tokenizer, *texts)
    np.testing.assert_allclose(ours.predict(*texts).matrix, expected, atol=1e-5)
    assert ours.pair_format(some) is not None
    found = np.concatenate([grid.probabilities.reshape(-1, 3) for grid in ours.grids(some)])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_shared_model_in_half_precision_keeps_its_format(tmp_path):
    shared = Transformer.load(folder(tmp_path), precision="bfloat16")
    before = shared.model.dtype
    model = TransformerNLI(shared, precision="float32", device="cpu")
    assert (before, shared.model.dtype, model.device_model.model.dtype) == (
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
    )
