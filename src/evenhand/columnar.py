"""Arrow and Parquet tables, read in a child process: a damaged file can abort polars and the process it runs in.

The process has a limit on its memory, and its messages never reach the terminal. It waits for the next table, because
its start takes longer than a small table.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from evenhand.errors import FormatError

WORKER = Path(__file__).with_name("columnar_worker.py")
REQUEST = struct.Struct("<QQ")  # bytes of the JSON object and of the Arrow stream
ANSWER = struct.Struct("<cQ")  # kind of message and its length in bytes
ROWS = struct.Struct("<II")  # bytes of a JSON object and number of rows
KEPT = 64 << 20  # bytes of answers after which a process is not used again


class ColumnRows(NamedTuple):
    """Rows of a column: texts, with None in place of other values."""

    texts: list[str | None]
    others: dict[int, str]
    """What stands in place of a text, by its place in the list; empty for a text that is too long."""

    @classmethod
    def unpack(cls, content: bytes) -> ColumnRows:
        """Read a message, see `columnar_worker.py`."""
        size, rows = ROWS.unpack_from(content)
        start = ROWS.size + size
        others = {int(place): kind for place, kind in json.loads(content[ROWS.size : start]).items()}
        lengths = array("I")
        lengths.frombytes(content[start : start + rows * lengths.itemsize])
        text = content[start + rows * lengths.itemsize :].decode()
        ends = list(accumulate(lengths, initial=0))
        texts: list[str | None] = [text[begin:end] for begin, end in pairwise(ends)]
        for place in others:
            texts[place] = None
        return cls(texts, others)


class MissingColumnError(Exception):
    """The table lacks the column.

    Attributes:
        columns: names and types of the columns.
    """

    def __init__(self, columns: dict[str, str]) -> None:
        super().__init__(f"no such column among {', '.join(columns)}")
        self.columns = columns


@dataclass(frozen=True)
class ColumnRequest:
    """Which texts of a table are read, and within which limits.

    Attributes:
        name: name of the file in errors.
        column: name of the column; None for the only column of texts.
        longest: bytes of a text.
        memory: bytes that the process may use to decode the table.
        total: characters of all texts of a Parquet file; None for no limit.
    """

    name: str
    column: str | None
    longest: int
    memory: int
    total: int | None = None

    def arrow(self, batches: Iterable[bytes]) -> Iterator[ColumnRows]:
        """Yield the rows of record batches, each an Arrow stream of its own."""
        with _borrowed() as reader:
            for batch in batches:
                yield from reader.answers(self, batch)

    def parquet(self, path: Path) -> Iterator[ColumnRows]:
        """Yield the rows of a Parquet file."""
        with _borrowed() as reader:
            yield from reader.answers(self, path=path)


class _StoppedError(Exception):
    """A table ended the process, or made it panic."""

    def __init__(self, reason: FormatError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class _Reader:
    """A child process that answers one request after another."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        # The script imports polars only; -P keeps its folder off the path, on which its siblings could shadow packages.
        command = [sys.executable, "-P", str(WORKER)]
        folders = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)  # noqa: PTH100
        environment = {**os.environ, "PYTHONPATH": folders, "RUST_BACKTRACE": "0"}
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment,
            cwd=tempfile.gettempdir(),
        )  # fmt: skip
        self._waits, self._answered, self._received = True, 0, 0

    @property
    def is_usable(self) -> bool:
        """Whether it waits for a request: it runs, did not panic, and holds little memory."""
        return self._waits and self._received < KEPT and self._process.poll() is None

    def answers(self, request: ColumnRequest, data: bytes = b"", path: Path | None = None) -> Iterator[ColumnRows]:
        """Send a request and yield the rows."""
        blocks = 0
        try:
            for block in self._ask(request, data, path):
                blocks += 1
                yield block
        except _StoppedError as stopped:
            if blocks or not self._answered:
                raise stopped.reason from None
        else:
            return
        self.close()  # an earlier table may be the cause: the verdict is that of a new process
        self._start()
        yield from self.answers(request, data, path)

    def _ask(self, request: ColumnRequest, data: bytes, path: Path | None) -> Iterator[ColumnRows]:
        about = {"column": request.column, "longest": request.longest, "memory": request.memory, "total": request.total}
        if path is not None:
            about["path"] = os.path.abspath(path)  # noqa: PTH100 (the process has another working directory)
        self._waits = False
        try:
            self._send(json.dumps(about).encode(), data)
            while (message := self._receive())[0] == b"R":
                yield ColumnRows.unpack(message[1])
        except (BrokenPipeError, EOFError):
            raise _StoppedError(self._failure(request)) from None
        kind, content = message[0], json.loads(message[1])
        failure = FormatError(f"{request.name}: could not be read ({content})", hint="download or write the file again")
        if kind == b"P":
            raise _StoppedError(failure)
        self._waits, self._answered = True, self._answered + 1
        if kind == b"C":
            raise MissingColumnError(dict(content))
        if kind == b"F":
            raise failure

    def _send(self, about: bytes, data: bytes) -> None:
        if self._process.stdin is None:
            raise EOFError
        self._process.stdin.write(REQUEST.pack(len(about), len(data)))
        self._process.stdin.write(about)
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def _receive(self) -> tuple[bytes, bytes]:
        output = self._process.stdout
        header = output.read(ANSWER.size) if output else b""
        if output is None or len(header) < ANSWER.size:
            raise EOFError
        kind, length = ANSWER.unpack(header)
        content = output.read(length)
        self._received += length
        if len(content) < length:
            raise EOFError
        return kind, content

    def _failure(self, request: ColumnRequest) -> FormatError:
        """Return the error for a table that ended the process."""
        code = self._process.wait()
        self._errors.seek(0)
        if b"memory allocation" in self._errors.read(1 << 16):
            return FormatError(
                f"{request.name}: needs more than {request.memory:,} bytes of memory to be read",
                hint="check the file; if it is valid, write smaller row groups or batches",
            )
        return FormatError(
            f"{request.name}: the process that reads it stopped (exit code {code})",
            hint="the file is damaged: download it again",
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        for stream in (self._process.stdout, self._process.stdin):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]
        self._process.wait()
        self._errors.close()


_waiting: dict[int, _Reader] = {}  # by the process that started it: a fork does not share its pipes


@contextlib.contextmanager
def _borrowed() -> Iterator[_Reader]:
    """Yield a process that reads tables; the next table is read by the same one."""
    reader = _waiting.pop(os.getpid(), None)
    if reader is None or not reader.is_usable:
        if reader is not None:
            reader.close()
        reader = _Reader()
    try:
        yield reader
    finally:
        if not reader.is_usable or _waiting.setdefault(os.getpid(), reader) is not reader:
            reader.close()


@atexit.register
def _close() -> None:
    if reader := _waiting.pop(os.getpid(), None):
        reader.close()
