from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vector_strategies import AWKWARD, COMPRESSIONS, quiet_load, vectors

from evenhand import Vectors
from evenhand.errors import FormatError
from evenhand.files import writing
from evenhand.models.vectors.formats import text as blocks


def document(made: Vectors, *, extra: bool = True, indent: int | None = None, ascii_only: bool = False) -> bytes:
    rows = [[*row, 1.0, rank] if extra else row for rank, row in enumerate(made.matrix.tolist())]
    content = {
        "precision": 8,
        "dimensions": made.dim,
        "words": list(made.words),
        "vectors": dict(zip(made.words, rows, strict=True)),
        "unkVector": [0] * made.dim,
    }
    return json.dumps(
        content, indent=indent, ensure_ascii=ascii_only, separators=None if indent else (",", ":")
    ).encode()


def load(path: Path, content: bytes, **options: object) -> Vectors:
    with writing(path) as out:
        out.write(content)
    return quiet_load(path, cache=False, **options)


V = Vectors([*AWKWARD, 'tab\tquote"back\\slash/', "", "a]b[c", "x:y,z"], np.arange(2 * 42).reshape(42, 2) / 8)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_layout_with_escaped_keys_in_every_compression(ascii_only: bool, compression: str, tmp_path: Path) -> None:
    made = load(tmp_path / f"x.json{compression}", document(V, ascii_only=ascii_only))
    assert made == V


@pytest.mark.parametrize("extra", [True, False], ids=["with norm and rank", "numbers only"])
@pytest.mark.parametrize("indent", [None, 1, 4])
def test_spaces_and_missing_norms_do_not_matter(extra: bool, indent: int | None, tmp_path: Path) -> None:
    assert load(tmp_path / "x.json", document(V, extra=extra, indent=indent)) == V


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=vectors(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), size=st.integers(1, 99))
def test_any_words_and_any_block_size(
    made: Vectors, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    again = load(tmp_path / "x.json", document(made))
    assert again.words == made.words
    np.testing.assert_array_equal(again.matrix, made.matrix)


def test_limit_stops_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    content = document(V)
    assert load(tmp_path / "x.json", content[: len(content) * 2 // 3], limit=3) == V.head(3)


def test_cut_off_at_any_byte_it_is_refused_or_complete(tmp_path: Path) -> None:
    small = Vectors(["a", 'b"', "ü"], [[1, 2], [3, 4], [5, 6]])
    content = document(small)
    complete = content.index(b'},"unkVector"') + 1
    for size in range(1, len(content)):
        if size >= complete:
            assert load(tmp_path / "x.json", content[:size]) == small
        else:
            with pytest.raises(FormatError, match=r"x\.json"):
                load(tmp_path / "x.json", content[:size])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": 1}', r'"vectors" object.*missing\n.*--format'),
        (b'{"vectors":{"a":[1]}}', '"dimensions"'),
        (b'{"dimensions":0,"vectors":{"a":[1]}}', '"dimensions"'),
        (b'{"dimensions":999999,"vectors":{"a":[1]}}', '"dimensions"'),
        (b'{"dimensions":2,"vectors":{}}', "contains no vectors"),
        (b'{"dimensions":2,"vectors":{"a":[1,2],"b":[3]}}', "entry 2: 1 numbers where.* 2"),
        (b'{"dimensions":2,"vectors":{"a":[1,2],"b":[3,x]}}', "entry 2: 'x' is not a number"),
        (b'{"dimensions":2,"vectors":{"a":[1,2],b:[3,4]}}', "entry 2: truncated or malformed near b',b:"),
        (b'{"dimensions":2,"vectors":{"a":[1,2],"\\x":[3,4]}}', "entry 2: the key.*not a JSON string"),
        (b'{"dimensions":2,"vectors":{"a":[1,2],"\xff":[3,4]}}', "entry 2.*\n.*replace"),
        (b'{"dimensions":2,"vectors":{"a":[1,2],"\\ud800":[3,4]}}', "row 2.*surrogate"),
        (b'{"dimensions":2,"vectors":{"a":[1,2],"b":[3,nan]}}', "NaN or infinity"),
        (b'{"dimensions":100000,"vectors":{' + b'"a":[1],' * 9999 + b"}}", "entry 1: 1 numbers where.* 100,000"),
    ],
)
def test_what_is_wrong_is_named_with_its_entry(content: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=why):
        load(tmp_path / "x.json", content)


def test_invalid_utf8_can_be_read_with_marks(tmp_path: Path) -> None:
    content = b'{"dimensions":1,"vectors":{"caf\xe9":[1]}}'
    assert load(tmp_path / "x.json", content, encoding_errors="replace").words == ("caf\ufffd",)


def test_a_string_without_end_is_refused_in_small_memory(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="entry 1: truncated"):
        load(tmp_path / "x.json", b'{"dimensions":1,"vectors":{"' + b"a" * (1 << 23))
