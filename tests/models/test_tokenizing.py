"""Whole words among word pieces."""

import pytest

from evenhand.models.tokenizing import decode_bytes, find_marker, select_words

BERT = ["[PAD]", "[unused0]", "nurse", "##s", "she", "Ġ"]
GPT = ["<s>", "Ġnurse", "nurse", "ing", "ĠcafÃ©", "Ġ", "ĠĠshe", "ĠÃ", "##"]
T5 = ["<s>", "▁nurse", "nurse", "▁she", "▁", "<0x0A>", "▁▁"]
CLIP = ["<s>", "nurse</w>", "nur", "she</w>", "</w>"]


def rows_of(pieces: list[str]) -> dict[str, int]:
    return {piece: row for row, piece in reversed(list(enumerate(pieces)))}  # real ones are in no order


@pytest.mark.parametrize(
    ("pieces", "words", "left_out"),
    [
        (BERT, {"nurse": 2, "she": 4, "Ġ": 5}, {"special": 2, "word pieces": 1}),  # Ġ is a letter of Maltese
        (GPT, {"nurse": 1, "café": 4}, {"special": 1, "word pieces": 5, "undecodable": 1}),
        (T5, {"nurse": 1, "she": 3}, {"special": 1, "word pieces": 4}),
        (CLIP, {"nurse": 1, "she": 3}, {"special": 1, "word pieces": 2}),
        (["<s>", "he", "she"], {"he": 1, "she": 2}, {"special": 1}),
    ],
)
def test_whole_words_of_each_kind_of_vocabulary(pieces: list[str], words: dict[str, int], left_out: dict) -> None:
    selected = select_words(rows_of(pieces), special={"[PAD]", "<s>"})
    assert selected.rows == words
    assert list(selected.rows) == list(words)
    assert {reason: count for reason, count in selected.left_out.items() if count} == left_out
    assert len(words) + sum(left_out.values()) == len(pieces)


def test_added_tokens_are_words_as_they_stand() -> None:
    selected = select_words(rows_of([*GPT, "xe"]), special={"<s>"}, added={"xe"})
    assert selected.rows["xe"] == len(GPT)


def test_of_pieces_that_spell_the_same_word_the_first_is_used() -> None:
    selected = select_words(rows_of([*T5, "she"]), added={"she"})
    assert selected.rows["she"] == 3
    assert selected.left_out["repeated"] == 1


def test_lone_surrogates_are_left_out() -> None:
    selected = select_words({"▁\ud800": 0, "▁he": 1})
    assert selected.rows == {"he": 1}
    assert selected.left_out["undecodable"] == 1


def test_the_marker_is_the_most_frequent_one() -> None:
    assert find_marker(["##", "Ġhe", "Ġshe"]) == "Ġ"
    assert find_marker(["he"]) == ""


def test_every_byte_has_a_letter() -> None:
    assert decode_bytes("naÃ¯ve") == "naïve"
    assert decode_bytes("Ã") is None
    assert decode_bytes("→") is None
    assert decode_bytes("ĠĊ") == " \n"
