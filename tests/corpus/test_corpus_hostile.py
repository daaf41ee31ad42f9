"""Hostile and broken input: bounded memory, linear time, and errors that name the file."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import time
import tracemalloc

import polars as pl
import pytest
import zstandard

from evenhand import corpus
from evenhand.corpus.readers import Corpus, ReadLog, Texts
from evenhand.corpus.readers.archives import plain
from evenhand.corpus.readers.stream import END
from evenhand.errors import FormatError, UsageError
from evenhand.files import open_bytes

SIZE = 1 << 18
RATIO = 40  # a quadratic reader takes thousands of times as long as on clean text
PAGE = "<page>\n<title>A</title>\n<text>{}</text>\n</page>\n"


def read(path, log=None, **options):
    source = Corpus(path, **options)
    log = log or ReadLog(source.skip_bad)
    return "".join(part for shard in source.shards() for part in source.fragments(shard, log))


def repeated(token: str) -> str:
    return token * (SIZE // len(token))


def seconds(call, repeats: int = 1) -> float:
    """Return the least processor time of some calls; an error of ours counts as an answer."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        with contextlib.suppress(FormatError):
            call()
        times.append(time.process_time() - start)
    return min(times)


TOKENS = {
    "mediawiki": [
        *("<text ", "<text", "<title>", "<namespace ", '<namespace key="1"', '<namespace key="1" ', "</text", "<page>"),
        *("\n", " ", "\n\n", "<", "&", "&#"),
    ],
    "article": [
        *("<ref>", "<ref ", "<ref", "</ref ", "<math>", "<ref><math>", "<!--", "-->", "{{", "}}", "{{a", "{|", "\n{|"),
        *(
            "\n{|\n",
            "|}",
            "\n|}",
            "\n:{|",
            "\n ",
            "\n",
            " ",
            "\n|",
            "[[",
            "]]",
            "[[a|",
            "[http:",
            "[http: ",
            "[http:a ",
        ),
        *("[http:\n", "http://", "https://a", "''", "'", "<b", "</b", "<", ">", "&", "&#", "&#1", "&#x1", "&amp;", "|"),
    ],
    "jsonl": ['{"text": "', "[", "{", '"', "\\", '{"a":', "\n", "\\ud800", "1"],
    "csv": ['"', ",", '","', "\n", "\r", '""', '"\n"'],
    "warc": ["WARC/1.0\r\n", "WARC/", "Content-Length: 1\r\n", "\r\n", "WARC/1.0\r\nContent-Length: 0\r\n\r\n", ":"],
    "text": ["a", " ", "\n", "\r", "\ufeff", "\x85", "a\n"],
}
CLEAN = {
    "mediawiki": PAGE.format("she is a nurse\n" * 20),
    "article": "she is a nurse and he is a doctor\n",
    "jsonl": '{"text": "she is a nurse"}\n',
    "csv": "she is a nurse,1\n",
    "warc": "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 400\r\n\r\n" + "she " * 100 + "\r\n\r\n",
    "text": "she is a nurse and he is a doctor\n",
}


@pytest.mark.parametrize("reader", TOKENS)
def test_every_repeated_token_takes_linear_time(tmp_path, reader):
    """Each reader takes 256 KB of each opening token in about the time of 256 KB of clean text."""
    path = tmp_path / "input"

    def call(text):
        if reader == "article":
            return lambda: plain(text)
        path.write_bytes((f"text,id\n{text}" if reader == "csv" else text).encode())
        return lambda: read(path, format=reader, skip_bad=True)

    usual = max(seconds(call(repeated(CLEAN[reader])), 3), 0.005)
    slow = {
        token: spent / usual for token in TOKENS[reader] if (spent := seconds(call(repeated(token)))) > RATIO * usual
    }
    assert not slow


def test_unclosed_markup_does_not_swallow_what_follows():
    assert plain("a <ref>b <ref name=x/> c </math> d").split() == ["a", "b", "c", "d"]
    assert plain("a <math>x</math> b <math>c").split() == ["a", "b", "c"]
    assert plain("a\n{| b\n{| c\n| d\n|} e\nf").split() == ["a", "e", "f"]
    assert plain("a\n{|\n{|\n|}\n|} b").split() == ["a", "b"]
    assert plain("&#" + "9" * 5000 + "; a").split() == ["a"]


BOMB = 256 << 20
MEMORY = 160 << 20  # far below the size of the bomb


def peak_of(call) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_zstd_output_is_bounded_and_linear(tmp_path):
    path = tmp_path / "bomb.txt.zst"
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(b"a" * BOMB))

    def drain():
        with open_bytes(path) as stream:
            total = 0
            while block := stream.read(1 << 16):
                total += len(block)
            assert total == BOMB

    assert peak_of(drain) < MEMORY


def test_zstd_time_grows_with_the_output(tmp_path):
    """Many small blocks: four times the output takes about four times as long, not sixteen."""
    spent = []
    for size in (64 << 20, 256 << 20):
        path = tmp_path / f"{size}.zst"
        path.write_bytes(zstandard.ZstdCompressor(level=1).compress(b"a" * size))

        def drain(path=path):
            with open_bytes(path) as stream:
                while stream.read(1 << 16):
                    pass

        spent.append(max(seconds(drain, 3), 0.01))
    assert spent[1] < 10 * spent[0]


@pytest.mark.parametrize("kind", [".gz", ".xz", ".bz2", ".zst"])
def test_a_damaged_bomb_is_read_to_the_damage_in_bounded_memory(tmp_path, kind):
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}[kind]
    whole = pack(b"she ran\n" * (8 << 20) if kind in (".gz", ".zst") else b"she ran\n" * (1 << 20))
    path = tmp_path / f"a.txt{kind}"
    path.write_bytes(whole[: len(whole) // 2])
    source, log, size = Corpus(path, documents="line", skip_bad=True), ReadLog(True), 0

    def drain():
        nonlocal size
        for shard in source.shards():
            for part in source.fragments(shard, log):
                assert not part.replace("she ran" + END, "")
                size += len(part)

    assert peak_of(drain) < 32 << 20
    assert size <= 64 << 20
    assert [bad["path"] for bad in log.bad_files] == [str(path)]


@pytest.mark.parametrize(
    ("format", "start"),
    [
        ("text", b""),
        ("jsonl", b'{"text": "'),
        ("csv", b"text\n"),
        ("csv", b'text\n"'),
        ("warc", b"WARC/1.0\r\n"),
        ("mediawiki", b"<title>A</title>\n<text>"),
    ],
)
def test_a_record_without_end_is_refused(tmp_path, format, start):
    path = tmp_path / "bomb.bz2"
    path.write_bytes(bz2.compress(start + b"a" * (32 << 20)))
    limit = 4 << 20

    def refused():
        with pytest.raises(FormatError, match=r"bomb\.bz2.*(longer than 4,194,304 bytes|has no end)"):
            read(path, format=format, max_record=limit)

    assert peak_of(refused) < 40 << 20
    log = ReadLog(True)
    read(path, log, format=format, max_record=limit, skip_bad=True)
    assert len(log.bad_files) + log.bad_records == 1


def test_the_limit_is_adjustable_and_stated(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "she " * 100}) + "\n" + json.dumps({"text": "he ran"}) + "\n")
    with pytest.raises(
        FormatError, match=r"line 1: a record or word is longer than 100 bytes\n.*`max_record=`.*`skip_bad=True`"
    ):
        read(path, max_record=100)
    log = ReadLog(True)
    assert read(path, log, max_record=100, skip_bad=True) == "he ran" + END
    assert log.bad_records == 1
    assert read(path, max_record=1000).count("she") == 100
    with pytest.raises(UsageError, match="max_record must be at least 1 byte, got 0"):
        Corpus(path, max_record=0)


def test_an_article_or_archive_record_that_is_too_long_is_skipped(tmp_path):
    path = tmp_path / "dump"
    path.write_text(PAGE.format("she ran\n" * 100) + PAGE.format("he ran"))
    log = ReadLog(True)
    assert read(path, log, format="mediawiki", max_record=200, skip_bad=True) == "he ran" + END
    record = "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {}\r\n\r\n{}\r\n\r\n"
    path.write_text(record.format(800, "she ran\n" * 100) + record.format(6, "he ran"))
    assert read(path, log, format="warc", max_record=200, skip_bad=True) == "he ran" + END
    assert log.bad_records == 2


def test_a_row_of_many_quoted_lines_is_limited(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\n" + '"a\n",' * 1000)
    with pytest.raises(FormatError, match="longer than 500 bytes"):
        read(path, max_record=500)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"text": "x", "a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"text": "x", "id": ' + "9" * 5000 + "}", "too many digits"),
        ('{"text": "she \\ud800 ran"}', r"lone surrogate \(\\ud800\)"),
        ('{"text": "she \\uDC00 ran"}', r"lone surrogate \(\\udc00\)"),
    ],
)
def test_json_that_python_cannot_read_is_ours_to_report(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text(line + '\n{"text": "he ran"}\n')
    with pytest.raises(FormatError, match=rf"a\.jsonl, line 1: .*{message}"):
        read(path)
    assert read(path, skip_bad=True) == "he ran" + END


def test_surrogates_are_replaced_where_asked_and_pairs_are_characters(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "she \\ud800 ran"}\n{"text": "\\ud83d\\ude00"}\n')
    assert read(path, encoding_errors="replace") == "she \ufffd ran" + END + "\U0001f600" + END
    with pytest.raises(FormatError, match=r"text 2: lone surrogate \(\\ud800\) at character 4"):
        corpus.bias(Texts(["she he", "she \ud800"]), {"f": ["she"], "m": ["he"]})


@pytest.mark.parametrize("length", ["-1", "-2", "100000000000", "9" * 30, "9" * 5000, "x", "1e3", "٣", ""])
def test_a_content_length_that_is_wrong(tmp_path, length):
    path = tmp_path / "a.wet"
    head = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {length}\r\n\r\n".encode()
    path.write_bytes(head + b"she ran\r\n\r\n" + head.replace(length.encode(), b"6") + b"he ran\r\n\r\n")
    with pytest.raises(FormatError, match=r"a\.wet, record 1: .*(Content-Length|longer than)"):
        read(path)


def test_a_pipe_is_refused_at_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UsageError, match=r"pipe' is not a regular file\n.*write its contents to a file"):
        Corpus(path)
    with pytest.raises(UsageError, match="is not a regular file"):
        Corpus(str(tmp_path / "pip*"))
    with pytest.raises(UsageError, match="is not a regular file"):
        Corpus("/dev/null")


@pytest.mark.parametrize("write", ["write_ipc", "write_ipc_stream"])
def test_a_damaged_arrow_file_is_an_error_and_not_an_abort(tmp_path, write):
    """Some of these bytes make polars 1.x abort the whole process."""
    buffer = io.BytesIO()
    getattr(pl.DataFrame({"id": [1, 2, 3], "text": ["she ran"] * 3}), write)(buffer)
    path = tmp_path / "a.arrow"
    path.write_bytes(buffer.getvalue())
    assert read(path) == ("she ran" + END) * 3
    for position in (356, 357, 358, 359, len(buffer.getvalue()) // 2):
        data = bytearray(buffer.getvalue())
        data[position] = 0x7F
        path.write_bytes(data)
        try:
            read(path)
        except FormatError as error:
            assert "a.arrow" in error.message  # noqa: PT017  (some damage goes unnoticed)
    path.write_bytes(buffer.getvalue()[:100])
    with pytest.raises(FormatError, match=r"a\.arrow"):
        read(path)
    log = ReadLog(True)
    read(path, log, skip_bad=True)
    assert [os.path.basename(bad["path"]) for bad in log.bad_files] == ["a.arrow"]  # noqa: PTH119


def test_arrow_files_that_are_compressed_or_lack_the_column(tmp_path):
    buffer = io.BytesIO()
    pl.DataFrame({"body": ["she ran", None]}).write_ipc(buffer)
    path = tmp_path / "a.arrow.gz"
    path.write_bytes(gzip.compress(buffer.getvalue()))
    with pytest.raises(FormatError, match=r"no column 'text'\n.*there are: body"):
        read(path)
    with pytest.raises(FormatError, match=r"row 2: null instead of text"):
        read(path, field="body")
    assert read(path, field="body", skip_bad=True) == "she ran" + END
