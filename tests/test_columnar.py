"""Texts of Arrow and Parquet tables arrive as they are, within limits; damaged files end in a sentence."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.columnar import LEAST, MissingColumnError, TextColumn
from evenhand.errors import FormatError

FOUND = Path(__file__).parent / "fuzz" / "found" / "vectors-parquet"
TEXTS = ["she", "Zoë\n女", "", "he " * 2000, None]


def column(name: str | None = "text", **limits: int) -> TextColumn:
    return TextColumn("t", name, **{"longest": 1 << 20, "limit": 1 << 28, **limits})


def write(path: Path, **columns: object) -> Path:
    pl.DataFrame(columns).write_parquet(path)
    return path


def read(path: Path, wanted: TextColumn | None = None) -> list[str | None]:
    return [text for block in (wanted or column()).parquet(path) for text in block.texts]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical], ids=str)
def test_texts_arrive_as_they_are(tmp_path: Path, dtype: type[pl.DataType]) -> None:
    frame = pl.DataFrame({"id": range(5), "text": pl.Series(TEXTS).cast(dtype)})
    frame.write_parquet(tmp_path / "a [1].parquet", row_group_size=2)
    assert read(tmp_path / "a [1].parquet") == TEXTS
    for write_ipc in (frame.write_ipc, frame.write_ipc_stream):
        buffer = io.BytesIO()
        write_ipc(buffer, compression="zstd")
        buffer.seek(0)
        assert [text for block in column().arrow(buffer) for text in block.texts] == TEXTS


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_every_kind_of_text_is_read(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table(
        {
            "text": pa.array(TEXTS).dictionary_encode().cast(kind)
            if pa.types.is_dictionary(kind)
            else pa.array(TEXTS, kind)
        }
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table.slice(1))  # offsets that do not begin at 0
    sink.seek(0)
    assert [text for block in column().arrow(sink) for text in block.texts] == TEXTS[1:]
    for version in ("1.0", "2.0"):
        pq.write_table(table, tmp_path / "a.parquet", data_page_version=version)
        assert read(tmp_path / "a.parquet") == TEXTS


def test_rows_keep_their_order(tmp_path: Path) -> None:
    texts = [f"w{number}" for number in range(50_000)]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "a.parquet", row_group_size=1000)
    assert read(tmp_path / "a.parquet") == texts


def test_other_values_are_named_by_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=["a", None, "b" * 50], number=[1, None, 2], flag=[True, False, None])
    (block,) = column().parquet(path)
    assert block.others == {1: "null"}
    blocks = list(column(longest=10).parquet(path))
    assert [text for block in blocks for text in block.texts] == ["a", None, None]
    assert [what for block in blocks for what in block.others.values()] == ["null", ""]
    (block,) = column("number").parquet(path)
    assert block.others == {0: "a number", 1: "null", 2: "a number"}
    (block,) = column("flag").parquet(path)
    assert block.others == {0: "true or false", 1: "true or false", 2: "null"}


def test_a_column_of_lists_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=[["a"], ["b"]])
    with pytest.raises(FormatError, match="column 'text' holds a list in each row, not a text"):
        read(path)


def test_a_missing_column_is_answered_with_those_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", id=[1], word=["a"])
    with pytest.raises(MissingColumnError) as caught:
        read(path)
    assert list(caught.value.columns) == ["id", "word"]
    assert caught.value.texts == ["word"]
    assert read(path, column(None)) == ["a"]


@pytest.mark.parametrize("damaged", sorted(FOUND.iterdir()), ids=lambda path: path.name)
def test_a_damaged_file_is_an_error_without_output(damaged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((FormatError, MissingColumnError)):
        read(damaged, column(None))
    assert capfd.readouterr() == ("", "")


def test_a_page_that_expands_beyond_the_limit_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=["a" * 60_000_000])
    assert path.stat().st_size < 10_000
    with pytest.raises(FormatError, match=f"a page of column 'text' expands to more than {LEAST:,} bytes"):
        read(path, column(limit=1 << 20))
    assert read(path, column(limit=1 << 30, longest=1 << 20)) == [None]


def test_false_sizes_in_the_footer_change_nothing(tmp_path: Path) -> None:
    """The sizes of the pages count, not what the footer says of them."""
    path = write(tmp_path / "a.parquet", text=["a" * 60_000_000])
    stated = pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size
    footer = path.read_bytes()
    size, number = [], 2 * stated  # zigzag
    while number:
        size.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
    assert bytes(size) in footer
    false = bytes([byte & 128 | 1 if byte < 128 else 128 for byte in size])
    path.write_bytes(footer.replace(bytes(size), false))
    with pytest.raises(FormatError, match="expands to more than"):
        read(path, column(limit=1 << 20))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of the memory is read from /proc")
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY"])
def test_many_rows_that_share_one_long_text_take_the_memory_of_few(tmp_path: Path, encoding: str) -> None:
    """300 MB of text in a file of a few kilobytes."""
    path = tmp_path / "a.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array(["a" * 100_000])).cast(pa.string())
    how = (
        {"use_dictionary": True}
        if encoding == "RLE_DICTIONARY"
        else {"use_dictionary": False, "column_encoding": encoding}
    )
    pq.write_table(pa.table({"text": text}), path, compression="zstd", **how)
    script = (
        "import re, sys\nfrom pathlib import Path\nfrom evenhand.columnar import TextColumn\n"
        "blocks = TextColumn('t', 'text', longest=1 << 20, limit=1 << 27).parquet(Path(sys.argv[1]))\n"
        "print(sum(len(text) for block in blocks for text in block.texts),"
        " int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    characters, megabytes = map(int, done.stdout.split())
    assert characters == 3000 * 100_000
    assert megabytes < 360  # the process, and at most two blocks of 128 MB; all texts would be 300 MB more than once
    with pytest.raises(FormatError, match="its texts have more than 1,000,000 characters"):
        read(path, column(total=1_000_000))
