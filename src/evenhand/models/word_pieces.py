"""Whole words among the pieces of a tokenizer's vocabulary.

Vocabularies mark either the pieces that continue a word (`##s` in BERT), the pieces that begin one (`Ġnurse` in
byte-level vocabularies, `▁nurse` in SentencePiece) or the pieces that end one (`nurse</w>`). A marked beginning may
be continued by another piece; it counts as a word because a text that contains the word uses exactly this piece.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

CONTINUATION = "##"
BYTE_LEVEL_START = "Ġ"
SENTENCEPIECE_START = "▁"
WORD_END = "</w>"
UNUSED = re.compile(r"\[unused\d*\]|<unused\d*>")


class WordRows(NamedTuple):
    """The row of each word, and how many pieces were left out, by reason."""

    rows: dict[str, int]
    left_out: dict[str, int]


def select_words(pieces: Mapping[str, int], *, special: Collection[str] = (), added: Collection[str] = ()) -> WordRows:
    """Return the whole words of a vocabulary as a text spells them, in the order of their rows.

    In a vocabulary that marks beginnings, an unmarked piece is left out, although the first word of a text is sometimes
    spelt with it. Of several pieces that spell the same word, the first is used.

    Args:
        pieces: the row of each piece.
        special: pieces that do not stand for text, such as `[CLS]`.
        added: words that were added to the vocabulary without a marker.
    """
    marker = find_marker(pieces)
    rows: dict[str, int] = {}
    left_out = dict.fromkeys(("special", "word pieces", "undecodable", "repeated"), 0)
    for piece, row in sorted(pieces.items(), key=lambda item: item[1]):
        if piece in special or UNUSED.fullmatch(piece):
            left_out["special"] += 1
            continue
        word = piece if piece in added else decode_word(piece, marker)
        if word is None or not _is_text(word):
            left_out["undecodable"] += 1
        elif not word or word != word.strip() or (marker and word.startswith(marker)):
            left_out["word pieces"] += 1
        elif rows.setdefault(word, row) != row:
            left_out["repeated"] += 1
    return WordRows(rows, left_out)


def find_marker(pieces: Iterable[str]) -> str:
    """Return the marker that a vocabulary uses: the most frequent one, as each may also occur in text."""
    counts = dict.fromkeys((CONTINUATION, BYTE_LEVEL_START, SENTENCEPIECE_START, WORD_END), 0)
    for piece in pieces:
        for marker in counts:
            counts[marker] += piece.endswith(marker) if marker == WORD_END else piece.startswith(marker)
    best = max(counts, key=lambda marker: counts[marker])
    return best if counts[best] else ""


def decode_word(piece: str, marker: str) -> str | None:
    """Return the word that a piece spells: empty for part of a word, None where the bytes are not UTF-8."""
    if marker in (CONTINUATION, ""):
        return "" if piece.startswith(CONTINUATION) else piece
    if marker == WORD_END:
        return piece.removesuffix(WORD_END) if piece.endswith(WORD_END) else ""
    if not piece.startswith(marker):
        return ""
    return decode_bytes(piece[1:]) if marker == BYTE_LEVEL_START else piece[1:]


def decode_bytes(piece: str) -> str | None:
    """Return the text of a byte-level piece, in which each letter stands for one byte; None if it is not UTF-8.

    >>> decode_bytes("cafÃ©")
    'café'
    """
    try:
        return bytes(BYTES[letter] for letter in piece).decode()
    except (KeyError, UnicodeDecodeError):
        return None


def _byte_letters() -> dict[str, int]:
    """Return the byte of each letter: printable Latin-1 stands for itself, the other bytes are numbered from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = _byte_letters()


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
