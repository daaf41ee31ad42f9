"""The shipped lists against the numbers of the papers and of their releases."""

import itertools
import re

import numpy as np
import pytest

from evenhand import words
from evenhand.words import concept, pairs, query, table, template, wordset

SIZES = {
    "dev2019-verbs": 27,
    "dev2019-verbs-commerce": 10,
    "dev2019-verbs-interaction": 10,
    "dev2019-verbs-driving": 2,
    "dev2019-verbs-eating": 5,
    "dev2019-objects": 95,
    "dev2019-objects-clothes": 14,
    "dev2019-objects-farm-animals": 16,
    "dev2019-objects-food": 22,
    "dev2019-objects-furniture": 15,
    "dev2019-objects-household": 19,
    "dev2019-objects-vehicles": 9,
    "dev2019-people": 89,
    "dev2019-occupations-paper": 162,
    "dev2019-occupations": 164,
    "dev2019-gendered-test": 6,
    "dev2019-polarity": 25,
    "dev2019-polarity-printed": 26,
    "dev2019-demonyms-train": 8,
    "dev2019-demonyms-test": 32,
    "dev2019-demonyms": 40,
    "dev2019-adherents-train": 8,
    "dev2019-adherents-test": 17,
    "dev2019-adherents": 25,
    "dev2019-countries": 39,
    "dawkins2021-names-female": 32,
    "dawkins2021-names-male": 32,
    "dawkins2021-names-female-100": 100,
    "dawkins2021-names-male-100": 100,
    "dawkins2021-occupations-female": 16,
    "dawkins2021-occupations-male": 16,
    "dawkins2021-gender-specific": 1622,
    "bolukbasi2016-gender-specific-seed": 218,
    "bolukbasi2016-gender-specific": 1441,
    "bolukbasi2016-professions": 320,
    "gp-stereotype-female": 84,
    "gp-stereotype-male": 84,
    "gp-neutral": 1031,
    "occupations-share-of-women": 40,
    "manzini2019-religion-specific": 45,
}
PAIR_SIZES = {
    "dev2019-gendered": 9,
    "bolukbasi2016-definitional": 10,
    "bolukbasi2016-equalize": 52,
    "ethayarajh2019-pairs": 10,
    "bordia2019-ptb": 15,
    "bordia2019-wt2": 46,
    "bordia2019-cnn-dm": 28,
    "gn-glove-pairs": 222,
    "sembias-definitional": 22,
    "sembias-stereotype": 20,
    "oscar-definitional": 59,
}
# Lists whose source holds a word or pair twice, or a stray blank; each says so in the head of its file or its note.
AS_PRINTED = {
    "dev2019-polarity-printed",
    "dev2019-released-demonym-nouns",
    "bordia2019-ptb-female-paper",
    "bordia2019-ptb-male-paper",
    "bordia2019-wt2-female-paper",
    "bordia2019-cnn-dm-female-paper",
    "gn-glove-pairs",
}
CORPORA = ["ptb", "wt2", "cnn-dm"]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_word_sets(name):
    assert len(wordset(name)) == SIZES[name]


@pytest.mark.parametrize("name", PAIR_SIZES)
def test_sizes_of_pair_lists(name):
    assert len(pairs(name)) == PAIR_SIZES[name]


@pytest.mark.parametrize("line", words.listing(), ids=lambda line: f"{line.kind}-{line.id}")
def test_every_record_is_cited_and_has_a_stable_id(line):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", line.id)
    assert line.source is not None
    assert line.source.licence
    assert line.source.bibtex.startswith("@")
    assert line.source.authors
    assert line.source.year


@pytest.mark.parametrize("name", words.ids("wordset"))
def test_words_repeat_only_where_their_source_does(name):
    found = wordset(name)
    sloppy = bool(found.duplicates) or any(word != word.strip() for word in found)
    assert sloppy == (name in AS_PRINTED)


@pytest.mark.parametrize("name", words.ids("pairs"))
def test_pairs_repeat_only_where_their_source_does(name):
    assert bool(pairs(name).duplicates) == (name in AS_PRINTED)


def test_dev_templates_make_1968_phrases():
    kinds = {"commerce": 950, "interaction": 890, "driving": 18, "eating": 110}
    assert {kind: template(f"dev2019-{kind}").size for kind in kinds} == kinds
    assert {kind: template(f"dev2019-{kind}-released").size for kind in kinds} == kinds
    assert sum(kinds.values()) == 1968
    assert len(wordset("dev2019-occupations")) * 6 * 1968 == 1_936_512
    assert template("dev2019-cross").size == 27 * 95


def test_dev_sentences_read_as_in_paper_and_release():
    paper = next(template("dev2019-eating").expand(subject="nurse"))
    released = next(template("dev2019-eating-released").expand(subject="actor"))
    assert paper == "The nurse ate an apple."
    assert released == "An actor ate an apple ."


def test_dev_paper_and_release_differ_as_the_notes_say():
    both = set(wordset("dev2019-occupations")) - set(wordset("dev2019-occupations-paper"))
    assert both == {"actor", "waiter"}
    assert wordset("dev2019-polarity-printed").duplicates == ("terrible",)
    assert set(wordset("dev2019-polarity-printed")) == set(wordset("dev2019-polarity"))
    lowered = {word.lower() for word in wordset("dev2019-released-demonyms")}
    assert lowered == set(wordset("dev2019-demonyms"))


@pytest.mark.parametrize("corpus", CORPORA)
def test_bordia_husbands_are_male_unless_as_printed(corpus):
    assert "husband" in wordset(f"bordia2019-{corpus}-male")
    assert "wife" in wordset(f"bordia2019-{corpus}-female")
    assert "wife" in wordset(f"bordia2019-{corpus}-male-paper")
    assert "husband" in wordset(f"bordia2019-{corpus}-female-paper")
    assert ("wife", "husband") in pairs(f"bordia2019-{corpus}").pairs
    assert ("husband", "wife") in pairs(f"bordia2019-{corpus}-paper").pairs


@pytest.mark.parametrize("corpus", CORPORA)
def test_bordia_corrected_sides_share_no_word_in_any_case(corpus):
    female, male = ({word.lower() for word in wordset(f"bordia2019-{corpus}-{side}")} for side in ("female", "male"))
    assert not female & male


def test_bordia_stray_blanks_are_where_the_paper_prints_them():
    assert [word for word in wordset("bordia2019-ptb-female-paper") if word.endswith(" ")] == ["girl ", "her "]
    assert [word for word in wordset("bordia2019-ptb-male-paper") if word.endswith(" ")] == ["him "]


def test_weat_sets_have_the_published_sizes():
    targets = [25, 25, 32, 16, 16, 8, 8, 8, 6, 8]
    attributes = [25, 25, 25, 25, 8, 8, 8, 8, 7, 8]
    for number, (target, attribute) in enumerate(zip(targets, attributes, strict=True), start=1):
        asked = query(f"weat-{number}")
        assert [len(group) for group in asked.targets] == [target, target]
        assert [len(group) for group in asked.attributes] == [attribute, attribute]


def test_weat_corrections():
    assert "failure" in query("weat-10").attributes[1]
    assert "failur" not in query("weat-10").attributes[1]
    assert "Chip" not in query("weat-3").targets[0]
    assert "Chip" in wordset("weat-3-european-american-all")
    assert query("weat-6").targets[0].name == "Male names"


def test_sembias_is_a_product_and_the_subset_its_last_two_definitions():
    rows = table("sembias").rows
    definitions, stereotypes = (list(table("sembias").pairs(name)) for name in ("definition", "stereotype"))
    every = list(itertools.product(pairs("sembias-definitional").flipped(), pairs("sembias-stereotype").flipped()))
    assert len(rows) == 440 == 22 * 20
    assert list(zip(definitions, stereotypes, strict=True)) == every
    assert table("sembias-subset").rows == rows[-40:]
    assert {row[0] for row in rows[-40:]} == {"rake:coquette", "nobleman:noblewoman"}
    assert rows[0] == ("priest:nun", "dog:bitch", "book:magazine", "doctor:nurse")


def test_gn_glove_repeats_and_sides():
    found = pairs("gn-glove-pairs")
    assert set(found.duplicates) == {("brides", "grooms"), ("maternity", "paternity")}
    assert not set(wordset("gn-glove-female")) & set(wordset("gn-glove-male"))


def test_scores_stand_beside_their_words():
    professions = wordset("bolukbasi2016-professions")
    row = professions.words.index("actress")
    assert (professions.scores["definitional"][row], professions.scores["stereotypical"][row]) == (-1.0, 0.0)
    share = dict(
        zip(
            wordset("occupations-share-of-women"),
            wordset("occupations-share-of-women").scores["percent_women"],
            strict=True,
        )
    )
    assert share["nurse"] == 90
    assert share["carpenter"] == 2


def test_first_names_are_cased_disjoint_and_labelled():
    female, male = (wordset(f"dawkins2021-names-{sex}-100") for sex in ("female", "male"))
    assert female.words[:3] == ("Emma", "Sophia", "Isabella")
    assert male.words[:3] == ("Jacob", "Noah", "Ethan")
    assert not set(female) & set(male)
    assert not {"Avery", "Riley", "Alexis", "Taylor"} & set(female)
    assert not {"Angel", "Jordan", "Riley", "Parker"} & set(male)
    assert female.words[:32] == wordset("dawkins2021-names-female").words
    for name in words.ids("wordset"):
        if re.match("dawkins2021-(names|occupations)", name):
            assert "econstruction" in wordset(name).note


def test_stand_ins_say_that_they_are():
    for name in ("ethayarajh2019-appropriate-standin", "ethayarajh2019-biased-standin"):
        assert pairs(name).note.startswith("Stand-in")
    assert ("granny", "fella") not in pairs("ethayarajh2019-appropriate-standin").pairs


@pytest.mark.parametrize("name", words.ids("concept"))
def test_concepts_are_complete_and_say_their_limits(name):
    found = concept(name)
    assert found.name == name
    assert len(found.groups) >= 2
    assert found.direction is not None
    assert len(found.pairs)
    assert len(found.limits) > 200
    assert set(found.names) <= set(found.groups)


def test_gender_is_as_published():
    gender = concept("gender")
    assert gender.positive == "female"
    assert gender.direction == words.Recipe("pair", ("she", "he"), normalise=True)
    assert gender.pairs.first == tuple(gender.groups["female"])
    assert ("mary", "john") in gender.pairs.pairs
    assert gender.pairs.poles == ("female", "male")
    assert [len(group) for group in gender.names.values()] == [100, 100]
    assert (len(gender.equalize), len(gender.specific)) == (52, 1441)


def test_nationality_and_religion_are_as_published():
    nationality, religion = concept("nationality"), concept("religion")
    assert nationality.direction.words == wordset("dev2019-demonyms-train").words
    assert (nationality.direction.k, nationality.direction.centre) == (1, True)
    assert (religion.direction.k, religion.direction.centre) == (2, True)
    sets = zip(*religion.groups.values(), strict=True)
    assert tuple(sets) == table("manzini2019-religion").rows


def test_all_pairs_have_the_centred_components_of_their_words():
    """What the head of concepts.toml says, on random vectors: nationality's pairs give Dev's direction."""
    demonyms = wordset("dev2019-demonyms-train").words
    vectors = np.random.default_rng(0).normal(size=(8, 5))
    place = {word: row for row, word in enumerate(demonyms)}
    differences = np.array([vectors[place[a]] - vectors[place[b]] for a, b in concept("nationality").pairs])
    centred = vectors - vectors.mean(axis=0)
    assert len(differences) == 28
    np.testing.assert_allclose(differences.T @ differences, 8 * centred.T @ centred, atol=1e-12)


def test_race_groups_are_balanced_by_sex():
    men = {"Brad", "Brendan", "Geoffrey", "Greg", "Brett", "Matthew", "Neil", "Todd"}
    men |= {"Darnell", "Hakim", "Jermaine", "Kareem", "Jamal", "Leroy", "Rasheed", "Tyrone"}
    assert [len(men & set(group)) for group in concept("race").groups.values()] == [8, 8]
    assert [len(group) for group in concept("race").groups.values()] == [16, 16]
