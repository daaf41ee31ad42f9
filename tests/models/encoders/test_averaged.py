"""Averaged word vectors as a sentence encoder."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UsageError, VocabularyError
from evenhand.models.encoders.sentences import AveragedVectors, SentenceEncoder, unknown_words

VECTORS = eh.Vectors(["she", "he", "is", "here"], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]], name="four")


def test_a_text_is_the_mean_of_its_known_words() -> None:
    encoder = AveragedVectors(VECTORS)
    assert isinstance(encoder, SentenceEncoder)
    np.testing.assert_allclose(encoder.encode(["She is here.", "zebra he"]), [[2 / 3, 1.0], [0.0, 1.0]], atol=1e-6)
    np.testing.assert_allclose(encoder.encode(["She is here."], pooling="max"), [[1.0, 2.0]])
    np.testing.assert_allclose(encoder.encode_layers(["he"]), [[[0.0, 1.0]]])
    assert unknown_words(encoder, ["She is here.", "a zebra, he"]) == [(), ("a", "zebra")]


def test_what_cannot_be_averaged_is_refused() -> None:
    encoder = AveragedVectors(VECTORS)
    with pytest.raises(VocabularyError, match=r"no word of text 1 is in the vocabulary of four: 'zebra!'"):
        encoder.encode(["he", "zebra!"])
    with pytest.raises(UsageError, match="layer 1 does not exist"):
        encoder.encode(["he"], layer=1)
    with pytest.raises(UsageError, match="no pooling 'cls'"):
        encoder.encode(["he"], pooling="cls")


def test_vectors_offer_sentences_that_the_default_audit_does_not_ask() -> None:
    subject = eh.open(VECTORS)
    assert "sentences" in subject.offers
    assert "sentences" not in subject.asked_by_default
    np.testing.assert_allclose(subject.view("sentences").encode(["he"]), [[0.0, 1.0]])
