"""The vocabulary folder of spaCy: which words are read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import EvenhandWarning, FormatError, InputMissingError
from evenhand.models.vectors.formats.spacy_vocab import is_key_table, murmur_hashes

WORDS = ["femme", "homme", "ingénieur", "一", "a word with many bytes"]


def unsigned(number: int) -> bytes:
    return bytes([number]) if number < 128 else b"\xcd" + number.to_bytes(2, "big")


def key_table(rows: dict[str, int]) -> bytes:
    hashes = murmur_hashes(list(rows)).tolist()
    entries = [b"\xcf" + key.to_bytes(8, "big") + unsigned(row) for key, row in zip(hashes, rows.values(), strict=True)]
    return b"\xde" + len(entries).to_bytes(2, "big") + b"".join(entries)


def write_folder(folder: Path, rows: dict[str, int], matrix: np.ndarray, strings: list[str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "key2row").write_bytes(key_table(rows))
    with (folder / "vectors").open("wb") as out:
        np.save(out, matrix)
    (folder / "strings.json").write_text(json.dumps(list(rows) if strings is None else strings), encoding="utf-8")
    return folder / "key2row"


@pytest.fixture
def matrix() -> np.ndarray:
    return np.arange(10, dtype=np.float32).reshape(5, 2) + 1


def test_the_hash_of_coffee_is_the_one_of_spacys_documentation():
    assert murmur_hashes(["coffee"]).tolist() == [3197928453018144401]


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 23])
def test_hashes_of_a_list_are_those_of_its_words(length: int):
    words = ["x" * length, "é" * length, "y" * length, ""]
    assert murmur_hashes(words).tolist() == [murmur_hashes([word]).tolist()[0] for word in words]


@pytest.mark.parametrize("given", [".", "vocab", "vocab/key2row", "vocab/vectors"])
def test_every_path_of_a_pipeline_gives_the_same_vectors(tmp_path: Path, matrix: np.ndarray, given: str):
    write_folder(tmp_path / "vocab", {word: row for row, word in enumerate(WORDS)}, matrix)
    vectors = eh.Vectors.load(tmp_path / given)
    assert list(vectors.words) == WORDS
    np.testing.assert_array_equal(vectors.matrix, matrix)
    assert vectors.name == tmp_path.name


def test_words_that_share_a_row_are_left_out_and_counted(tmp_path: Path, matrix: np.ndarray):
    rows = {word: row for row, word in enumerate(WORDS)} | {"ingénieure": 2, "dame": 0}
    path = write_folder(tmp_path, rows, matrix)
    with pytest.warns(EvenhandWarning, match="2 words without a vector of their own"):
        vectors = eh.Vectors.load(path)
    assert list(vectors.words) == WORDS
    assert vectors.source["words_that_share_a_row"] == 2


def test_a_word_without_spelling_is_counted(tmp_path: Path, matrix: np.ndarray):
    path = write_folder(tmp_path, {word: row for row, word in enumerate(WORDS)}, matrix, strings=WORDS[:4])
    with pytest.warns(EvenhandWarning, match="1 vector of words"):
        assert list(eh.Vectors.load(path).words) == WORDS[:4]


def test_the_limit_keeps_the_first_rows(tmp_path: Path, matrix: np.ndarray):
    path = write_folder(tmp_path, {word: row for row, word in enumerate(WORDS)}, matrix)
    assert list(eh.Vectors.load(path, limit=2).words) == WORDS[:2]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda table: table[:-3], "not an unsigned integer, or the file ends there"),
        (lambda table: table + b"\0", "1 bytes follow"),
        (lambda table: b"\xdf\xff\xff\xff\xff" + table[3:], "more than it has bytes"),
        (lambda table: b"\x92" + table[1:], "does not start with a msgpack map"),
        (lambda table: table[:3] + b"\xa1x" + table[5:], "not an unsigned integer"),
        (lambda table: b"\x82" + 2 * table[3:13], "a key occurs twice"),
    ],
)
def test_a_damaged_key_table_is_refused(tmp_path: Path, matrix: np.ndarray, damage, message: str):
    path = write_folder(tmp_path, {word: row for row, word in enumerate(WORDS)}, matrix)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError, match=message):
        eh.Vectors.load(path, format="spacy-vocab")


def test_a_row_beyond_the_matrix_is_refused(tmp_path: Path, matrix: np.ndarray):
    with pytest.raises(FormatError, match="row 300"):
        eh.Vectors.load(write_folder(tmp_path, {"a": 0, "b": 300}, matrix))


@pytest.mark.parametrize("strings", ["{", '{"a": 1}', "[1]", "[" * 100_000])
def test_strings_that_are_no_list_of_words_are_refused(tmp_path: Path, matrix: np.ndarray, strings: str):
    path = write_folder(tmp_path, {"a": 0}, matrix)
    path.with_name("strings.json").write_text(strings, encoding="utf-8")
    with pytest.raises(FormatError, match=r"strings\.json"):
        eh.Vectors.load(path)


def test_a_matrix_of_one_dimension_is_refused(tmp_path: Path):
    with pytest.raises(FormatError, match="not a matrix"):
        eh.Vectors.load(write_folder(tmp_path, {"a": 0}, np.ones(3, dtype=np.float32)))


def test_an_object_array_is_never_unpickled(tmp_path: Path, matrix: np.ndarray):
    path = write_folder(tmp_path, {"a": 0}, matrix)
    with path.with_name("vectors").open("wb") as out:
        np.save(out, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="vectors"):
        eh.Vectors.load(path)


def test_a_missing_file_of_the_folder_is_named(tmp_path: Path, matrix: np.ndarray):
    path = write_folder(tmp_path, {"a": 0}, matrix)
    path.with_name("strings.json").unlink()
    with pytest.raises(InputMissingError, match=r"strings\.json"):
        eh.Vectors.load(path)


def test_strings_of_another_pipeline_are_refused(tmp_path: Path, matrix: np.ndarray):
    with pytest.raises(FormatError, match="none of its words"):
        eh.Vectors.load(write_folder(tmp_path, {"a": 0}, matrix, strings=["b"]))


def test_only_maps_with_hashes_are_recognised():
    assert is_key_table(key_table({word: row for row, word in enumerate(WORDS)}))
    assert not is_key_table(b"the 0.1 0.2")
    assert not is_key_table(b"")
