"""Read the plain-text records of a web archive (WET)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from evenhand.corpus.counting.text_stream import document
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.text import BLOCK, TextOptions, decode
from evenhand.errors import FormatError, counted, shown
from evenhand.files import record_too_long

HEADER_LINE, HEADER_LINES = 1 << 16, 1000  # longest header line and most lines of a header
DIGITS = 18  # of a Content-Length


def read_warc(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield one document for each `conversion` record; records of other types (requests, HTML) are not plain text."""
    texts = records = 0
    while headers := _read_headers(stream, name):
        records += 1
        where = f"{name}, record {records}"
        length = _content_length(headers, where)
        if headers.get("warc-type") != "conversion":
            _skip_body(stream, length, where)
            continue
        texts += 1
        if length > options.max_record:
            error = record_too_long(where, options.max_record)
            log.bad_record(where, error.message.removeprefix(f"{where}: "), error.hint)
            _skip_body(stream, length, where)
            continue
        body = stream.read(length)
        _check_whole(len(body), length, where)
        yield document(decode(body, where, options.encoding_errors))
    if records and not texts:
        raise FormatError(
            f"{name}: none of {counted(records, 'record')} is plain text", hint="use the WET files of the crawl"
        )


def _read_headers(stream: IO[bytes], name: str) -> dict[str, str]:
    line = stream.readline(HEADER_LINE)
    while line in (b"\r\n", b"\n"):
        line = stream.readline(HEADER_LINE)
    if not line:
        return {}
    if not line.startswith(b"WARC/"):
        raise FormatError(f"{name}: expected a record, found {line[:20]!r}", hint="check that this is a web archive")
    headers = {"": ""}
    for _ in range(HEADER_LINES):
        line = stream.readline(HEADER_LINE)
        if line in (b"\r\n", b"\n", b""):
            return headers
        if not line.endswith(b"\n"):
            break
        key, _, value = line.decode("utf-8", "replace").partition(":")
        headers[key.strip().lower()] = value.strip()
    raise FormatError(f"{name}: the header of a record has no end", hint="download the archive again")


def _content_length(headers: dict[str, str], where: str) -> int:
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        reason = f"Content-Length {shown(text)} is not a number of bytes" if text else "no Content-Length"
        raise FormatError(f"{where}: {reason}", hint="download the archive again")
    return int(text)


def _skip_body(stream: IO[bytes], length: int, where: str) -> None:
    done = 0
    while done < length and (block := stream.read(min(BLOCK, length - done))):
        done += len(block)
    _check_whole(done, length, where)


def _check_whole(size: int, length: int, where: str) -> None:
    if size < length:
        raise FormatError(f"{where}: {size} of {length} bytes", hint="the archive is truncated: download it again")
