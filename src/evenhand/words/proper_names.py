"""Tell gender words from proper names: Mr. King, King's College and Spider-Man are no kings and no men.

The rules read capital letters and the neighbouring words. A title without a determiner is a name: Queen played, a song
by Prince. Text in lower case or in capitals has few proper names for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import TypeAlias

from evenhand.words.pronouns import listed, word_classes

ADDRESS = ("mr", "mrs", "ms", "miss")
TITLES = "counterfactual-titles"  # the list of words that stand before a name
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
    if role is Role.ADDRESS:
        return False
    if before.lower() in listed("honorifics") and word[:1].isupper():  # also in capitals: MR. KING
        return True
    if not _is_capital(word):
        return False
    if role in (Role.PLAIN, Role.HER, Role.HIS) or _is_compound(parts, position, role_of):
        return _is_compound(parts, position, role_of)
    if _is_name_like(before) and role_of(before) in (None, Role.NAME):
        return True
    if role is Role.TITLE:
        return _is_kept_title(parts, position, role_of)
    if word.endswith(PROFESSIONS) and word.lower() not in PROFESSIONS:
        return False
    return bool(before) or (_is_name_like(after) and role_of(after) is None)


def _is_kept_title(parts: Sequence[str], position: int, role_of: RoleOf) -> bool:
    after = _next(parts, position)
    if _is_name_like(after):
        return role_of(after) is not Role.NAME or _is_surname(parts, position + 2, role_of)
    return _owns_a_name(parts, position, role_of) or _is_a_name(parts, position)


def _is_compound(parts: Sequence[str], position: int, role_of: RoleOf) -> bool:
    """Return whether a word with a capital is part of a hyphenated name: Spider-Man, X-Men, She-Hulk."""
    before = parts[position - 2] if position > 1 and parts[position - 1] == "-" else ""
    if before[:1].isupper() and before.lower() not in listed("hyphen-prefixes"):
        return role_of(before) in (None, Role.NAME, Role.PLAIN)
    after = parts[position + 2] if position + 2 < len(parts) and parts[position + 1] == "-" else ""
    return _is_capital(after) and role_of(parts[position]) is Role.PLAIN


def _owns_a_name(parts: Sequence[str], position: int, role_of: RoleOf) -> bool:
    """Return whether a title is the possessor in a name: King's College, the Prince's Trust."""
    owned = _owned(parts, position)
    return _is_name_like(owned) and role_of(owned) is None


def _owned(parts: Sequence[str], position: int) -> str:
    """Return the word after a possessive 's, or the empty string."""
    end = position + 4
    if end >= len(parts) or parts[position + 1] not in ("'", "’") or parts[position + 2] != "s":
        return ""
    return parts[end] if not parts[position + 3].strip() else ""


def _is_a_name(parts: Sequence[str], position: int) -> bool:
    """Return whether a title stands for a band or a singer: it has no determiner, and no word of an office is near."""
    if parts[position].lower() not in listed("sovereigns"):
        return False
    before, after = _previous(parts, position).lower(), _next(parts, position)
    if before in listed("performers"):
        return True
    if after.lower() in ("of", "regnant", "consort", "regent", "mother"):
        return False
    if not before:  # a sentence begins
        return (bool(after) and after.lower() not in ("and", "or")) or bool(_owned(parts, position))
    second = _previous(parts, position - 2)
    if before in ("and", "or") and _is_artist(second):  # Bowie and Queen
        return True
    second = second.lower()
    if after.lower() in ("and", "or"):  # for King and country, the King and Queen, but: Queen and Genesis
        return _is_artist(_next(parts, position + 2))
    if any(before in listed(name) for name in ("before-titles", "greetings")) or _is_determiner(before):
        return False
    if second in listed("office-nouns"):
        return False
    return not _is_determiner(second) or before in word_classes("next")  # the exiled King, but: that band like Queen


def _is_artist(word: str) -> bool:
    return _is_name_like(word) and word.lower() not in listed("sovereigns")


def _is_determiner(word: str) -> bool:
    return "determiner" in word_classes("next").get(word, ())


def _is_surname(parts: Sequence[str], position: int, role_of: RoleOf) -> bool:
    before, after = _previous(parts, position), _next(parts, position)
    if before.lower() in listed("place-prefixes"):
        return True
    if before.lower() in listed("honorifics"):
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
        return word.lower() in listed("honorifics") or (len(word) == 1 and word.isupper() and word != "I")
    return not mark and separator.count("\n") < 2 and "\0" not in separator


def _is_capital(word: str) -> bool:
    return word[:1].isupper() and (len(word) == 1 or not word.isupper())


def _is_name_like(word: str) -> bool:
    """Return whether a word is capitalised and not a function word such as The."""
    return _is_capital(word) and word.lower() not in _function_words()


@cache
def _function_words() -> frozenset[str]:
    return frozenset(word_classes("next")) | listed("greetings")
