"""Archives of web pages: articles of a MediaWiki export (a Wikipedia dump, enwik8), and plain-text web archives (WET).

Every pattern takes linear time, also on markup that is never closed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import IO

from evenhand.corpus.readers.stream import ReadLog, document
from evenhand.corpus.readers.text import BLOCK, TextOptions, decode, invalid_utf8, text_lines
from evenhand.errors import FormatError, counted, shown
from evenhand.files import record_too_long

NAMESPACE = re.compile(r'<namespace key="-?\d+"[^<>]*>([^<]+)</namespace>')
TITLE, TITLE_END = "<title>", "</title>"
TEXT = re.compile(r"<text\b[^<>]*>")
TEXT_END = "</text>"
MAX_NESTING = 20  # templates in templates; deeper nesting is an error of the author

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# What stands between these tags is not running text.
ASIDES = ("ref", "math", "gallery", "timeline", "code", "pre", "source", "hiero")
ASIDE = re.compile(rf"<({'|'.join(ASIDES)})\b[^<>]*>", re.I)
ASIDE_END = {name: re.compile(rf"</{name}\s*>", re.I) for name in ASIDES}
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
TABLE, TABLE_END = re.compile(r"[ :]*\{\|"), re.compile(r" *\|\}")
TABLE_LINE = re.compile(r"^[^\S\n]*(?:\{\||\|).*$", re.M)
LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
WEB_LINK = re.compile(r"\[(?:https?|ftp|mailto):[^\s\[\]]*+\s*+([^\[\]]*+)\]")
ADDRESS = re.compile(r"(?:https?|ftp)://[^\s\]|<>]+")
QUOTES = re.compile(r"'{2,}")
LONG_REFERENCE = re.compile(r"&#[xX]?[0-9a-fA-F]{9,};?")  # no such character; `html` would convert the number
LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?|simple")
NOT_ARTICLES = ("Image", "File", "Category", "Media", "Wikipedia", "Template", "Portal", "Help")


def read_mediawiki(stream: IO[bytes], name: str, options: TextOptions, log: ReadLog) -> Iterator[str]:
    """Yield one document for each article, without redirects and pages of other namespaces (talk, templates, ...).

    A file that stops inside an article, as enwik8 does, counts up to there. One article is in memory at a time.
    """
    with text_lines(stream, name, options, newline="\n") as lines:
        try:
            yield from _articles(lines, name, options.max_record, log)
        except UnicodeDecodeError as error:
            raise invalid_utf8(name, error) from error


def _articles(lines: Iterator[str], name: str, limit: int, log: ReadLog) -> Iterator[str]:
    namespaces = set(NOT_ARTICLES)
    title = ""
    for line in lines:
        if space := NAMESPACE.search(line):
            namespaces.add(space[1])
        elif (heading := _between(line, TITLE, TITLE_END)) is not None:
            title = unescape(heading)
        elif tag := TEXT.search(line):
            text = "" if tag[0].endswith("/>") else _article_text(line[tag.end() :], lines, limit)
            if text is None:
                error = record_too_long(name, limit)
                log.bad_record(f"{name}, article {title!r}", error.message.removeprefix(f"{name}: "), error.hint)
            elif title.partition(":")[0] not in namespaces and not text.lstrip().lower().startswith("#redirect"):
                yield document(plain(unescape(text), namespaces))


def _between(line: str, opening: str, closing: str) -> str | None:
    start = line.find(opening)
    end = line.find(closing, start) if start >= 0 else -1
    return line[start + len(opening) : end] if end >= 0 else None


def _article_text(first: str, lines: Iterator[str], limit: int) -> str | None:
    """Return the text up to its closing tag, or None if it is longer than the limit."""
    parts, line, length = [], first, 0
    while TEXT_END not in line:
        length += len(line)
        if length <= limit:
            parts.append(line)
        following = next(lines, None)
        if following is None:
            return "".join(parts) if length <= limit else None
        line = following
    return "".join(parts) + line.partition(TEXT_END)[0] if length <= limit else None


def plain(text: str, namespaces: set[str] | frozenset[str] = frozenset(NOT_ARTICLES)) -> str:
    """Return wiki markup as running text.

    Comments, references, formulas, galleries, templates, tables, images with captions, categories, links to other
    languages and addresses are removed. A link becomes its text. Headings, list items and text in other tags stay.
    """
    text = _remove_asides(COMMENT.sub(" ", text))
    for _ in range(MAX_NESTING):
        text, changed = TEMPLATE.subn(" ", text)
        if not changed:
            break
    text = TABLE_LINE.sub("", _remove_tables(text))
    for _ in range(MAX_NESTING):
        text, changed = LINK.subn(lambda link: _visible(link[1], namespaces), text)
        if not changed:
            break
    text = ADDRESS.sub(" ", WEB_LINK.sub(r"\1", text))
    return unescape(QUOTES.sub("", TAG.sub(" ", text)))


def unescape(text: str) -> str:
    """Replace character references; numbers too long for a character become a space."""
    return html.unescape(LONG_REFERENCE.sub(" ", text)) if "&" in text else text


def _remove_asides(text: str) -> str:
    """Replace references, formulas and the like by a space; an element that is never closed stays."""
    parts, position = [], 0
    unclosed: set[str] = set()  # a name without a closing tag from here on has none later either
    for tag in ASIDE.finditer(text):
        name = tag[1].lower()
        if tag.start() < position:
            continue
        end = tag.end()
        if not tag[0].endswith("/>"):
            closing = None if name in unclosed else ASIDE_END[name].search(text, end)
            if closing is None:
                unclosed.add(name)
                continue
            end = closing.end()
        parts += [text[position : tag.start()], " "]
        position = end
    return "".join([*parts, text[position:]])


def _remove_tables(text: str) -> str:
    """Replace tables by a space, inner tables with the outer ones; a table that is never closed stays."""
    parts: list[str] = []
    open_tables: list[int] = []  # number of parts before each open table
    position = 0
    while position < len(text):
        closing = TABLE_END.match(text, position) if open_tables else None
        if closing:
            del parts[open_tables.pop() :]
            parts.append(" ")
            position = closing.end()
            continue
        if TABLE.match(text, position):
            open_tables.append(len(parts))
        end = text.find("\n", position) + 1 or len(text)
        parts.append(text[position:end])
        position = end
    return "".join(parts)


def _visible(link: str, namespaces: set[str] | frozenset[str]) -> str:
    """Return the visible text of a link: its last part; a space for images, categories and other languages."""
    target, _, _ = link.partition("|")
    space, colon, _ = target.strip().partition(":")
    if colon and (space[:1].upper() + space[1:] in namespaces or LANGUAGE.fullmatch(space)):
        return " "
    return link.rpartition("|")[2]


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
