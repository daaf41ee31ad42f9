"""Plain text as it is cut into blocks, and the lines of parts of a file."""

import io

import pytest

from evenhand.corpus.readers import text as module
from evenhand.corpus.readers.stream import END, ReadLog
from evenhand.corpus.readers.text import (
    ByteSpan,
    TextOptions,
    _cut_at_breaks,
    decode,
    read_text,
    span_lines,
    split_file,
    text_lines,
)
from evenhand.errors import FormatError


class Blocks(io.BytesIO):
    """A stream that yields given blocks, and may fail behind them."""

    def __init__(self, *blocks, error=None):
        super().__init__()
        self.blocks, self.error = list(blocks), error

    def read1(self, size=-1):
        if self.blocks:
            return self.blocks.pop(0)
        if self.error:
            raise self.error
        return b""


def pieces(*blocks, at_start=True, **options):
    return list(read_text(Blocks(*blocks), "f", TextOptions(**options), ReadLog(), at_start=at_start))


def test_a_document_is_cut_behind_words():
    assert pieces(b"one two th", b"ree", b" four\nfi", b"ve") == ["one two ", "three four\n", "five", END]
    assert pieces(b"") == [END]
    assert pieces() == [END]
    assert pieces(b"a\tb") == ["a\t", "b", END]


def test_lines_are_documents():
    line = {"documents": "line"}
    assert pieces(b"one two th", b"ree\nfour\nfi", b"ve", **line) == [f"one two three{END}four{END}", "five", END]
    assert pieces(b"one\n", b"two\n", **line) == [f"one{END}", f"two{END}"]
    assert pieces(b"one\n", b"two", **line) == [f"one{END}", "two", END]
    assert pieces(**line) == [END]


def test_a_line_longer_than_a_block_is_passed_on_word_by_word(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10)
    line = {"documents": "line"}
    assert pieces(b"aaa bbb cc", b"c ddd\ne", **line) == [f"aaa bbb ccc ddd{END}", "e", END]
    assert pieces(b"aaa bbb ccc", b"c ddd\ne", **line) == ["aaa bbb ", f"cccc ddd{END}", "e", END]
    assert pieces(b"aaa bb", b"b ccc", b"c\n", **line) == ["aaa bbb ", f"cccc{END}"]
    assert pieces(b"aaa bb", b"b cc", b"c\n", **line) == [f"aaa bbb ccc{END}"]


def test_what_is_held_back_may_be_as_long_as_the_limit():
    def cut(*blocks, limit, by_line=False):
        return list(_cut_at_breaks(iter(blocks), by_line=by_line, limit=limit, name="f"))

    assert cut("abc", "de", limit=5) == ["abcde"]
    assert cut("x abc", "de", limit=5) == ["x ", "abcde"]
    for blocks, limit in ((("abc", "def"), 5), (("x abcdef",), 5)):
        with pytest.raises(FormatError, match="f: "):
            cut(*blocks, limit=limit)
    assert cut("a b c\nde", "f\n", limit=3, by_line=True) == ["a b c\n", "def\n"]
    with pytest.raises(FormatError, match="f: "):
        cut("a b c", limit=4, by_line=True)
    assert cut("a b c", limit=5, by_line=True) == ["a b c"]


@pytest.mark.parametrize("at_start", [True, False])
def test_a_byte_order_mark_stands_at_the_start_only(at_start):
    assert "".join(pieces(b"\xef\xbb\xbfa b", at_start=at_start)) == ("" if at_start else "\ufeff") + "a b" + END


def test_a_character_may_be_divided_between_blocks():
    raw = "naïve 東京".encode()
    assert "".join(pieces(*(raw[at : at + 1] for at in range(len(raw))))) == "naïve 東京" + END


def until_error(*blocks, **options):
    found = []
    each = read_text(Blocks(*blocks), "f", TextOptions(**options), ReadLog())
    while True:
        try:
            found.append(next(each))
        except FormatError as error:
            return found, error.message


def test_invalid_bytes_are_named_with_their_line_after_what_precedes_them():
    bad = "f, line 3: not valid UTF-8 (bytes ff 62 0a)"
    assert until_error(b"a\nb\nc \xffb\n") == (["a\nb\nc "], bad)
    assert until_error(b"a\n", b"b\n", b"c \xffb\n") == (["a\n", "b\n", "c "], bad)
    assert until_error(b"a\nb\nc \xffb\n", documents="line")[0] == [f"a{END}b{END}"]
    assert until_error(b"a b\xc3") == (["a "], "f, line 1: not valid UTF-8 (bytes c3)")
    assert pieces(b"a \xff b", encoding_errors="replace") == ["a \ufffd ", "b", END]


def test_a_nul_byte_is_damage_unless_it_is_replaced():
    found, message = until_error(b"a b\0c d")
    assert found == ["a "]
    assert message == "f: contains a NUL byte, so it is not UTF-8 text"
    assert pieces(b"a b\0c d", encoding_errors="replace") == ["a b c ", "d", END]


def test_lines_are_decoded_one_by_one():
    def lines(raw, errors="strict", newline="\n"):
        found = []
        with text_lines(io.BytesIO(raw), "f", TextOptions(encoding_errors=errors), newline=newline) as each:
            try:
                found.extend(each)
            except UnicodeDecodeError:
                found.append(None)
        return found

    assert lines(b"\xef\xbb\xbfa\n\xc3\xa9\nb") == ["a\n", "é\n", "b"]
    assert lines(b"a\nb\xff\nc") in (["a\n", None], ["a\n", "b", None])
    assert lines(b"a\nb\xff\nc", "replace") == ["a\n", "b\ufffd\n", "c"]
    stream = io.BytesIO(b"a\nb")
    with text_lines(stream, "f", TextOptions(), newline="\n"):
        pass
    assert not stream.closed


def test_a_field_is_decoded_or_named():
    assert decode(b"\xef\xbb\xbfa", "f, line 1", "strict") == "a"
    with pytest.raises(FormatError, match=r"f, line 1: not valid UTF-8 \(bytes ff fe fd fc\)"):
        decode(b"ab\xff\xfe\xfd\xfc\xfb", "f, line 1", "strict")


@pytest.mark.parametrize("block", [1, 2, 5, 1 << 20])
@pytest.mark.parametrize("data", [b"aaaa\nbb\ncccccccccc\nd\n", b"aaaa", b"\n\n\n", b"ab\ncd", b"a\nbcdefghij"])
def test_every_line_is_in_the_part_where_it_begins(monkeypatch, data, block):
    monkeypatch.setattr(module, "BLOCK", block)
    begins = [0, *(at + 1 for at, byte in enumerate(data) if byte == ord("\n") and at + 1 < len(data))]
    lines = data.splitlines(keepends=True)
    for start in range(len(data)):
        for stop in range(start + 1, len(data) + 1):
            own = [line for begin, line in zip(begins, lines, strict=True) if start <= begin < stop]
            assert span_lines(io.BytesIO(data), ByteSpan("f", start, stop)).read() == b"".join(own)


def test_a_file_is_split_into_equal_parts():
    assert split_file("f", 9, 3) == [ByteSpan("f", 0, 3), ByteSpan("f", 3, 6), ByteSpan("f", 6, 9)]
    assert split_file("f", 10, 9) == [ByteSpan("f", 0, 5), ByteSpan("f", 5, 10)]
    assert split_file("f", 9, 9) == [ByteSpan("f")]
    assert split_file("f", 1, 9) == [ByteSpan("f", 0, None)]
    assert ByteSpan("f", 1200, 1300).name == "f (from byte 1,200 on)"
    assert ByteSpan("f", 0, 1300).name == "f"
