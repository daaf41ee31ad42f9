"""The child process of `columnar.py`: reads tables that stdin names or holds, writes the texts of a column.

A request is two lengths, a JSON object and an Arrow stream, which is empty if the object names a Parquet file. The
answers are messages of a letter, a length and JSON: R rows, C the columns if the requested one is missing, F a failure,
P a panic, after which the process should not be used again, and E the end of the table. Rows are a list of texts, with
null in place of other values, and an object that holds the kind of each such value by its place; the kind of a text
that is too long is empty.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

REQUEST = struct.Struct("<QQ")
ANSWER = struct.Struct("<cQ")
KINDS = {type(None): "null", bool: "true or false", int: "a number", float: "a number", list: "a list"}
SLICE = 1 << 24  # bytes of text that become Python objects at a time
ROWS = 1 << 14  # of a table that become Python objects at a time
OWN = 512 << 20  # bytes that Python and polars need for themselves


def send(kind: bytes, content: object = None) -> None:
    """Write one message."""
    data = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    sys.stdout.buffer.write(ANSWER.pack(kind, len(data)) + data)


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


def rows(column: pl.Series, longest: int) -> Iterator[tuple[list[str | None], dict[int, str]]]:
    """Yield texts and other values. Many rows may share one long text, so few are converted at a time."""
    import polars as pl

    step, sizes = ROWS, None
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        sizes = column.str.len_bytes() if column.dtype == pl.String else column.cat.len_bytes()
        step = min(max(SLICE // max(int(sizes.max() or 1), 1), 1), ROWS)
    for start in range(0, len(column), step):
        if sizes is not None and (sizes[start : start + step].max() or 0) > longest:
            for row in range(start, min(start + step, len(column))):
                is_long = (sizes[row] or 0) > longest
                yield ([None], {0: ""}) if is_long else described([column[row]])
        else:
            yield described(column[start : start + step].to_list())


def described(values: list[object]) -> tuple[list[str | None], dict[int, str]]:
    """Return the texts, and the kinds of the other values by place."""
    others = {
        place: KINDS.get(type(value), f"a value of type {type(value).__name__}")
        for place, value in enumerate(values)
        if not isinstance(value, str)
    }
    return [value if isinstance(value, str) else None for value in values], others


def answer(request: dict[str, Any], data: bytes) -> None:
    """Send every row of a table."""
    limit_memory(request["memory"])
    sent = 0
    for table in tables(request, data):
        name = chosen(request["column"], table.schema)
        if name is None:
            send(b"C", [[column, str(kind)] for column, kind in table.schema.items()])
            return
        for texts, others in rows(table[name], request["longest"]):
            sent += sum(len(text) for text in texts if text is not None)
            if request["total"] is not None and sent > request["total"]:
                send(b"F", f"its texts have more than {request['total']:,} characters")
                return
            send(b"R", [texts, others])
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
