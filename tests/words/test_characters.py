"""Words that are not what they look like."""

import pytest

import evenhand as eh
from evenhand.words.characters import accepting_all_characters, character_problem, folded

BAD = {
    "p\u0430ul": "mixes CYRILLIC and LATIN: it contains U\\+0430",
    "\u03bfld": "mixes GREEK and LATIN",
    "nur\u200bse": "invisible character U\\+200B",
    "soft\u00adhyphen": "invisible character U\\+00AD",
    "\ufeffword": "invisible character U\\+FEFF",
    "tab\there": "invisible character U\\+0009",
    "\u202eabc": "direction mark U\\+202E",
    "a\u200fb": "direction mark U\\+200F",
    "two\u00a0words": "U\\+00A0 NO-BREAK SPACE instead of a plain space",
    "\uff42lack": "mixes FULLWIDTH and LATIN",
}
GOOD = ["nurse", "Bahá'í", "non-binary", "gender non-conforming", "Müllerin", "вдова", "γυναίκα", "女性", "お母さん"]
GOOD += ["Tシャツ", "여자", "می\u200cخواهم", "क्\u200dष", "1ª", "o’neill", "مرأة"]


@pytest.mark.parametrize("word", BAD)
def test_bad_characters_are_named(word):
    with pytest.raises(eh.EvenhandError, match=BAD[word]):
        eh.Concept("own", {"a": [word, "x"], "b": ["y", "z"]})


@pytest.mark.parametrize("word", GOOD)
def test_words_of_many_scripts_are_accepted(word):
    assert character_problem(word) == ""


def test_pairs_and_names_are_checked_too():
    with pytest.raises(eh.EvenhandError, match="U\\+200B"):
        eh.Concept("own", {"a": ["x"], "b": ["y"]}, pairs=[("x", "y\u200b")])
    with pytest.raises(eh.EvenhandError, match="names: 'a'"):
        eh.Concept("own", {"a": ["x"], "b": ["y"]}, names={"a": ["\u202ex"]})


def test_a_file_says_where_the_word_is(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[concept.own]\n[concept.own.groups]\na = ["x", "p\u0430ul"]\nb = ["y", "z"]\n', encoding="utf-8")
    with pytest.raises(eh.EvenhandError, match=r"own.toml:3: concept.own.groups.a: the list: 'p\\u0430ul' mixes"):
        eh.concept(path)
    with accepting_all_characters():
        assert eh.concept(path).groups["a"].words[1] == "p\u0430ul"


def test_folding_joins_case_width_and_composition():
    assert folded("Ｂlack") == folded("black") == "black"
    assert folded("e\u0301") == folded("É")
