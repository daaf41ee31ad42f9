"""gensim: objects both ways, and gensim's own files, which are pickles."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import FormatError, MissingExtraError, UsageError, VocabularyError
from evenhand.interop.gensim import from_gensim, to_gensim
from evenhand.models.vectors import Vectors
from evenhand.models.vectors.formats import ReadOptions
from evenhand.models.vectors.formats.word2vec import read_gensim

TRUSTED = ReadOptions(allow_pickle=True)
VECTORS = Vectors(["he", "she", "Zoë"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_without_gensim_the_pip_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "gensim"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "gensim", None)
    path = tmp_path / "x.kv"
    path.write_bytes(b"\x80\x04N.")
    for call in (lambda: to_gensim(VECTORS), lambda: read_gensim(path, TRUSTED)):
        with pytest.raises(
            MissingExtraError, match=r'package .gensim. is required.*\n.*pip install "evenhand\[gensim\]"'
        ):
            call()


def test_pickles_are_refused_unless_allowed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x.kv: a Python pickle.*\n.*allow_pickle=True"):
        read_gensim(tmp_path / "x.kv", ReadOptions())


def test_an_object_without_vectors_is_refused() -> None:
    with pytest.raises(FormatError, match="gensim: a dict, not gensim"):
        from_gensim({"he": [1.0]})


def test_round_trip() -> None:
    pytest.importorskip("gensim")
    keyed = to_gensim(VECTORS)
    assert keyed.index_to_key == ["he", "she", "Zoë"]
    np.testing.assert_array_equal(keyed["Zoë"], [5.0, 6.0])
    back = from_gensim(keyed, name="mine")
    assert back == VECTORS
    assert back.name == "mine"


def test_neighbours_agree() -> None:
    pytest.importorskip("gensim")
    table = Vectors([f"w{i}" for i in range(30)], np.random.default_rng(0).standard_normal((30, 4)))
    theirs = to_gensim(table).most_similar("w3", topn=5)
    ours = table.most_similar("w3", k=5)
    assert [word for word, _ in ours] == [word for word, _ in theirs]
    np.testing.assert_allclose([score for _, score in ours], [score for _, score in theirs], atol=1e-6)


def test_later_changes_in_gensim_matter_only_with_shared_memory() -> None:
    pytest.importorskip("gensim")
    keyed = to_gensim(VECTORS)
    copied, shared = from_gensim(keyed), from_gensim(keyed, copy=False)
    keyed.vectors[0] = 0
    np.testing.assert_array_equal(copied["he"], [1.0, 2.0])
    np.testing.assert_array_equal(shared["he"], [0.0, 0.0])
    np.testing.assert_array_equal(VECTORS["he"], [1.0, 2.0])


def test_extra_rows_and_keys_that_are_not_words() -> None:
    models = pytest.importorskip("gensim.models")
    keyed = models.KeyedVectors(2, count=5)
    keyed.add_vector("he", [1.0, 2.0])
    np.testing.assert_array_equal(from_gensim(keyed).matrix, [[1.0, 2.0]])
    assert len(from_gensim(keyed)) == 1
    keyed.add_vector(7, [1.0, 2.0])
    with pytest.raises(FormatError, match="the key 7 is a int, not a word"):
        from_gensim(keyed)


@pytest.fixture
def subword_model():
    models = pytest.importorskip("gensim.models")
    corpus = [["nurse", "doctor", "élève", "he", "she"]] * 5
    return models.FastText(corpus, vector_size=4, min_count=1, min_n=4, max_n=5, bucket=30, epochs=1, workers=1)


def test_fasttext_still_composes_unseen_words(subword_model) -> None:
    vectors = from_gensim(subword_model)
    np.testing.assert_array_equal(vectors.composed(["nurses"])["nurses"], subword_model.wv["nurses"])
    with pytest.raises(VocabularyError, match="cannot compose 'a'"):
        vectors.composed(["a"])


@pytest.mark.parametrize("suffix", [".kv", ".kv.gz"])
def test_saved_vectors_open_when_trusted(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("gensim")
    path = tmp_path / f"mine{suffix}"
    to_gensim(VECTORS).save(str(path), sep_limit=0)
    assert Vectors.load(path, allow_pickle=True) == VECTORS
    assert Vectors.load(path, allow_pickle=True, limit=2).words == ("he", "she")


def test_saved_models_open_when_trusted(tmp_path: Path, subword_model) -> None:
    subword_model.save(str(tmp_path / "ft.model"))
    vectors = Vectors.load(tmp_path / "ft.model", allow_pickle=True)
    np.testing.assert_allclose(vectors.composed(["nurses"])["nurses"], subword_model.wv["nurses"], atol=1e-6)
    np.testing.assert_allclose(vectors.matrix, subword_model.wv.vectors, atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps({"he": 1}), pickle.dumps(Vectors)[:-3]])
def test_other_files_are_named(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("gensim")
    path = tmp_path / "other.kv"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"other.kv: gensim cannot open it"):
        read_gensim(path, TRUSTED)


def test_lost_side_files_are_named(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    path = tmp_path / "mine.kv"
    to_gensim(VECTORS).save(str(path), sep_limit=0)
    (tmp_path / "mine.kv.vectors.npy").unlink()
    with pytest.raises(FormatError, match=r"mine.kv: gensim cannot open it.*\n.*\.npy files"):
        read_gensim(path, TRUSTED)
