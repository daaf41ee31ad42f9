"""Arrow files, read in a child process: damaged metadata can abort the Arrow reader of polars and its process."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from evenhand.corpus.counting.text_stream import document
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.records import missing_column
from evenhand.corpus.readers.text import TextOptions
from evenhand.errors import FormatError

WORKER = Path(__file__).with_name("arrow_worker.py")
HEADER = struct.Struct("<cQ")  # kind of message and its length in bytes


def read_arrow(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the rows of an Arrow file, or of the Arrow stream that Hugging Face data sets write.

    The child process holds the whole file in memory.
    """
    row = 0
    for kind, text in _messages(stream, name, options.field):
        if kind == b"T":
            row += 1
            yield document(text)
        elif kind == b"B":
            row += 1
            log.bad_record(f"{name}, row {row}", f"{text} instead of text", "fill in the value")
        elif kind == b"C":
            raise missing_column(name, options.field, text.split("\n"))
        else:
            raise FormatError(f"{name}: could not be read ({text})", hint="download or write the file again")


def _messages(stream: IO[bytes], name: str, field: str) -> Iterator[tuple[bytes, str]]:
    """Yield the messages of the child process until it reports the end of the file."""
    # The script imports polars only; -P keeps its folder off the path, on which its siblings could shadow packages.
    command = [sys.executable, "-P", str(WORKER), field]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with _as_file(stream) as file, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=errors, env=environment)
        output = child.stdout
        if output is None:
            raise FormatError(f"{name}: the reader has no output")
        try:
            while len(header := output.read(HEADER.size)) == HEADER.size:
                kind, length = HEADER.unpack(header)
                if kind == b"E":
                    return
                yield kind, output.read(length).decode("utf-8", "replace")
            errors.seek(0)
            reason = errors.read().decode("utf-8", "replace").strip().partition("\n")[0] or f"exit code {child.wait()}"
            raise FormatError(
                f"{name}: the Arrow reader stopped ({reason[:200]})", hint="the file is damaged: download it again"
            )
        finally:
            child.kill()
            output.close()
            child.wait()


@contextmanager
def _as_file(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield a file of the operating system with the bytes of the stream."""
    try:
        stream.fileno()
    except OSError:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
            copy.seek(0)
            yield copy
    else:
        yield stream
