"""Choose "a" or "an" before a word: by its first letter, or by its sound."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, get_args

from evenhand.errors import UsageError

Articles = Literal["letter", "phonetic", "french"]
FRENCH = "french"  # articles agree with the gender of the subject, see `agreement`

VOWELS = frozenset("aeiou")
SPELLED_WITH_VOWEL = frozenset("aefhilmnorsx")  # letters whose names begin with a vowel: an F, an X
# Words that no rule covers. The released code of Dev et al. (2020) goes by the first letter and writes "a SUV" and "a
# headphones"; a plural takes no article.
EXCEPTIONS = {"headphones": "", "suv": "an", "mba": "an", "led": "an", "ufo": "a", "uv": "a", "ouija": "a", "ewe": "a"}
# Acronyms that cannot be read as words are spelled: FBI, NGO, UFO, HTML; not RAM, NATO or a word in capitals.
SPELLED = re.compile(r"[AEIOU][A-Z]{1,2}|[B-DF-HJ-NP-TV-Z]{2}[AEIOU]?|[B-DF-HJ-NP-TV-Z]{3,}")

SILENT_H = re.compile(r"honou?r|honest|hour|heir")  # honorary, hourly, heiress, heirloom
SOUNDED_AS_YOU = re.compile(
    r"eu"  # European, euphemism
    # University, union, uniform; not un- before a word with i: unimportant, uninvited, unidentified, unironic.
    r"|uni(?!n|m(?!od)|dent|deal|dio|ll|r|ss)|unanim"
    r"|us[aeu]|ut[aeio]|ur[aeiou]|ubi|uk|ugand"  # user, utensil, urologist, ubiquitous, Ukrainian, Ugandan
)
SOUNDED_AS_W = re.compile(r"(?:ones?|once|oneself|oneness)\Z")
NUMBER_WITH_VOWEL = re.compile(r"8|1[18](?!\d)")  # eight, eighty, eleven, eighteen
FIRST_PART = re.compile(r"\w+")
MARK = re.compile(r"\b([Aa])/[Aa]n\s+(?=(\S+))")


def article(word: str, rule: str = "phonetic") -> str:
    """Return the article before a word, or "" if it takes none.

    The rule "letter" looks at the first letter only, as the released code of Dev et al. (2020) does. The rule
    "phonetic" follows the sound: silent h, "u" and "eu" sounded as "you", "one", acronyms and numbers. Rare words can
    still be wrong.

    >>> [article(word) for word in ("university", "umbrella", "hour", "house", "European", "FBI", "8-year-old")]
    ['a', 'an', 'an', 'a', 'a', 'an', 'an']
    >>> article("university", "letter")
    'an'
    """
    require_rule(rule)
    if rule == FRENCH:
        raise UsageError(f"a French article needs the gender of {word!r}", hint="use agreement.agree(text, gender)")
    if rule == "letter":
        return "an" if word[:1].lower() in VOWELS else "a"
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    match = FIRST_PART.search(plain)
    if match is None:
        return "a"
    part = match[0].lower()
    if part in EXCEPTIONS:
        return EXCEPTIONS[part]
    return "an" if _begins_with_vowel(match[0]) else "a"


def require_rule(rule: str) -> None:
    """Raise `UsageError` for an unknown article rule."""
    if rule not in get_args(Articles):
        raise UsageError(f"unknown article rule {rule!r}", hint=f"use one of {', '.join(get_args(Articles))}")


def _begins_with_vowel(part: str) -> bool:
    """Return whether a word, or the part before a hyphen, begins with a vowel sound."""
    lower = part.lower()
    if lower[0].isdigit():
        return NUMBER_WITH_VOWEL.match(lower) is not None
    if len(part) == 1 or SPELLED.fullmatch(part):
        return lower[0] in SPELLED_WITH_VOWEL
    if SILENT_H.match(lower):
        return True
    return lower[0] in VOWELS and not (SOUNDED_AS_YOU.match(lower) or SOUNDED_AS_W.match(lower))


def with_articles(sentence: str, rule: str = "phonetic") -> str:
    """Return the sentence with every `a/an` (or `A/An`) replaced by the article of the word after it.

    A French sentence is returned as it is: its articles are chosen together with everything else that agrees.
    """
    if rule == FRENCH:
        return sentence

    def decide(mark: re.Match[str]) -> str:
        word = article(mark[2], rule)
        if not word:
            return ""
        return (word.capitalize() if mark[1] == "A" else word) + " "

    return MARK.sub(decide, sentence)
