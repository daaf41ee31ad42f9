"""Matrices with their words beside them, and safetensors of ours and of others."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.numpy
from vector_strategies import COMPRESSIONS, quiet_load, same_bits

from evenhand import Vectors
from evenhand.errors import FormatError, InputMissingError
from evenhand.files import writing
from evenhand.models.vectors import cache

WORDS = ["he", "she", "Zoë"]
MATRIX = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]], np.float32)
V = Vectors(WORDS, MATRIX)


def mapped(vectors: Vectors) -> bool:
    array: Any = vectors.matrix
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_plain_files_are_mapped_and_packed_ones_are_read(suffix: str, tmp_path: Path) -> None:
    assert mapped(quiet_load(V.save(tmp_path / f"x{suffix}")))
    packed = quiet_load(V.save(tmp_path / f"y{suffix}.gz"))
    assert not mapped(packed)
    assert same_bits(packed, V)


def test_a_text_file_is_mapped_from_the_second_time_on(tmp_path: Path) -> None:
    path = V.save(tmp_path / "x.txt")
    assert not mapped(quiet_load(path))
    cache.settle()
    assert mapped(quiet_load(path))


def test_a_mapped_file_may_be_written_over(tmp_path: Path) -> None:
    path = V.save(tmp_path / "x.npy")
    first = quiet_load(path)
    first.with_matrix(first.matrix * 2).save(path)
    np.testing.assert_array_equal(first.matrix, MATRIX)
    np.testing.assert_array_equal(quiet_load(path).matrix, MATRIX * 2)


@pytest.mark.parametrize("ending", [".vocab", ".vocab.txt", ".words.txt", ".txt"])
@pytest.mark.parametrize("content", ["he\nshe\nZoë\n", "he\nshe\nZoë", "he\r\nshe\r\nZoë\r\n", "\ufeffhe\nshe\nZoë\n"])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_a_vocabulary_under_each_usual_name_and_line_end(
    ending: str, content: str, compression: str, tmp_path: Path
) -> None:
    with writing(tmp_path / f"x.npy{compression}") as out:
        np.save(out, MATRIX)
    (tmp_path / f"x{ending}").write_bytes(content.encode())
    assert quiet_load(tmp_path / f"x.npy{compression}") == V


def test_a_vocabulary_called_vocab_txt_or_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    with pytest.raises(InputMissingError, match=r"x\.npy has no words.*\n.*x\.vocab.*`vocabulary=`"):
        Vectors.load(tmp_path / "x.npy")
    (tmp_path / "vocab.txt").write_text("a\nb\nc")
    assert quiet_load(tmp_path / "x.npy").words == ("a", "b", "c")
    with writing(tmp_path / "w.gz") as out:
        out.write("he\nshe\nZoë\n".encode())
    assert quiet_load(tmp_path / "x.npy", vocabulary=tmp_path / "w.gz") == V
    with pytest.raises(InputMissingError, match="nowhere"):
        Vectors.load(tmp_path / "x.npy", vocabulary=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("vocabulary", "why"),
    [
        (b"he\nshe\n", "2 words but 3 rows"),
        (b"he\nshe\n\xff\n", r"line 3.*not valid UTF-8\n.*replace"),
        (b"he 17\nshe 9\nZoe 1\n", r"x\.vocab, line 1: numbers after each word"),
        (b"he 1.0 2.0\nshe 3.0 4.0\nZoe 5.0 6.5\n", "numbers after each word"),
        (b"", "0 words but 3 rows"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(vocabulary: bytes, why: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    (tmp_path / "x.vocab").write_bytes(vocabulary)
    with pytest.raises(FormatError, match=why):
        Vectors.load(tmp_path / "x.npy")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", "<i4"])
@pytest.mark.parametrize("compression", COMPRESSIONS[:3])
def test_any_layout_and_type_of_npy(order: str, dtype: str, compression: str, tmp_path: Path) -> None:
    with writing(tmp_path / f"x.npy{compression}") as out:
        np.save(out, np.array([[1, 2], [3, 4], [5, 6]], dtype, order=order))
    (tmp_path / "x.vocab").write_text("a\nb\nc\n")
    np.testing.assert_array_equal(quiet_load(tmp_path / f"x.npy{compression}").matrix, [[1, 2], [3, 4], [5, 6]])


def test_what_we_write_as_npy_numpy_reads(tmp_path: Path) -> None:
    path = V.save(tmp_path / "a.b.npy")
    np.testing.assert_array_equal(np.load(path), MATRIX)
    assert (tmp_path / "a.b.vocab").read_text() == "he\nshe\nZoë\n"


@pytest.mark.parametrize("limit", [1, 2, 9])
@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".bin", ".vec"])
def test_limit_counts_in_every_format(limit: int, suffix: str, tmp_path: Path) -> None:
    assert same_bits(quiet_load(V.save(tmp_path / f"x{suffix}"), limit=limit), V.head(limit))


def test_parquet_words_with_their_matrix(tmp_path: Path) -> None:
    pl.DataFrame({"id": [0, 1, 2], "word": WORDS}).write_parquet(tmp_path / "index.parquet")
    with pytest.raises(InputMissingError, match=r"one \.npy matrix in the same folder, found 0"):
        Vectors.load(tmp_path / "index.parquet")
    np.save(tmp_path / "m.npy", MATRIX)
    loaded = quiet_load(tmp_path / "index.parquet")
    assert loaded == V
    assert mapped(loaded)
    np.save(tmp_path / "n.npy", MATRIX)
    with pytest.raises(InputMissingError, match=r"found 2\n.*folder of their own"):
        Vectors.load(tmp_path / "index.parquet")


@pytest.mark.parametrize("columns", [{"id": [0, 1, 2]}, {"a": WORDS, "b": WORDS}, {"a": ["he", None, "x"]}])
def test_parquet_without_one_column_of_words_is_refused(columns: dict[str, list[Any]], tmp_path: Path) -> None:
    pl.DataFrame(columns).write_parquet(tmp_path / "index.parquet")
    np.save(tmp_path / "m.npy", MATRIX)
    with pytest.raises(FormatError, match=r"index\.parquet: expected one column of words without nulls"):
        Vectors.load(tmp_path / "index.parquet")


def test_our_safetensors_opens_in_the_safetensors_package(tmp_path: Path) -> None:
    path = V.with_matrix(MATRIX, step={"method": "none"}).save(tmp_path / "x.safetensors")
    tensors = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(tensors["vectors"], MATRIX)
    assert tensors["vocabulary"].tobytes().decode() == "he\nshe\nZoë\n"
    with safetensors.safe_open(path, "np") as opened:
        assert json.loads(opened.metadata()["history"]) == [{"method": "none"}]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["vectors", "embeddings.weight"])
def test_a_foreign_safetensors_opens_with_a_vocabulary(dtype: type, name: str, tmp_path: Path) -> None:
    others = {"position_ids": np.arange(3, dtype=np.int64), "bias": np.ones(2, np.float32)}
    safetensors.numpy.save_file({name: MATRIX.astype(dtype), **others}, tmp_path / "x.safetensors")
    with pytest.raises(InputMissingError, match="no words"):
        Vectors.load(tmp_path / "x.safetensors")
    (tmp_path / "x.vocab").write_text("he\nshe\nZoë\n")
    assert quiet_load(tmp_path / "x.safetensors") == V


def test_a_foreign_safetensors_with_two_matrices_is_refused(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": MATRIX, "b": MATRIX}, tmp_path / "x.safetensors")
    with pytest.raises(FormatError, match=r"2 float matrices.*\n.*huggingface"):
        Vectors.load(tmp_path / "x.safetensors")


def crafted(header: object, data: bytes = bytes(64)) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def ours(**changes: object) -> bytes:
    header = {
        "__metadata__": {"layout": "evenhand-vectors-1", "source": "{}", "history": "[]"},
        "vectors": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "vocabulary": {"dtype": "U8", "shape": [3], "data_offsets": [16, 19]},
    }
    return crafted({**header, **changes}, np.ones(4, np.float32).tobytes() + b"a\nb")


def metadata(**changes: str) -> dict[str, Any]:
    return {"__metadata__": {"layout": "evenhand-vectors-1", **changes}}


def test_the_crafted_file_itself_is_fine(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(ours())
    assert quiet_load(tmp_path / "x.safetensors").words == ("a", "b")


@pytest.mark.parametrize(
    "content",
    [
        crafted([1, 2]),
        crafted({"a": 1}),
        crafted({"a": {"dtype": "F32"}}),
        ours(__metadata__=[1]),
        ours(__metadata__="text"),
        ours(vocabulary={"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}),
        ours(vectors={"dtype": "F32", "shape": [10**9, 300], "data_offsets": [0, 16]}),
        ours(vectors={"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 10**15]}),
        ours(vectors={"dtype": "F32", "shape": [-1, 2], "data_offsets": [0, 16]}),
        ours(vectors={"dtype": "F32", "shape": [2, 2.0], "data_offsets": [0, 16]}),
        ours(vectors={"dtype": "F32", "shape": [0, 10**40], "data_offsets": [0, 0]}),
        ours(vectors={"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 0]}),
        ours(vectors={"dtype": "F32", "shape": [2, 2], "data_offsets": [-16, 0]}),
        ours(vectors={"dtype": "F32", "shape": None, "data_offsets": [0, 16]}),
        ours(vectors={"dtype": ["F32"], "shape": [2, 2], "data_offsets": [0, 16]}),
        ours(vectors={"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16, 32]}),
        ours(vectors={"dtype": "F32", "shape": [2, 2], "data_offsets": [1e400, 1e400]}),
        ours(**metadata(source="[]")),
        ours(**metadata(source="{")),
        ours(**metadata(source='{"notes": 5}')),
        ours(**metadata(history="{}")),
        ours(**metadata(history="[1]")),
        ours(**metadata(history="[" * 100_000)),
        struct.pack("<Q", 200_000) + b"[" * 200_000,
        struct.pack("<Q", 1 << 62) + b"{}",
        b"\x02\x00\x00",
    ],
)
def test_a_damaged_safetensors_is_refused_before_memory_is_taken(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(FormatError, match=r"x\.safetensors: not a valid safetensors file.*\n.*write the file again"):
        Vectors.load(tmp_path / "x.safetensors", format="safetensors")
