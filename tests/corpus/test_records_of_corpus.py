"""Records of tables and lines: what is read, and what is said of those that cannot be used."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.corpus import Corpus
from evenhand.corpus.readers import ReadLog
from evenhand.corpus.readers import records as module
from evenhand.corpus.readers.records import (
    describe_kind,
    json_record,
    missing_column,
    read_arrow,
    read_csv,
    read_jsonl,
    read_parquet,
    read_tsv,
)
from evenhand.corpus.readers.stream import END
from evenhand.corpus.readers.text import TextOptions
from evenhand.errors import FormatError


def read(reader, stream, **options):
    """Return the documents, the log, and the message of the error, if there was one."""
    log, found = ReadLog(options.get("skip_bad", False)), []
    documents = reader(io.BytesIO(stream) if isinstance(stream, bytes) else stream, "f", TextOptions(**options), log)
    while True:
        try:
            found.append(next(documents).removesuffix(END))
        except StopIteration:
            return found, log, ""
        except FormatError as error:
            return found, log, error.message


LINES = [
    b'{"text": "one", "body": "other"}',
    b"",
    b" ",
    b'\xef\xbb\xbf{"text": "two"}',
    b"[1]",
    b'{"text": 3}',
    b'{"texts": "a"}',
    b"{",
    b'{"text": "' + b"x" * 60 + b'"}',
    b'{"text": "\xff"}',
    b'{"text": "a\\ud83d\\ude00"}',
    b'{"text": "a\\uD800"}',
]


def test_lines_that_cannot_be_used_are_named():
    found, log, _ = read(read_jsonl, b"\n".join(LINES), skip_bad=True, max_record=60)
    assert found == ["one", "two", "a😀"]
    assert log.bad_records == 7
    assert log.first_bad == [
        "f, line 5: a list where an object was expected",
        "f, line 6: field 'text' holds a number, not text",
        "f, line 7: no field 'text' among 'texts'",
        "f, line 8: not JSON (Expecting property name enclosed in double quotes)",
        "f, line 9: a record or word is longer than 60 bytes",
        "f, line 10: not valid UTF-8 (bytes ff 22 7d 0a)",
        "f, line 12: field 'text' has a lone surrogate (\\ud800)",
    ]
    found, log, _ = read(read_jsonl, b"\n".join(LINES), skip_bad=True, max_record=60, encoding_errors="replace")
    assert found == ["one", "two", "\ufffd", "a😀", "a\ufffd"]
    assert log.bad_records == 5
    found, _, message = read(read_jsonl, b"\n".join(LINES))
    assert (found, message) == (["one", "two"], "f, line 5: a list where an object was expected")
    assert read(read_jsonl, LINES[0], field="body")[0] == ["other"]


def test_json_that_is_too_large_is_named():
    for line, reason in (("9" * 5000, "a number has too many digits"), ("[" * 100_000, "nested too deeply")):
        with pytest.raises(FormatError, match=rf"f: JSON that cannot be read \({reason}\)"):
            json_record(line, "f", "text")
    record = {"text": "a", "n": 1}
    assert json_record(json.dumps(record), "f", "text") == record
    many = {f"f{number}": 0 for number in range(9)}
    with pytest.raises(FormatError, match=r"no field 'text' among 'f0', .*'f7'\n"):
        json_record(json.dumps(many), "f", "text")


def test_kinds_have_the_names_of_json():
    kinds = {
        None: "null",
        True: "true or false",
        3: "a number",
        0.5: "a number",
        "a": "a text",
        (): "a value of type tuple",
    }
    assert [describe_kind(value) for value in kinds] == list(kinds.values())
    assert (describe_kind([]), describe_kind({})) == ("a list", "an object")


@pytest.mark.parametrize(("reader", "mark"), [(read_csv, ","), (read_tsv, "\t")])
def test_rows_need_the_column(reader, mark):
    rows = ["n,text,x", "1,one,a", "", '2,"two, or\nmore",b', "3", "4,four"]
    raw = "\n".join(rows).replace(",", mark).encode()
    found, log, _ = read(reader, raw, skip_bad=True)
    assert found == ["one", f"two{mark} or\nmore", "four"]
    assert log.first_bad == ["f, line 6: 1 field, too few for 'text'"]
    assert read(reader, raw)[2] == "f, line 6: 1 field, too few for 'text'"
    assert read(reader, raw, field="n")[0] == ["1", "2", "3", "4"]
    assert read(reader, raw, field="body")[2] == "f: no column 'body'"
    assert read(reader, b"")[2] == "f: no column 'text'"
    assert read(reader, f"text{mark}x\na{mark}\xff".encode("latin-1"))[2].startswith("f, after line 1: not valid UTF-8")
    assert read(reader, f'text\n"a"b{mark}c'.encode())[2].startswith("f, line 2: ")
    assert missing_column("f", "x", [f"c{number}" for number in range(13)]).hint.endswith("c10, c11")


def table(size):
    return pa.table({"text": ["one", None, "x" * size, "four"], "n": [1, 2, 3, 4]})


def written(kind, size=3000):
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table(size), sink, compression="none")
    else:
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(sink, table(size).schema) as out:
            out.write_table(table(size), max_chunksize=2)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_rows_of_columns_are_named_by_their_number(kind):
    reader = read_parquet if kind == "parquet" else read_arrow
    found, log, _ = read(reader, written(kind), skip_bad=True, max_record=2999)
    assert found == ["one", "four"]
    assert log.first_bad == ["f, row 2: null instead of text", "f, row 3: a record or word is longer than 2,999 bytes"]
    found, log, _ = read(reader, written(kind), skip_bad=True, max_record=3000)
    assert (found, log.bad_records) == (["one", "x" * 3000, "four"], 1)
    assert read(reader, written(kind), max_record=3000)[2] == "f, row 2: null instead of text"
    assert read(reader, written(kind), field="body", max_record=3000)[2] == "f: no column 'body'"


def test_a_compressed_table_may_expand_to_eight_records(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 100)
    size, raw = next((size, raw) for size in range(30, 99) if len(raw := written("parquet", size)) % 8 == 0)
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(raw))
    limit = len(raw) // 8

    def documents(**options):
        source = Corpus(path, skip_bad=True, **options)
        log = ReadLog(True)
        return list(source.fragments(source.shards()[0], log)), log

    found, log = documents(max_record=limit)
    assert found == ["one\0", "x" * size + "\0", "four\0"]
    found, log = documents(max_record=limit - 1)
    assert found == []
    assert log.bad_files[0]["reason"].endswith(f"the compressed file expands to more than {8 * (limit - 1):,} bytes")
    plain = tmp_path / "b.parquet"
    plain.write_bytes(raw)
    used = []
    monkeypatch.setattr(module, "_text_column", lambda name, options: Column(used))
    source = Corpus(plain)
    list(source.fragments(source.shards()[0], ReadLog()))
    assert used == [plain]


class Column:
    """Notes the file that is read."""

    def __init__(self, used):
        self.used = used

    def parquet(self, path):
        self.used.append(path)
        return iter(())


def test_a_column_may_hold_eight_records_at_a_time(monkeypatch):
    asked = []

    def column(name, field, most, *, limit):
        asked.append((name, field, most, limit))
        return Column([])

    monkeypatch.setattr(module, "TextColumn", column)
    assert read(read_parquet, b"", max_record=7, field="x")[0] == []
    assert asked == [("f", "x", 7, 56)]
