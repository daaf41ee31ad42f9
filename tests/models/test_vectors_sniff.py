from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard
from vector_strategies import quiet_load, same_bits

from evenhand import Vectors
from evenhand.errors import FormatError, UnknownNameError
from evenhand.models.vectors.formats import FORMATS, format_for_reading, format_for_writing, get

RNG = np.random.default_rng(0)
V = Vectors([f"w{row}" for row in range(60)], RNG.standard_normal((60, 20)))


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [(".txt", "glove"), (".w2v", "word2vec"), (".w2v.txt", "word2vec"), (".vec", "fasttext"), (".bin", "word2vec-bin"),
     (".npy", "npy"), (".safetensors", "safetensors"), (".TXT.GZ", "glove"), (".Vec.zst", "fasttext")],
)  # fmt: skip
def test_the_name_says_what_to_write_and_what_was_written(suffix: str, expected: str, tmp_path: Path) -> None:
    assert format_for_writing(tmp_path / f"x{suffix}").id == expected
    assert format_for_reading(V.save(tmp_path / f"x{suffix}")).id == expected


@pytest.mark.parametrize("suffix", [".bin", ".npy", ".safetensors", ".vec"])
@pytest.mark.parametrize("name", ["noname", "x.txt", "x.dat", "x.model"])
def test_the_content_tells_whatever_the_name(suffix: str, name: str, tmp_path: Path) -> None:
    saved = V.save(tmp_path / f"saved{suffix}")
    saved.rename(tmp_path / name)
    options = {"vocabulary": tmp_path / "saved.vocab"} if suffix == ".npy" else {}
    assert same_bits(quiet_load(tmp_path / name, **options), V)


def test_a_text_file_is_distinguished_from_a_binary_one_of_the_same_header(tmp_path: Path) -> None:
    text, binary = V.save(tmp_path / "a.vec").read_bytes(), V.save(tmp_path / "a.bin").read_bytes()
    assert text.partition(b"\n")[0] == binary.partition(b"\n")[0]
    (tmp_path / "b.vec").write_bytes(binary)
    assert format_for_reading(tmp_path / "b.vec").id == "word2vec-bin"


def zipped() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a.txt", "a 1 2\n")
    return made.getvalue()


TEXT = b"a 1 2\n"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.txt", b"", "the file is empty"),
        ("x.kv", pickle.dumps({"a": 1}, protocol=4), r"pickle.*\n.*allow_pickle=True"),
        ("x.txt", pickle.dumps({"a": 1}, protocol=2), "pickle"),
        ("x.pkl", pickle.dumps({"a": 1}, protocol=0), "pickle"),
        ("x.txt", zipped(), "zip archive"),
        ("x.npz", zipped(), r"\.npz.*\n.*extract"),
        ("x.txt", gzip.compress(TEXT, mtime=0), r"gzip-compressed\n.*\.gz"),
        ("x.txt", zstandard.compress(TEXT), r"zstd-compressed\n.*\.zst"),
        ("x.txt", lzma.compress(TEXT), r"xz-compressed\n.*\.xz"),
        ("x.txt", bz2.compress(TEXT), r"bzip2-compressed\n.*\.bz2"),
        ("x.txt", b"<!DOCTYPE html><html><body>not found", "HTML page"),
        ("x.txt", b"version https://git-lfs.github.com/spec/v1\noid", "git-lfs"),
    ],
)
def test_a_foreign_file_is_named(name: str, content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=why) as caught:
        Vectors.load(tmp_path / name)
    assert str(tmp_path / name) in caught.value.message
    assert caught.value.exit_code == 4


def test_words_that_begin_like_other_files_are_words(tmp_path: Path) -> None:
    for word in ("BZh", "PAR", "<html", "version", "{"):
        (tmp_path / "x.txt").write_text(f"{word} 1 2\nof 3 4\n")
        assert quiet_load(tmp_path / "x.txt", cache=False).words == (word, "of")


def test_every_format_has_a_title_and_an_id_of_its_own() -> None:
    assert all(
        row.id == key and row.title and row.suffixes for key, row in zip(FORMATS.ids(), FORMATS.values(), strict=True)
    )
    assert all(format.write or format.why_not_written for format in FORMATS.values())
    with pytest.raises(UnknownNameError, match=r"'gloev'\n.*glove"):
        get("gloev")
