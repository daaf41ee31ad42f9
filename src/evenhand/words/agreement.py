"""Agreement in French: articles, adjectives and participles follow the gender of the subject.

A text marks what agrees. `parti(e)` is parti or partie, `heureux/heureuse` is one of the two, the masculine form first.
Articles and demonstratives are written in the same way (`Le/La`, `Un/Une`, `Ce/Cette`, `du/de la`, `au/à la`) and also
follow the sound of the next word: l'infirmière, cet homme, de l'avocat.
"""

from __future__ import annotations

import re
import unicodedata

from evenhand.errors import UsageError

GENDERS = ("feminine", "masculine")
LETTERS = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
CONTRACTED = r"du/de la|au/à la"
CHOICE = re.compile(rf"(?P<contracted>{CONTRACTED})|(?P<masculine>{LETTERS})/(?P<feminine>{LETTERS})", re.IGNORECASE)
OPTIONAL_E = re.compile(r"\(e\)")
ARTICLE = re.compile(
    r"\b(?P<word>le|la|du|de la|au|à la|ce|beau|nouveau|vieux) (?P<next>[^\W\d_])(?P<rest>\w*)", re.IGNORECASE
)
# What an article becomes before a vowel sound.
BEFORE_VOWEL = {
    "le": "l'", "la": "l'", "du": "de l'", "de la": "de l'", "au": "à l'", "à la": "à l'",
    "ce": "cet ", "beau": "bel ", "nouveau": "nouvel ", "vieux": "vieil ",
}  # fmt: skip
VOWELS = frozenset("aeiou")
NOT_ELIDED = re.compile(r"y[aeiou]|onz|oui|ouistiti|uhlan", re.IGNORECASE)
# Words with an h that is not silent; all other words with h are elided.
ASPIRATED = re.compile(
    r"hach|haï|hain|hall|halt|hamm|hamster|hand|hang|har[ac-ru-z]|hâ|haut|havre|hér[io]s?s?on|héros|hér[aou]n|hêtre|heurt|hibou|"
    r"hid|hiér|hip|hobb|hocke|holl|hom[ae]rd|hong|hont|hoqu|hors|houl|housse|hu[ie]t|hurl|husky|hut",
    re.IGNORECASE,
)


def agree(text: str, gender: str) -> str:
    """Return a French text in which everything that is marked agrees with a subject of this gender.

    >>> agree("Le/La infirmière est parti(e), heureux/heureuse.", "feminine")
    "L'infirmière est partie, heureuse."
    >>> agree("Ce/Cette homme parle du/de la héros.", "masculine")
    'Cet homme parle du héros.'
    """
    if gender not in GENDERS:
        raise UsageError(f"unknown gender {gender!r}", hint=f"use one of {', '.join(GENDERS)}")
    feminine = gender == "feminine"
    text = OPTIONAL_E.sub("e" if feminine else "", text)
    text = CHOICE.sub(lambda match: _chosen(match, feminine), text)
    return ARTICLE.sub(_before_vowel, text)


def starts_with_vowel(word: str) -> bool:
    """Return whether a French word begins with a vowel sound, so that an article is elided before it.

    >>> [starts_with_vowel(word) for word in ("homme", "héros", "étudiante", "yaourt", "œuvre", "maire")]
    [True, False, True, False, True, False]
    """
    if NOT_ELIDED.match(word):
        return False
    if word[:1].lower() == "h":
        return ASPIRATED.match(word) is None
    plain = unicodedata.normalize("NFKD", word[:1].replace("œ", "oe").replace("Œ", "oe"))
    return plain[:1].lower() in VOWELS or plain[:1].lower() == "y"


def _chosen(match: re.Match[str], feminine: bool) -> str:
    masculine, _, other = match[0].partition("/")
    return other if feminine else masculine


def _before_vowel(match: re.Match[str]) -> str:
    if not starts_with_vowel(match["next"] + match["rest"]):
        return match[0]
    short = BEFORE_VOWEL[match["word"].lower()]
    if match["word"][0].isupper():
        short = short[0].upper() + short[1:]
    return short + match["next"] + match["rest"]
