"""Articles of a MediaWiki XML export (a Wikipedia dump, or enwik8), cleaned of markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import IO

from evenhand.corpus.counting.text_stream import document
from evenhand.corpus.readers.read_log import Account
from evenhand.corpus.readers.text import How, broken, text_lines

NAMESPACE = re.compile(r'<namespace key="-?\d+"[^>]*>([^<]+)</namespace>')
TITLE = re.compile(r"<title>(.*?)</title>")
TEXT = re.compile(r"<text\b[^>]*?(/?)>")
CLOSED = "</text>"
LONGEST_NEST = 20  # templates in templates; deeper ones are a mistake of their author

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# What stands between these tags is no running text.
ASIDE = re.compile(r"<(ref|math|gallery|timeline|code|pre|source|hiero)\b[^<>]*?(?:/>|>.*?</\1\s*>)", re.DOTALL | re.I)
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
TABLE = re.compile(r"^[ :]*\{\|(?:(?!^[ :]*\{\|).)*?^[ ]*\|\}", re.DOTALL | re.M)
TABLE_LINE = re.compile(r"^\s*(?:\{\||\|).*$", re.M)
LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
WEB_LINK = re.compile(r"\[(?:https?|ftp|mailto):[^\s\]]*\s*([^\]]*)\]")
ADDRESS = re.compile(r"(?:https?|ftp)://[^\s\]|<>]+")
QUOTES = re.compile(r"'{2,}")
LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?|simple")
NOT_ARTICLES = ("Image", "File", "Category", "Media", "Wikipedia", "Template", "Portal", "Help")


def read_mediawiki(stream: IO[bytes], name: str, how: How, account: Account) -> Iterator[str]:
    """One document for each article; redirects and pages of other namespaces (talk, templates, ...) are left out.

    A file that stops inside an article, as enwik8 does, counts up to there. One article is held at a time.
    """
    with text_lines(stream, how.encoding_errors, newline="\n") as lines:
        try:
            yield from _articles(lines)
        except UnicodeDecodeError as error:
            raise broken(name, error) from error


def _articles(lines: Iterator[str]) -> Iterator[str]:
    spaces = set(NOT_ARTICLES)
    title = ""
    for line in lines:
        if found := NAMESPACE.search(line):
            spaces.add(found[1])
        elif found := TITLE.search(line):
            title = html.unescape(found[1])
        elif found := TEXT.search(line):
            text = "" if found[1] else _rest(line[found.end() :], lines)
            if title.partition(":")[0] not in spaces and not text.lstrip().lower().startswith("#redirect"):
                yield document(plain(html.unescape(text), spaces))


def _rest(first: str, lines: Iterator[str]) -> str:
    """The text up to its closing tag."""
    parts, line = [], first
    while CLOSED not in line:
        parts.append(line)
        following = next(lines, None)
        if following is None:
            return "".join(parts)
        line = following
    return "".join(parts) + line.partition(CLOSED)[0]


def plain(text: str, namespaces: set[str] | frozenset[str] = frozenset(NOT_ARTICLES)) -> str:
    """Wiki markup as running text.

    Left out: comments, references, formulas, galleries, templates, tables, images and their captions, categories, links
    to other languages, and addresses. A link becomes its text. Headings, list items and the text in other tags stay.
    """
    text = ASIDE.sub(" ", COMMENT.sub(" ", text))
    text = _inside_out(TEMPLATE, text)
    text = _inside_out(TABLE, text)
    text = TABLE_LINE.sub("", text)
    for _ in range(LONGEST_NEST):
        text, changed = LINK.subn(lambda link: _shown(link[1], namespaces), text)
        if not changed:
            break
    text = ADDRESS.sub(" ", WEB_LINK.sub(r"\1", text))
    return html.unescape(QUOTES.sub("", TAG.sub(" ", text)))


def _inside_out(pattern: re.Pattern[str], text: str) -> str:
    for _ in range(LONGEST_NEST):
        text, changed = pattern.subn(" ", text)
        if not changed:
            break
    return text


def _shown(link: str, namespaces: set[str] | frozenset[str]) -> str:
    """What a reader sees of a link: its last part, nothing for images, categories and other languages."""
    target, _, _ = link.partition("|")
    space, colon, _ = target.strip().partition(":")
    if colon and (space[:1].upper() + space[1:] in namespaces or LANGUAGE.fullmatch(space)):
        return " "
    return link.rpartition("|")[2]
