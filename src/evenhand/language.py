"""What differs between languages: codes, case, other spellings of a word, and the division of text into words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from evenhand.errors import UsageError, require

Casing = Literal["folded", "nouns", "dotted", "none"]
CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")

# Letters, marks and digits of any script; an apostrophe or a hyphen joins what stands on both its sides.
WORD = re.compile(r"\w+(?:['’-]\w+)*")
# French and Italian articles and particles that end in an apostrophe are words of their own: l'eau is l' and eau.
ELIDED = re.compile(r"\w*[^\W\d_]['’](?=\w)|\w+(?:-\w+)*")
EXTRA = "japanese"


@dataclass(frozen=True)
class Language:
    """A language and the rules by which its words are looked up.

    Attributes:
        code: ISO 639 code.
        name: English name.
        casing: "folded": capitals carry no meaning, other capitalisations are tried; "nouns": nouns have capitals, as
            in German, where Arm is a limb and arm is poor, so that a cased vocabulary must have the word as written;
            "dotted": as "folded", with the two letters i of Turkish; "none": the script has no case.
        genders: grammatical genders of nouns, empty where nouns have none.
        elides: whether an apostrophe ends a word.
        blanks: whether words are separated by blanks.
    """

    code: str
    name: str
    casing: Casing = "folded"
    genders: tuple[str, ...] = ()
    elides: bool = False
    blanks: bool = True


TWO, THREE = ("feminine", "masculine"), ("feminine", "masculine", "neuter")
LANGUAGES = {
    language.code: language
    for language in (
        Language("en", "English"),
        Language("de", "German", "nouns", THREE),
        Language("fr", "French", genders=TWO, elides=True),
        Language("es", "Spanish", genders=TWO),
        Language("it", "Italian", genders=TWO, elides=True),
        Language("ru", "Russian", genders=THREE),
        Language("ja", "Japanese", "none", blanks=False),
        Language("tr", "Turkish", "dotted"),
        Language("az", "Azerbaijani", "dotted"),
    )
}


@cache
def language(code: str) -> Language:
    """Return the rules of a language; one that has no rules of its own here is treated as English.

    Raises:
        UsageError: If the code is not an ISO 639 code.
    """
    if not isinstance(code, str) or not CODE.fullmatch(code):
        raise UsageError(f"{code!r} is not a language code", hint="use an ISO 639 code in lower case, such as fr")
    base = code.partition("-")[0]
    return LANGUAGES.get(base) or Language(base, base)


def lower(text: str, code: str = "en") -> str:
    """Return the text in lower case by the rules of its language.

    >>> lower("Işık İZMİR", "tr"), lower("IZMIR")
    ('ışık izmir', 'izmir')
    """
    if language(code).casing == "dotted":
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def upper(text: str, code: str = "en") -> str:
    """Return the text in upper case by the rules of its language.

    >>> upper("izmir", "tr")
    'İZMİR'
    """
    if language(code).casing == "dotted":
        text = text.replace("i", "İ").replace("ı", "I")
    return text.upper()


def title(text: str, code: str = "en") -> str:
    """Return the text with a capital at the start of each word.

    >>> title("izmir", "tr")
    'İzmir'
    """
    if language(code).casing != "dotted":
        return text.title()
    return WORD.sub(lambda word: upper(word[0][:1], code) + lower(word[0][1:], code), text)


def other_spellings(word: str, code: str) -> tuple[str, ...]:
    """Return spellings of the same word that a vocabulary may have instead, without regard to case.

    Composed accents (NFC), full-width letters and half-width kana in Japanese (NFKC), е for ё in Russian, ss for ß in
    German, a straight for a typographic apostrophe.

    >>> other_spellings("ёлка", "ru"), other_spellings("ﾅｰｽ", "ja")
    (('елка',), ('ナース',))
    """
    base = language(code).code
    forms = [unicodedata.normalize("NFC", word), word.replace("’", "'")]
    if base == "ja":
        forms.append(unicodedata.normalize("NFKC", word))
    if base == "ru":
        forms.append(word.replace("ё", "е").replace("Ё", "Е"))
    if base == "de":
        forms.append(word.replace("ß", "ss"))
    return tuple(dict.fromkeys(form for form in forms if form != word))


def tokenise(text: str, code: str = "en") -> list[str]:
    """Return the words of a text, without punctuation.

    Japanese is divided by MeCab with the UniDic dictionary, which needs the extra `[japanese]`.

    >>> tokenise("L'infirmière n'est pas là.", "fr")
    ["L'", 'infirmière', "n'", 'est', 'pas', 'là']
    """
    rules = language(code)
    if rules.code == "ja":
        return [word for word in _japanese_tagger()(text) if any(map(str.isalnum, word))]
    if not rules.blanks:
        raise UsageError(f"{rules.name} has no tokeniser here", hint="pass a function as tokenizer")
    return (ELIDED if rules.elides else WORD).findall(text)


@cache
def _japanese_tagger() -> Callable[[str], list[str]]:
    fugashi = require("fugashi", extra=EXTRA)
    require("unidic_lite", extra=EXTRA)  # fugashi finds the dictionary itself, with a poor message where it is missing
    tagger = fugashi.Tagger("-Owakati")
    return lambda text: str(tagger.parse(text)).split()
