"""The child process of `arrow.py`: reads an Arrow file from stdin and writes its texts to stdout.

Messages are a letter, a length and UTF-8 text: T a text, B the kind of a value that is not text, C the columns if the
requested one is missing, F a failure, E the end.
"""

import struct
import sys

FIELD = sys.argv[1] if len(sys.argv) > 1 else "text"
KINDS = {type(None): "null", bool: "true or false", int: "a number", float: "a number", list: "a list"}


def send(kind: bytes, text: str = "") -> None:
    """Write one message."""
    data = text.encode("utf-8", "replace")
    sys.stdout.buffer.write(struct.pack("<cQ", kind, len(data)) + data)


def main() -> None:
    """Send every row, and the end."""
    import polars as pl

    data = sys.stdin.buffer.read()
    try:
        table = pl.read_ipc(data) if data.startswith(b"ARROW1") else pl.read_ipc_stream(data)
        if FIELD not in table.columns:
            send(b"C", "\n".join(table.columns))
        else:
            for value in table[FIELD]:
                if isinstance(value, str):
                    send(b"T", value)
                else:
                    send(b"B", KINDS.get(type(value), f"a value of type {type(value).__name__}"))
            send(b"E")
    except BaseException as error:  # panics of polars are not exceptions of the usual kind
        send(b"F", f"{type(error).__name__}: {error}"[:500])
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
