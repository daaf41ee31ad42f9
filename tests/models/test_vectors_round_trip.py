from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vector_strategies import AWKWARD, COMPRESSIONS, FLOATS, quiet_load, same_bits, vectors

from evenhand import Vectors
from evenhand.errors import FormatError, UsageError

SUFFIXES = [".txt", ".w2v", ".w2v.txt", ".vec", ".bin", ".npy", ".safetensors"]
EXTREMES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 3.4028235e38, -3.4028235e38, 1e-45, 1.1754944e-38, 16777217.0, 1e20], np.float32
)
HARD = Vectors(AWKWARD, np.resize(EXTREMES, (len(AWKWARD), 7)))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_back_every_word_and_every_bit(suffix: str, compression: str, tmp_path: Path) -> None:
    path = HARD.save(tmp_path / f"hard{suffix}{compression}")
    for again in (quiet_load(path), quiet_load(path), quiet_load(path, cache=False)):
        assert again.words == HARD.words
        assert again.matrix.tobytes() == HARD.matrix.tobytes()
    first = quiet_load(path, limit=3)
    assert same_bits(first, HARD.head(3))


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=vectors())
def test_any_plain_words_come_back(suffix: str, made: Vectors) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = made.save(Path(folder) / f"x{suffix}")
        assert same_bits(quiet_load(path, cache=False), made)


SPACED = st.one_of(
    st.sampled_from(
        [". . .", "at name@domain.com", "catch 22", "a  b", " lead", "trail ", "1 2", "x 0.5", "\t", "a\tb"]
    ),
    st.text(st.sampled_from("ab1.\t -e\r\ufeff\u00a0"), min_size=1, max_size=6),
)


def saved(made: Vectors, path: Path) -> str:
    """The reason why it was not saved, if any."""
    try:
        made.save(path)
    except FormatError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("suffix", [".txt", ".vec", ".npy"])
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=vectors(SPACED))
def test_words_with_spaces_come_back_or_are_refused(suffix: str, made: Vectors) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        if refusal := saved(made, path):
            assert folder in refusal
            assert "hint: " in refusal
            assert not list(Path(folder).iterdir())
        else:
            assert same_bits(quiet_load(path, cache=False), made)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=vectors(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=5)))
def test_our_own_layout_holds_any_word_without_a_line_end(made: Vectors) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert same_bits(quiet_load(made.save(Path(folder) / "x.safetensors")), made)


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_text_is_the_shortest_decimal_that_reads_back(numbers: list[float]) -> None:
    made = Vectors(["w"], [numbers])
    with tempfile.TemporaryDirectory() as folder:
        text = made.save(Path(folder) / "x.txt").read_text().split()[1:]
    assert np.array(text, np.float32).tobytes() == made.matrix.tobytes()
    assert all(len(field) <= len(f"{number:.9e}") for field, number in zip(text, numbers, strict=True))


@pytest.mark.parametrize(
    ("suffix", "word"),
    [(".txt", "a\nb"), (".txt", "a\0b"), (".txt", ""), (".txt", "a 1.5"), (".vec", "a\nb"), (".bin", "a b"), (".bin", ""),
     (".bin", "\na"), (".bin", "x" * 70_000), (".npy", "a\nb"), (".safetensors", "a\nb")],
)  # fmt: skip
def test_a_word_that_a_format_cannot_hold_is_refused_and_leaves_nothing(suffix: str, word: str, tmp_path: Path) -> None:
    made = Vectors(["fine", word], [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(FormatError, match="word"):
        made.save(tmp_path / f"x{suffix}")
    assert not list(tmp_path.iterdir())


def test_the_first_word_may_not_carry_a_byte_order_mark_in_headerless_text(tmp_path: Path) -> None:
    made = Vectors(["\ufeffthe", "of"], [[1.0], [2.0]])
    with pytest.raises(FormatError, match="could not be read back"):
        made.save(tmp_path / "x.txt")
    assert same_bits(quiet_load(made.save(tmp_path / "x.vec")), made)


def test_no_vectors_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no vectors to write"):
        HARD.head(0).save(tmp_path / "x.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "why"),
    [("x", "no suffix of a vector format"), ("x.doc", "no suffix of a vector format"), ("x.json", "cannot be written"), ("x.ft.bin", "sub-word"), ("x.parquet", "cannot be written")],
)  # fmt: skip
def test_a_format_that_is_not_written_says_so(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=why) as caught:
        HARD.save(tmp_path / name)
    assert ".safetensors" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_a_format_may_be_named(tmp_path: Path) -> None:
    path = HARD.save(tmp_path / "x.anything", format="word2vec-bin")
    assert same_bits(quiet_load(path), HARD)
    assert same_bits(quiet_load(path, format="word2vec-bin"), HARD)
