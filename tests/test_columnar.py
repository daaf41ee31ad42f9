"""Tables are read in a child process that damage cannot take us down with, within limits, and without a word of its own."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from evenhand import columnar
from evenhand.columnar import ColumnRequest, MissingColumnError
from evenhand.columnar_worker import OWN
from evenhand.errors import FormatError

FOUND = Path(__file__).parent / "fuzz" / "found" / "vectors-parquet"
TEXTS = ["she", "Zoë\n女", "", "he " * 2000]


def request_for(name: str = "t", column: str | None = "text", **limits: int) -> ColumnRequest:
    return ColumnRequest(name, column, **{"longest": 1 << 20, "memory": 1 << 28, **limits})


def write(path: Path, **columns: object) -> Path:
    pl.DataFrame(columns).write_parquet(path)
    return path


def read(path: Path, request: ColumnRequest | None = None) -> list[str | None]:
    return [text for block in (request or request_for()).parquet(path) for text in block.texts]


def running() -> int:
    return columnar._waiting[os.getpid()]._process.pid


def test_texts_arrive_as_they_are_and_the_process_is_used_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a [1].parquet", id=[1, 2, 3, 4], text=TEXTS)
    assert read(path) == TEXTS
    first = running()
    assert read(path) == TEXTS
    assert running() == first


def test_rows_keep_their_order(tmp_path: Path) -> None:
    texts = [f"w{number}" for number in range(50_000)]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "a.parquet", row_group_size=1000)
    assert read(tmp_path / "a.parquet") == texts


def test_other_values_are_named_by_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=["a", None, "b" * 50])
    (block,) = request_for().parquet(path)
    assert block.others == {1: "null"}
    blocks = list(request_for(longest=10).parquet(path))
    assert [text for block in blocks for text in block.texts] == ["a", None, None]
    assert [what for block in blocks for what in block.others.values()] == ["null", ""]


def test_a_missing_column_is_answered_with_those_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", id=[1], word=["a"])
    with pytest.raises(MissingColumnError) as caught:
        read(path)
    assert caught.value.columns == {"id": "Int64", "word": "String"}
    assert read(path, request_for(column=None)) == ["a"]


@pytest.mark.parametrize("damaged", sorted(FOUND.iterdir()), ids=lambda path: path.name)
def test_a_file_that_aborts_polars_is_an_error_without_output(
    damaged: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path / "a.parquet", text=TEXTS)
    assert read(good) == TEXTS
    with pytest.raises((FormatError, MissingColumnError)):
        read(damaged, request_for(column=None))
    assert read(good) == TEXTS
    assert capfd.readouterr() == ("", "")


def test_a_process_that_ended_while_it_waited_is_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=TEXTS)
    read(path)
    waiting = columnar._waiting[os.getpid()]
    waiting._process.kill()
    waiting._process.wait()
    assert read(path) == TEXTS


def test_a_table_that_a_used_process_fails_on_is_read_by_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", text=TEXTS)
    read(path)
    first = columnar._waiting[os.getpid()]
    send = first._send

    def die(about: bytes, data: bytes) -> None:
        monkeypatch.setattr(first, "_send", send)
        first._process.kill()
        raise BrokenPipeError

    monkeypatch.setattr(first, "_send", die)
    assert read(path) == TEXTS


def test_a_file_that_kills_a_new_process_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("import os, sys; sys.stdin.buffer.read(8); os.abort()")
    monkeypatch.setattr(columnar, "WORKER", worker)
    columnar._close()
    with pytest.raises(FormatError, match=r"t: the process that reads it stopped \(exit code -6\)"):
        read(tmp_path / "a.parquet")
    assert os.getpid() not in columnar._waiting


def test_rows_that_nobody_takes_end_the_process(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=["a"] * 100_000)
    blocks = request_for().parquet(path)
    next(blocks)
    blocks.close()
    assert os.getpid() not in columnar._waiting


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of this kind")
def test_a_table_that_expands_beyond_the_memory_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.parquet", text=["a" * 60_000_000])
    assert path.stat().st_size < 10_000
    with pytest.raises(FormatError, match=r"bytes of memory to be read|could not be read"):
        read(path, request_for(memory=(160 << 20) - OWN))
    assert capfd.readouterr() == ("", "")


def test_many_rows_that_share_one_long_text_are_counted_in_full(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", text=["a" * 100_000] * 500)
    with pytest.raises(FormatError, match="its texts have more than 1,000,000 characters"):
        read(path, request_for(total=1_000_000))
