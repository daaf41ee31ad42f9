"""The shipped lists of other languages: what each language has, and that no set contradicts another."""

from __future__ import annotations

import pytest

import evenhand as eh
from evenhand import words
from evenhand.audit.plan import concept_queries
from evenhand.errors import printable
from evenhand.language import language
from evenhand.measures.registry import info

CODES = ("de", "fr", "es", "it", "ru", "ja")
GENDERED = ("de", "fr", "es", "it", "ru")
TRANSLATED = ("de", "es", "it", "ru")
QUERIES = [id for id in words.ids("query") if id.rpartition("-")[2] in CODES]


@pytest.mark.parametrize("code", CODES)
def test_every_language_has_the_tests_of_weat_and_ca_weat(code: str):
    expected = {f"weat-{number}-{code}" for number in (1, 2, 6, 7, 8, 9)} | {f"ca-weat-{n}-{code}" for n in (1, 2)}
    if code in TRANSLATED:
        expected |= {f"xweat-{number}-{code}" for number in (1, 2, 7, 8, 9)}
    assert {id for id in QUERIES if id.endswith(f"-{code}")} == expected


@pytest.mark.parametrize("id", QUERIES)
def test_every_query_states_language_and_source_and_its_sets_are_apart(id: str):
    query = words.query(id)
    assert query.language == id.rpartition("-")[2]
    assert query.source is not None
    assert query.source.bibtex
    assert query.arity == (2, 2)
    for first, second in (query.targets, query.attributes):
        assert not set(first) & set(second)
        assert not first.duplicates
        assert not second.duplicates
    assert all(word == printable(word) for word in query.words)


@pytest.mark.parametrize("code", CODES)
def test_the_translations_have_the_sizes_of_weat_less_what_is_left_out(code: str):
    for number in (1, 2, 6, 7, 8, 9):
        translated, original = words.query(f"weat-{number}-{code}"), words.query(f"weat-{number}")
        sizes = [(len(a), len(b)) for a, b in zip(translated.targets, original.targets, strict=True)]
        assert all(0.6 * most <= size <= most for size, most in sizes), (number, sizes)
        assert [group.name.lower()[:4] for group in translated.targets] == [
            g.name.lower()[:4] for g in original.targets
        ]


@pytest.mark.parametrize("code", CODES)
def test_the_gender_concept_of_a_language(code: str):
    concept = words.concept(f"gender-{code}")
    assert concept.language == code
    assert concept.positive == "female"
    assert concept.source is not None
    assert concept.limits
    assert len(concept.pairs) >= 14
    assert not set(concept.groups["female"]) & set(concept.groups["male"])
    assert set(concept.names) == {"female", "male"}
    assert len(concept.neutral) >= 10


@pytest.mark.parametrize("code", CODES)
def test_nouns_with_a_gender_exist_where_the_language_has_one(code: str):
    names = {f"nouns-{gender}-{code}" for gender in ("feminine", "masculine")}
    assert (names <= set(words.ids("wordset"))) == bool(language(code).genders)


@pytest.mark.parametrize("code", GENDERED)
def test_inanimate_nouns_and_people_do_not_meet(code: str):
    feminine, masculine = (set(words.wordset(f"nouns-{gender}-{code}")) for gender in ("feminine", "masculine"))
    assert min(len(feminine), len(masculine)) >= 80
    assert not feminine & masculine
    pairs, forms = words.pairs(f"gender-pairs-{code}"), words.pairs(f"occupation-forms-{code}")
    people = {word for pair in (*pairs, *forms) for word in pair} | set(words.wordset(f"occupations-{code}"))
    assert not people & (feminine | masculine)


@pytest.mark.parametrize("code", GENDERED)
def test_every_occupation_has_one_pair_of_forms(code: str):
    forms = words.pairs(f"occupation-forms-{code}")
    assert len(forms) >= 40
    assert len(set(forms.first)) == len(set(forms.second)) == len(forms)
    assert not set(forms.first) & set(forms.second)
    assert not set(words.wordset(f"occupations-{code}")) & {word for pair in forms for word in pair}


def test_german_nouns_have_capitals():
    listed = [
        *words.wordset("nouns-feminine-de"),
        *words.wordset("nouns-masculine-de"),
        *words.pairs("occupation-forms-de").first,
    ]
    assert all(word[0].isupper() for word in listed)


def test_an_audit_asks_the_queries_of_the_language():
    asked = concept_queries(info("weat"), words.concept("gender-fr"))
    assert asked == ("weat-6-fr", "weat-7-fr", "weat-8-fr")
    assert "weat-6" in concept_queries(info("weat"), words.concept("gender"))
    assert not any(id.endswith("-fr") for id in concept_queries(info("weat"), words.concept("gender")))


def test_english_vectors_give_no_value_for_a_french_query():
    measured = eh.measures.weat(eh.Vectors.default(), "weat-7-fr")
    assert measured.status == "undefined"
    assert measured.params["language"] == "fr"
