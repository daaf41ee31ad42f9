"""Arrow files, read in a child process: damaged metadata can abort the Arrow reader of polars and its process."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from evenhand.corpus.counting.text_stream import document
from evenhand.corpus.readers.arrow_batches import ArrowBatches
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.records import missing_column
from evenhand.corpus.readers.text import TextOptions
from evenhand.errors import FormatError
from evenhand.record_limit import record_too_long

WORKER = Path(__file__).with_name("arrow_worker.py")
HEADER = struct.Struct("<cQ")  # kind of message and its length in bytes
LENGTH = struct.Struct("<Q")


def read_arrow(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield the rows of an Arrow file, or of the Arrow stream that Hugging Face data sets write.

    One record batch is in memory at a time.
    """
    row = 0
    for kind, text in _messages(ArrowBatches(stream, name, options.max_record), name, options):
        row += kind in (b"T", b"B", b"L")
        where = f"{name}, row {row}"
        if kind == b"T":
            yield document(text)
        elif kind == b"B":
            log.bad_record(where, f"{text} instead of text", "fill in the value")
        elif kind == b"L":
            error = record_too_long(where, options.max_record)
            log.bad_record(where, error.message.removeprefix(f"{where}: "), error.hint)
        elif kind == b"C":
            raise missing_column(name, options.field, text.split("\n"))
        else:
            raise FormatError(f"{name}: could not be read ({text})", hint="download or write the file again")


def _messages(batches: ArrowBatches, name: str, options: TextOptions) -> Iterator[tuple[bytes, str]]:
    """Send each batch to the child process and yield its messages."""
    # The script imports polars only; -P keeps its folder off the path, on which its siblings could shadow packages.
    command = [sys.executable, "-P", str(WORKER), options.field, str(options.max_record)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment)
        if child.stdin is None or child.stdout is None:
            raise FormatError(f"{name}: the reader has no input or output")
        try:
            for batch in batches:
                child.stdin.write(LENGTH.pack(len(batch)))
                child.stdin.write(batch)
                child.stdin.flush()
                yield from _answers(child.stdout)
        except (BrokenPipeError, EOFError) as error:
            errors.seek(0)
            reason = errors.read().decode("utf-8", "replace").strip().partition("\n")[0] or f"exit code {child.wait()}"
            raise FormatError(
                f"{name}: the Arrow reader stopped ({reason[:200]})", hint="the file is damaged: download it again"
            ) from error
        finally:
            child.kill()
            child.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            child.wait()


def _answers(output: IO[bytes]) -> Iterator[tuple[bytes, str]]:
    """Yield the messages about one batch."""
    while len(header := output.read(HEADER.size)) == HEADER.size:
        kind, length = HEADER.unpack(header)
        if kind == b"E":
            return
        yield kind, output.read(length).decode("utf-8", "replace")
    raise EOFError
