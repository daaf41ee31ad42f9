"""Arrow files that expand to far more than they hold: bounded memory, and an error that says what to do."""

import gzip
import io
import struct
import subprocess
import sys
import tracemalloc

import polars as pl
import pytest

from evenhand.columnar import ArrowBatches
from evenhand.corpus.readers import Corpus, ReadLog
from evenhand.errors import FormatError

LIMIT = 1 << 20  # longest record; a compressed batch may expand to eight times as much
BOMB = 64 << 20


def read(path, **options):
    source = Corpus(path, **options)
    log = ReadLog(source.skip_bad)
    texts = "".join(part for shard in source.shards() for part in source.fragments(shard, log)).split("\0")[:-1]
    return texts, log


def written(texts, *, stream, compression="uncompressed"):
    buffer, table = io.BytesIO(), pl.DataFrame({"text": texts})
    (table.write_ipc_stream if stream else table.write_ipc)(buffer, compression=compression)
    return buffer.getvalue()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_batch_that_expands_beyond_the_limit_is_an_error(tmp_path, stream, compression):
    path = tmp_path / "bomb.arrow"
    path.write_bytes(written(["a" * (1 << 16)] * (BOMB >> 16), stream=stream, compression=compression))
    assert path.stat().st_size < BOMB / 50
    with pytest.raises(FormatError, match=r"expands to more than 8,388,608 bytes") as caught:
        read(path, max_record=LIMIT)
    assert "`max_record=`" in caught.value.hint
    assert len(read(path, max_record=BOMB)[0]) == BOMB >> 16


@pytest.mark.parametrize("stream", [True, False])
def test_a_compressed_file_with_one_endless_batch_is_an_error(tmp_path, stream):
    path = tmp_path / "bomb.arrow.gz"
    path.write_bytes(gzip.compress(written(["a" * (1 << 16)] * (BOMB >> 16), stream=stream)))
    with pytest.raises(FormatError, match="expands to more than"):
        read(path, max_record=LIMIT)


def field_of(data, table, number):
    """Return where a field of a FlatBuffers table is."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    return table + struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]


def follow(data, position):
    return position + struct.unpack_from("<I", data, position)[0]


def batch_message(data):
    """Return where the metadata table of the first record batch is: behind the schema, which has no body."""
    return follow(data, 8 + struct.unpack_from("<i", data, 4)[0] + 8)


def patched(data, position, value):
    return data[:position] + struct.pack("<q", value) + data[position + 8 :]


@pytest.mark.parametrize("claimed", [2 << 30, 1 << 62, -1])
@pytest.mark.parametrize("name", ["a.arrow", "a.arrow.gz"])
def test_a_false_length_reserves_no_memory(claimed, name):
    data = written(["she is a nurse"], stream=True)
    data = patched(data, field_of(data, batch_message(data), 3), claimed)

    def call():
        with pytest.raises(FormatError, match=r"expands to more than|not a valid Arrow file"):
            list(ArrowBatches(io.BytesIO(data), name, 1 << 27, 1 << 30))

    tracemalloc.start()
    try:
        call()
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical], ids=str)
def test_many_rows_that_share_one_text_take_the_memory_of_few(tmp_path, dtype):
    """Views of one buffer, or numbers of an entry: a few bytes for each row, although the texts are 400 MB."""
    path = tmp_path / "shared.arrow"
    rows, size = 2000, 200_000
    table = pl.DataFrame({"text": ["a" * size]}).select(pl.col("text").cast(dtype).gather([0] * rows))
    table.write_ipc_stream(path)
    script = (
        "import re, sys\nfrom pathlib import Path\n"
        "from evenhand.corpus.readers import Corpus, ReadLog\n"
        "source = Corpus(sys.argv[1])\n"
        "count = sum(len(text) for shard in source.shards() for text in source.fragments(shard, ReadLog(False)))\n"
        "print(count, int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    count, megabytes = map(int, done.stdout.split())
    assert path.stat().st_size < 1 << 20
    assert count == rows * (size + 1)
    assert megabytes < 300


def test_a_text_beyond_the_limit_is_a_bad_record(tmp_path):
    path = tmp_path / "a.arrow"
    path.write_bytes(written(["she is", "a" * (LIMIT + 1), None, "a nurse"], stream=True))
    with pytest.raises(FormatError, match=r"a\.arrow, row 2: a record or word is longer than 1,048,576 bytes"):
        read(path, max_record=LIMIT)
    texts, log = read(path, max_record=LIMIT, skip_bad=True)
    assert texts == ["she is", "a nurse"]
    assert log.bad_records == 2


def test_a_stream_of_many_batches_is_read_without_limit_on_their_sum(tmp_path):
    path = tmp_path / "a.arrow.gz"
    one = written(["a" * 1000] * 1000, stream=True)
    start = 8 + struct.unpack_from("<i", one, 4)[0]
    schema, batch = one[:start], one[start : one.rindex(b"\xff\xff\xff\xff")]
    path.write_bytes(gzip.compress(schema + 20 * batch + b"\xff\xff\xff\xff\0\0\0\0", 1))
    assert len(read(path, max_record=LIMIT)[0]) == 20_000


def test_a_batch_with_more_rows_than_bytes_is_damaged():
    data = written(["she"] * 3, stream=True)
    batch = follow(data, field_of(data, batch_message(data), 2))
    data = patched(data, field_of(data, batch, 0), 1 << 40)
    with pytest.raises(FormatError, match=r"declares 1,099,511,627,776 rows"):
        list(ArrowBatches(io.BytesIO(data), "a.arrow", LIMIT, 8 * LIMIT))
