"""Which of "a" and "an" stands before a word, in the two ways the literature has it."""

from __future__ import annotations

import re
from typing import Literal, get_args

from evenhand.errors import UsageError

Articles = Literal["letter", "phonetic"]

# Words whose first letter misleads. The first four occur in the lists of Dev et al. (2020), whose released code goes by
# the letter and so writes "a honest person", "an ukrainian person", "a SUV", "a headphones"; the others are common
# words that a user's list may hold. A plural takes no article.
EXCEPTIONS = {
    "honest": "an",
    "ukrainian": "a",
    "suv": "an",
    "headphones": "",
    "heir": "an",
    "heiress": "an",
    "honorable": "an",
    "honourable": "an",
    "hour": "an",
    "european": "a",
    "one": "a",
    "unicorn": "a",
    "uniform": "a",
    "unique": "a",
    "user": "a",
}
MARK = re.compile(r"\b([Aa])/[Aa]n\s+(?=(\S+))")


def article(word: str, rule: str = "phonetic") -> str:
    """The article before a word: by its first letter, or by its sound; the empty string where none belongs."""
    if rule not in get_args(Articles):
        raise UsageError(f"unknown article rule {rule!r}", hint=f"use one of {', '.join(get_args(Articles))}")
    by_letter = "an" if word[:1].lower() in {"a", "e", "i", "o", "u"} else "a"
    return EXCEPTIONS.get(word.lower().strip(".,;:!?"), by_letter) if rule == "phonetic" else by_letter


def with_articles(sentence: str, rule: str = "phonetic") -> str:
    """The sentence with every `a/an` (or `A/An`) decided by the word that follows it."""

    def decide(mark: re.Match[str]) -> str:
        chosen = article(mark[2], rule)
        if not chosen:
            return ""
        return (chosen.capitalize() if mark[1] == "A" else chosen) + " "

    return MARK.sub(decide, sentence)
