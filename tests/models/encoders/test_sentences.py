"""Sentence vectors of transformers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import UsageError  # noqa: E402
from evenhand.models.batching import run_in_batches  # noqa: E402
from evenhand.models.encoders.protocol import SentenceEncoder  # noqa: E402

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
