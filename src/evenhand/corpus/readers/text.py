"""Plain text, and the decoding that all readers share."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from evenhand.corpus.pieces import END
from evenhand.corpus.readers.account import Account
from evenhand.errors import FormatError

BLOCK = 1 << 20


@dataclass(frozen=True)
class How:
    """The choices of a reading: what is a document, which field holds its text, what happens to broken UTF-8."""

    documents: str = "file"
    field: str = "text"
    encoding_errors: str = "strict"
    at_start: bool = True  # where a byte order mark may stand; elsewhere its bytes are text like any other


def read_text(stream: IO[bytes], name: str, how: How, account: Account) -> Iterator[str]:
    """The whole file as one document, or one document a line; never more than a block in memory."""
    open_document = True  # so that an empty file is an empty document when documents are files
    for block in _decoded(stream, name, how):
        text = block.replace("\n", END) if how.documents == "line" else block
        yield text
        open_document = how.documents == "file" or not text.endswith(END)
    if open_document:
        yield END


def decode(line: bytes, where: str, errors: str) -> str:
    """A line or a field as text."""
    try:
        return line.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise broken(where, error) from error


def broken(where: str, error: UnicodeDecodeError) -> FormatError:
    """The error for bytes that are not UTF-8."""
    bad = error.object[error.start : error.start + 4].hex(" ")
    return FormatError(
        f"{where}: not valid UTF-8 (bytes {bad})",
        hint="convert the file, or read it with encoding_errors='replace' (--encoding-errors replace)",
    )


def _decoded(stream: IO[bytes], name: str, how: How) -> Iterator[str]:
    errors = how.encoding_errors
    decoder = codecs.getincrementaldecoder("utf-8-sig" if how.at_start else "utf-8")(errors)
    line = 1
    while True:
        block = stream.read(BLOCK)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise broken(f"{name}, line {line}", error) from error
        if END in text:
            if errors == "strict":
                raise FormatError(
                    f"{name}: holds a NUL byte, so that it is no UTF-8 text",
                    hint="convert UTF-16 to UTF-8; for stray NULs use encoding_errors='replace'",
                )
            text = text.replace(END, " ")
        line += text.count("\n")
        if text:
            yield text
        if not block:
            return
