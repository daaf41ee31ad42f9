"""navec archives (Russian vectors of the natasha project): product-quantised vectors in a tar file.

`pq.bin` starts with four unsigned 32-bit integers: the numbers of vectors, dimensions, parts and centroids. One byte
per vector and part follows, then the float32 centroids of each part. A vector is the concatenation of one centroid per
part. `vocab.bin` is compressed with gzip: a count, the frequency of each word, and the words separated by line feeds.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.errors import FormatError
from evenhand.files import open_bytes
from evenhand.models.vectors.formats.format import MAX_EXPANSION, Format, Parsed, ReadOptions, register_format
from evenhand.models.vectors.formats.npy import split_words

MEMBERS = ("meta.json", "vocab.bin", "pq.bin")
PROTOCOL = 1
HEADER = struct.Struct("<IIII")
COUNT = struct.Struct("<I")
MAX_BYTES = 4 << 30
MAX_DIM = 100_000
CENTROIDS = 256  # an index is one byte
SPECIAL = ("<unk>", "<pad>")  # the last two rows of a published archive are not words
GZIP = 16 + zlib.MAX_WBITS


def is_navec(start: bytes) -> bool:
    """Return whether a file starts as a tar archive whose first member belongs to a navec archive."""
    return start[257:262] == b"ustar" and start.startswith(tuple(name.encode() + b"\0" for name in MEMBERS))


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read the vectors as float32, most frequent words first, without the rows of special tokens."""
    members = _members(path)
    _check_protocol(members["meta.json"], path)
    codes, centroids = _quantised(members["pq.bin"], path)
    words, frequencies = _vocabulary(members["vocab.bin"], len(codes), path, options)
    order = np.argsort(-frequencies, kind="stable").tolist()  # the file is in alphabetical order
    kept = [row for row in order if words[row] not in SPECIAL][: options.limit]
    return Parsed([words[row] for row in kept], decode(codes[kept], centroids), source={"quantised": "product"})


def decode(codes: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], centroids: Matrix) -> Matrix:
    """Return the vectors of product-quantisation codes.

    Args:
        codes: the index of a centroid for each vector and part, shape (n, parts).
        centroids: the centroids, shape (parts, centroids, width).
    """
    parts, _, width = centroids.shape
    matrix = np.empty((len(codes), parts * width), np.float32)
    for part in range(parts):
        matrix[:, part * width : (part + 1) * width] = centroids[part][codes[:, part]]
    return matrix


def _members(path: Path) -> dict[str, bytes]:
    import tarfile  # takes 10 ms

    try:
        with open_bytes(path, kept=True) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            found: dict[str, bytes] = {}
            for member in archive:
                if member.name not in MEMBERS or not member.isfile() or member.name in found:
                    raise _damaged(path, f"it has an unexpected member {member.name!r}")
                content = archive.extractfile(member)
                if content is None or not 0 <= member.size <= MAX_BYTES:
                    raise _damaged(path, f"{member.name} states {member.size:,} bytes")
                found[member.name] = content.read()
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise _damaged(path, str(error)) from error
    if missing := [name for name in MEMBERS if name not in found]:
        raise _damaged(path, f"{missing[0]} is missing")
    return found


def _damaged(path: Path, why: str) -> FormatError:
    return FormatError(f"{path}: not a readable navec archive: {why}", hint="fetch the file again")


def _check_protocol(content: bytes, path: Path) -> None:
    try:
        meta = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"meta.json is not JSON ({error})") from error
    if not isinstance(meta, dict) or meta.get("protocol") != PROTOCOL:
        raise _damaged(path, f"meta.json does not state protocol {PROTOCOL}")


def _quantised(content: bytes, path: Path) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], Matrix]:
    if len(content) < HEADER.size:
        raise _damaged(path, "pq.bin is shorter than its header")
    count, dim, parts, centroids = HEADER.unpack_from(content)
    if not (1 <= dim <= MAX_DIM and 1 <= parts <= dim and dim % parts == 0 and 1 <= centroids <= CENTROIDS):
        raise _damaged(path, f"pq.bin states {dim:,} dimensions in {parts:,} parts of {centroids:,} centroids")
    expected = HEADER.size + count * parts + 4 * centroids * dim
    if count < 1 or len(content) != expected:
        raise _damaged(path, f"pq.bin has {len(content):,} bytes, {count:,} vectors need {expected:,}")
    codes = np.frombuffer(content, np.uint8, count * parts, HEADER.size).reshape(count, parts)
    if int(codes.max()) >= centroids:
        raise _damaged(path, f"pq.bin refers to centroid {int(codes.max())} of {centroids}")
    table = np.frombuffer(content, "<f4", centroids * dim, HEADER.size + count * parts)
    return codes, table.reshape(parts, centroids, dim // parts).astype(np.float32)


def _vocabulary(content: bytes, rows: int, path: Path, options: ReadOptions) -> tuple[list[str], Rows]:
    raw = _decompress(content, path)
    if len(raw) < COUNT.size or COUNT.unpack_from(raw)[0] != rows:
        stated = COUNT.unpack_from(raw)[0] if len(raw) >= COUNT.size else 0
        raise _damaged(path, f"vocab.bin states {stated:,} words, pq.bin has {rows:,} vectors")
    if len(raw) < COUNT.size * (1 + rows):
        raise _damaged(path, "vocab.bin ends inside its frequencies")
    words = split_words(raw[COUNT.size * (1 + rows) :], path, options.encoding_errors)
    if len(words) != rows:
        raise _damaged(path, f"vocab.bin has {len(words):,} words, and states {rows:,}")
    return words, np.frombuffer(raw, "<u4", rows, COUNT.size).astype(np.int64)


def _decompress(content: bytes, path: Path) -> bytes:
    machine = zlib.decompressobj(GZIP)
    limit = MAX_EXPANSION * len(content)
    try:
        raw = machine.decompress(content, limit)
    except zlib.error as error:
        raise _damaged(path, f"vocab.bin: {error}") from error
    if machine.unconsumed_tail:
        raise _damaged(path, f"vocab.bin expands more than {MAX_EXPANSION}-fold")
    if not machine.eof or machine.unused_data:
        raise _damaged(path, "vocab.bin is truncated, or more data follows it")
    return raw


register_format(
    Format(
        "navec",
        "navec archive, product-quantised",
        (".tar",),
        read,
        matches=is_navec,
        cached=False,
        why_not_written="quantisation loses precision; write word2vec .bin",
    )
)
