"""The table of runs: its keys, its room, and the lists of ids."""

import numpy as np
import pytest

from evenhand.corpus.counting import token_reader as module
from evenhand.corpus.counting.token_reader import LONGEST, UNKNOWN, IdLists, RunTable, TokenReader, _keys_of
from evenhand.corpus.counting.tokens import (
    PADDING,
    Vocabulary,
    are_between_words,
    are_blanks,
    find_runs,
    make_tokeniser,
)
from evenhand.corpus.readers.stream import END

FACTOR = 0x9E3779B97F4A7C15


def runs_of(words):
    return find_runs(b" ".join(words), are_blanks)


def key(run):
    """Return the key of a run by its definition."""
    if len(run) <= 8:
        return int.from_bytes(run, "little")
    mixed = 0
    for start in (0, 8, 16):
        mixed = (mixed ^ int.from_bytes(run[start : start + 8], "little")) * FACTOR % (1 << 64)
    return mixed >> 8 | 0xFF << 56


LENGTHS = (1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 40)


def test_the_key_of_a_run_is_made_of_its_bytes():
    words = [bytes(97 + (at * 7 + size) % 26 for at in range(size)) for size in LENGTHS]
    keys, long, columns = _keys_of(runs_of(words))
    assert keys.tolist() == [key(word) for word in words]
    assert long.tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    for place, number in enumerate(long):
        padded = words[number][:24].ljust(24, b"\0")
        assert columns[:, place].tolist() == [int.from_bytes(padded[at : at + 8], "little") for at in (0, 8, 16)]


def test_the_slot_of_a_key_is_the_upper_part_of_its_product():
    table = RunTable()
    keys = np.array([0, 1, 97, 1 << 40, (1 << 64) - 1], dtype=np.uint64)
    assert table._slots_of(keys).tolist() == [int(k) * FACTOR % (1 << 64) >> 50 for k in keys]


def test_different_runs_are_found_in_order():
    long, longer = b"y" * LONGEST, b"z" * (LONGEST + 1)
    words = [b"b", b"a", long, b"b", longer, long, b"x" * 9, b"x" * 8, longer, b"x" * 9, b"a"]
    first, inverse = RunTable().distinct(runs_of(words))
    assert first.tolist() == [0, 1, 2, 4, 6, 7, 8]
    assert inverse.tolist() == [0, 1, 2, 0, 3, 2, 4, 5, 6, 4, 1]


def test_long_runs_with_one_key_are_told_apart(monkeypatch):
    monkeypatch.setattr(module, "_MULTIPLIER", np.uint64(0))
    words = [b"a" * 9, b"b" * 9, b"a" * 9, b"b" * 9, b"c"]
    first, inverse = RunTable().distinct(runs_of(words))
    assert first.tolist() == [0, 1, 3, 4]
    assert inverse.tolist() == [0, 1, 0, 2, 3]
    table = RunTable()
    table.add(runs_of(words[:2]), np.array([4, 5]))
    assert table.find(runs_of(words)).tolist() == [4, UNKNOWN, 4, UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("collide", [False, True])
def test_a_table_grows_to_twice_its_content_and_is_then_full(monkeypatch, collide):
    monkeypatch.setattr(module, "FEWEST_SLOTS", 3)
    monkeypatch.setattr(module, "MOST_SLOTS", 5)
    if collide:
        monkeypatch.setattr(module, "_MULTIPLIER", np.uint64(0))
    words = [b"w%d" % number for number in range(20)]
    table = RunTable()
    assert (table._bits, table._used, table._listed) == (3, 0, 0)
    added = 0
    for size, bits in ((1, 3), (4, 3), (5, 4), (8, 4), (9, 5), (16, 5), (20, 5)):
        table.add(runs_of(words[added:size]), np.arange(added, size))
        added = size
        assert (table._bits, table._used) == (bits, min(size, 16))
        assert table._listed == (table._used - 1 if collide else table._listed)
        assert np.count_nonzero(table._numbers != UNKNOWN) == table._used
        assert len(table._keys) == len(table._numbers) == table._columns.shape[1] == (1 << bits) * 3 // 2 + 1
        known = [number if number < min(size, 16) else UNKNOWN for number in range(20)]
        assert table.find(runs_of(words)).tolist() == known
        listed = table._keys[table._list()]
        assert listed.tolist() == sorted(listed.tolist())
    table.add(runs_of(words[:3]), np.array([7, 8, 9]))
    assert table.find(runs_of(words[:3])).tolist() == [0, 1, 2]


def test_a_table_may_skip_sizes_when_it_grows(monkeypatch):
    monkeypatch.setattr(module, "FEWEST_SLOTS", 2)
    table = RunTable()
    table.add(runs_of([b"w%d" % number for number in range(17)]), np.arange(17))
    assert (table._bits, table._used) == (6, 17)
    assert RunTable()._bits == 2


def test_lists_stand_in_place_of_negative_numbers():
    none = np.empty(0, dtype=np.intp)
    lists = IdLists(none, none, none).followed_by(np.array([5, 6, 7]), np.array([2, 0, 1]))
    assert [part.tolist() for part in lists] == [[5, 6, 7], [0, 2, 2], [2, 0, 1]]
    more = lists.followed_by(np.array([8, 9]), np.array([2]))
    assert [part.tolist() for part in more] == [[5, 6, 7, 8, 9], [0, 2, 2, 3], [2, 0, 1, 2]]
    assert more.expand(np.array([1, -2, -5, 2, -3, -4, -2])).tolist() == [1, 5, 6, 8, 9, 2, 7, 5, 6]
    whole = np.array([3, 4])
    assert more.expand(whole) is whole


@pytest.mark.parametrize(("most", "kept"), [(0, 0), (1, 1), (3, 1), (4, 2), (6, 2), (7, 3)])
def test_lists_are_kept_as_long_as_there_is_room(monkeypatch, most, kept):
    """Each of these words has two parts: a list of two ids."""
    monkeypatch.setattr(module, "MOST_LISTED", most)
    reader = TokenReader(make_tokeniser("words"), Vocabulary((END,)))
    for text in ("a—b", "c—d", "e—f"):
        assert len(reader.ids(text)) == 2
    assert len(reader._lists.sizes) == kept
    assert reader._lists.ids.tolist() == reader._lists.ids[: 2 * kept].tolist()
    assert reader.ids("a—b c—d x e—f").tolist() == [1, 2, 3, 4, 7, 5, 6]


def test_runs_are_looked_up_a_few_at_first(monkeypatch):
    monkeypatch.setattr(module, "MOST_AT_A_TIME", 1 << 13)
    reader = TokenReader(make_tokeniser("whitespace"), Vocabulary((END,)))
    sizes = []
    of = reader._ids_of
    monkeypatch.setattr(reader, "_ids_of", lambda runs: sizes.append(len(runs.starts)) or of(runs))
    assert len(reader.ids("a " * 30_000)) == 30_000
    assert sizes == [4096, 8192, 8192, 8192, 1328]
    assert reader.ids("").tolist() == []
    assert reader.ids(f"a{END}b").tolist() == [1, 0, 2]


def test_runs_of_any_text_end_with_padding():
    for text in (b"", b"a", b" a  b ", b"a\0b", b"\0\0"):
        found = find_runs(text, are_blanks)
        assert found.contents() == text.replace(b"\0", b" \0 ").split()
        assert found.text.endswith(bytes(PADDING))
        assert len(found.text) - PADDING >= max((found.starts + found.lengths).max(initial=0), 1)


def test_separators_are_the_ascii_characters_that_are_in_no_word():
    every = np.arange(256, dtype=np.uint8)
    blanks = {byte for byte in range(128) if chr(byte).isspace()}
    assert set(np.flatnonzero(are_blanks(every)).tolist()) == blanks
    words = {byte for byte in range(128) if chr(byte).isalnum() or chr(byte) in "_'"}
    assert set(np.flatnonzero(are_between_words(every)).tolist()) == set(range(128)) - words - {0}
