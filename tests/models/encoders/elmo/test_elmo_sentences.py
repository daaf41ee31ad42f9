"""Sentence vectors of ELMo, and vectors of words by layer."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from evenhand.errors import UnknownNameError, UsageError, VocabularyError  # noqa: E402
from evenhand.models.encoders.elmo.encoder import (  # noqa: E402
    Elmo,
    ElmoSentences,
    average_vectors,
    mixing_weights,
    word_vectors,
)
from evenhand.models.encoders.sentences import SentenceEncoder  # noqa: E402
from tiny_elmo import save_tiny_elmo  # noqa: E402

TEXTS = ["The nurse said hello.", "He", "the doctor, who is very good", "zzz"]
SPLIT = [["The", "nurse", "said", "hello", "."], ["He"], ["the", "doctor", ",", "who", "is", "very", "good"], ["zzz"]]


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    return Elmo.load(save_tiny_elmo(tmp_path_factory.mktemp("elmo")), device="cpu")


def test_poolings_by_hand(elmo: Elmo) -> None:
    encoder = ElmoSentences(elmo)
    assert isinstance(encoder, SentenceEncoder)
    vectors = elmo.vectors(SPLIT)
    for layer in range(3):
        states = [array[layer] for array in vectors]
        mean = np.stack([state.mean(0) for state in states])
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer), mean, atol=1e-6)
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer, pooling="mean-no-special"), mean, atol=1e-6)
        last = np.stack([state[-1] for state in states])
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer, pooling="last"), last, atol=1e-6)
        highest = np.stack([state.max(0) for state in states])
        np.testing.assert_allclose(encoder.encode(TEXTS, layer=layer, pooling="max"), highest, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS), encoder.encode(TEXTS, layer=2), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "last", "max"])
def test_batches_and_order_change_nothing(elmo: Elmo, pooling: str) -> None:
    encoder = ElmoSentences(elmo, pooling=pooling)  # type: ignore[arg-type]
    together = encoder.encode_layers(TEXTS)
    np.testing.assert_allclose(encoder.encode_layers(TEXTS, tokens=1), together, atol=1e-6)
    np.testing.assert_allclose(encoder.encode_layers(TEXTS[::-1])[:, ::-1], together, atol=1e-6)
    np.testing.assert_allclose(encoder.encode_layers([*TEXTS, TEXTS[0]])[:, -1], together[:, 0], atol=1e-6)


def test_the_mix_is_one_more_layer(elmo: Elmo) -> None:
    plain = ElmoSentences(elmo).encode_layers(TEXTS)
    assert plain.shape == (3, 4, 8)
    even = ElmoSentences(elmo, mix=[0.0, 0.0, 0.0])
    assert even.layers == 3
    np.testing.assert_allclose(even.encode_layers(TEXTS)[:3], plain, atol=1e-6)
    np.testing.assert_allclose(even.encode(TEXTS), plain.mean(0), atol=1e-6)
    np.testing.assert_allclose(even.encode(TEXTS, layer=-2), plain[2], atol=1e-6)
    skewed = ElmoSentences(elmo, mix=[np.log(1), np.log(2), np.log(5)], gamma=4.0)
    np.testing.assert_allclose(skewed.encode(TEXTS), 0.5 * plain[0] + plain[1] + 2.5 * plain[2], atol=1e-5)
    np.testing.assert_allclose(mixing_weights([1e4, 0.0, 0.0]), [1.0, 0.0, 0.0])
    with pytest.raises(UsageError, match="the mix has 2 scores, and the model 3 layers"):
        ElmoSentences(elmo, mix=[0.0, 0.0])


def test_what_cannot_be_encoded_is_refused(elmo: Elmo) -> None:
    encoder = ElmoSentences(elmo)
    with pytest.raises(UsageError, match="layer 3 does not exist"):
        encoder.encode(["he"], layer=3)
    with pytest.raises(UsageError, match=r"no \[CLS\] token"):
        encoder.encode(["he"], pooling="cls")
    with pytest.raises(UnknownNameError, match="pooling"):
        encoder.encode(["he"], pooling="sum")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="' ' has no words"):
        encoder.encode(["he", " "])
    with pytest.raises(UsageError, match="single text"):
        encoder.encode("he")


def test_word_vectors_are_layer_0(elmo: Elmo) -> None:
    vectors = word_vectors(elmo, ["she", "he", "she"])
    assert vectors.words == ("she", "he")
    np.testing.assert_allclose(vectors["he"], elmo.vectors([["then", "he", "left"]])[0][0, 1, :4], atol=1e-6)


def test_averages_over_occurrences_by_hand(elmo: Elmo) -> None:
    sentences = [["he", "saw", "he"], ["so", "she", "left"], ["nobody"], ["left", "he"]]
    layers = average_vectors(elmo, ["she", "he"], sentences)
    vectors = elmo.vectors(sentences)
    for number, layer in enumerate(layers):
        assert layer.words == ("she", "he")
        np.testing.assert_allclose(layer["she"], vectors[1][number, 1], atol=1e-6)
        expected = (vectors[0][number, 0] + vectors[0][number, 2] + vectors[3][number, 1]) / 3
        np.testing.assert_allclose(layer["he"], expected, atol=1e-6)
    with pytest.raises(VocabularyError, match="'queen' occurs in none of the sentences"):
        average_vectors(elmo, ["he", "queen"], sentences)


def test_a_model_is_loaded_from_a_folder_or_a_file(tmp_path: Path) -> None:
    folder = save_tiny_elmo(tmp_path / "small")
    assert Elmo.load(folder, device="cpu").name == "small"
    assert Elmo.load(str(folder / "options.json"), device="cpu").dim == 8
