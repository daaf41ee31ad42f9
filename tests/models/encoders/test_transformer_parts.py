"""The parts of encoders by their definitions: windows, padding, poolings, modules of folders, labels, words in context."""

from __future__ import annotations

import json
import logging
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import (  # noqa: E402
    DegenerateError,
    EvenhandWarning,
    FormatError,
    TextTooLongError,
    UnknownNameError,
    UsageError,
)
from evenhand.models.encoders.activations import (  # noqa: E402
    read_tokens,
    sentences_at,
    token_lengths,
    words_in_context,
    words_of_table,
)
from evenhand.models.encoders.classifier import TextClassifier, decide, label_index, unit_of  # noqa: E402
from evenhand.models.encoders.sentences import (  # noqa: E402
    AveragedVectors,
    SentenceModules,
    TransformerSentences,
    layer_number,
    pool,
    read_modules,
    unknown_words,
    words_of,
)
from evenhand.models.encoders.transformer import Transformer  # noqa: E402

Folder = Callable[..., Path]


@pytest.fixture(scope="module")
def bert(tiny_folder: Folder) -> Transformer:
    return Transformer.load(tiny_folder("BertModel"), device="cpu")


@pytest.fixture(scope="module")
def gpt(tiny_folder: Folder) -> Transformer:
    return Transformer.load(tiny_folder("GPT2LMHeadModel"), device="cpu")


# Transformers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "limit", "reserved", "window"),
    [
        ({"max_position_embeddings": 64}, 48, 0, 48),
        ({"max_position_embeddings": 64}, 10**30, 0, 64),
        ({"n_positions": 32, "max_position_embeddings": 64}, None, 0, 32),
        ({"max_sequence_length": 16}, 64, 3, 13),
        ({"max_position_embeddings": 66, "model_type": "roberta", "pad_token_id": 1}, 10**30, 0, 64),
        ({"max_position_embeddings": 66, "model_type": "xlm-roberta", "pad_token_id": None}, 10**30, 0, 65),
        ({"max_position_embeddings": 66, "model_type": "camembert", "pad_token_id": 3}, 10**30, 1, 61),
        ({"max_position_embeddings": 66, "model_type": "mpnet", "pad_token_id": 1}, 10**30, 0, 64),
        ({"max_position_embeddings": 66, "model_type": "bert", "pad_token_id": 1}, 10**30, 0, 66),
        ({"max_position_embeddings": 1}, 10**30, 0, 1),
        ({"max_position_embeddings": 0}, 5, 0, 5),
        ({"max_position_embeddings": -1}, 5, 0, 5),
        ({"max_position_embeddings": "x"}, 10**30, 2, 1 << 20),
        ({}, (1 << 20) - 1, 0, (1 << 20) - 1),
        ({}, 1 << 20, 7, 1 << 20),
    ],
)
@pytest.mark.parametrize("nested", [True, False])
def test_the_window_is_the_smallest_that_is_stated(
    config: dict[str, Any], limit: int | None, reserved: int, window: int, nested: bool
) -> None:
    given = SimpleNamespace(**{"model_type": "x", "pad_token_id": None, **config})
    if nested:
        given.get_text_config = lambda: SimpleNamespace(**config)
    model: Any = SimpleNamespace(config=given)
    tokenizer: Any = SimpleNamespace(model_max_length=limit)
    assert Transformer("m", "encoder", model, tokenizer, "cpu", "float32", reserved=reserved).window == window


def test_texts_are_padded_on_the_right(bert: Transformer) -> None:
    found = bert.padded([[5, 6, 7], [8], np.array([9, 10])])
    assert found["input_ids"].tolist() == [[5, 6, 7], [8, 0, 0], [9, 10, 0]]
    assert found["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    assert bert.padded([[]])["input_ids"].tolist() == [[0]]
    odd = replace(bert, tokenizer=SimpleNamespace(pad_token_id=4))
    assert odd.padded([[5], [6, 7]])["input_ids"].tolist() == [[5, 4], [6, 7]]
    assert replace(bert, tokenizer=SimpleNamespace(pad_token_id=None)).padded([[5], [6, 7]])["input_ids"][0, 1] == 0


def test_ids_and_lengths_at_their_limits(bert: Transformer) -> None:
    rows = bert.model.get_input_embeddings().weight.shape[0]
    bert.check_ids(np.array([rows - 1]))
    bert.check_ids(np.array([], dtype=np.int64))
    with pytest.raises(FormatError, match=f"gives the id {rows}, but BertModel has {rows} embeddings"):
        bert.check_ids(np.array([[1, rows]]))
    bert.check_lengths([3, 4], 4)
    bert.check_lengths([], 4)
    with pytest.raises(TextTooLongError, match="text 2 has 1,005 tokens, and the model reads 1,004"):
        bert.check_lengths([3, 4, 1005, 5], 1004)


def test_a_copy_shares_its_weights_and_is_described(bert: Transformer) -> None:
    copy = bert.share_weights()
    assert copy.model is not bert.model
    assert all(a is b for a, b in zip(copy.model.parameters(), bert.model.parameters(), strict=True))
    assert all(a is b for a, b in zip(copy.model.buffers(), bert.model.buffers(), strict=True))
    count = sum(parameter.numel() for parameter in bert.model.parameters())
    described = {"class": "BertModel", "parameters": count, "precision": "float32", "device": "cpu", "notes": ["a"]}
    assert replace(bert, notes=("a",)).describe() == described
    assert (bert.name, bert.kind, bert.source.name) == ("bertmodel", "encoder", "bertmodel")  # type: ignore[union-attr]


# Sentences -----------------------------------------------------------------------------------------------------------


def test_poolings_by_hand() -> None:
    states = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    kept = [[states[row, place].numpy() for place in range(4) if mask[row, place]] for row in range(3)]
    expected = {
        "mean": [np.mean(rows, axis=0) for rows in kept],
        "mean-no-special": [np.mean(rows, axis=0) for rows in kept],
        "max": [np.max(rows, axis=0) for rows in kept],
        "last": [rows[-1] for rows in kept],
        "cls": [states[row, 0].numpy() for row in range(3)],
    }
    for how, vectors in expected.items():
        np.testing.assert_allclose(pool(states, mask, how).numpy(), vectors, rtol=1e-5)  # type: ignore[arg-type]


def test_layers_are_counted_from_either_end() -> None:
    assert [layer_number(layer, 3) for layer in (None, 0, 1, 3, -1, -4)] == [3, 0, 1, 3, 3, 0]
    for layer in (4, -5):
        with pytest.raises(UsageError, match=rf"layer {layer} does not exist\n.*0 to 3"):
            layer_number(layer, 3)


def test_unit_length_is_that_of_the_default_alone(bert: Transformer) -> None:
    texts = ["she is a nurse", "he"]
    plain, unit = TransformerSentences(bert), TransformerSentences(bert, pooling="max", normalise=True)
    assert (plain.pooling, plain.normalise, plain.layers, unit.pooling) == ("mean", False, 3, "max")
    highest = plain.encode(texts, pooling="max")
    scaled = highest / np.linalg.norm(highest, axis=1, keepdims=True)
    np.testing.assert_allclose(unit.encode(texts), scaled, rtol=1e-5)
    assert unit.encode(texts).dtype == np.float32
    np.testing.assert_allclose(unit.encode(texts, pooling="mean"), plain.encode(texts), rtol=1e-5)
    np.testing.assert_allclose(unit.encode(texts, layer=2), plain.encode(texts, layer=2, pooling="max"), rtol=1e-5)
    layers = unit.encode_layers(texts)
    np.testing.assert_allclose(layers[:3], plain.encode_layers(texts, pooling="max")[:3], rtol=1e-5)
    np.testing.assert_allclose(layers[3], scaled, rtol=1e-5)
    with pytest.raises(UnknownNameError, match="pooling"):
        plain.encode(texts, pooling="sum")  # type: ignore[arg-type]


def test_layers_of_different_widths_are_read_one_by_one(bert: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    view = TransformerSentences(bert)
    monkeypatch.setattr(view, "_encode", lambda *arguments: [np.zeros((2, 4)), np.zeros((2, 6)), np.zeros((2, 4))])
    with pytest.raises(FormatError, match=r"bertmodel: the layers have different widths \(4, 6\)"):
        view.encode_layers(["a", "b"])
    monkeypatch.setattr(view, "_encode", lambda *arguments: [np.zeros((2, 4))] * 3)
    assert view.encode_layers(["a", "b"]).shape == (3, 2, 4)


def test_the_longest_text_fills_the_window(bert: Transformer, gpt: Transformer) -> None:
    view = TransformerSentences(bert)
    assert view.encode([" ".join(["she"] * 62)]).shape == (1, 16)
    with pytest.raises(TextTooLongError, match="text 1 has 65 tokens, and the model reads 64"):
        view.encode(["she", " ".join(["she"] * 63)])
    reserved = TransformerSentences(replace(bert, reserved=5))  # no state stands behind a reserved token
    assert reserved.encode([" ".join(["she"] * 62)]).shape == (1, 16)
    with pytest.raises(UsageError, match="text 1 has no tokens"):
        TransformerSentences(gpt).encode(["she", ""])


def test_states_that_are_missing_or_not_numbers_are_named(bert: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    view = TransformerSentences(bert)
    view.layers = 4
    with pytest.raises(FormatError, match="BertModel does not return the states of its 4 layers"):
        view.encode(["she"])
    view = TransformerSentences(bert)
    monkeypatch.setattr(view, "_hidden_states", lambda inputs, layers: [torch.full((1, 3, 16), math.nan)])
    with pytest.raises(DegenerateError, match="bertmodel: a sentence vector contains NaN or infinity"):
        view.encode(["she"])


def test_words_that_are_unknown(bert: Transformer, gpt: Transformer) -> None:
    view = TransformerSentences(bert)
    assert unknown_words(view, ["雪 she", "she", "a雪b 雪"]) == [("雪",), (), ("雪", "雪")]
    assert unknown_words(TransformerSentences(gpt), ["雪", "she"]) == [(), ()]  # its unknown token ends texts
    other: Any = SimpleNamespace(is_fast=False, unk_token_id=1, unk_token="x", bos_token=None, eos_token=None)
    assert unknown_words(TransformerSentences(replace(bert, tokenizer=other)), ["雪", "a"]) == [(), ()]
    other = SimpleNamespace(is_fast=True, unk_token_id=None, unk_token=None, bos_token="a", eos_token="b")
    assert unknown_words(TransformerSentences(replace(bert, tokenizer=other)), ["雪"]) == [()]
    assert unknown_words(SimpleNamespace(), ["a", "b"]) == [(), ()]  # type: ignore[arg-type]


MODULES = [
    {"path": "", "type": "st.models.Transformer"},
    {"path": "1_Pooling", "type": "st.models.Pooling"},
    {"path": "2_Normalize", "type": "st.models.Normalize"},
]


@pytest.mark.parametrize(
    ("modules", "settings", "expected", "says"),
    [
        (MODULES, {"pooling_mode_cls_token": True}, ("cls", True), ""),
        (MODULES[:2], {"pooling_mode": "lasttoken"}, ("last", False), ""),
        (MODULES[:2], {"pooling_mode": "max", "pooling_mode_mean_tokens": True}, ("mean", False), ""),
        (MODULES[:2], {"pooling_mode": "weighted"}, (None, False), "the pooling weighted is not offered"),
        (
            MODULES[:2],
            {"pooling_mode_weightedmean_tokens": True},
            (None, False),
            "pooling_mode_weightedmean_tokens is not",
        ),
        (MODULES[:2], {"pooling_mode_cls_token": 1}, (None, False), ""),
        (MODULES[:2], {}, (None, False), ""),
        ([{"path": "../1_Pooling", "type": "Pooling"}], {"pooling_mode": "cls"}, (None, False), ""),
        (
            [*MODULES, {"path": "3", "type": "st.models.Dense"}],
            {},
            (None, True),
            "before its module Dense, which is not",
        ),
        ([3, "x"], {}, (None, False), ""),
        ({"a": 1}, {}, (None, False), ""),
        ([{"path": "2", "type": "Normalize"}], {}, (None, False), ""),
    ],
)
def test_what_a_folder_says_of_its_vectors(
    modules: Any, settings: dict[str, Any], expected: tuple[Any, bool], says: str, tmp_path: Path
) -> None:
    (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    (tmp_path / "0_Transformer").mkdir()
    for folder in (tmp_path, tmp_path / "0_Transformer"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert read_modules(folder) == SentenceModules(*expected)
        assert [says in str(warning.message) for warning in caught] == [True] * bool(says)
    assert read_modules(tmp_path / "0_Transformer" / "deeper") == SentenceModules(None, False)


@pytest.mark.parametrize(
    ("settings", "prompt"),
    [
        ({"prompts": {"q": "query: "}, "default_prompt_name": "q"}, "query: "),
        ({"prompts": {"q": ""}, "default_prompt_name": "q"}, ""),
        ({"prompts": {"q": "x"}}, ""),
        ({"prompts": [1], "default_prompt_name": "q"}, ""),
    ],
)
def test_a_prompt_of_a_folder_is_told(settings: dict[str, Any], prompt: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]", encoding="utf-8")
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings), encoding="utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_modules(tmp_path)
    assert [repr(prompt) in str(warning.message) for warning in caught] == [True] * bool(prompt)


def test_averaged_words_keep_their_rows() -> None:
    vectors = eh.Vectors(["a", "b"], [[1.0, 4.0], [3.0, 2.0]], name="two")
    view = AveragedVectors(vectors)
    np.testing.assert_allclose(view.encode(["a b b!", "A-a b"]), [[7 / 3, 8 / 3], [3.0, 2.0]], rtol=1e-6)
    np.testing.assert_allclose(view.encode(["a b"], pooling="max"), [[3.0, 4.0]])
    np.testing.assert_allclose(view.encode_layers(["a b"], pooling="max"), [[[3.0, 4.0]]])
    assert view.unknown_words(["a x", "b"]) == [("x",), ()]
    for pooling in ("cls", "last"):
        with pytest.raises(UsageError, match=f"no pooling '{pooling}'"):
            view.encode(["a"], pooling=pooling)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError):
        view.encode(["a"], pooling="sum")  # type: ignore[arg-type]
    assert words_of("it's a well-known 'fact'") == ["it's", "a", "well-known", "fact"]
    with pytest.raises(UsageError, match=r"item 1 is not a text: .*3"):
        view.encode(["a", 3])  # type: ignore[list-item]


def test_transformers_logs_nothing_about_long_texts(tiny_folder: Folder) -> None:
    """What is too long is refused, or read in windows, with a sentence of our own."""
    from evenhand.models.lm.continued_training import _causal_blocks
    from evenhand.models.lm.masked import NextSentenceHead

    names = {0: "a", 1: "b"}
    labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    pretrained = tiny_folder("BertForPreTraining")
    transformer = Transformer.load(pretrained, device="cpu")
    sentences, head = TransformerSentences(transformer), NextSentenceHead.load(pretrained, transformer)
    classifier = TextClassifier(Transformer.load(tiny_folder("BertForSequenceClassification", **labels), device="cpu"))
    assert head is not None
    long, said = " ".join(["she"] * 100), []
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[method-assign]
    logger = logging.getLogger("transformers.tokenization_utils_base")
    before, logger.level = logger.level, logging.WARNING
    logger.addHandler(handler)
    try:
        for call in (sentences.encode, classifier.predict):
            with pytest.raises(TextTooLongError):
                call([long])
        assert sentences.unknown_words([long]) == [()]
        assert np.isnan(head.log_probabilities([long], ["he"])).all()
        assert _causal_blocks([long], transformer.tokenizer, 10).shape == (10, 10)
        assert said == []
        transformer.tokenizer.deprecation_warnings.clear()
        transformer.tokenizer([long])
        assert len(said) == 1
    finally:
        logger.removeHandler(handler)
        logger.level = before


# Labels --------------------------------------------------------------------------------------------------------------


def test_labels_stand_in_the_order_of_their_numbers() -> None:
    def view(names: dict[Any, str], problem: str | None = None) -> TextClassifier:
        config = SimpleNamespace(id2label=names, problem_type=problem)
        transformer: Any = SimpleNamespace(model=SimpleNamespace(config=config), name="m")
        return TextClassifier(transformer)

    three = view({"10": "c", "2": "b", "0": "a"})
    assert (three.labels, three.exclusive, three.unit) == (("a", "b", "c"), True, "probability")
    assert (view({0: "a"}).exclusive, view({0: "a"}).unit) == (False, "score")
    one = view({0: "a"}, "single_label_classification")
    assert (one.exclusive, one.unit) == (False, "probability")
    two = view({0: "a", 1: "b"}, "regression")
    assert (two.exclusive, two.unit) == (False, "score")
    several = view({0: "a", 1: "b"}, "multi_label_classification")
    assert (several.exclusive, several.unit) == (False, "probability")
    assert unit_of(SimpleNamespace()) == "probability"  # type: ignore[arg-type]
    assert unit_of(two) == "score"


def test_decisions_at_one_half() -> None:
    several: Any = SimpleNamespace(exclusive=False)
    assert decide(several, np.array([[0.5, 0.49, 0.5], [0.49, 0.5, 0.2]])).tolist() == [5, 2]
    single: Any = SimpleNamespace(exclusive=True)
    assert decide(single, np.array([[0.2, 0.4, 0.4], [0.6, 0.2, 0.2]])).tolist() == [1, 0]


def test_a_label_is_named_once() -> None:
    view: Any = SimpleNamespace(name="m", labels=("A", "b", "B"))
    assert [label_index(view, label) for label in (None, "a", "A")] == [2, 0, 0]
    for label in ("b", "c"):  # two labels have this name in lower case
        with pytest.raises(UnknownNameError, match=r"label of m"):
            label_index(view, label)
    with pytest.raises(UsageError, match="m has no labels"):
        label_index(SimpleNamespace(name="m", labels=()), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "value", "says"),
    [((1, 3), 0.0, r"\(1, 3\) numbers for 1 texts and 2 labels"), ((1, 2), math.nan, "a probability is NaN")],
)
def test_logits_that_do_not_fit_the_labels(shape: tuple[int, ...], value: float, says: str, bert: Transformer) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        config = SimpleNamespace(id2label={0: "a", 1: "b"}, model_type="x")

        def forward(self, **inputs: Any) -> Any:
            return SimpleNamespace(logits=torch.full(shape, value))

        def get_input_embeddings(self) -> Any:
            return bert.model.get_input_embeddings()

    with pytest.raises((FormatError, DegenerateError), match=says):
        TextClassifier(Transformer("m", "text-classifier", Model(), bert.tokenizer, "cpu", "float32")).predict(["she"])


# Vectors at sites ----------------------------------------------------------------------------------------------------


def states_of(transformer: Transformer, text: str, layer: int) -> Any:
    ids = transformer.tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        return transformer.model(**ids, output_hidden_states=True).hidden_states[layer][0].numpy()


def test_words_in_context_by_hand(bert: Transformer) -> None:
    contexts = ["this is {word}.", "{word} said that"]
    found = words_in_context(bert, "layer:2", ["nurse", "very_good", "nurses", "雪", "nurse"], contexts)
    first, second = states_of(bert, "this is very good.", 2)[3:5], states_of(bert, "very good said that", 2)[1:3]
    np.testing.assert_allclose(found.vectors["very_good"], np.mean([first.mean(0), second.mean(0)], axis=0), atol=1e-5)
    nurse = (states_of(bert, "this is nurse.", 2)[3] + states_of(bert, "nurse said that", 2)[1]) / 2
    np.testing.assert_allclose(found.vectors["nurse"], nurse, atol=1e-5)
    assert found.report() == {
        "words": 3, "contexts": 2, "words_averaged_over_pieces": ["very_good", "nurses"], "words_without_tokens": ["雪"],
    }  # fmt: skip
    assert found.vectors.words == ("nurse", "very_good", "nurses")
    assert found.vectors.name == "bertmodel at layer:2"
    pooled = words_in_context(bert, "pooled", ["nurse"], contexts).vectors["nurse"]
    with torch.inference_mode():
        outputs = [
            bert.model(**bert.tokenizer(text, return_tensors="pt")).pooler_output[0]
            for text in ("this is nurse.", "nurse said that")
        ]
    np.testing.assert_allclose(pooled, torch.stack(outputs).mean(0).numpy(), atol=1e-5)
    for wrong in ([], ["no word"], ["{word} and {word}"]):
        with pytest.raises(UsageError, match=r"a context needs one \{word\}"):
            words_in_context(bert, "layer:2", ["nurse"], wrong)
    with pytest.raises(DegenerateError, match=r"bertmodel: the tokenizer spells none of .*雪"):
        words_in_context(bert, "layer:2", ["雪"], contexts)


def test_words_are_added_to_a_table_as_the_mean_of_their_pieces(bert: Transformer) -> None:
    weight = bert.model.get_input_embeddings().weight.detach().numpy()
    row = bert.tokenizer.convert_tokens_to_ids
    table = eh.Vectors(["she"], weight[[row("she")]], name="t")
    with pytest.warns(EvenhandWarning, match=r"2 words are split by the tokenizer of bertmodel; .* very_good, nurses"):
        found = words_of_table(bert, table, ["she", "very_good", "nurses", "雪", "nurses"])
    assert found.vectors.words == ("she", "very_good", "nurses")
    np.testing.assert_allclose(found.vectors["very_good"], weight[[row("very"), row("good")]].mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.vectors["nurses"], weight[[row("nurse"), row("##s")]].mean(0), rtol=1e-5)
    assert (found.contexts, found.split, found.lost) == (0, ("very_good", "nurses"), ("雪",))
    none = words_of_table(bert, table, ["she", "雪"])
    assert none.vectors is table
    assert (none.split, none.lost, none.contexts) == ((), ("雪",), 0)


def test_a_scaled_table_gives_its_stored_rows(tiny_folder: Folder) -> None:
    gemma = Transformer.load(tiny_folder("GemmaForCausalLM"), device="cpu")
    weight = gemma.model.get_input_embeddings().weight.detach().numpy()
    ids = [
        token
        for token in gemma.tokenizer.encode(" zebra", add_special_tokens=False)
        if gemma.tokenizer.decode(token).strip()
    ]
    assert len(ids) > 1
    table = eh.Vectors(["x"], weight[:1], name="t")
    with pytest.warns(EvenhandWarning, match="1 words are split"):
        found = words_of_table(gemma, table, ["zebra"])
    np.testing.assert_allclose(found.vectors["zebra"], weight[ids].mean(0), rtol=1e-5)


def test_sentences_and_tokens_at_a_site_by_hand(bert: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.models.encoders.activations.tokens_at_once", lambda device: 8)
    texts = ["she", "she is a nurse and he is here", "he is"]
    states = [states_of(bert, text, 1) for text in texts]
    for pooling, join in (("mean", lambda rows: rows.mean(0)), ("last", lambda rows: rows[-1])):
        found = sentences_at(bert, "layer:1", texts, pooling=pooling)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, [join(rows) for rows in states], atol=1e-5)
    assert sentences_at(bert, "pooled", texts).shape == (3, 16)
    seen: dict[int, list[Any]] = {}

    def keep(rows: Any, vectors: Any) -> None:
        for row, vector in zip(rows.tolist(), vectors, strict=True):
            seen.setdefault(row, []).append(vector)

    read_tokens(bert, "layer:1", texts, keep)
    for row, expected in enumerate(states):
        np.testing.assert_allclose(seen[row], expected, atol=1e-5)
    lengths = sorted(token_lengths(bert, "layer:1", texts))
    np.testing.assert_allclose(lengths, sorted(np.linalg.norm(np.concatenate(states), axis=1)), rtol=1e-5)
    assert sentences_at(bert, "layer:1", [" ".join(["she"] * 62)]).shape == (1, 16)
    with pytest.raises(TextTooLongError, match="a text has 65 tokens, and the model reads 64"):
        sentences_at(bert, "layer:1", ["he", " ".join(["she"] * 63)])
    broken = bert.share_weights()
    broken.model.encoder.layer[0].output.LayerNorm.bias = torch.nn.Parameter(torch.full((16,), math.nan))
    with pytest.raises(DegenerateError, match="bertmodel: a vector at layer:1 contains NaN"):
        sentences_at(broken, "layer:1", ["she"])
