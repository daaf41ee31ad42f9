"""navec archives: decoding by hand, order, and damaged archives."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import FormatError

WORDS = ["а", "мама", "папа", "<unk>", "<pad>"]
FREQUENCIES = [5, 20, 10, 99, 0]
CODES = np.array([[0, 1], [1, 0], [1, 1], [0, 0], [0, 0]], np.uint8)
CENTROIDS = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.float32)  # parts, centroids, width


def parts(
    *, meta: object = None, words: list[str] | None = None, count: int = 5, header: tuple[int, ...] = (5, 4, 2, 2)
) -> dict[str, bytes]:
    listed = WORDS if words is None else words
    vocabulary = struct.pack(f"<I{len(FREQUENCIES)}I", count, *FREQUENCIES) + "\n".join(listed).encode()
    return {
        "meta.json": json.dumps({"id": "tiny", "protocol": 1} if meta is None else meta).encode(),
        "vocab.bin": gzip.compress(vocabulary),
        "pq.bin": struct.pack("<IIII", *header) + CODES.tobytes() + CENTROIDS.tobytes(),
    }


def write_archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_vectors_are_made_of_centroids_and_sorted_by_frequency(tmp_path: Path):
    vectors = eh.Vectors.load(write_archive(tmp_path / "tiny.tar", parts()))
    assert vectors.words == ("мама", "папа", "а")
    np.testing.assert_array_equal(vectors.matrix, [[3, 4, 5, 6], [3, 4, 7, 8], [1, 2, 7, 8]])


def test_the_content_decides_and_not_the_name(tmp_path: Path):
    path = write_archive(tmp_path / "vectors.data", parts())
    assert eh.Vectors.load(path, limit=1).words == ("мама",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"meta.json": b"{"}, r"meta\.json is not JSON"),
        ({"meta.json": b'{"protocol": 2}'}, "does not state protocol 1"),
        ({"meta.json": b"[]"}, "does not state protocol 1"),
        ({"vocab.bin": b"plain"}, r"vocab\.bin"),
        ({"vocab.bin": gzip.compress(b"")}, "states 0 words"),
        ({"vocab.bin": gzip.compress(struct.pack("<I", 5))}, "ends inside its frequencies"),
        ({"vocab.bin": parts()["vocab.bin"][:-4]}, "truncated"),
        ({"vocab.bin": parts(count=6)["vocab.bin"]}, "states 6 words"),
        ({"vocab.bin": parts(words=WORDS[:4])["vocab.bin"]}, "has 4 words"),
        ({"vocab.bin": gzip.compress(b"\0" * 10_000_000)}, "expands more than"),
        ({"pq.bin": b"\0\0"}, "shorter than its header"),
        ({"pq.bin": parts(header=(2**32 - 1, 4, 2, 2))["pq.bin"]}, "vectors need"),
        ({"pq.bin": parts(header=(5, 4, 3, 2))["pq.bin"]}, "4 dimensions in 3 parts"),
        ({"pq.bin": parts(header=(5, 0, 0, 2))["pq.bin"]}, "0 dimensions"),
        ({"pq.bin": parts()["pq.bin"] + b"\0"}, "vectors need"),
        ({"../evil": b"x"}, "unexpected member"),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, change: dict[str, bytes], message: str):
    path = write_archive(tmp_path / "tiny.tar", parts() | change)
    with pytest.raises(FormatError, match=message):
        eh.Vectors.load(path)


def test_a_code_beyond_the_centroids_is_refused(tmp_path: Path):
    raw = bytearray(parts()["pq.bin"])
    raw[16] = 2
    with pytest.raises(FormatError, match="centroid 2 of 2"):
        eh.Vectors.load(write_archive(tmp_path / "tiny.tar", parts() | {"pq.bin": bytes(raw)}))


def test_a_missing_member_is_named(tmp_path: Path):
    members = {name: content for name, content in parts().items() if name != "pq.bin"}
    with pytest.raises(FormatError, match=r"pq\.bin is missing"):
        eh.Vectors.load(write_archive(tmp_path / "tiny.tar", members))


@pytest.mark.parametrize("size", [300, 700, 1200])
def test_a_truncated_archive_is_refused(tmp_path: Path, size: int):
    whole = write_archive(tmp_path / "tiny.tar", parts()).read_bytes()
    path = tmp_path / "short.tar"
    path.write_bytes(whole[:size])
    with pytest.raises(FormatError):
        eh.Vectors.load(path, format="navec")
