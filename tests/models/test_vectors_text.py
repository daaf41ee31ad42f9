"""Vectors as text, with or without a header, and the JSON of the wink packages."""

from __future__ import annotations

import gzip
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
from evenhand.models.vectors.formats import text
from evenhand.models.vectors.formats import text as blocks

SPACED = [". . .", "at name@domain.com", ".. .", "catch 22", "• a@b.c", "a\u00a0b c"]
WORDS = [word for word in AWKWARD if word != "\t"]


def load(path: Path, content: bytes | str, **options: object) -> Vectors:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return quiet_load(path, cache=False, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "v.txt"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["final newline", "no final newline"])
@pytest.mark.parametrize("blank", ["", " "], ids=["", "trailing blank"])
@pytest.mark.parametrize("header", [True, False], ids=["header", "no header"])
@pytest.mark.parametrize("separator", [" ", "\t"], ids=["space", "tab"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "byte order mark"])
def test_every_way_to_lay_out_lines(
    end: str, last: bool, blank: str, header: bool, separator: str, mark: str, path: Path
) -> None:
    rows = [("the", 0.5, -1.0), ("of", 2.0, 3e-5), ("Zoë", -0.0, 7.0)]
    lines = [separator.join(map(str, row)) + blank.replace(" ", separator) for row in rows]
    content = mark + end.join((["3 2"] if header else []) + lines) + (end if last else "")
    made = load(path, content)
    assert made.words == ("the", "of", "Zoë")
    np.testing.assert_array_equal(made.matrix, np.array([row[1:] for row in rows], np.float32))
    assert load(path, content, limit=2).words == ("the", "of")
    assert load(path, content, limit=30).words == ("the", "of", "Zoë")


@pytest.mark.parametrize("first", [SPACED[:1], SPACED[1:2], SPACED[:3], SPACED])
@pytest.mark.parametrize("header", [True, False])
def test_tokens_with_spaces_are_split_from_the_right_also_in_the_first_lines(
    first: list[str], header: bool, path: Path
) -> None:
    words = [*first, "the", "of"]
    lines = ([f"{len(words)} 3"] if header else []) + [f"{word} 0.5 -1 {row}.25" for row, word in enumerate(words)]
    made = load(path, "\n".join(lines) + "\n")
    assert list(made.words) == words
    np.testing.assert_array_equal(made.matrix[:, 2], np.arange(len(words)) + 0.25)


def test_a_fasttext_line_with_spaces_and_a_trailing_blank(path: Path) -> None:
    assert load(path, "3 2\nthe 1 2 \n. . . 3.5 4 \nof 5 6 \n").words == ("the", ". . .", "of")


def test_a_trailing_blank_that_one_line_lacks(path: Path) -> None:
    lines = [f"w{row} 1 2 " for row in range(150)] + ["last 3 4"]
    np.testing.assert_array_equal(load(path, "\n".join(lines))["last"], [3, 4])


@pytest.mark.parametrize("number", ["1", "-1", "+1", "1.", ".5", "1e-5", "1E5", "-0", "1e-60", "00012.50"])
def test_every_decimal_notation(number: str, path: Path) -> None:
    assert load(path, f"a {number} 1\n. . {number} 1\nb 2 2.5\n").matrix[:2, 0].tolist() == [np.float32(number)] * 2


def test_numbers_in_the_slow_way_are_those_of_the_fast_way(path: Path) -> None:
    numbers = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    rows = [" ".join(map(str, row)) for row in numbers.tolist()]
    plain = load(path, "".join(f"w{i} {row}\n" for i, row in enumerate(rows)))
    spaced = load(path, "x 1.5 2.5 3.5 4.5\n" + "".join(f"w {i}x {row}\n" for i, row in enumerate(rows)))
    assert plain.matrix.tobytes() == spaced.matrix[1:].tobytes() == numbers.tobytes()


ALL_WORDS = st.lists(st.sampled_from(WORDS + SPACED), min_size=1, max_size=12, unique=True)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=ALL_WORDS, size=st.integers(1, 60), end=st.sampled_from(["\n", "\r\n", " \n", " \r\n"]), last=st.booleans()
)
def test_where_a_block_ends_changes_nothing(
    words: list[str], size: int, end: str, last: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ["plain", *words]
    content = "".join(f"{word} {row}.5 -1e-3{end}" for row, word in enumerate(listed))
    content = content if last else content.removesuffix(end)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    monkeypatch.setattr(text, "START_BYTES", 8)  # extended to two lines, so that every later border is a block's
    made = load(path, content)
    assert list(made.words) == listed
    np.testing.assert_array_equal(made.matrix[:, 0], np.arange(len(listed), dtype=np.float32) + 0.5)


@pytest.mark.parametrize("size", range(1, 40))
def test_every_border_of_one_file(size: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["the", "\ufeffof", "c\r", ". . .", "\ufeff", "女", "NA", "x"]
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    monkeypatch.setattr(text, "START_BYTES", 1)
    made = load(path, "".join(f"{word} 1.5 {row}\n" for row, word in enumerate(words)))
    assert list(made.words) == words
    assert made.matrix[:, 1].tolist() == list(range(len(words)))


def test_a_line_longer_than_the_first_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "START_BYTES", 500)
    made = Vectors(["a", "b"], np.random.default_rng(1).standard_normal((2, 300)))
    made.save(path)
    assert path.read_bytes().index(b"\n") > text.START_BYTES
    assert quiet_load(path, cache=False) == made


def test_limit_reads_no_further(path: Path) -> None:
    good = "".join(f"w{row} 1.5 2.5\n" for row in range(10))
    assert load(path, good + "bad line\n", limit=10).words[-1] == "w9"
    with pytest.raises(FormatError, match="line 11"):
        load(path, good + "bad line\n", limit=11)
    assert len(load(path, "99 2\n" + good, limit=10)) == 10


def test_invalid_utf8_can_be_read_with_marks(path: Path) -> None:
    content = b"caf\xe9 1 2\n" + "女 3 4\n".encode() + b". \xff . 5.5 6\n"
    assert load(path, content, encoding_errors="replace").words == ("caf\ufffd", "女", ". \ufffd .")


def test_a_stream_of_streams(tmp_path: Path) -> None:
    path = tmp_path / "v.vec.gz"
    path.write_bytes(gzip.compress(b"2 2\nthe 1 2\n") + gzip.compress(b"of 3 4\n"))
    assert quiet_load(path).words == ("the", "of")


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


def load_wink(path: Path, content: bytes, **options: object) -> Vectors:
    with writing(path) as out:
        out.write(content)
    return quiet_load(path, cache=False, **options)


V = Vectors([*AWKWARD, 'tab\tquote"back\\slash/', "", "a]b[c", "x:y,z"], np.arange(2 * 42).reshape(42, 2) / 8)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_layout_with_escaped_keys_in_every_compression(ascii_only: bool, compression: str, tmp_path: Path) -> None:
    made = load_wink(tmp_path / f"x.json{compression}", document(V, ascii_only=ascii_only))
    assert made == V


@pytest.mark.parametrize("extra", [True, False], ids=["with norm and rank", "numbers only"])
@pytest.mark.parametrize("indent", [None, 1, 4])
def test_spaces_and_missing_norms_do_not_matter(extra: bool, indent: int | None, tmp_path: Path) -> None:
    assert load_wink(tmp_path / "x.json", document(V, extra=extra, indent=indent)) == V


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=vectors(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), size=st.integers(1, 99))
def test_any_words_and_any_block_size(
    made: Vectors, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    again = load_wink(tmp_path / "x.json", document(made))
    assert again.words == made.words
    np.testing.assert_array_equal(again.matrix, made.matrix)


def test_limit_stops_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    content = document(V)
    assert load_wink(tmp_path / "x.json", content[: len(content) * 2 // 3], limit=3) == V.head(3)


def test_cut_off_at_any_byte_it_is_refused_or_complete(tmp_path: Path) -> None:
    small = Vectors(["a", 'b"', "ü"], [[1, 2], [3, 4], [5, 6]])
    content = document(small)
    complete = content.index(b'},"unkVector"') + 1
    for size in range(1, len(content)):
        if size >= complete:
            assert load_wink(tmp_path / "x.json", content[:size]) == small
        else:
            with pytest.raises(FormatError, match=r"x\.json"):
                load_wink(tmp_path / "x.json", content[:size])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": 1}', r'"vectors" object.*missing\n.*`format=`'),
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
        load_wink(tmp_path / "x.json", content)


def test_wink_invalid_utf8_can_be_read_with_marks(tmp_path: Path) -> None:
    content = b'{"dimensions":1,"vectors":{"caf\xe9":[1]}}'
    assert load_wink(tmp_path / "x.json", content, encoding_errors="replace").words == ("caf\ufffd",)


def test_a_string_without_end_is_refused_in_small_memory(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="entry 1: truncated"):
        load_wink(tmp_path / "x.json", b'{"dimensions":1,"vectors":{"' + b"a" * (1 << 23))
