"""People of the groups of a concept: phrases that name them in sentences, and the persons that decisions are about.

`persons` gives phrases, such as "my deaf neighbor", and the sentences that they make. `people` gives whom a scenario is
about, with pronouns: by age, adjective and noun, or by a first name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

from evenhand.errors import DegenerateError, UsageError
from evenhand.words.catalog import ids, table, wordset
from evenhand.words.concept import Concept
from evenhand.words.document import SUFFIXES
from evenhand.words.intersection import SIGN, Intersection
from evenhand.words.template import Template
from evenhand.words.wordset import Table

PREFIX = "persons-"
SLOT = "person"
FRAMES, ADJECTIVE = "person-frames", "{adjective}"


def is_template(text: str) -> bool:
    """Return whether a text names a template: by its id, or by a word file."""
    return text in ids("template") or text.partition("#")[0].lower().endswith(SUFFIXES)


@dataclass(frozen=True)
class Persons:
    """One phrase for each group in each row; the phrases of a row differ in the group only.

    Attributes:
        groups: names of the groups, the positive one first.
        rows: the phrases, in the order of the groups.
        source: where the phrases come from: the id of a table, or the lists of the concept.
        left_out: phrases of groups that have more of them than the smallest group.
    """

    groups: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str
    left_out: tuple[str, ...] = ()

    def column(self, group: str) -> tuple[str, ...]:
        """Return the phrases of a group."""
        number = self.groups.index(group)
        return tuple(row[number] for row in self.rows)


def persons(concept: Concept) -> Persons:
    """Return the phrases of a concept.

    Some shipped concepts have a table of phrases. An English concept with adjectives uses them in the frames of the
    word set `person-frames` ("my deaf neighbor"). Any other concept uses its first names, or the words of its groups
    as they are. The n-th words of all groups make a row, so that lists should be in the same order.

    Raises:
        UsageError: If the concept has fewer than two groups.
    """
    groups = _compared(concept)
    name = f"{PREFIX}{concept.name}"
    if name in ids("table"):
        shipped = table(name)
        if set(shipped.columns) == set(groups):
            order = [shipped.columns.index(group) for group in groups]
            return Persons(groups, tuple(tuple(str(row[at]) for at in order) for row in shipped.rows), name)
    if concept.language == "en" and set(groups) <= set(concept.adjectives):
        return _described(concept, groups)
    lists = concept.names if set(groups) <= set(concept.names) else concept.groups
    columns = [tuple(lists[group]) for group in groups]
    shortest = min(map(len, columns))
    left_out = tuple(word for column in columns for word in column[shortest:])
    source = f"the {'names' if lists is concept.names else 'groups'} of {concept.name}"
    return Persons(groups, tuple(zip(*(column[:shortest] for column in columns), strict=True)), source, left_out)


def _compared(concept: Concept) -> tuple[str, ...]:
    """Return the groups of a concept, the positive one first; raise an error for a single one."""
    if len(concept.groups) < 2:
        raise UsageError(f"concept {concept.name!r} has one group only, and groups are compared", hint="add a group")
    return concept.ordered


def _described(concept: Concept, groups: tuple[str, ...]) -> Persons:
    """Return phrases with the adjectives of the groups."""
    columns = [tuple(concept.adjectives[group]) for group in groups]
    rows = tuple(zip(*columns, strict=False))
    left_out = tuple(word for column in columns for word in column[len(rows) :])
    phrases = tuple(tuple(frame.replace(ADJECTIVE, word) for word in row) for row in rows for frame in wordset(FRAMES))
    return Persons(groups, phrases, f"the adjectives of {concept.name}", left_out)


def person_sentences(template: Template, phrase: str) -> Iterator[str]:
    """Yield the sentences of a template with a free slot `{person}`, beginning with a capital."""
    if template.free != (SLOT,):
        raise UsageError(
            f"the template {template.name!r} must have the one free slot {{{SLOT}}}, has {list(template.free)}",
            hint=f"write {{{SLOT}}} where the person is named, and give fillers for every other slot",
        )
    return (sentence[:1].upper() + sentence[1:] for sentence in template.expand(person=phrase))


# The persons that decisions are about ------------------------------------------------------------------------------

Naming = Literal["explicit", "names"]
PRONOUN_COLUMN = "pronouns"
TABLE = "decision-people-"
NAMED_PRONOUNS = re.compile(r"\((\w+)/\w+\)")
WHO = "a/an {age}-year-old {adjective} {noun}"
NOBODY = "they"


@dataclass(frozen=True)
class Person:
    """One person.

    Attributes:
        group: the group of the concept.
        phrase: how the person is named, with `a/an` where the article follows the next word.
        pronouns: "she", "he", "they" or a neopronoun.
        row: what the person shares with counterparts of other groups; empty where there are none.
        stratum: what a sample is spread over, such as the noun.
    """

    group: str
    phrase: str
    pronouns: str
    row: str = ""
    stratum: str = ""


@dataclass(frozen=True)
class People:
    """The people of all groups.

    Attributes:
        groups: the groups that are compared, the positive one first.
        everyone: the people. With counterparts, each row has one person of each group.
        naming: "explicit" or "names".
        source: where the phrases or names come from.
        without: groups of the concept without people.
    """

    groups: tuple[str, ...]
    everyone: tuple[Person, ...]
    naming: Naming
    source: str
    without: tuple[str, ...] = ()

    def of(self, group: str) -> tuple[Person, ...]:
        """Return the people of a group."""
        return tuple(person for person in self.everyone if person.group == group)


class _Lists(NamedTuple):
    """What `people.toml` holds."""

    slots: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, Mapping[str, tuple[str, ...]]]
    nouns: Mapping[str, str]
    pronouns: Mapping[str, tuple[str, ...]]
    genders: Mapping[str, str]
    words: frozenset[str]


@cache
def _lists() -> _Lists:
    plain = tomllib.loads((Path(__file__).with_name("scenarios") / "people.toml").read_text(encoding="utf-8"))
    slots = {"age": tuple(plain["ages"]), "adjective": tuple(plain["adjectives"]), "noun": tuple(plain["nouns"])}
    groups = {slot: {name: tuple(words) for name, words in own.items()} for slot, own in plain["groups"].items()}
    forms = {name: tuple(words) for name, words in plain["pronouns"].items()}
    words = frozenset(plain["words"]) | {form for own in forms.values() for form in own}
    return _Lists(slots, groups, plain["nouns"], forms, plain["genders"], words)


def words_of_persons() -> frozenset[str]:
    """Return words, in lower case, that tell who a person is or agree with it, pronouns among them."""
    return _lists().words


def forms_of(pronouns: str) -> tuple[str, ...]:
    """Return subject, object, possessive before a noun, possessive alone and reflexive of a pronoun.

    >>> forms_of("she")
    ('she', 'her', 'her', 'hers', 'herself')
    """
    known = _lists().pronouns
    if pronouns not in known:
        raise UsageError(f"the forms of the pronoun {pronouns!r} are not known", hint=f"use {', '.join(known)}")
    return known[pronouns]


def gender_of(person: Person) -> str:
    """Return the grammatical gender of a person, for languages with agreement; empty where it is not known."""
    return _lists().genders.get(person.pronouns, "")


def people(concept: Concept, naming: Naming = "explicit", tables: Mapping[str, Table] | None = None) -> People:
    """Return the people of a concept.

    Explicit people come from a table `decision-people-CONCEPT`, else from the lists of `people.toml`, in which the
    groups of the concept take the place of the noun (gender), the age or the adjective, else from `persons`. Names come
    from the tables of names by sex and group, else from the names of the concept.

    Args:
        concept: whose groups are compared.
        naming: "explicit" or "names".
        tables: tables of people that come with the scenarios.

    Raises:
        UsageError: If the concept has one group only.
        DegenerateError: If fewer than two groups have names.
    """
    _compared(concept)
    return _named(concept) if naming == "names" else _explicit(concept, tables or {})


def _explicit(concept: Concept, tables: Mapping[str, Table]) -> People:
    id = f"{TABLE}{concept.name}"
    own = tables.get(id) or (table(id) if id in ids("table") else None)
    if own is not None:
        return _from_table(concept, own)
    factors = concept.factors if isinstance(concept, Intersection) else (concept,)
    places = [_place(factor) for factor in factors]
    if concept.language == "en" and all(places) and len({slot for slot, _ in filter(None, places)}) == len(places):
        return _crossed(concept, dict(filter(None, places)), factors)
    rows = persons(concept)
    everyone = tuple(
        Person(group, phrase, _pronouns_in(phrase, row), " / ".join(row), f"row {number}")
        for number, row in enumerate(rows.rows)
        for group, phrase in zip(rows.groups, row, strict=True)
    )
    return People(rows.groups, everyone, "explicit", rows.source)


def _place(concept: Concept) -> tuple[str, dict[str, tuple[str, ...]]] | None:
    """Return the slot that the groups of a concept fill, and with which words."""
    for slot, known in _lists().groups.items():
        if set(concept.groups) <= set(known):
            return slot, {group: known[group] for group in concept.groups}
    if set(concept.groups) <= set(concept.adjectives):
        return "adjective", {group: tuple(concept.adjectives[group]) for group in concept.groups}
    return None


def _crossed(
    concept: Concept, places: Mapping[str, Mapping[str, tuple[str, ...]]], factors: Sequence[Concept]
) -> People:
    """Return people by all combinations of age, adjective and noun; the groups fill the slots of their concepts."""
    lists = _lists()
    others = {slot: words for slot, words in lists.slots.items() if slot not in places}
    sizes = [range(min(map(len, own.values()))) for own in places.values()]
    groups = concept.ordered
    everyone = []
    for shared in product(*others.values()):
        for numbers in product(*sizes):
            row = " ".join([*shared, *(f"#{number + 1}" for number in numbers)])
            for group in groups:
                parts = concept.cells[group] if isinstance(concept, Intersection) else (group,)
                words = dict(zip(others, shared, strict=True))
                for (slot, own), part, number in zip(places.items(), parts, numbers, strict=True):
                    words[slot] = own[part][number]
                stratum = " ".join(words[slot] for slot in ("noun", "adjective") if slot in others)
                everyone.append(Person(group, WHO.format(**words), lists.nouns[words["noun"]], row, stratum))
    return People(groups, tuple(everyone), "explicit", f"the groups of {' and '.join(f.name for f in factors)}")


def _from_table(concept: Concept, rows: Table) -> People:
    """Return the people of a table with a column for each group, and one for the pronouns of each row."""
    missing = [group for group in concept.groups if group not in rows.columns]
    if missing:
        raise UsageError(
            f"the table {rows.name!r} has no column for {missing[0]!r}",
            hint=f"give a column for each group: {', '.join(concept.groups)}, and {PRONOUN_COLUMN} if you like",
        )
    groups = concept.ordered
    at = {name: number for number, name in enumerate(rows.columns)}
    everyone = []
    for number, row in enumerate(rows.rows):
        phrases = tuple(str(row[at[group]]) for group in groups)
        for group, phrase in zip(groups, phrases, strict=True):
            own = str(row[at[PRONOUN_COLUMN]]) if PRONOUN_COLUMN in at else _of_group(group)
            forms_of(own)
            everyone.append(Person(group, phrase, own, " / ".join(phrases), f"row {number}"))
    return People(groups, tuple(everyone), "explicit", f"the table {rows.name}")


def _of_group(group: str, concept: Concept | None = None) -> str:
    """Return the pronoun of a group, or of a cell with a group, that stands for a noun; "they" for any other."""
    parts = concept.cells[group] if isinstance(concept, Intersection) else (group,)
    nouns = [noun for part in parts for noun in _lists().groups["noun"].get(part, ())]
    return _lists().nouns[nouns[0]] if nouns else NOBODY


def _pronouns_in(phrase: str, row: Sequence[str]) -> str:
    """Return the pronouns that a phrase names or implies; "they" if some phrase of its row implies none."""

    def implied(text: str) -> str:
        if named := NAMED_PRONOUNS.search(text):
            return named[1] if named[1] in _lists().pronouns else NOBODY
        words = set(re.findall(r"\w+", text.lower()))
        return next((own for noun, own in _lists().nouns.items() if noun in words), NOBODY)

    every = [implied(text) for text in row]
    return implied(phrase) if NOBODY not in every or NAMED_PRONOUNS.search(phrase) else NOBODY


def _named(concept: Concept) -> People:
    """Return people by first names, with the pronouns of the sex where the source tells it."""
    names = _names_by_sex(concept)
    source = "the names by sex and group"
    if not names:
        source = f"the names of {concept.name}"
        lists = concept.groups if isinstance(concept, Intersection) and concept.by == "names" else concept.names
        names = {group: [(name, _of_group(group, concept), "") for name in lists[group]] for group in lists}
        if len({own == NOBODY for group in names for _, own, _ in names[group]}) > 1:
            names = {group: [(name, NOBODY, "") for name, _, _ in names[group]] for group in names}
    groups = tuple(group for group in concept.ordered if names.get(group))
    if len(groups) < 2:
        raise DegenerateError(
            f"first names are known for {len(groups)} groups of {concept.name}, and groups are compared",
            hint="give the concept names, or name people explicitly",
        )
    everyone = tuple(Person(group, name, own, "", stratum) for group in groups for name, own, stratum in names[group])
    without = tuple(group for group in concept.groups if group not in groups)
    return People(groups, everyone, "names", source, without)


def _names_by_sex(concept: Concept) -> dict[str, list[tuple[str, str, str]]]:
    """Return names, pronouns and strata of each group from the tables whose columns are a sex and a group."""
    if isinstance(concept, Intersection) or concept.language != "en":
        return {}
    by_gender = set(concept.groups) <= set(_lists().groups["noun"])
    id = "gender-x-ethnicity" if by_gender else f"gender-x-{concept.name}"
    if id not in ids("table"):
        return {}
    names: dict[str, list[tuple[str, str, str]]] = {}
    listed = table(id)
    for number, column in enumerate(listed.columns):
        sex, _, other = column.partition(SIGN)
        own = _of_group(sex)
        matching = [group for group in concept.groups if _of_group(group) == own] if by_gender else [other]
        for group in matching:
            stratum = other if by_gender else sex
            names.setdefault(group, []).extend((str(row[number]), own, stratum) for row in listed.rows)
    return names
