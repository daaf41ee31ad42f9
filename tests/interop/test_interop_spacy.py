"""spaCy: a stand-in with the same attributes, and the real library where it is installed."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from evenhand.errors import EvenhandWarning, FormatError, MissingExtraError
from evenhand.interop.spacy import from_spacy, to_spacy
from evenhand.models.vectors import Vectors

TABLE = Vectors(["he", "she", "Zoë"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="mine")


class Strings(dict[int, str]):
    """spaCy's string store: 64-bit keys to spellings; unknown keys raise KeyError."""

    def add(self, word: str) -> int:
        key = hash(word) & 0xFFFFFFFFFFFFFFFF
        self[key] = word
        return key


class Table:
    """spaCy's `Vectors`: rows, and for each key the row it uses."""

    mode = "default"

    def __init__(self, *, strings: Strings, data: np.ndarray, keys: list[int], name: str = "") -> None:
        self.data, self.name = data, name
        self.key2row = {key: row for row, key in enumerate(keys)}


class Vocab:
    def __init__(self) -> None:
        self.strings = Strings()
        self.vectors = Table(strings=self.strings, data=np.zeros((0, 0), np.float32), keys=[])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = types.SimpleNamespace(
        vocab=types.SimpleNamespace(Vocab=Vocab), vectors=types.SimpleNamespace(Vectors=Table)
    )
    monkeypatch.setitem(sys.modules, "spacy", spacy)  # type: ignore[arg-type]


def filled() -> Vocab:
    vocab = Vocab()
    keys = [vocab.strings.add(word) for word in TABLE.words]
    vocab.vectors = Table(strings=vocab.strings, data=np.array(TABLE.matrix), keys=keys, name="mine")
    return vocab


def test_a_vocab_or_a_pipeline_gives_its_table() -> None:
    vocab = filled()
    assert from_spacy(vocab) == TABLE
    assert from_spacy(types.SimpleNamespace(vocab=vocab)) == TABLE
    assert from_spacy(vocab).name == "mine"
    assert from_spacy(vocab, name="other").name == "other"


def test_rows_shared_after_pruning_are_copied_and_counted() -> None:
    vocab = filled()
    vocab.vectors.key2row[vocab.strings.add("xe")] = 1
    vectors = from_spacy(vocab)
    assert set(vectors.words) == {"he", "she", "xe", "Zoë"}
    np.testing.assert_array_equal(vectors["xe"], vectors["she"])
    assert vectors.source["words_that_share_a_row"] == 1


def test_a_missing_spelling_raises_a_warning() -> None:
    vocab = filled()
    vocab.vectors.key2row[12345] = 0
    with pytest.warns(EvenhandWarning, match="lacks the spelling of 1 vectors"):
        assert from_spacy(vocab) == TABLE


def test_tables_on_a_gpu_are_fetched() -> None:
    vocab = filled()
    vocab.vectors.data = types.SimpleNamespace(get=lambda: np.array(TABLE.matrix))  # type: ignore[assignment]
    assert from_spacy(vocab) == TABLE


def test_sources_without_word_vectors_are_refused() -> None:
    with pytest.raises(FormatError, match=r"no word vectors\n.*_md or _lg"):
        from_spacy(Vocab())
    with pytest.raises(FormatError, match="a list has no vectors"):
        from_spacy([])
    vocab = filled()
    vocab.vectors.mode = "floret"
    with pytest.raises(FormatError, match="floret"):
        from_spacy(vocab)


@pytest.mark.usefixtures("stand_in")
def test_round_trip_through_the_stand_in() -> None:
    assert from_spacy(to_spacy(TABLE)) == TABLE
    mine: Any = Vocab()
    assert to_spacy(TABLE, mine) is mine
    mine.vectors.data[0] = 9
    np.testing.assert_array_equal(TABLE["he"], [1.0, 2.0])


def test_without_spacy_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r'pip install "evenhand\[spacy\]"'):
        to_spacy(TABLE)


def test_the_real_library() -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    with pytest.raises(FormatError, match="no word vectors"):
        from_spacy(nlp)
    to_spacy(TABLE, nlp.vocab)
    np.testing.assert_array_equal(nlp("she")[0].vector, [3.0, 4.0])
    assert from_spacy(nlp) == TABLE
    nlp.vocab.vectors.add(nlp.vocab.strings.add("xe"), row=1)
    np.testing.assert_array_equal(from_spacy(nlp)["xe"], [3.0, 4.0])
    assert from_spacy(to_spacy(TABLE)) == TABLE
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("cat", np.ones(3, np.float32))
    assert tuple(from_spacy(nlp).words) == ("cat",)
    nlp.vocab.vectors = spacy.vectors.Vectors(mode="floret", data=np.ones((10, 4), np.float32), minn=3, maxn=4)
    with pytest.raises(FormatError, match="floret"):
        from_spacy(nlp)
