"""Scenarios and people: what a fill says, and that two fills differ in the person alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evenhand import words
from evenhand.errors import EvenhandError
from evenhand.words.persons import Person, forms_of, people
from evenhand.words.scenarios.scenario import Scenario, concept_in, scenario_ids, scenario_set

CONCEPTS = ("gender", "gender-diverse", "race", "ethnicity", "age", "religion", "disability", "pronouns", "nationality")
NAMED = ("gender", "gender-diverse", "race", "ethnicity", "age", "gender x race")
MARK = "\N{WHITE SQUARE}"


def frame(text: str, person: Person) -> str:
    """A fill without its person, found in the finished text by another way than the one that wrote it."""
    phrase = person.phrase.replace("a/an ", "")
    begun = f"[{phrase[0].lower()}{phrase[0].upper()}]" if phrase[0].islower() else re.escape(phrase[0])
    text = re.sub(rf"\b(?:[Aa]n? )?{begun}{re.escape(phrase[1:])}(?!\w)", MARK, text)
    forms = sorted(set(forms_of(person.pronouns)), key=len, reverse=True)
    text = re.sub(rf"\b(?:{'|'.join(forms)})\b", MARK, text, flags=re.IGNORECASE)
    # What a verb ends in depends on the pronoun alone: has/have, pays/pay, says/say.
    return re.sub(r"\b(has|have)\b", "have", re.sub(r"\b(pay|say|ask|work|earn)s\b", r"\1", text))


@pytest.mark.parametrize(("concept", "naming"), [*((c, "explicit") for c in CONCEPTS), *((c, "names") for c in NAMED)])
def test_two_fills_of_a_scenario_differ_in_the_person_alone(concept: str, naming: str) -> None:
    everyone = people(words.concept(concept), naming).everyone  # type: ignore[arg-type]
    for scenario in scenario_set("decision-scenarios").scenarios:
        frames = {frame(scenario.fill(person), person) for person in everyone}
        assert len(frames) == 1, (scenario.name, frames)
        assert MARK in frames.pop()


AGREES = {  # what differs between a woman and a man beside the person, by hand
    "fr": {"elle/il", "qu'elle/qu'il", "la/le", "fatiguée/fatigué", "essoufflée/essoufflé"},
    "de": {"sie/er", "sie/ihn", "ihr/ihm", "ihre/seine", "ihr/sein", "nächste/nächster"},
    "es": {
        "invitarla/invitarlo", "ascenderla/ascenderlo", "cansada/cansado", "derivarla/derivarlo", "la/lo",
        "dejarla/dejarlo",
    },
}  # fmt: skip


@pytest.mark.parametrize("naming", ["explicit", "names"])
@pytest.mark.parametrize("code", AGREES)
def test_two_fills_in_another_language_differ_in_the_person_and_in_what_agrees(code: str, naming: str) -> None:
    found, about = scenario_set("decision-scenarios", code), words.concept(f"gender-{code}")
    everyone = people(about, naming, found.tables).everyone  # type: ignore[arg-type]
    english = scenario_set("decision-scenarios").scenarios
    assert [(one.name, one.domain) for one in found.scenarios] == [(one.name, one.domain) for one in english]
    seen: set[str] = set()
    for scenario in found.scenarios:
        frames: dict[str, set[str]] = {"female": set(), "male": set()}
        for person in everyone:
            text = found.prompt(scenario, person)
            begun = person.phrase[0].upper() + person.phrase[1:]
            assert text.count(begun) + text.count(person.phrase) * (begun != person.phrase) == 1
            frames[person.group].add(text.replace(begun, MARK).replace(person.phrase, MARK))
            assert not re.search(r"[{}]|\w/\w|\(\w", text)  # nothing is left to choose
        (she,), (he,) = (frames[group] for group in ("female", "male"))
        both = [re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?|\S", text) for text in (she, he)]
        assert len(both[0]) == len(both[1])
        seen |= {f"{a}/{b}".lower() for a, b in zip(*both, strict=True) if a != b}
    assert seen == AGREES[code]
    assert scenario_set("decision-scenarios", code).form.scale_instruction


def test_the_language_of_a_concept_is_found_and_a_missing_one_is_said(tmp_path: Path) -> None:
    assert concept_in(words.concept("gender"), "fr").name == "gender-fr"
    assert concept_in(words.concept("gender-fr"), "en").name == "gender"
    assert concept_in(words.concept("gender-fr"), "fr") is words.concept("gender-fr")
    with pytest.raises(EvenhandError, match="no concept 'race' in German") as error:
        concept_in(words.concept("race"), "de")
    assert error.value.hint == "use gender-de"
    with pytest.raises(EvenhandError, match="no concept 'race' in pt"):
        concept_in(words.concept("race"), "pt")


def test_only_what_agrees_needs_the_gender_of_a_person() -> None:
    someone = Person("a", "quelqu'un", "they")
    plain = Scenario("s", "", "{Person} attend.", "Faut-il ouvrir ?", articles="french")
    assert plain.fill(someone) == "Quelqu'un attend.\n\nFaut-il ouvrir ?"
    agreed = Scenario("s", "", "{Person} est fatigué(e).", "Faut-il ouvrir ?", articles="french")
    with pytest.raises(EvenhandError, match="is not known"):
        agreed.fill(someone)


def test_the_frame_of_the_test_sees_another_difference() -> None:
    she, he = Person("f", "Ann", "she"), Person("m", "Bob", "he")
    assert frame("Ann is kind. She slept.", she) == frame("Bob is kind. He slept.", he)
    assert frame("Ann is kind. She slept.", she) != frame("Bob is rude. He slept.", he)
    assert frame("an old bank asks Ann", she) != frame("a old bank asks Bob", he)


@pytest.mark.parametrize("concept", CONCEPTS)
def test_every_row_has_one_person_of_each_group(concept: str) -> None:
    found = people(words.concept(concept))
    rows: dict[str, list[str]] = {}
    for person in found.everyone:
        rows.setdefault(person.row, []).append(person.group)
    assert all(sorted(groups) == sorted(found.groups) for groups in rows.values())
    assert found.groups[0] == words.concept(concept).positive


def test_people_by_hand() -> None:
    phrases = [person.phrase for person in people(words.concept("gender-diverse")).everyone]
    assert len(phrases) == 135  # 9 ages, 5 races, 3 genders
    scenario = Scenario("s", "", "{Person} waits. {They} {is/are} tired, it is {theirs}.", "Help {them}?")
    fills = {p.phrase: scenario.fill(p) for p in people(words.concept("gender-diverse")).everyone}
    assert fills["a/an 80-year-old Asian woman"] == (
        "An 80-year-old Asian woman waits. She is tired, it is hers.\n\nHelp her?"
    )
    assert fills["a/an 20-year-old white nonbinary person"] == (
        "A 20-year-old white nonbinary person waits. They are tired, it is theirs.\n\nHelp them?"
    )


def test_names_have_the_pronouns_of_their_sex() -> None:
    found = {person.phrase: person for person in people(words.concept("race"), "names").everyone}
    assert (found["Latoya"].pronouns, found["Latoya"].group) == ("she", "african-american")
    assert (found["Brad"].pronouns, found["Brad"].group) == ("he", "european-american")
    crossed = {p.phrase: p.pronouns for p in people(words.concept("gender x race"), "names").everyone}
    assert crossed["Aisha"] == "she"
    without = people(words.concept("gender-diverse"), "names")
    assert (without.groups, without.without) == (("women", "men"), ("nonbinary",))


def test_a_concept_without_adjectives_uses_its_phrases_with_they() -> None:
    own = words.Concept("team", groups={"a": ["the red player"], "b": ["the blue player"]})
    assert [(p.phrase, p.pronouns) for p in people(own).everyone] == [
        ("the red player", "they"), ("the blue player", "they"),
    ]  # fmt: skip


FRENCH = """
[form]
language = "fr"
yes = "oui"
no = "non"
instruction = "Réponds par oui ou par non."

[scenario.pret]
text = "{Person} demande un prêt. Il/Elle est employé(e)."
question = "Faut-il l'accorder ?"

[table.decision-people-gender-fr]
columns = ["female", "male"]
rows = [["une femme de 40 ans", "un homme de 40 ans"], ["Camille Martin", "Marc Martin"]]
"""


def test_scenarios_of_another_language_agree_with_the_person(tmp_path: Path) -> None:
    file = tmp_path / "fr.toml"
    file.write_text(FRENCH, encoding="utf-8")
    found = scenario_set(file, "fr")
    everyone = people(words.concept("gender-fr"), tables=found.tables).everyone
    texts = [found.prompt(found.scenarios[0], person) for person in everyone[:2]]
    assert texts == [
        "Une femme de 40 ans demande un prêt. Elle est employée.\n\nFaut-il l'accorder ?\nRéponds par oui ou par non.",
        "Un homme de 40 ans demande un prêt. Il est employé.\n\nFaut-il l'accorder ?\nRéponds par oui ou par non.",
    ]
    with pytest.raises(EvenhandError, match="is in French, and the people are in English"):
        scenario_set(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[scenario.a]\ntext = "A loan."\nquestion = "Grant it?"\n', "no slot for a person"),
        ('[scenario.a]\ntext = "{person} and {people}."\nquestion = "Ok?"\n', r"unknown slot \{people\}"),
        ('[scenario.a]\ntext = "{person} { waits."\nquestion = "Ok?"\n', "stray brace"),
        ('[scenario.a]\ntext = "{person} waits."\n', "'question' is missing"),
        ('[scenario.a]\ntext = "{person}."\nquestion = "Ok?"\nfavourable = "maybe"\n', "must be yes or no"),
        ('[scenario.a]\ntext = "{person}."\nquestion = "Ok?"\ncolour = "red"\n', "unknown key"),
        ('[form]\nlanguage = "en"\n', "holds no scenario"),
        ('[form]\nlanguage = "de"\n[scenario.a]\ntext = "{person}."\nquestion = "Ok?"\n', "'yes' is missing"),
        ("[scenario", "not valid TOML"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(EvenhandError, match=message) as error:
        scenario_set(file)
    assert str(file) in error.value.message


def test_an_unknown_set_names_those_that_exist() -> None:
    with pytest.raises(EvenhandError, match="no set of scenarios"):
        scenario_set("decision-scenario")
    assert scenario_ids() == ("decision-scenarios", *(f"decision-scenarios-{code}" for code in ("de", "es", "fr")))
    assert len(scenario_set("decision-scenarios").scenarios) == 12
