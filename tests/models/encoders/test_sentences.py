"""Sentence vectors of transformers."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import UsageError  # noqa: E402
from evenhand.models.device import run_in_batches  # noqa: E402
from evenhand.models.encoders.sentences import (  # noqa: E402
    SentenceEncoder,
    TransformerSentences,
    unknown_words,
)
from evenhand.models.encoders.transformer import Transformer  # noqa: E402

TEXTS = ["she is a nurse", "he", "the doctor said that the engineer was very good", "zzz qqq"]


@pytest.fixture
def encoder(tiny_folder: Callable[..., Path]) -> SentenceEncoder:
    view: SentenceEncoder = eh.open(f"hf:{tiny_folder('BertModel')}").view("sentences")
    return view


def test_the_mean_of_the_last_layer_by_hand(encoder: SentenceEncoder, tiny_folder: Callable[..., Path]) -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel.from_pretrained(tiny_folder("BertModel")).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_folder("BertModel"))
    with torch.no_grad():
        states = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in TEXTS]
    expected = np.stack([state.mean(dim=0).numpy() for state in states])
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    first = np.stack([state[0].numpy() for state in states])
    np.testing.assert_allclose(encoder.encode(TEXTS, pooling="cls"), first, atol=1e-5)
    inner = np.stack([state[1:-1].mean(dim=0).numpy() for state in states])
    np.testing.assert_allclose(encoder.encode(TEXTS, pooling="mean-no-special"), inner, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "mean-no-special", "cls", "last", "max"])
def test_batches_and_order_change_nothing(encoder: SentenceEncoder, pooling: str) -> None:
    together = encoder.encode(TEXTS, pooling=pooling)
    np.testing.assert_allclose(encoder.encode(TEXTS, pooling=pooling, tokens=1), together, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS[::-1], pooling=pooling)[::-1], together, atol=1e-5)


def test_all_layers_come_from_one_pass(encoder: SentenceEncoder) -> None:
    layers = encoder.encode_layers(TEXTS)
    assert layers.shape == (4, 4, 16)
    for layer in range(4):
        np.testing.assert_allclose(layers[layer], encoder.encode(TEXTS, layer=layer), atol=1e-5)
    np.testing.assert_allclose(layers[-2], encoder.encode(TEXTS, layer=-2), atol=1e-5)


def test_bad_texts_and_layers_are_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(UsageError, match="text 0 has 102 tokens, and the model reads 64"):
        encoder.encode(["she " * 100])
    with pytest.raises(UsageError, match=r"layer 4 does not exist\n.*0 to 3"):
        encoder.encode(["she"], layer=4)
    with pytest.raises(UsageError, match="single text"):
        encoder.encode("she")


def test_a_batch_that_does_not_fit_is_halved() -> None:
    sizes: list[int] = []
    done: list[int] = []

    def compute(rows: np.ndarray) -> None:
        sizes.append(len(rows))
        if len(rows) > 3:
            raise torch.cuda.OutOfMemoryError("no memory")
        done.extend(rows.tolist())

    run_in_batches([2] * 10, compute, tokens=20)
    assert sorted(done) == list(range(10))
    assert sizes == [10, 5, 2, 2, 2, 2, 2]


def sentence_folder(tiny: Path, folder: Path, pooling: dict[str, object], *modules: str) -> Path:
    shutil.copytree(tiny, folder)
    names = ["Transformer", "Pooling", *modules]
    listed = [
        {"idx": number, "name": str(number), "path": f"{number}_{name}" * (number > 0), "type": f"st.models.{name}"}
        for number, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "cls"}, "cls"),
    ],
)
def test_the_pooling_of_a_sentence_transformers_folder_is_used(
    tiny_folder: Callable[..., Path], tmp_path: Path, settings: dict[str, object], pooling: str
) -> None:
    plain = eh.open(f"hf:{tiny_folder('BertModel')}").view("sentences").encode(TEXTS, pooling=pooling)
    folder = sentence_folder(tiny_folder("BertModel"), tmp_path / "model", settings, "Normalize")
    encoder = eh.open(f"hf:{folder}").view("sentences")
    assert encoder.pooling == pooling
    unit = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), unit, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_layers(TEXTS)[-1], unit, atol=1e-5)
    assert np.abs(np.linalg.norm(encoder.encode(TEXTS, layer=1), axis=1) - 1).max() > 0.01


def test_modules_that_are_not_applied_are_named(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = sentence_folder(tiny_folder("BertModel"), tmp_path / "dense", {"pooling_mode_mean_tokens": True}, "Dense")
    with pytest.warns(eh.errors.EvenhandWarning, match="before its module Dense"):
        assert eh.open(f"hf:{folder}").view("sentences").pooling == "mean"
    two = {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
    folder = sentence_folder(tiny_folder("BertModel"), tmp_path / "two", two)
    with pytest.warns(eh.errors.EvenhandWarning, match="is not offered; the mean"):
        assert eh.open(f"hf:{folder}").view("sentences").pooling == "mean"


@pytest.mark.parametrize("default", ["query", None, "unknown"])
def test_a_prompt_before_every_text_is_named(
    tiny_folder: Callable[..., Path], tmp_path: Path, default: str | None, recwarn: pytest.WarningsRecorder
) -> None:
    folder = sentence_folder(tiny_folder("BertModel"), tmp_path / "prompts", {"pooling_mode_mean_tokens": True})
    settings = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": default}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings), encoding="utf-8")
    warnings.simplefilter("always")
    eh.open(f"hf:{folder}").view("sentences")
    said = [str(one.message) for one in recwarn if "puts 'query: ' before every text" in str(one.message)]
    assert len(said) == (default == "query")


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "LlamaForCausalLM", "RobertaModel", "BertForMaskedLM"])
def test_padding_changes_nothing_in_any_architecture(tiny_folder: Callable[..., Path], kind: str) -> None:
    encoder = TransformerSentences(Transformer.load(tiny_folder(kind)))
    assert encoder.pooling == ("last" if "LM" in kind and "Masked" not in kind else "mean")
    for pooling in ("mean", "last", "max"):
        together = encoder.encode(TEXTS, pooling=pooling)
        alone = np.concatenate([encoder.encode([text], pooling=pooling) for text in TEXTS])
        np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_last_token_of_a_causal_model_by_hand(tiny_folder: Callable[..., Path]) -> None:
    loaded = Transformer.load(tiny_folder("GPT2LMHeadModel"))
    with torch.no_grad():
        states = [
            loaded.model(**loaded.tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[-1]
            for text in TEXTS
        ]
    expected = np.stack([state[0, -1].numpy() for state in states])
    np.testing.assert_allclose(TransformerSentences(loaded).encode(TEXTS), expected, atol=1e-5)


def test_text_that_the_tokenizer_cannot_read_is_named(encoder: SentenceEncoder) -> None:
    assert unknown_words(encoder, ["she is a nurse", "she is 雪"]) == [(), ("雪",)]
    with pytest.raises(UsageError, match="text 1 has special tokens only"):
        encoder.encode(["she", ""], pooling="mean-no-special")
