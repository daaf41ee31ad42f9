"""Looking words up by their bytes gives the ids of tokenising the whole text, whatever the text."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.corpus.counting import token_reader
from evenhand.corpus.counting.token_reader import CAPITAL_SIGMA, LONGEST, UNKNOWN, RunTable, TokenReader
from evenhand.corpus.counting.tokens import Vocabulary, are_blanks, find_runs, make_tokeniser
from evenhand.corpus.readers.stream import BREAKS, END, cut, end_of_words

TOKENISERS = [make_tokeniser(name, lower=lower) for name in ("whitespace", "words") for lower in (False, True)]
PARTS = [
    *("the", "a", "The", "don't", "'s", "'", "’", "l’eau", "_", "-", "N", "<unk>", "\x01", "\x7f", "\ufffd", "\ufeff"),
    *("é", "e\u0301", "\u0301", "Σ", "ΑΣ", "ΑΣ.Β", "σ", "İ", "ſ", "ß", "東京", "。", "—", "“", "\u200b", "😀", "ＡＢ"),
    *("x" * size for size in (7, 8, 9, 16, 17, LONGEST, LONGEST + 1, 1000)),
    *("é" * size for size in (4, 5, 12, 13)),
    *(" ", "  ", "\n", "\r\n", "\t", "\v", "\x1c", "\x1f", "\x85", "\xa0", "\u2028", "\u3000", END, END + END),
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=40).map("".join),
    st.lists(st.sampled_from(PARTS), max_size=40).map(" ".join),
    st.text(max_size=60),
    st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "replace")),
)


def same_as_plain(tokeniser, pieces):
    plain, vocabulary = Vocabulary([END, "she"]), Vocabulary([END, "she"])
    reader = TokenReader(tokeniser, vocabulary)
    for piece in pieces:
        assert reader.ids(piece).tolist() == plain.ids(tokeniser(piece)).tolist()
    assert vocabulary.words.to_list() == plain.words.to_list()
    return reader


@pytest.mark.parametrize("tokeniser", TOKENISERS, ids=lambda tokeniser: f"{tokeniser.name}-{tokeniser.lower}")
@given(st.lists(TEXTS, max_size=3))
@settings(max_examples=40)
def test_ids_are_those_of_the_whole_text(tokeniser, pieces):
    same_as_plain(tokeniser, pieces)


@given(TEXTS)
def test_blanks_divide_as_str_split(text):
    vocabulary = Vocabulary([END])
    ids = TokenReader(make_tokeniser("whitespace"), vocabulary).ids(text)
    known = vocabulary.words.to_list()
    assert [known[i] for i in ids] == text.replace(END, f" {END} ").split()


@pytest.mark.parametrize("tokeniser", TOKENISERS, ids=lambda tokeniser: f"{tokeniser.name}-{tokeniser.lower}")
@pytest.mark.parametrize("seed", range(3))
def test_ids_are_the_same_if_all_keys_collide(monkeypatch, tokeniser, seed):
    """With a factor of 0 all runs have the same slot, and all long runs the same key."""
    monkeypatch.setattr(token_reader, "_MULTIPLIER", np.uint64(0))
    chosen = np.random.default_rng(seed).choice(PARTS + [f"{part}{i}" for i in range(9) for part in PARTS], (4, 300))
    same_as_plain(tokeniser, [" ".join(piece) for piece in chosen.tolist()])


@pytest.mark.parametrize("tokeniser", TOKENISERS, ids=lambda tokeniser: f"{tokeniser.name}-{tokeniser.lower}")
def test_ids_are_the_same_if_the_table_is_full(monkeypatch, tokeniser):
    monkeypatch.setattr(token_reader, "FEWEST_SLOTS", 3)
    monkeypatch.setattr(token_reader, "MOST_SLOTS", 4)
    monkeypatch.setattr(token_reader, "MOST_LISTED", 3)
    reader = same_as_plain(tokeniser, [" ".join(PARTS), "".join(PARTS), " ".join(PARTS[::-1])])
    assert len(reader._lists.sizes) <= 3 + len(PARTS)


@pytest.mark.parametrize("words", [100, 20_000])
def test_a_word_is_tokenised_once(words):
    vocabulary, seen = Vocabulary([END]), []
    tokeniser = make_tokeniser("whitespace")
    reader = TokenReader(tokeniser, vocabulary)
    reader._vocabulary = type("Recorded", (), {"ids": lambda _, new: seen.append(len(new)) or vocabulary.ids(new)})()
    text = " ".join(f"{'w' * (i % LONGEST)}{i}"[-LONGEST:] for i in range(words))
    first, tokenised = reader.ids(text), sum(seen)
    assert len(set(first.tolist())) == len(set(text.split()))
    assert reader.ids(text).tolist() == first.tolist()
    assert sum(seen) == tokenised


def test_a_table_tells_runs_apart_that_begin_alike():
    words = [b"abcdefgh", b"abcdefghi", b"abcdefghij", b"a" * LONGEST, b"a" * (LONGEST + 1), b"b" * 200]
    runs = find_runs(b" ".join(words), are_blanks)
    table = RunTable()
    assert table.find(runs).tolist() == [UNKNOWN] * 6
    kept = runs.chosen(np.array([0, 1, 3]))
    table.add(kept, np.array([5, 0, 7]))
    assert table.find(runs).tolist() == [5, 0, UNKNOWN, 7, UNKNOWN, UNKNOWN]


def test_only_one_letter_has_a_lower_case_that_depends_on_others():
    letters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    dependent = [letter for letter in letters if ("a" + letter).lower() != "a" + letter.lower()]
    assert dependent == [CAPITAL_SIGMA]
    assert all(letter.lower().lower() == letter.lower() for letter in letters if letter.lower() != letter)


@given(st.lists(st.text("ab \n\t" + END, max_size=30), max_size=8), st.integers(1, 20))
def test_pieces_are_the_stream_and_end_behind_words(fragments, size):
    pieces = list(cut(fragments, size))
    assert "".join(pieces) == "".join(fragments)
    assert all(piece.endswith(BREAKS) for piece in pieces[:-1])
    longest = max(map(len, "".join(fragments).replace(END, " ").split(" ")), default=0)
    assert max(map(len, pieces), default=0) <= 2 * (size + longest + 2)


@given(st.text("ab \n\t" + END, max_size=20))
def test_the_end_of_words_is_behind_the_last_break(text):
    assert end_of_words(text) == 1 + max(text.rfind(mark) for mark in BREAKS)
