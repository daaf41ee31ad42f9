"""Articles and records of archives at the limits of what is read."""

import io

import pytest

from evenhand.corpus.readers import archives as module
from evenhand.corpus.readers.archives import plain, read_mediawiki, read_warc, unescape
from evenhand.corpus.readers.stream import ReadLog
from evenhand.corpus.readers.text import TextOptions
from evenhand.errors import FormatError


def read(reader, raw, **options):
    log = ReadLog(options.get("skip_bad", False))
    return list(reader(io.BytesIO(raw), "f", TextOptions(**options), log)), log


def page(title, text, tag="<text>", end="</text>"):
    return f"<page>\n<title>{title}</title>\n{tag}{text}{end}\n</page>\n"


def wiki(*pages, **options):
    documents, log = read(read_mediawiki, "".join(pages).encode(), **options)
    return [document.removesuffix("\0") for document in documents], log


def test_only_articles_count():
    space = '<namespace key="-2" case="x">Media talk</namespace>\n<namespace key="14">Rubrik</namespace>\n<namespace key="0" />\n'
    pages = [
        page("A &amp; B", "one"),
        page("Media talk:A", "talk"),
        page("Rubrik:A", "a category"),
        page("Help:A", "help"),
        page("Title: not a space", "two"),
        page("Old", " #Redirect [[A]]"),
        page("Old", "not a #redirect"),
        page("Empty", "", tag="<text bytes='0' />", end=""),
        page("Attributes", "three", tag='<text bytes="5" xml:space="preserve">'),
    ]
    found, log = wiki(space, *pages)
    assert found == ["one", "two", "not a #redirect", "", "three"]
    assert log.bad_records == 0


def test_an_article_ends_at_its_tag_or_with_the_file():
    found, _ = wiki(page("A", "one\ntwo </text>ignored\n"), page("B", "three\nfour", end=""))
    assert found == ["one\ntwo ", "three\nfour\n \n"]
    assert wiki("<title>A</title><text>not seen</text>\n")[0] == []
    assert wiki("<title>A\n<text>no title</text>\n")[0] == ["no title"]


@pytest.mark.parametrize("end", ["", "</text>"])
def test_an_article_may_be_as_long_as_the_limit(end):
    """The lines before the one with the closing tag count: ab and cd with their line ends."""
    text = "<title>A</title>\n<text>ab\ncd\n" + ("e" if end else "") + end
    documents = list(module._articles(iter(text.splitlines(keepends=True)), "f", 6, ReadLog(True)))
    assert documents == ["ab\ncd\n" + ("e" if end else "") + "\0"]
    log = ReadLog(True)
    documents = list(module._articles(iter(text.splitlines(keepends=True)), "f", 5, log))
    assert documents == []
    assert log.first_bad == ["f, article 'A': a record or word is longer than 5 bytes"]
    with pytest.raises(FormatError, match="f, article 'A': a record or word is longer than 5 bytes"):
        list(module._articles(iter(text.splitlines(keepends=True)), "f", 5, ReadLog()))


@pytest.mark.parametrize(
    ("markup", "left"),
    [
        ("a<!-- b -- c -->d", "a d"),
        ("a<!-- b", "a "),
        ("a<ref>b</ref >c", "a c"),
        ("a<REF name=x>b</Ref>c", "a c"),
        ("a<ref name=x/>b", "a b"),
        ("a<ref>b", "a b"),
        ("a<ref>b</ref><ref>c</ref>d", "a  d"),
        ("a<ref>b<ref>c</ref>d<math>e</math>f", "a d f"),
        ("a<math>b<ref>c</math>d</ref>e", "a d e"),
        ("a<gallery>b<ref>c<math>d</math>e", "a b c e"),
        ("a<references/>b", "a b"),
        ("a{{b{{c}}d}}e{{f", "a e{{f"),
        ("[[a|b|c]]", "c"),
        ("[[a [[b]] c]]", "a b c"),
        ("[[ File:x|y]]z", " z"),
        ("[[file:x|y]]z", " z"),
        ("[[simple:x]]z", " z"),
        ("[[zh-min-nan:x]]z", " z"),
        ("[[abcd:x]]z", "abcd:xz"),
        ("[[:x]]z", ":xz"),
        ("[[]]z", "z"),
        ("a [mailto:b c d] e", "a c d e"),
        ("a [https://b.c] d", "a  d"),
        ("a ftp://b.c|d", "a  |d"),
        ("a''b'''c'''''d'e", "abcd'e"),
        ("a&amp;lt;b&#99;", "a&lt;bc"),
        ("a\n | b\nc", "a\n\nc"),
        ("a\n:{| b\n|}c\nd", "a\n c\nd"),
        ("a\n{|\nb\n{|\nc\n |}\nd\n|}\ne", "a\n \ne"),
        ("a\n{|\nb\n{|\nc\n|}\nd", "a\n\nb\n \nd"),
        ("|}\na", "\na"),
        ("{|\na", "\na"),
        ("{|\na\n|}", " "),
    ],
)
def test_markup_becomes_text(markup, left):
    assert plain(markup) == left


def test_templates_and_links_are_followed_twenty_deep():
    for levels, rest in ((20, ""), (21, "{{}}")):
        assert plain("{{" * levels + "}}" * levels).replace(" ", "") == rest
    assert plain("[[a" * 20 + "]]" * 20) == "a" * 20
    assert plain("[[a" * 21 + "]]" * 21) == "[[" + "a" * 21 + "]]"


def test_references_to_no_character_are_a_space():
    assert unescape("a&#123456789;b&#x123456789b&lt;c") == "a b <c"
    assert unescape("a&#00000099;b") == "acb"
    assert unescape("a < b") == "a < b"


def record(body, kind="conversion", length=None, ending="\r\n\r\n", extra=""):
    size = len(body) if length is None else length
    return f"WARC/1.0\r\nWARC-Type: {kind}\r\n{extra}Content-Length: {size}\r\n\r\n{body}{ending}".encode()


def test_each_conversion_is_a_document():
    raw = record("info", "warcinfo") + record("one\ntwo") + record("", ending="\n\n") + record("three", ending="")
    assert read(read_warc, raw)[0] == ["one\ntwo\0", "\0", "three\0"]
    assert read(read_warc, b"")[0] == []
    assert read(read_warc, b"\r\n\n")[0] == []


def test_an_archive_without_plain_text_says_so():
    with pytest.raises(FormatError, match="f: none of 2 records is plain text"):
        read(read_warc, record("a", "request") + record("b", "response"))


def test_a_record_may_be_as_long_as_the_limit():
    raw = record("abcde") + record("abcdef") + record("ab")
    documents, log = read(read_warc, raw, max_record=5, skip_bad=True)
    assert documents == ["abcde\0", "ab\0"]
    assert log.first_bad == ["f, record 2: a record or word is longer than 5 bytes"]
    with pytest.raises(FormatError, match="f, record 2: a record or word"):
        read(read_warc, raw, max_record=5)


@pytest.mark.parametrize("kind", ["conversion", "request"])
def test_a_truncated_record_names_its_bytes(monkeypatch, kind):
    monkeypatch.setattr(module, "BLOCK", 2)
    with pytest.raises(FormatError, match="f, record 2: 5 of 6 bytes"):
        read(read_warc, record("a") + record("abcde", kind, 6, ""))
    assert read(read_warc, record("a") + record("abcde", "request", 5, ""))[0] == ["a\0"]
    assert read(read_warc, record("abcde", "request") + record("b"))[0] == ["b\0"]


def test_a_header_is_limited(monkeypatch):
    monkeypatch.setattr(module, "HEADER_LINES", 4)
    monkeypatch.setattr(module, "HEADER_LINE", 40)
    assert read(read_warc, record("a", extra="X: y\r\n"))[0] == ["a\0"]
    for extra in ("X: y\r\n" * 2, f"X: {'y' * 40}\r\n"):
        with pytest.raises(FormatError, match="f: the header of a record has no end"):
            read(read_warc, record("a", extra=extra))
    assert read(read_warc, record("a", extra=f"X: {'y' * 35}\r\n"))[0] == ["a\0"]
    with pytest.raises(FormatError, match=r"f: expected a record, found b'WXRC/1\.0"):
        read(read_warc, b"WXRC/1.0\r\n" + b"x" * 30)
    with pytest.raises(FormatError, match=r"f: expected a record, found b'xxxxxxxxxxxxxxxxxxxx'\n"):
        read(read_warc, b"x" * 30)


@pytest.mark.parametrize("length", ["-1", "1.5", "²", "1" * 19, "a"])
def test_a_length_is_a_number_of_bytes(length):
    with pytest.raises(FormatError, match=r"f, record 1: Content-Length .* is not a number of bytes"):
        read(read_warc, record("a", length=length))


def test_a_length_of_eighteen_digits_is_one():
    with pytest.raises(FormatError, match=f"f, record 1: 0 of {'9' * 18} bytes"):
        read(read_warc, record("", "request", "9" * 18, ""))
    with pytest.raises(FormatError, match="f, record 1: no Content-Length"):
        read(read_warc, b"WARC/1.0\r\nWARC-Type: conversion\r\n\r\na")
