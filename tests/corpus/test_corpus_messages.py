"""Messages: unlisted names are counted, and nouns agree with their number."""

import pytest

from evenhand.corpus.readers.stream import ReadLog
from evenhand.errors import UnknownNameError, counted, unknown_name
from evenhand.words import pairs


def test_an_unknown_list_says_how_many_there_are():
    with pytest.raises(UnknownNameError, match=r"there is no list of pairs 'zzzzzz'\n.*known: .*, and \d+ more$"):
        pairs("zzzzzz")
    named = [f"m{i:02}" for i in range(15)]
    assert str(unknown_name("measure", "zzzzzz", named)).endswith("m10, m11, and 3 more")
    assert str(unknown_name("measure", "zzzzzz", named[:12])).endswith("m10, m11")


def test_singular_and_plural():
    assert (counted(0, "file"), counted(1, "file"), counted(1200, "file")) == ("0 files", "1 file", "1,200 files")


def test_what_was_leave_one_out():
    log = ReadLog(skip_bad=True)
    assert log.summary() == ""
    log.bad_file("a.txt", "a.txt: broken", 3)
    assert log.summary() == ", the rest of 1 file skipped (the first: a.txt: broken)"
    log.bad_record("b.jsonl, line 1", "no text", "")
    log.bad_record("b.jsonl, line 2", "no text", "")
    assert log.summary() == ", 2 records and the rest of 1 file skipped (the first: a.txt: broken)"
