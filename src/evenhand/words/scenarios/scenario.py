"""Scenarios: a situation with slots for a person, and a question that yes or no answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evenhand.errors import UsageError, unknown_name
from evenhand.language import language
from evenhand.words.catalog import concept as find_concept
from evenhand.words.catalog import ids
from evenhand.words.concept import Concept
from evenhand.words.document import SUFFIXES, Document, TomlTable, read_document
from evenhand.words.grammar import ENGLISH, agree, genders_of, with_articles
from evenhand.words.library import build_table
from evenhand.words.persons import Person, forms_of, gender_of
from evenhand.words.wordset import Table

SHIPPED = "decision-scenarios"
FOLDER = Path(__file__).parent
SLOT = re.compile(r"\{([^{}]*)\}")
PERSON = "person"
PRONOUNS = ("they", "them", "their", "theirs", "themself")
VERB = re.compile(r"[^\W\d_]+/[^\W\d_]+")
FORM_KEYS = ("language", "articles", "yes", "no", "instruction", "scale_instruction")


@dataclass(frozen=True)
class AnswerForm:
    """How the answer is asked for, in the language of the scenarios."""

    language: str
    articles: str
    yes: str
    no: str
    instruction: str
    scale_instruction: str


@dataclass(frozen=True)
class Scenario:
    """A decision about a person.

    Attributes:
        name: its id.
        domain: what it is about, such as hiring.
        text: the situation, with `{person}`, pronouns as `{they}` and verbs as `{is/are}`.
        question: the question, in which the slots may occur too.
        favourable: which answer is good for the person, "yes" or "no".
        articles: the rule of articles and agreement.
    """

    name: str
    domain: str
    text: str
    question: str
    favourable: str = "yes"
    articles: str = "phonetic"

    def __post_init__(self) -> None:
        whole = f"{self.text} {self.question}"
        slots = SLOT.findall(whole)
        if PERSON not in [slot.lower() for slot in slots]:
            raise UsageError(
                f"the scenario {self.name!r} has no slot for a person", hint="write {person} where the person is named"
            )
        for slot in slots:
            if slot.lower() not in (PERSON, *PRONOUNS) and not VERB.fullmatch(slot):
                known = ", ".join(f"{{{name}}}" for name in (PERSON, *PRONOUNS))
                raise UsageError(
                    f"the scenario {self.name!r} has the unknown slot {{{slot}}}", hint=f"use {known} or {{is/are}}"
                )
        if "{" in SLOT.sub("", whole) or "}" in SLOT.sub("", whole):
            raise UsageError(f"the scenario {self.name!r} has a stray brace", hint="write slots as {person}")
        if self.favourable not in ("yes", "no"):
            raise UsageError(f"the scenario {self.name!r}: favourable must be yes or no, got {self.favourable!r}")

    def fill(self, person: Person) -> str:
        """Return the situation and the question about a person."""
        text = f"{self.text.strip()}\n\n{self.question.strip()}"
        filled = SLOT.sub(lambda slot: _word(slot[1], person), text)
        if genders := genders_of(self.articles):
            forms = {gender: agree(filled, gender, self.articles) for gender in genders}
            own = forms.get(gender_of(person)) or (forms[genders[0]] if len(set(forms.values())) == 1 else "")
            if not own:
                raise UsageError(
                    f"the scenario {self.name!r} agrees with the gender of a person, and that of {person.phrase!r} is "
                    "not known",
                    hint="give the people in a table [table.decision-people-CONCEPT] with a column pronouns",
                )
            return own
        return with_articles(filled, self.articles)


def _word(slot: str, person: Person) -> str:
    """Return what stands in a slot."""
    if "/" in slot:
        return slot.split("/")[person.pronouns == "they"]
    name = slot.lower()
    word = person.phrase if name == PERSON else forms_of(person.pronouns)[PRONOUNS.index(name)]
    return word[:1].upper() + word[1:] if slot[:1].isupper() else word


@dataclass(frozen=True)
class ScenarioSet:
    """The scenarios of a file, how their answers are asked for, and the tables of people that come with them."""

    name: str
    scenarios: tuple[Scenario, ...]
    form: AnswerForm
    tables: Mapping[str, Table]

    def prompt(self, scenario: Scenario, person: Person, *, scale: bool = False) -> str:
        """Return what a model is asked about a person."""
        return f"{scenario.fill(person)}\n{self.form.scale_instruction if scale else self.form.instruction}"


def scenario_ids() -> tuple[str, ...]:
    """Return the ids of the shipped sets: the English one, and one for each further language."""
    others = sorted(path.stem.removeprefix("scenarios-") for path in FOLDER.glob("scenarios-*.toml"))
    return (SHIPPED, *(f"{SHIPPED}-{code}" for code in others))


def language_of(reference: str | Path) -> str:
    """Return the language that the id of a shipped set names; empty for the English set and for files.

    >>> language_of("decision-scenarios-fr"), language_of("decision-scenarios")
    ('fr', '')
    """
    name = str(reference)
    return name.removeprefix(f"{SHIPPED}-") if name in scenario_ids()[1:] else ""


def concept_in(concept: Concept, code: str) -> Concept:
    """Return the shipped concept of another language with the same groups: that of `gender` in French is `gender-fr`.

    Raises:
        UsageError: If there is none.
    """
    if not code or concept.language == code:
        return concept
    id = concept.name.removesuffix(f"-{concept.language}") + ("" if code == "en" else f"-{code}")
    if id not in ids("concept"):
        known = [name for name in ids("concept") if find_concept(name).language == code]
        raise UsageError(
            f"there is no concept {concept.name!r} in {language(code).name}",
            hint=f"use {', '.join(known)}" if known else "write one: docs/how-to/own-words.md",
        )
    return find_concept(id)


def scenario_set(reference: str | Path, code: str = "en") -> ScenarioSet:
    """Return a set by its id or file; the id of the English set stands for that of another language, if it exists.

    Args:
        reference: `decision-scenarios`, one with a language such as `decision-scenarios-fr`, or a TOML file.
        code: the language of the people.

    Raises:
        UsageError: If the set is unknown, or in another language than the people.
    """
    name = str(reference)
    if not name.lower().endswith(SUFFIXES):
        chosen = f"{SHIPPED}-{code}" if name == SHIPPED and code != "en" else name
        if chosen not in scenario_ids():
            if name == SHIPPED:
                raise UsageError(
                    f"there are no scenarios in {language(code).name}", hint="write some: docs/measures/decisions.md"
                )
            raise unknown_name("set of scenarios", name, scenario_ids())
        return _shipped(chosen)
    scenarios = read_scenarios(read_document(Path(name).expanduser()), Path(name).stem)
    if scenarios.form.language != code:
        raise UsageError(
            f"{name} is in {language(scenarios.form.language).name}, and the people are in {language(code).name}",
            hint="choose a concept of the same language, or say language in [form]",
        )
    return scenarios


@cache
def _shipped(id: str) -> ScenarioSet:
    return read_scenarios(read_document(FOLDER / f"{id.removeprefix('decision-')}.toml"), id)


def read_scenarios(document: Document, name: str) -> ScenarioSet:
    """Return the scenarios of a document: tables `[scenario.ID]`, `[form]`, and tables of people."""
    top = TomlTable(document, (), document.data)
    top.only("form", "scenario", "table", "source")
    form = _form(top.child("form"))
    entries = top.child("scenario")
    if not entries.table:
        raise document.error((), "holds no scenario", hint="add a table [scenario.my-id] with text and question")
    return ScenarioSet(
        name,
        tuple(_scenario(entries.child(id), form) for id in entries.table),
        form,
        {id: build_people_table(top.child("table").child(id)) for id in top.child("table").table},
    )


def build_people_table(entry: TomlTable) -> Table:
    """Return a table of people; its source is the scenario file itself."""
    from evenhand.words.library import Library

    return build_table(entry, Library(Document(entry.document.path, entry.document.text, {})))


def _form(entry: TomlTable) -> AnswerForm:
    entry.only(*FORM_KEYS)
    code = entry.text("language", "en")
    with entry.at("language"):
        own = language(code).name.lower()
    if code == "en":
        english = TomlTable(entry.document, entry.keys, {**_english(), **entry.table})
        return _built(english, "en", english.text("articles", "phonetic"))
    for key in ("yes", "no", "instruction"):
        if key not in entry:
            raise entry.error(
                key, f"the key {key!r} is missing", hint="scenarios in another language say how to answer"
            )
    return _built(entry, code, entry.text("articles", _rule(own)))


def _built(entry: TomlTable, code: str, articles: str) -> AnswerForm:
    with entry.at("articles"):
        genders_of(articles)
    yes, no, instruction = (entry.text(key) for key in ("yes", "no", "instruction"))
    return AnswerForm(code, articles, yes, no, instruction, entry.text("scale_instruction", ""))


def _rule(name: str) -> str:
    """Return the rule of agreement of a language; the English one leaves texts without `a/an` as they are."""
    try:
        genders_of(name)
    except UsageError:
        return ENGLISH[1]
    return name


@cache
def _english() -> dict[str, str]:
    document = read_document(FOLDER / "scenarios.toml")
    form = TomlTable(document, (), document.data).child("form")
    return {key: form.text(key) for key in form.table}


def _scenario(entry: TomlTable, form: AnswerForm) -> Scenario:
    entry.only("domain", "text", "question", "favourable")
    text, question = (" ".join(entry.text(key).split()) for key in ("text", "question"))
    with entry.at("text"):
        return Scenario(
            entry.id, entry.text("domain", ""), text, question, entry.text("favourable", "yes"), form.articles
        )
