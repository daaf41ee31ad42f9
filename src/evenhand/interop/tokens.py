"""The tokens of a sub-word vocabulary, and which of them are whole words.

Sub-word vocabularies mark either the pieces that go on inside a word (WordPiece: "##ing") or those that begin one
(byte-level BPE: "Ġnurse", SentencePiece: "▁nurse").
"""

from __future__ import annotations

from typing import Any, NamedTuple

CONTINUATION = "##"
BYTE_LEVEL_START = "Ġ"
SENTENCEPIECE_START = "▁"
UNDECODABLE = "\ufffd"


class Token(NamedTuple):
    """A token and the row of its embedding."""

    text: str
    row: int


def tokens(tokenizer: Any) -> list[Token]:
    """Every token as the vocabulary spells it, by row."""
    return sorted((Token(str(text), int(row)) for text, row in tokenizer.get_vocab().items()), key=lambda t: t.row)


def whole_word_tokens(tokenizer: Any) -> list[Token]:
    """The tokens that are whole words, as a text spells them, by row.

    In a vocabulary that marks beginnings, an unmarked token may be the middle of a word and is left out, even though
    the first word of a text is sometimes spelt with it. Special and unused tokens are no words.
    """
    every = tokens(tokenizer)
    mark = _mark(every)
    special = set(tokenizer.all_special_tokens)
    added = set(tokenizer.get_added_vocab()) - special
    words = (
        Token(token.text if token.text in added else _word(token.text, mark, tokenizer), token.row)
        for token in every
        if token.text not in special
    )
    return [word for word in words if word.text]


def _mark(every: list[Token]) -> str:
    """The mark that the vocabulary uses: the most frequent one, since each is also a character that a text may hold."""
    marks = (CONTINUATION, BYTE_LEVEL_START, SENTENCEPIECE_START)
    counts = {mark: sum(token.text.startswith(mark) for token in every) for mark in marks}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _word(text: str, mark: str, tokenizer: Any) -> str:
    """The word that a token spells, or nothing where it is no whole word."""
    if mark in (CONTINUATION, ""):
        return "" if text.startswith((CONTINUATION, "[unused")) else text
    if not text.startswith(mark):
        return ""
    # Byte-level tokens spell "é" as two other letters; only the tokenizer knows how to read them.
    word = str(tokenizer.convert_tokens_to_string([text])) if mark == BYTE_LEVEL_START else text[1:]
    word = word.removeprefix(" ")
    return "" if UNDECODABLE in word or word != word.strip() or word.startswith(mark) else word
