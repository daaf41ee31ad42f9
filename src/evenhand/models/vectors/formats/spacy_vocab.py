"""The vocabulary folder of a spaCy pipeline: `vectors` (.npy), `key2row` (msgpack) and `strings.json`.

`key2row` maps the hash of a word to a row of the matrix, and `strings.json` has the words. In a pruned table several
words share a row: a word that lost its own vector points to that of its nearest neighbour. Only the first word of each
row is read, because two words with one vector are not two observations: in the French table `ingénieure` has the
vector of `ingénieur`, and a comparison of both would always give 0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.errors import FormatError, InputMissingError, counted
from evenhand.files import open_bytes
from evenhand.models.vectors.formats.format import Format, Parsed, ReadOptions, register_format
from evenhand.models.vectors.formats.npy import read_matrix

MATRIX, KEYS, STRINGS = "vectors", "key2row", "strings.json"
MAX_BYTES = 1 << 30  # of the key table and of the strings; the largest published pipelines have 30 MB
MAP16, MAP32, UINT64 = 0xDE, 0xDF, 0xCF
FIXMAP = range(0x80, 0x90)
# Width in bytes of the unsigned integers of msgpack, by their first byte; 0 to 127 are their own value.
UNSIGNED = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}

_Hashes = NDArray[np.uint64]


def is_key_table(start: bytes) -> bool:
    """Return whether a file starts as a msgpack map whose first key is a 64-bit number."""
    heads = {MAP16: 3, MAP32: 5}
    return len(start) > 5 and start[0] in heads and start[heads[start[0]]] == UINT64


def read(path: Path, options: ReadOptions) -> Parsed:
    """Read the words that own a row, in the order of the rows; `path` is the file `key2row`."""
    for name in (MATRIX, STRINGS):
        if not path.with_name(name).is_file():
            raise InputMissingError(
                f"{path}: the file {name!r} is not beside it", hint="keep the vocabulary folder of the pipeline whole"
            )
    matrix = read_matrix(path.with_name(MATRIX))
    keys, rows = _key_table(_bounded(path), path)
    if matrix.ndim != 2:
        raise FormatError(f"{path.with_name(MATRIX)}: shape {matrix.shape} is not a matrix", hint="fetch it again")
    if len(rows) and rows.max() >= len(matrix):
        raise FormatError(
            f"{path}: a key refers to row {rows.max():,}, the matrix has {len(matrix):,}", hint="fetch it again"
        )
    owned = np.sort(np.unique(rows, return_index=True)[1])
    words = _words(path.with_name(STRINGS), keys[owned])
    kept = [(word, int(row)) for word, row in zip(words, rows[owned], strict=True) if word is not None]
    if not kept:
        raise FormatError(f"{path}: {STRINGS} has none of its words", hint="the files belong to different pipelines")
    chosen = kept[: options.limit]
    shared = len(keys) - len(owned)
    about = {"words_that_share_a_row": shared, "words_without_spelling": len(owned) - len(kept)}
    return Parsed(
        [word for word, _ in chosen], matrix[[row for _, row in chosen]], notes=_notes(path, about), source=about
    )


def _notes(path: Path, about: dict[str, int]) -> tuple[str, ...]:
    where = f"{path.parent.name}/{path.name}"
    shared, lost = about["words_that_share_a_row"], about["words_without_spelling"]
    notes = []
    if shared:
        notes.append(f"{where}: {counted(shared, 'word')} without a vector of their own were left out (pruned table)")
    if lost:
        notes.append(f"{where}: {counted(lost, 'vector')} of words that {STRINGS} lacks were left out")
    return tuple(notes)


def _bounded(path: Path) -> bytes:
    with open_bytes(path, kept=True) as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FormatError(f"{path}: larger than {MAX_BYTES >> 20:,} MB", hint="fetch it again")
    return content


def _key_table(content: bytes, path: Path) -> tuple[_Hashes, Rows]:
    """Parse a msgpack map from unsigned integers to unsigned integers."""
    count, position = _map_size(content, path)
    if count > len(content):  # an entry takes two bytes or more, so the count is checked before memory is allocated
        raise _damaged(path, f"it states {count:,} entries, more than it has bytes")
    keys, rows = np.empty(count, np.uint64), np.empty(count, np.int64)
    for entry in range(count):
        key, position = _unsigned(content, position, path)
        row, position = _unsigned(content, position, path)
        if row >= 1 << 48:
            raise _damaged(path, f"entry {entry + 1:,} refers to row {row:,}")
        keys[entry], rows[entry] = key, row
    if position != len(content):
        raise _damaged(path, f"{len(content) - position:,} bytes follow its {count:,} entries")
    if len(np.unique(keys)) < count:
        raise _damaged(path, "a key occurs twice")
    return keys, rows


def _map_size(content: bytes, path: Path) -> tuple[int, int]:
    first = content[0] if content else 0
    if first in FIXMAP:
        return first - FIXMAP.start, 1
    width = {MAP16: 2, MAP32: 4}.get(first)
    if width is None or len(content) < 1 + width:
        raise _damaged(path, "it does not start with a msgpack map")
    return int.from_bytes(content[1 : 1 + width], "big"), 1 + width


def _unsigned(content: bytes, position: int, path: Path) -> tuple[int, int]:
    first = content[position] if position < len(content) else 0xC0
    if first < 0x80:
        return first, position + 1
    end = position + 1 + UNSIGNED.get(first, 0)
    if first not in UNSIGNED or end > len(content):
        raise _damaged(path, f"byte {position:,} is not an unsigned integer, or the file ends there")
    return int.from_bytes(content[position + 1 : end], "big"), end


def _damaged(path: Path, why: str) -> FormatError:
    return FormatError(f"{path}: not a readable key table: {why}", hint="fetch the file again")


def _words(path: Path, wanted: _Hashes) -> list[str | None]:
    """Return the word of each hash, or None where the strings lack it."""
    try:
        strings = json.loads(_bounded(path).decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not readable as JSON ({error})", hint="fetch the file again") from error
    if not isinstance(strings, list) or not all(isinstance(word, str) for word in strings):
        raise FormatError(f"{path}: expected a list of words", hint="fetch the file again")
    hashes = murmur_hashes(strings)
    order = np.argsort(hashes, kind="stable")
    place = np.searchsorted(hashes, wanted, sorter=order)
    found = order[np.minimum(place, max(len(order) - 1, 0))] if len(order) else np.zeros(len(wanted), np.int64)
    return [
        strings[index] if len(hashes) and hashes[index] == key else None
        for index, key in zip(found.tolist(), wanted, strict=True)
    ]


MULTIPLIER, SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
BLOCK = 8


def murmur_hashes(words: Sequence[str], seed: int = 1) -> _Hashes:
    """Return MurmurHash64A of the UTF-8 bytes of each word; spaCy uses the seed 1.

    Words of the same length are hashed together.

    >>> [hex(value) for value in murmur_hashes(["coffee", ""]).tolist()]
    ['0x2c6152fc1342ce91', '0xc6a4a7935bd064dc']
    """
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    by_length: dict[int, list[int]] = {}
    for index, word in enumerate(encoded):
        by_length.setdefault(len(word), []).append(index)
    hashes = np.zeros(len(words), np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        for length, indices in by_length.items():
            raw = np.frombuffer(b"".join(encoded[index] for index in indices), np.uint8).reshape(len(indices), length)
            hashes[indices] = _murmur(raw, length, seed)
    return hashes


def _murmur(raw: NDArray[np.uint8], length: int, seed: int) -> _Hashes:
    state = np.full(len(raw), np.uint64(seed) ^ (np.uint64(length) * MULTIPLIER), np.uint64)
    whole = length - length % BLOCK
    blocks = np.ascontiguousarray(raw[:, :whole]).view("<u8") if whole else np.empty((len(raw), 0), np.uint64)
    for column in blocks.astype(np.uint64).T:
        mixed = column * MULTIPLIER
        mixed ^= mixed >> SHIFT
        state = (state ^ (mixed * MULTIPLIER)) * MULTIPLIER
    if whole < length:
        rest = np.zeros((len(raw), BLOCK), np.uint8)
        rest[:, : length - whole] = raw[:, whole:]
        state = (state ^ rest.view("<u8")[:, 0].astype(np.uint64)) * MULTIPLIER
    state = (state ^ (state >> SHIFT)) * MULTIPLIER
    return np.asarray(state ^ (state >> SHIFT), dtype=np.uint64)


register_format(
    Format(
        "spacy-vocab",
        "vocabulary folder of a spaCy pipeline",
        (KEYS,),
        read,
        matches=is_key_table,
        cached=False,
        why_not_written="it is the layout of spaCy; interop.spacy.to_spacy(vectors) fills a spaCy vocabulary",
    )
)
