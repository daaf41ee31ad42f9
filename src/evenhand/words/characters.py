"""Characters that make a word another than it seems: letters of another alphabet, invisible ones, direction marks."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from evenhand.errors import UsageError

# Embeddings, overrides and isolates, and the three marks: they reorder what a reader sees.
BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
JOINERS = frozenset("\u200c\u200d")  # part of the spelling in Persian, Hindi and others
JOINING_SCRIPTS = frozenset(
    {"ARABIC", "SYRIAC", "MONGOLIAN", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU"}
    | {"KANNADA", "MALAYALAM", "SINHALA", "KHMER", "MYANMAR", "TIBETAN"}
)
# Written together in one word, and with Latin letters, without looking alike.
EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "HANGUL", "BOPOMOFO"})
ORDINALS = frozenset("ªº")

_ACCEPTED: ContextVar[bool] = ContextVar("accepted", default=False)


def scripts(word: str) -> frozenset[str]:
    """Return the scripts of the letters of a word, by the first word of their Unicode names.

    >>> sorted(scripts("p\u0430ul"))
    ['CYRILLIC', 'LATIN']
    """
    return frozenset(map(_script, filter(str.isalpha, word)))


def character_problem(word: str) -> str:
    """Return why a word is not what it looks like; an empty string where nothing is wrong.

    >>> character_problem("nurse"), character_problem("nur\u200bse")
    ('', 'contains the invisible character U+200B ZERO WIDTH SPACE')
    """
    if word.isascii() and word.isprintable():
        return ""
    for place, letter in enumerate(word):
        if letter in BIDIRECTIONAL:
            return f"contains the direction mark {_named(letter)}"
        if letter in JOINERS and place and _script(word[place - 1]) in JOINING_SCRIPTS:
            continue
        if unicodedata.category(letter) in ("Cf", "Cc", "Zl", "Zp") or letter == "\u3164":
            return f"contains the invisible character {_named(letter)}"
        if unicodedata.category(letter) == "Zs" and letter not in " \u3000":
            return f"contains {_named(letter)} instead of a plain space"
    for part in word.split():
        alphabets = scripts(part) - EAST_ASIAN
        if len(alphabets) > 1:
            common = max(sorted(alphabets), key=lambda script: sum(_script(letter) == script for letter in part))
            strange = next(letter for letter in part if letter.isalpha() and _script(letter) in alphabets - {common})
            return f"mixes {' and '.join(sorted(alphabets))}: it contains {_named(strange)}"
    return ""


def require_plain_characters(words: Iterable[str], *, what: str) -> None:
    """Raise `UsageError` for the first word that is not what it looks like."""
    if _ACCEPTED.get():
        return
    for word in words:
        if problem := character_problem(word):
            raise UsageError(
                f"{what}: {word!a} {problem}",
                hint="retype the word; `evenhand concept check FILE` lists all such words",
            )


@contextmanager
def accepting_all_characters() -> Iterator[None]:
    """Load words as they are, to report every problem of a file instead of the first."""
    token = _ACCEPTED.set(True)
    try:
        yield
    finally:
        _ACCEPTED.reset(token)


def folded(word: str) -> str:
    """Return a form that is the same for spellings that differ in case, width or composition of characters only."""
    return unicodedata.normalize("NFKC", word).casefold().strip()


def _script(letter: str) -> str:
    name = unicodedata.name(letter, "UNNAMED")
    return "LATIN" if letter in ORDINALS else name.partition(" ")[0]


def _named(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, 'control character')}"
