"""What differs between languages: codes, case, other spellings of a word, and the division of text into words."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from evenhand.errors import FormatError, UsageError, require

CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")

# Letters, marks and digits of any script; an apostrophe or a hyphen joins what stands on both its sides.
WORD = re.compile(r"\w+(?:['’-]\w+)*")
# French and Italian articles and particles that end in an apostrophe are words of their own: l'eau is l' and eau.
ELIDED = re.compile(r"\w*[^\W\d_]['’](?=\w)|\w+(?:-\w+)*")
EXTRA = "japanese"


FOLDER = Path(__file__).with_name("languages")
GROUP = "evenhand.languages"  # of the entry points by which other packages bring a language
CASINGS = ("folded", "nouns", "dotted", "none")
GRAMMAR = ("sounds", "articles", "agreement")  # tables of a language file that `words.grammar` reads
_added: dict[str, Path] = {}


@dataclass(frozen=True)
class Language:
    """A language and the rules by which its words are looked up, as its file in `languages` declares them.

    Attributes:
        code: ISO 639 code, the name of the file.
        name: English name.
        casing: "folded": capitals carry no meaning, other capitalisations are tried; "nouns": nouns have capitals, as
            in German, where Arm is a limb and arm is poor, so a cased vocabulary must have the word as written;
            "dotted": as "folded", with the two letters i of Turkish; "none": the script has no case.
        genders: grammatical genders of nouns, empty where nouns have none.
        elides: whether an apostrophe ends a word.
        blanks: whether words are separated by blanks.
        tokenizer: "mecab" if that divides its text into words.
        normal_form: Unicode form in which a vocabulary may have a word instead.
        spellings: what may be written in place of a letter.
    """

    code: str
    name: str
    casing: str = "folded"
    genders: tuple[str, ...] = ()
    elides: bool = False
    blanks: bool = True
    tokenizer: str = ""
    normal_form: Literal["NFC", "NFKC"] = "NFC"
    spellings: tuple[tuple[str, str], ...] = ()


def add_language(path: str | Path) -> Language:
    """Add the language of a TOML file, which is named after its ISO 639 code: `pt.toml`.

    Raises:
        FormatError: If the file is not such a file.
    """
    file = Path(path).absolute()
    if not CODE.fullmatch(file.stem):
        raise UsageError(f"{file.stem!r} is not a language code", hint="name the file after its ISO 639 code: pt.toml")
    _added[file.stem] = file
    rules.cache_clear()
    language.cache_clear()
    return language(file.stem)


def codes() -> tuple[str, ...]:
    """Return the codes of the languages that have a file."""
    from importlib.metadata import entry_points  # slow to import

    shipped = (path.stem for path in FOLDER.glob("*.toml"))
    return tuple(sorted({*shipped, *_added, *entry_points(group=GROUP).names}))


@cache
def rules(code: str) -> dict[str, Any]:
    """Return the content of the file of a language; empty for a language that has none."""
    path = _added.get(code, FOLDER / f"{code}.toml")
    if not path.is_file():
        from importlib.metadata import entry_points

        path = next((Path(point.load()) for point in entry_points(group=GROUP) if point.name == code), path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FormatError(f"{path}: not valid TOML ({error})", hint="see languages/fr.toml of the package") from error


@cache
def language(code: str) -> Language:
    """Return the rules of a language; one that has no file is treated as English.

    Raises:
        UsageError: If the code is not an ISO 639 code.
    """
    if not isinstance(code, str) or not CODE.fullmatch(code):
        raise UsageError(f"{code!r} is not a language code", hint="use an ISO 639 code in lower case, such as fr")
    base = code.partition("-")[0]
    declared = {key: value for key, value in rules(base).items() if key not in GRAMMAR}
    declared["spellings"] = tuple(declared.get("spellings", {}).items())
    declared["genders"] = tuple(declared.get("genders", ()))
    try:
        own = Language(base, **{"name": base, **declared})
    except TypeError as error:
        raise FormatError(f"{base}.toml: {error}", hint="see languages/fr.toml of the package") from error
    for key, choices in (("casing", CASINGS), ("normal_form", ("NFC", "NFKC")), ("tokenizer", ("", "mecab"))):
        if (value := getattr(own, key)) not in choices:
            raise FormatError(f"{base}.toml: unknown {key} {value!r}", hint=f"use one of {', '.join(choices)}")
    return own


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
    own = language(code)
    forms = [unicodedata.normalize("NFC", word), word.replace("’", "'"), unicodedata.normalize(own.normal_form, word)]
    if own.spellings:
        other = word
        for letter, instead in own.spellings:
            other = other.replace(letter, instead)
        forms.append(other)
    return tuple(dict.fromkeys(form for form in forms if form != word))


def tokenise(text: str, code: str = "en") -> list[str]:
    """Return the words of a text, without punctuation.

    Japanese is divided by MeCab with the UniDic dictionary, which needs the extra `[japanese]`.

    >>> tokenise("L'infirmière n'est pas là.", "fr")
    ["L'", 'infirmière', "n'", 'est', 'pas', 'là']
    """
    own = language(code)
    if own.tokenizer == "mecab":
        return [word for word in _japanese_tagger()(text) if any(map(str.isalnum, word))]
    if not own.blanks:
        raise UsageError(f"{own.name} has no tokeniser here", hint="pass a function as tokenizer")
    return (ELIDED if own.elides else WORD).findall(text)


@cache
def _japanese_tagger() -> Callable[[str], list[str]]:
    fugashi = require("fugashi", extra=EXTRA)
    require("unidic_lite", extra=EXTRA)  # fugashi finds the dictionary itself, with a poor message where it is missing
    tagger = fugashi.Tagger("-Owakati")
    return lambda text: str(tagger.parse(text)).split()
