"""The child process of `columnar.py`: reads tables that stdin names or holds, writes the texts of a column.

A request is two lengths, a JSON object and an Arrow stream, which is empty if the object names a Parquet file. The
answers are messages of a letter, a length and a content, in JSON unless it is R: C the columns if the requested one is
missing, F a failure, P a panic, after which the process should not be used again, and E the end of the table.

R are rows: the size of a JSON object and the number of rows, as 32-bit integers; the object, which holds the kind of
each value that is not a text, by its place, with an empty kind for a text that is too long; the length of each text in
characters; and the texts as UTF-8, one after the other.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

REQUEST = struct.Struct("<QQ")
ANSWER = struct.Struct("<cQ")
ROWS_HEADER = struct.Struct("<II")
KINDS = {type(None): "null", bool: "true or false", int: "a number", float: "a number", list: "a list"}
SLICE = 1 << 24  # bytes of text that become Python objects at a time
ROWS = 1 << 14  # of a table that become Python objects at a time
OWN = 512 << 20  # bytes that Python and polars need for themselves


def send(kind: bytes, content: object = None) -> None:
    """Write one message."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    sys.stdout.buffer.write(ANSWER.pack(kind, len(data)))
    sys.stdout.buffer.write(data)


def limit_memory(most: int) -> None:
    """Let an allocation beyond the limit end this process; Windows has no such limit."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = OWN + most if hard == resource.RLIM_INFINITY else min(OWN + most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def tables(request: dict[str, Any], data: bytes) -> Iterator[pl.DataFrame]:
    """Yield the table, in parts if it is a Parquet file."""
    import polars as pl

    if "path" not in request:
        yield pl.read_ipc_stream(data)
        return
    table = pl.scan_parquet(request["path"], glob=False, hive_partitioning=False)
    schema = table.collect_schema()
    wanted = chosen(request["column"], schema)
    if wanted is None:
        yield pl.DataFrame(schema=schema)
        return
    yield from table.select(wanted).collect_batches(chunk_size=ROWS, maintain_order=True)


def chosen(column: str | None, schema: Any) -> str | None:
    """Return the requested column, or without a request the only one of texts; None if there is none."""
    import polars as pl

    if column is not None:
        return column if column in schema else None
    texts = [name for name, kind in schema.items() if kind == pl.String]
    return texts[0] if len(texts) == 1 else None


def slices(column: pl.Series) -> Iterator[pl.Series]:
    """Yield parts of a column of texts. Many rows may share one long text, so the parts are limited in bytes."""
    import polars as pl

    sizes = column.str.len_bytes() if column.dtype == pl.String else column.cat.len_bytes()
    ends = sizes.fill_null(0).cast(int).cum_sum()
    start = 0
    while start < len(column):
        full = int(ends.search_sorted((ends[start - 1] if start else 0) + SLICE, side="right"))
        stop = min(max(full, start + 1), start + ROWS)
        yield column[start:stop].cast(pl.String)
        start = stop


def rows(column: pl.Series, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of characters and the message of parts of a column."""
    import polars as pl

    if column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        for start in range(0, len(column), ROWS):
            values = column[start : start + ROWS].to_list()
            kinds = [KINDS.get(type(value), f"a value of type {type(value).__name__}") for value in values]
            yield 0, packed(dict(enumerate(kinds)), [0] * len(values), "")
        return
    for part in slices(column):
        others: dict[int, str] = {}
        if part.null_count() or (part.str.len_bytes().max() or 0) > longest:
            others = dict.fromkeys(part.is_null().arg_true().to_list(), KINDS[type(None)])
            others |= dict.fromkeys((part.str.len_bytes() > longest).arg_true().to_list(), "")
            part = pl.Series(["" if place in others else part[place] for place in range(len(part))], dtype=pl.String)
        lengths = part.str.len_chars().to_list()
        yield sum(lengths), packed(others, lengths, part.str.join("").item())


def packed(others: dict[int, str], lengths: list[int], texts: str) -> bytes:
    """Return the content of a message of rows."""
    about = json.dumps(others).encode()
    return b"".join([ROWS_HEADER.pack(len(about), len(lengths)), about, array("I", lengths).tobytes(), texts.encode()])


def answer(request: dict[str, Any], data: bytes) -> None:
    """Send every row of a table."""
    limit_memory(request["memory"])
    sent = 0
    for table in tables(request, data):
        name = chosen(request["column"], table.schema)
        if name is None:
            send(b"C", [[column, str(kind)] for column, kind in table.schema.items()])
            return
        for characters, message in rows(table[name], request["longest"]):
            sent += characters
            if request["total"] is not None and sent > request["total"]:
                send(b"F", f"its texts have more than {request['total']:,} characters")
                return
            send(b"R", message)
    send(b"E")


def main() -> None:
    """Answer requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    while len(header := sys.stdin.buffer.read(REQUEST.size)) == REQUEST.size:
        about, size = REQUEST.unpack(header)
        request, data = json.loads(sys.stdin.buffer.read(about)), sys.stdin.buffer.read(size)
        try:
            answer(request, data)
        except Exception as error:
            send(b"F", f"{type(error).__name__}: {error}"[:500])
        except BaseException as error:  # panics of polars are not exceptions of the usual kind
            send(b"P", f"{type(error).__name__}: {error}"[:500])
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
