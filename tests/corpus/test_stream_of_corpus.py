"""The stream of documents in pieces, and the log of what was skipped."""

import pytest

from evenhand.corpus.readers.stream import (
    BREAKS,
    END,
    ReadLog,
    cut,
    document,
    end_of_words,
    no_words_error,
    with_skip_hint,
)
from evenhand.errors import FormatError, InputMissingError


def test_a_document_holds_no_end_but_its_own():
    assert document(f"a{END}b") == f"a b{END}"


@pytest.mark.parametrize(
    ("fragments", "size", "expected"),
    [
        ([], 4, []),
        (["abcd efgh "], 4, ["abcd ", "efgh "]),  # more than twice the size: divided
        (["ab cdef "], 4, ["ab cdef "]),
        (["ab "], 6, ["ab "]),  # half the size, at the end of a word: as it is
        (["ab "], 7, ["ab "]),
        (["a ", "b ", "c "], 5, ["a b c "]),
        (["a ", "b ", "c "], 4, ["a ", "b ", "c "]),
        (["a ", "bcde f"], 4, ["a ", "bcde ", "f"]),
        (["a ", "bcde f"], 5, ["a bcde ", "f"]),
        (["abc", "def", "g h"], 4, ["abcdefg h"]),
        (["abc", "def", "g hijk lm"], 4, ["abcdefg hijk ", "lm"]),
        (["ab", "c ", "d"], 2, ["abc ", "d"]),  # looked at again with twice the length
        (["abcd", "efgh", "i j", "kl "], 4, ["abcdefghi jkl "]),
        (["abcdefgh"], 4, ["abcdefgh"]),
        (["abcdefghi"], 4, ["abcdefghi"]),
        (["x abcdefgh"], 4, ["x ", "abcdefgh"]),
        ([f"a{END}", f"b{END}"], 2, [f"a{END}", f"b{END}"]),
        (["a\nb\tc"], 5, ["a\nb\t", "c"]),
    ],
)
def test_pieces_end_behind_words(fragments, size, expected):
    assert list(cut(fragments, size)) == expected


@pytest.mark.parametrize("text", ["", "a", "a ", " a", "a b\nc", "a\nb c", f"a{END}b", "a\tb", "a b ", "\n"])
def test_the_end_of_words_is_behind_the_last_break(text):
    assert end_of_words(text) == 1 + max(text.rfind(mark) for mark in BREAKS)


def test_a_log_counts_all_and_lists_the_first():
    log = ReadLog(skip_bad=True)
    for number in range(25):
        log.bad_record(f"f, line {number}", "no text", "repair it")
    assert log.bad_records == 25
    assert log.first_bad == [f"f, line {number}: no text" for number in range(20)]
    other = ReadLog(skip_bad=True)
    other.bad_record("g, line 1", "no text", "")
    other.bad_file("g", "g: damaged", 4)
    other.add(log)
    assert other.bad_records == 26
    assert other.first_bad == ["g, line 1: no text", *log.first_bad[:19]]
    assert other.to_dict() == {
        "bad_files": [{"path": "g", "reason": "g: damaged", "documents_before": 4}],
        "bad_records": 26,
        "first_bad_records": other.first_bad,
    }
    assert other.summary() == ", 26 records and the rest of 1 file skipped (the first: g: damaged)"
    assert log.summary() == ", 25 records skipped (the first: f, line 0: no text)"
    files = ReadLog(True)
    files.bad_file("g", "g: damaged", 0)
    assert files.summary() == ", the rest of 1 file skipped (the first: g: damaged)"
    assert ReadLog().summary() == ""


def test_bad_input_is_an_error_unless_it_is_skipped():
    with pytest.raises(FormatError) as error:
        ReadLog().bad_record("f, line 1", "no text", "repair it")
    assert error.value.message == "f, line 1: no text"
    assert error.value.hint == "repair it; or `skip_bad=True` to skip and count it"


@pytest.mark.parametrize("kind", [FormatError, InputMissingError])
def test_the_hint_to_skip_is_given_once(kind):
    skip = "`skip_bad=True` to skip and count it"
    assert with_skip_hint(kind("m")).hint == skip
    once = with_skip_hint(kind("m", hint="repair it"))
    assert (type(once), once.message, once.hint) == (kind, "m", f"repair it; or {skip}")
    assert with_skip_hint(once).hint == once.hint


@pytest.mark.parametrize(
    ("files", "named"),
    [((), "the texts"), (("a",), "a"), (("a", "b", "c"), "a, b, c"), (("a", "b", "c", "d", "e"), "a, b, c and 2 more")],
)
def test_a_corpus_without_words_names_its_files(files, named):
    class Source:
        pass

    source = Source()
    if files:
        source.files = files
    log = ReadLog(True)
    assert no_words_error(source, log).message == f"{named}: no word was read"
    log.bad_record("a, line 1", "no text", "")
    assert no_words_error(source, log).message.endswith(
        "no word was read, 1 record skipped (the first: a, line 1: no text)"
    )
