"""Indefinite articles: "a" or "an" by first letter or by sound."""

from __future__ import annotations

import re
from typing import Literal, get_args

from evenhand.errors import UsageError

Articles = Literal["letter", "phonetic"]

# Words whose article does not follow from the first letter. The first four occur in the lists of Dev et al. (2020):
# its released code uses the letter and writes "a honest person", "an ukrainian person", "a SUV", "a headphones". The
# others are common words. A plural takes no article.
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
    """Return the article of a word, by first letter or by sound; the empty string for a plural."""
    if rule not in get_args(Articles):
        raise UsageError(f"unknown article rule {rule!r}", hint=f"use one of {', '.join(get_args(Articles))}")
    by_letter = "an" if word[:1].lower() in {"a", "e", "i", "o", "u"} else "a"
    return EXCEPTIONS.get(word.lower().strip(".,;:!?"), by_letter) if rule == "phonetic" else by_letter


def with_articles(sentence: str, rule: str = "phonetic") -> str:
    """Replace every `a/an` (or `A/An`) in a sentence by the article of the next word."""

    def replace(mark: re.Match[str]) -> str:
        choice = article(mark[2], rule)
        if not choice:
            return ""
        return (choice.capitalize() if mark[1] == "A" else choice) + " "

    return MARK.sub(replace, sentence)
