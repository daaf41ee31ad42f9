"""Questions built from a concept's groups, for concepts that bring none of their own."""

from __future__ import annotations

from evenhand.errors import unknown_name
from evenhand.words.catalog import query
from evenhand.words.concept import Concept
from evenhand.words.query import Query

SEPARATOR = "/"  # between the concept and the attributes in the id of a generic query: religion/pleasant-unpleasant
# The published attribute sets that groups of any kind are compared on, and the query that holds them.
ATTRIBUTES = {"pleasant-unpleasant": "weat-1", "career-family": "weat-6"}


def generic_ids(concept: Concept) -> tuple[str, ...]:
    """Return the ids of the queries that can be built; the attribute sets are English, so other languages have none."""
    if concept.language != "en" or len(concept.groups) < 2:
        return ()
    return tuple(f"{concept.name}{SEPARATOR}{attributes}" for attributes in ATTRIBUTES)


def generic_query(id: str, concept: Concept) -> Query:
    """Build the query of that id: the concept's groups as targets, the positive group first.

    Groups of unequal size are used as they are; a measure that needs equal sets says so.
    """
    name, _, attributes = id.partition(SEPARATOR)
    if name != concept.name or attributes not in ATTRIBUTES:
        raise unknown_name("generic query", id, generic_ids(concept))
    source = query(ATTRIBUTES[attributes])
    ordered = sorted(concept.groups, key=lambda group: group != concept.positive)
    return Query(
        id,
        {group: concept.groups[group] for group in ordered},
        source.attributes,
        source.source,
        note=f"Built from the groups of {concept.name} and the attributes of {source.name}.",
        concept=concept.name,
    )


def concept_query(id: str, concept: Concept) -> Query:
    """Return a query by id: the concept's own, a generic one, or a shipped one."""
    own = {question.name: question for question in concept.queries}
    if id in own:
        return own[id]
    return generic_query(id, concept) if id in generic_ids(concept) else query(id)
