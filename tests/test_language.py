"""Case, spellings and words by language."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evenhand import language as languages
from evenhand.errors import EvenhandError, MissingExtraError, UsageError
from evenhand.language import language, lower, other_spellings, title, tokenise, upper


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("ISPARTA İLİ", "tr", "ısparta ili"),
        ("ISPARTA", "en", "isparta"),
        ("Straße", "de", "straße"),
        ("ÉCOLE", "fr", "école"),
        ("ЁЛКА", "ru", "ёлка"),
        ("看護師", "ja", "看護師"),
    ],
)
def test_lower_case_follows_the_language(text: str, code: str, expected: str):
    assert lower(text, code) == expected


@pytest.mark.parametrize("word", ["ışık", "izmir", "çiçek", "şığ"])
def test_turkish_case_can_be_undone(word: str):
    assert lower(upper(word, "tr"), "tr") == word
    assert lower(title(word, "tr"), "tr") == word


def test_only_the_first_letter_of_a_title_is_a_capital():
    assert title("istanbul ılıca", "tr") == "İstanbul Ilıca"
    assert title("mary ann") == "Mary Ann"


@pytest.mark.parametrize("code", ["", "EN", "english", "f", "fr_FR", None, "f r"])
def test_what_is_no_language_code_is_refused(code):
    with pytest.raises(UsageError, match="language code"):
        language(code)


def test_a_region_has_the_rules_of_its_language():
    assert language("fr-CA").elides
    assert language("xx").casing == "folded"


@pytest.mark.parametrize(
    ("word", "code", "expected"),
    [
        ("ёж", "ru", ("еж",)),
        ("ёж", "en", ()),
        ("Straße", "de", ("Strasse",)),
        ("ＮＡＳＡ", "ja", ("NASA",)),
        ("e\u0301cole", "fr", ("école",)),
        ("aujourd’hui", "fr", ("aujourd'hui",)),
    ],
)
def test_other_spellings(word: str, code: str, expected: tuple[str, ...]):
    assert other_spellings(word, code) == expected


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("L’avocate d'Aix, aide-soignante ?", "fr", ["L’", "avocate", "d'", "Aix", "aide-soignante"]),
        ("L'infermiera", "it", ["L'", "infermiera"]),
        ("She doesn't know.", "en", ["She", "doesn't", "know"]),
        ("Die Ärztin, der Arzt!", "de", ["Die", "Ärztin", "der", "Arzt"]),
        ("Врач-терапевт пришёл.", "ru", ["Врач-терапевт", "пришёл"]),
        ("", "fr", []),
    ],
)
def test_words_of_a_text(text: str, code: str, expected: list[str]):
    assert tokenise(text, code) == expected


def test_japanese_is_divided_without_blanks():
    pytest.importorskip("fugashi")
    pytest.importorskip("unidic_lite")
    assert tokenise("彼女は看護師です。", "ja") == ["彼女", "は", "看護", "師", "です"]


def test_japanese_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    languages._japanese_tagger.cache_clear()
    real = builtins.__import__

    def missing(name: str, *arguments, **options):
        if name == "fugashi":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setitem(sys.modules, "fugashi", None)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError, match=r"evenhand\[japanese\]"):
        tokenise("看護師", "ja")


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], languages.Language]]:
    """Add a language for the length of a test."""
    monkeypatch.setattr(languages, "_added", {})

    def add(code: str, text: str) -> languages.Language:
        (tmp_path / f"{code}.toml").write_text(text, encoding="utf-8")
        return languages.add_language(tmp_path / f"{code}.toml")

    yield add
    languages.rules.cache_clear()
    languages.language.cache_clear()


def test_a_language_without_blanks_and_tokeniser_is_refused(added: Callable[[str, str], languages.Language]):
    assert added("zh", 'name = "Chinese"\ncasing = "none"\nblanks = false\n').name == "Chinese"
    with pytest.raises(UsageError, match="Chinese has no tokeniser"):
        tokenise("护士", "zh")


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        ("pt", "name = ", "not valid TOML"),
        ("pt", 'name = "Portuguese"\ngender = []', "unexpected keyword argument 'gender'"),
        ("pt", 'name = "Portuguese"\ncasing = "big"', "unknown casing 'big'"),
        ("Portuguese", 'name = "Portuguese"', "is not a language code"),
    ],
)
def test_files_of_languages_that_are_wrong(
    code: str, text: str, message: str, added: Callable[[str, str], languages.Language]
):
    with pytest.raises(EvenhandError, match=message):
        added(code, text)


def test_every_shipped_file_is_a_language():
    assert set(languages.codes()) >= {"en", "de", "fr", "es", "it", "ru", "ja", "tr", "az"}
    assert all(languages.language(code).name != code for code in languages.codes())
