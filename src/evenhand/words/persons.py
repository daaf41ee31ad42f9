"""Phrases that name a person of each group of a concept, and the sentences they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evenhand.errors import UsageError
from evenhand.words.catalog import ids, table, wordset
from evenhand.words.concept import Concept
from evenhand.words.document import SUFFIXES
from evenhand.words.template import Template

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
    groups = tuple(sorted(concept.groups, key=lambda group: group != concept.positive))
    if len(groups) < 2:
        raise UsageError(f"concept {concept.name!r} has one group only, and groups are compared", hint="add a group")
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
