"""From files to numbers to columns and stretches."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import FormatError, InputMissingError, UsageError, VocabularyError
from evenhand.models.lm.awd_lstm.corpus import EOS, UNK, LMCorpus, TokenVocabulary, tokens_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"train": "a b a\n\nc a\n", "valid": "a d\n", "test": "b b"}.items():
        (tmp_path / f"x.{name}.txt").write_text(text)
    return tmp_path


def test_each_line_ends_with_eos_empty_lines_too(folder: Path) -> None:
    assert list(tokens_of(folder / "x.train.txt")) == ["a", "b", "a", EOS, EOS, "c", "a", EOS]
    assert list(tokens_of(folder / "x.test.txt")) == ["b", "b", EOS]


def test_the_vocabulary_of_a_closed_corpus_is_built_from_all_splits(folder: Path) -> None:
    corpus = LMCorpus.folder(folder)
    assert corpus.vocabulary.words == ("a", "b", EOS, "c", "d")
    assert corpus.train.tolist() == [0, 1, 0, 2, 2, 3, 0, 2]
    assert corpus.vocabulary.decode(corpus.valid) == ["a", "d", EOS]
    assert corpus.describe()["vocabulary_from"] == "all"


def test_the_vocabulary_of_an_open_corpus_is_built_from_the_training_split(folder: Path) -> None:
    corpus = LMCorpus.folder(folder, vocabulary="train", min_count=2)
    assert corpus.vocabulary.words == ("a", EOS, UNK)
    assert corpus.vocabulary.decode(corpus.valid) == ["a", UNK, EOS]


def test_an_out_of_vocabulary_word_is_named() -> None:
    with pytest.raises(VocabularyError, match="'z' is not in the vocabulary"):
        TokenVocabulary(("a", EOS)).encode(["a", "z"])
    with pytest.raises(UsageError, match="'a' occurs twice"):
        TokenVocabulary(("a", "b", "a"))


def test_missing_and_broken_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match="nowhere"):
        LMCorpus.folder(tmp_path / "nowhere")
    (folder / "train2.txt").write_text("a")
    with pytest.raises(FormatError, match="2 files have 'train'"):
        LMCorpus.folder(folder)
    (folder / "train2.txt").unlink()
    (folder / "x.valid.txt").write_bytes(b"ab \xff\n")
    with pytest.raises(FormatError, match=r"x\.valid\.txt: not UTF-8 text \(byte 3\)"):
        LMCorpus.folder(folder)
    (folder / "x.valid.txt").unlink()
    with pytest.raises(InputMissingError, match="no file with 'valid'"):
        LMCorpus.folder(folder)


def test_an_empty_split_is_refused(folder: Path) -> None:
    (folder / "x.train.txt").write_text("")
    with pytest.raises(FormatError, match="got 0 and 3"):
        LMCorpus.folder(folder)


def test_the_digest_depends_on_words_and_splits(folder: Path) -> None:
    corpus = LMCorpus.folder(folder)
    moved = LMCorpus(corpus.train, corpus.test, corpus.valid, corpus.vocabulary)
    assert corpus.digest() == LMCorpus.folder(folder).digest() != moved.digest()


def test_columns_are_consecutive_tokens() -> None:
    pytest.importorskip("torch")
    from evenhand.models.lm.awd_lstm.corpus import columns

    cut = columns(np.arange(11, dtype=np.int32), 3)
    assert cut.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    with pytest.raises(UsageError, match="5 tokens are too few for 4 columns"):
        columns(np.arange(5, dtype=np.int32), 4)


@given(st.integers(2, 3000), st.integers(1, 90), st.integers(0, 5), st.integers(0, 5))
def test_stretches_cover_every_prediction_once(steps: int, bptt: int, seed: int, epoch: int) -> None:
    pytest.importorskip("torch")
    from evenhand.models.lm.awd_lstm.corpus import starts, stretches

    lengths = stretches(steps, bptt, seed=seed, epoch=epoch)
    assert sum(lengths) == steps - 1
    assert min(lengths[:-1], default=5) >= 5
    assert lengths[-1] >= 1
    assert starts(lengths) == [sum(lengths[:place]) for place in range(len(lengths))]
    assert lengths == stretches(steps, bptt, seed=seed, epoch=epoch)


def test_stretches_are_distributed_as_published() -> None:
    pytest.importorskip("torch")
    from evenhand.models.lm.awd_lstm.corpus import stretches

    lengths = np.array(stretches(2_000_000, 70, seed=1, epoch=1)[:-1])
    halved = lengths < 52.5  # 3.5 standard deviations from either centre
    assert halved.mean() == pytest.approx(0.05, abs=0.005)
    assert lengths[~halved].mean() == pytest.approx(69.5, abs=0.2)  # whole numbers are cut off, not rounded
    assert lengths[~halved].std() == pytest.approx(5, abs=0.1)
    assert lengths[halved].mean() == pytest.approx(34.5, abs=0.6)
    assert lengths.tolist() != stretches(2_000_000, 70, seed=1, epoch=2)[:-1]


@pytest.mark.data
@pytest.mark.parametrize(("name", "tokens", "words"), [("ptb", 929_589, 10_000), ("wikitext-2", 2_088_628, 33_278)])
def test_the_published_corpora_have_the_published_sizes(name: str, tokens: int, words: int) -> None:
    place = os.environ.get("EVENHAND_DATA")
    if not place:
        pytest.skip("EVENHAND_DATA is not set")
    corpus = LMCorpus.folder(Path(place) / name)
    assert (len(corpus.train), len(corpus.vocabulary)) == (tokens, words)
