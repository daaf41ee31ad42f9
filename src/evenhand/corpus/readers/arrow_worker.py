"""The child process of `arrow.py`: reads record batches from stdin and writes their texts to stdout.

A batch is a length and an Arrow stream. The answers are messages of a letter, a length and UTF-8 text: T a text, L in
place of a text that is too long, B the kind of a value that is not text, C the columns if the requested one is
missing, F a failure, E the end of the batch.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

FIELD = sys.argv[1] if len(sys.argv) > 1 else "text"
LONGEST = int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 27
KINDS = {type(None): "null", bool: "true or false", int: "a number", float: "a number", list: "a list"}
SLICE = 1 << 24  # bytes of text that become Python objects at a time


class TooLong:
    """Stands for a text that exceeds the limit."""


def send(kind: bytes, text: str = "") -> None:
    """Write one message."""
    data = text.encode("utf-8", "replace")
    sys.stdout.buffer.write(struct.pack("<cQ", kind, len(data)) + data)


def values(column: pl.Series) -> Iterator[object]:
    """Yield the values of a column. Many rows may share one long text, so few are converted at a time."""
    import polars as pl

    if column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        yield from column
        return
    sizes = column.str.len_bytes() if column.dtype == pl.String else column.cat.len_bytes()
    longest = int(sizes.max() or 1)
    step = max(SLICE // longest, 1) if longest <= LONGEST else 1
    for start in range(0, len(column), step):
        if step > 1:
            yield from column[start : start + step].to_list()
        else:
            yield column[start] if (sizes[start] or 0) <= LONGEST else TooLong()


def main() -> None:
    """Send every row of every batch."""
    import polars as pl

    while header := sys.stdin.buffer.read(8):
        data = sys.stdin.buffer.read(struct.unpack("<Q", header)[0])
        try:
            table = pl.read_ipc_stream(data)
            if FIELD not in table.columns:
                send(b"C", "\n".join(table.columns))
            else:
                for value in values(table[FIELD]):
                    if isinstance(value, str):
                        send(b"T", value)
                    elif isinstance(value, TooLong):
                        send(b"L")
                    else:
                        send(b"B", KINDS.get(type(value), f"a value of type {type(value).__name__}"))
            send(b"E")
        except BaseException as error:  # panics of polars are not exceptions of the usual kind
            send(b"F", f"{type(error).__name__}: {error}"[:500])
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
