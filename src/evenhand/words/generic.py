"""Questions built from a concept's groups, for concepts that bring none of their own."""

from __future__ import annotations

from evenhand.errors import unknown_name
from evenhand.words.catalog import query
from evenhand.words.concept import Concept
from evenhand.words.query import Query
from evenhand.words.wordset import WordSet

SEPARATOR = "/"  # between the concept and the attributes in the id of a generic query: religion/pleasant-unpleasant
# The published attribute sets that groups of any kind are compared on, and the query that holds them.
ATTRIBUTES = {"pleasant-unpleasant": "weat-1", "career-family": "weat-6"}


def generic_ids(concept: Concept) -> tuple[str, ...]:
    """Return the ids of the queries that can be built; the attribute sets are English, so other languages have none.

    `religion/pleasant-unpleasant` compares all groups, `religion/islam/pleasant-unpleasant` one group with the others;
    the second form exists for more than two groups.
    """
    if concept.language != "en" or len(concept.groups) < 2:
        return ()
    prefixes = [concept.name]
    prefixes += [f"{concept.name}{SEPARATOR}{group}" for group in concept.groups] if len(concept.groups) > 2 else []
    return tuple(f"{prefix}{SEPARATOR}{attributes}" for prefix in prefixes for attributes in ATTRIBUTES)


def generic_query(id: str, concept: Concept) -> Query:
    """Build the query of that id: the concept's groups as targets, the positive group first.

    Groups of unequal size are used as they are; a measure that needs equal sets says so.
    """
    if id not in generic_ids(concept):
        raise unknown_name("generic query", id, generic_ids(concept))
    head, _, attributes = id.rpartition(SEPARATOR)
    single = head.removeprefix(concept.name).removeprefix(SEPARATOR)
    source = query(ATTRIBUTES[attributes])
    return Query(
        id,
        _targets(concept, single),
        source.attributes,
        source.source,
        note=f"Built from the groups of {concept.name} and the attributes of {source.name}.",
        concept=concept.name,
    )


def _targets(concept: Concept, single: str) -> dict[str, WordSet]:
    """Return all groups, the positive one first; or a single group and the words of the others together."""
    if not single:
        ordered = sorted(concept.groups, key=lambda group: group != concept.positive)
        return {group: concept.groups[group] for group in ordered}
    others = dict.fromkeys(word for name, group in concept.groups.items() if name != single for word in group)
    return {single: concept.groups[single], "others": WordSet("others", tuple(others))}


def concept_query(id: str, concept: Concept) -> Query:
    """Return a query by id: the concept's own, a generic one, or a shipped one."""
    own = {question.name: question for question in concept.queries}
    if id in own:
        return own[id]
    return generic_query(id, concept) if id in generic_ids(concept) else query(id)
