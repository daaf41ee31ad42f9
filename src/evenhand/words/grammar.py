"""Articles and agreement: what a sentence needs besides the words of its slots, by the rules of a language.

The rules are data, see `evenhand/languages/en.toml` and `fr.toml`. In English `a/an` becomes the article of the next
word. In a language with agreement a text marks what agrees with the gender of its subject.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from evenhand.errors import UsageError
from evenhand.language import codes, language, rules

ENGLISH = ("letter", "phonetic")  # the rules of English: by the first letter of a word, or by its sound
LETTERS = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
FIRST_PART = re.compile(r"\w+")


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
    if agrees(rule):
        name = language(_code(rule)).name
        raise UsageError(f"a {name} article needs the gender of {word!r}", hint="use agree(text, gender)")
    own = _articles("en")
    if rule == "letter":
        return own.vowel if word[:1].lower() in sounds("en").vowels else own.consonant
    match = FIRST_PART.search(unicodedata.normalize("NFC", word))
    if match is None:
        return own.consonant
    listed = own.exceptions.get(match[0].lower())
    if listed is not None:
        return listed
    return own.vowel if sounds("en").begin(match[0]) else own.consonant


def with_articles(sentence: str, rule: str = "phonetic") -> str:
    """Return the sentence with every `a/an` (or `A/An`) replaced by the article of the word after it.

    In a language with agreement it is returned as it is: articles are chosen together with everything else that agrees.
    """
    if agrees(rule):
        return sentence

    def decide(mark: re.Match[str]) -> str:
        word = article(mark[2], rule)
        if not word:
            return ""
        return (word.capitalize() if mark[1][0].isupper() else word) + " "

    return _articles("en").mark.sub(decide, sentence)


def agrees(rule: str) -> bool:
    """Return whether a rule for articles is that of a language with agreement; an unknown rule is an error.

    >>> agrees("phonetic"), agrees("french")
    (False, True)
    """
    return rule not in ENGLISH and bool(_code(rule))


def agree(text: str, gender: str, rule: str = "french") -> str:
    """Return a text in which everything that is marked agrees with a subject of this gender.

    >>> agree("Le/La infirmière est parti(e), heureux/heureuse.", "feminine")
    "L'infirmière est partie, heureuse."
    >>> agree("Ce/Cette homme parle du/de la héros.", "masculine")
    'Cet homme parle du héros.'
    """
    marks, genders = _agreement(_code(rule)), genders_of(rule)
    if gender not in genders:
        raise UsageError(f"unknown gender {gender!r}", hint=f"use one of {', '.join(genders)}")
    for ending, forms in marks.endings.items():
        text = text.replace(ending, forms.get(gender, ""))
    text = marks.choice.sub(lambda match: match[0].split("/")[marks.forms.index(gender)], text)
    return marks.before.sub(lambda match: _before_vowel(match, marks), text) if marks.before else text


def genders_of(rule: str) -> tuple[str, ...]:
    """Return the genders that the sentences of a rule agree with; none in English."""
    if not agrees(rule):
        return ()
    forms = _agreement(_code(rule)).forms
    return tuple(gender for gender in language(_code(rule)).genders if gender in forms)


def starts_with_vowel(word: str, code: str = "fr") -> bool:
    """Return whether a word begins with a vowel sound.

    >>> [starts_with_vowel(word) for word in ("homme", "héros", "étudiante", "yaourt", "œuvre", "maire")]
    [True, False, True, False, True, False]
    """
    return sounds(code).begin(word)


@dataclass(frozen=True)
class Sounds:
    """How words of a language begin: patterns that come before the first letter, and the letters of vowels.

    Attributes:
        vowels: letters without accents.
        vocalic: beginnings that sound like a vowel.
        consonantal: beginnings that do not.
        spelled: words that are spelled letter by letter.
        spelled_vowels: letters whose names begin with a vowel.
    """

    vowels: frozenset[str]
    vocalic: re.Pattern[str] | None
    consonantal: re.Pattern[str] | None
    spelled: re.Pattern[str] | None
    spelled_vowels: frozenset[str]

    def begin(self, word: str) -> bool:
        """Return whether a word begins with a vowel sound."""
        if self.spelled and word[:1].isalpha() and (len(word) == 1 or self.spelled.fullmatch(word)):
            return word[0].lower() in self.spelled_vowels
        if self.vocalic and self.vocalic.match(word):
            return True
        if self.consonantal and self.consonantal.match(word):
            return False
        return unicodedata.normalize("NFKD", word[:1])[:1].lower() in self.vowels


@dataclass(frozen=True)
class _Articles:
    """The two forms of an article, and words that take another than they sound."""

    consonant: str
    vowel: str
    exceptions: Mapping[str, str]
    mark: re.Pattern[str]


@dataclass(frozen=True)
class _Agreement:
    """What is marked in a text, see `fr.toml`."""

    code: str
    forms: tuple[str, ...]
    endings: Mapping[str, Mapping[str, str]]
    choice: re.Pattern[str]
    before_vowel: Mapping[str, str]
    before: re.Pattern[str] | None


@cache
def sounds(code: str) -> Sounds:
    """Return how words of a language begin; without rules of its own, with one of the letters a, e, i, o, u."""
    table = rules(code).get("sounds", {})
    vocalic, consonantal = (
        re.compile(table[key], re.IGNORECASE) if table.get(key) else None for key in ("vocalic", "consonantal")
    )
    spelled = re.compile(table["spelled"]) if table.get("spelled") else None
    vowels, named = frozenset(table.get("vowels", "aeiou")), frozenset(table.get("spelled_vowels", ""))
    return Sounds(vowels, vocalic, consonantal, spelled, named)


@cache
def _articles(code: str) -> _Articles:
    table = rules(code)["articles"]
    first, second = (f"[{form[0].upper()}{form[0]}]{form[1:]}" for form in (table["consonant"], table["vowel"]))
    mark = re.compile(rf"\b({first})/{second}\s+(?=(\S+))")
    return _Articles(table["consonant"], table["vowel"], table["exceptions"], mark)


@cache
def _agreement(code: str) -> _Agreement:
    table = rules(code)["agreement"]
    forms = tuple(table.get("forms", language(code).genders))
    several = [re.escape(choice) for choice in table.get("choices", ())]
    choice = re.compile("|".join([*several, "/".join([LETTERS] * len(forms))]), re.IGNORECASE)
    before_vowel = table.get("before_vowel", {})
    words = "|".join(map(re.escape, before_vowel))
    before = re.compile(rf"\b(?P<word>{words}) (?P<next>[^\W\d_]\w*)", re.IGNORECASE) if words else None
    return _Agreement(code, forms, table.get("endings", {}), choice, before_vowel, before)


@cache
def _code(rule: str) -> str:
    """Return the code of the language that a rule for articles names."""
    if rule in ENGLISH:
        return "en"
    names = {language(code).name.lower(): code for code in codes() if "agreement" in rules(code)}
    if rule not in names:
        raise UsageError(f"unknown article rule {rule!r}", hint=f"use one of {', '.join((*ENGLISH, *names))}")
    return names[rule]


def _before_vowel(match: re.Match[str], marks: _Agreement) -> str:
    if not sounds(marks.code).begin(match["next"]):
        return match[0]
    short = marks.before_vowel[match["word"].lower()]
    if match["word"][0].isupper():
        short = short[0].upper() + short[1:]
    return short + match["next"]
