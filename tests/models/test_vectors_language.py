"""Look-up of words by the rules of their language."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UsageError
from evenhand.measures.association.located_query import locate_query


def table(words: list[str], language: str = "") -> eh.Vectors:
    matrix = np.random.default_rng(0).normal(size=(len(words), 4))
    return eh.Vectors(words, matrix, source={"language": language} if language else {})


def test_turkish_capitals_find_their_own_small_letters():
    vectors = table(["ışık", "izmir", "isik"], "tr")
    assert vectors.find("IŞIK") == "ışık"
    assert vectors.find("İZMİR") == "izmir"
    assert table(["ışık", "izmir", "isik"]).find("IŞIK") is None


def test_german_capitals_matter_in_a_cased_vocabulary():
    vectors = table(["arm", "Frau", "Straße"], "de")
    assert vectors.find("Arm") is None
    assert vectors.find("frau") is None
    assert vectors.find("Frau") == "Frau"
    assert table(["arm", "Frau"]).find("Arm") == "arm"


def test_german_words_are_lower_cased_for_a_lower_case_vocabulary():
    vectors = table(["arm", "frau", "strasse"], "de")
    assert vectors.find("Frau") == "frau"
    rows, coverage = vectors.locate(["Frau", "Straße", "Kind"])
    assert rows.tolist() == [1, 2]
    assert coverage.respelt == {"Frau": "frau", "Straße": "strasse"}
    assert coverage.missing == ("Kind",)


def test_russian_yo_is_found_as_e_and_counted():
    _, coverage = table(["елка", "дом"], "ru").locate(["ёлка", "дом"])
    assert coverage.respelt == {"ёлка": "елка"}
    assert table(["елка"], "fr").find("ёлка") is None


def test_exact_look_up_tries_no_other_spelling():
    assert table(["елка"], "ru").locate(["ёлка"], case="exact")[1].missing == ("ёлка",)


def test_the_language_of_a_query_decides_and_is_recorded():
    vectors = table(["arm", "reich", "Mann", "Frau", "er", "sie", "Haus", "Amt"])
    query = eh.Query("q", (["Mann", "er"], ["Frau", "sie"]), (["Arm", "Haus"], ["reich", "Amt"]), language="de")
    located = locate_query(vectors, query, targets=2, attributes=2)
    assert located.coverage.missing == ("Arm",)
    assert eh.measures.weat(vectors, query).params["language"] == "de"


def test_the_language_of_the_vectors_is_recorded_and_kept():
    vectors = table(["un", "deux"], "fr")
    assert vectors.head(1).language == "fr"
    assert vectors.with_matrix(vectors.matrix).language == "fr"
    assert table(["one"]).language == ""


def test_the_language_is_set_when_a_file_is_loaded(tmp_path: Path):
    path = table(["Frau", "arm"]).save(tmp_path / "small.txt")
    assert eh.Vectors.load(path, language="de").find("Arm") is None
    with pytest.raises(UsageError, match="language code"):
        eh.Vectors.load(path, language="German")


@pytest.mark.parametrize("code", ["German", "", "DE"])
def test_a_query_or_concept_with_a_wrong_code_is_refused(code: str):
    with pytest.raises(UsageError, match="language code"):
        eh.Query("q", (["a"],), (["b"],), language=code)
    with pytest.raises(UsageError, match="language code"):
        eh.Concept("c", groups={"a": ["x"], "b": ["y"]}, language=code)


def test_the_language_is_part_of_a_querys_digest():
    german, english = (eh.Query("q", (["a"],), (["b"],), language=code) for code in ("de", "en"))
    assert german.digest != english.digest
    assert "language" not in english.to_dict()


def test_vectors_without_a_language_take_that_of_a_concept():
    vectors = table(["arm", "Frau", "Mann"])
    german = vectors.in_language("de")
    assert german.find("Arm") is None
    assert german is vectors.in_language("de")
    assert np.shares_memory(german.matrix, vectors.matrix)
    assert vectors.language == ""
    assert vectors.in_language("en") is vectors
    assert table(["un"], "fr").in_language("de").language == "fr"
    with pytest.raises(UsageError, match="language code"):
        vectors.in_language("German")


def test_an_audit_looks_words_up_by_the_language_of_its_concept():
    words = ["frau", "mann", "mutter", "vater", "Arzt", "arm", "reich", "Haus"]
    concept = eh.Concept(
        "geschlecht",
        pairs=[("Frau", "Mann"), ("Mutter", "Vater")],
        language="de",
        neutral=["Arm", "Arzt", "reich", "Haus"],
    )
    audit = eh.Audit.run(table(words), concept=concept, measures=["direct-bias"], methods=[])
    measured, *_ = (result.measurement for result in audit.results if result.measurement.query == "geschlecht neutral")
    assert measured.status == "undefined"  # Frau is not frau in a cased vocabulary
    lower = eh.Audit.run(table([word.lower() for word in words]), concept=concept, measures=["direct-bias"], methods=[])
    measured, *_ = (result.measurement for result in lower.results if result.measurement.query == "geschlecht neutral")
    assert measured.status == "ok"
    assert measured.params["language"] == "de"
    assert measured.coverage.respelt["Arzt"] == "arzt"
