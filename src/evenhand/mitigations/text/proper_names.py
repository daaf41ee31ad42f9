"""Tell gender words from proper names: Mr. King, Stephen King and the Isle of Man are no kings and no men.

The rules read capital letters and the neighbouring words. Text in lower case or in capitals has no proper names for
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import TypeAlias

from evenhand.words.pronouns import word_classes

HONORIFICS = frozenset(
    [
        "mr",
        "mrs",
        "ms",
        "miss",
        "mx",
        "dr",
        "prof",
        "rev",
        "hon",
        "gov",
        "sen",
        "rep",
        "gen",
        "col",
        "capt",
        "lt",
        "sgt",
        "st",
        "saint",
        "messrs",
    ]
)
PLACES = frozenset(
    [
        "san",
        "santa",
        "santo",
        "são",
        "saint",
        "st",
        "fort",
        "port",
        "lake",
        "mount",
        "mt",
        "new",
        "north",
        "south",
        "east",
        "west",
        "el",
        "los",
        "las",
        "camp",
        "cape",
        "isle",
    ]
)
GREETINGS = frozenset(
    ["dear", "oh", "o", "hello", "hi", "hey", "yes", "well", "thank", "thanks", "poor", "old", "young", "little"]
)
PROFESSIONS = ("man", "woman", "men", "women")


class Role(Enum):
    """How a listed word is swapped."""

    PLAIN = "always"
    NOUN = "unless it is part of a name"
    TITLE = "unless it stands before a name that is not swapped"
    ADDRESS = "before any name"
    NAME = "as a first name, not as a surname"
    HER = "to him or his"
    HIS = "to her or hers"


RoleOf: TypeAlias = Callable[[str], Role | None]


def is_kept(parts: Sequence[str], position: int, role: Role, role_of: RoleOf) -> bool:
    """Return whether the word at a position is part of a proper name and stays.

    Args:
        parts: a text as separators and words in turn, separators first.
        position: where the word is in `parts`.
        role: the role of the word.
        role_of: returns the role of another word, None if it is not listed.
    """
    if role is Role.NAME:
        return _is_surname(parts, position, role_of)
    word, before, after = parts[position], _previous(parts, position), _next(parts, position)
    if word.lower() == "miss":  # mostly the verb
        return not (_is_capital(word) and _is_capital(after))
    if role is Role.ADDRESS or not _is_capital(word):
        return False
    if before.lower() in HONORIFICS or (_is_name_like(before) and role_of(before) in (None, Role.NAME)):
        return True
    if role is Role.TITLE:
        named = _is_name_like(after)
        swapped = role_of(after) is Role.NAME and not _is_surname(parts, position + 2, role_of)
        return named and not swapped
    if word.endswith(PROFESSIONS) and word.lower() not in PROFESSIONS:
        return False
    return bool(before) or (_is_name_like(after) and role_of(after) is None)


def _is_surname(parts: Sequence[str], position: int, role_of: RoleOf) -> bool:
    before, after = _previous(parts, position), _next(parts, position)
    if before.lower() in PLACES:
        return True
    if before.lower() in HONORIFICS:
        return not _is_name_like(after)
    if not _is_name_like(before):
        return False
    role = role_of(before)
    if role is None:
        return not _is_name_like(after)
    return role is Role.NAME


def _previous(parts: Sequence[str], position: int) -> str:
    """Return the word before, or the empty string at the start of a sentence or after a punctuation mark."""
    if position < 2:
        return ""
    word, separator = parts[position - 2], parts[position - 1]
    return word if _joins(word, separator) else ""


def _next(parts: Sequence[str], position: int) -> str:
    if position + 2 >= len(parts):
        return ""
    word, separator = parts[position], parts[position + 1]
    return parts[position + 2] if _joins(word, separator) else ""


def _joins(word: str, separator: str) -> bool:
    """Return whether a sentence goes on behind a word: after white space, or after the period of an abbreviation."""
    mark = separator.strip()
    if mark == ".":
        return word.lower() in HONORIFICS or (len(word) == 1 and word.isupper() and word != "I")
    return not mark and separator.count("\n") < 2 and "\0" not in separator


def _is_capital(word: str) -> bool:
    return word[:1].isupper() and (len(word) == 1 or not word.isupper())


def _is_name_like(word: str) -> bool:
    """Return whether a word is capitalised and not a function word such as The."""
    return _is_capital(word) and word.lower() not in _function_words()


@cache
def _function_words() -> frozenset[str]:
    return frozenset(word_classes("next")) | GREETINGS
