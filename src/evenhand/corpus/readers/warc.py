"""The text records of a web archive (WET): plain text that a crawler drew out of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from evenhand.corpus.counting.text_stream import document
from evenhand.corpus.readers.read_log import Account
from evenhand.corpus.readers.text import How, decode
from evenhand.errors import FormatError, counted


def read_warc(stream: IO[bytes], name: str, how: How, account: Account) -> Iterator[str]:
    """One document for each `conversion` record; records of other kinds (requests, HTML) hold no plain text."""
    texts = records = 0
    while headers := _headers(stream, name):
        records += 1
        body = _body(stream, headers, f"{name}, record {records}")
        if headers.get("warc-type") == "conversion":
            texts += 1
            yield document(decode(body, f"{name}, record {records}", how.encoding_errors))
    if records and not texts:
        raise FormatError(
            f"{name}: not one of {counted(records, 'record')} is plain text",
            hint="use the WET files of the crawl, not the WARC",
        )


def _headers(stream: IO[bytes], name: str) -> dict[str, str]:
    line = stream.readline()
    while line in (b"\r\n", b"\n"):
        line = stream.readline()
    if not line:
        return {}
    if not line.startswith(b"WARC/"):
        raise FormatError(f"{name}: expected a record, found {line[:20]!r}", hint="is this a web archive?")
    headers = {"": ""}
    while (line := stream.readline()) not in (b"\r\n", b"\n", b""):
        key, _, value = line.decode("utf-8", "replace").partition(":")
        headers[key.strip().lower()] = value.strip()
    return headers


def _body(stream: IO[bytes], headers: dict[str, str], where: str) -> bytes:
    try:
        length = int(headers["content-length"])
    except (KeyError, ValueError) as error:
        raise FormatError(f"{where}: no length", hint="fetch the archive again") from error
    body = stream.read(length)
    if len(body) < length:
        raise FormatError(f"{where}: {len(body)} of {length} bytes", hint="the archive is cut off: fetch it again")
    return body
