"""The stimulus sets of the word association test for language models, and decisions between two people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from evenhand.words import catalog
from evenhand.words.document import read_document
from evenhand.words.grammar import with_articles
from evenhand.words.library import Library
from evenhand.words.query import Query
from evenhand.words.wordset import Pairs, Table

FILE = Path(__file__).with_name("associations.toml")
PREFIX, DECIDE, VALENCE = "bai2025-", "decide-", "decide-valence"
EVERY = "*"
GOOD = frozenset({"good", "pleasant", "harmless"})


@cache
def _library() -> Library:
    return Library(read_document(FILE), catalog.shipped_library)


def association_ids() -> tuple[str, ...]:
    """Return the ids of the 21 stimulus sets."""
    return _library().ids(Query)


def association_query(id: str) -> Query | None:
    """Return a stimulus set by its id; None for any other id."""
    return _library().get(Query, id) if id in association_ids() else None


def decisions_between(query: Query) -> tuple[tuple[str, str], ...]:
    """Return what two people of a query are decided about, what goes with the first attribute first.

    Some stimulus sets have decisions of their own. Sets whose first attribute is good or pleasant share those of good
    and bad. In all others the people speak about the words of the attributes.
    """
    own = DECIDE + query.name.removeprefix(PREFIX)
    known = _library().ids(Pairs)
    first, second = query.attributes
    if own not in known and first.name.lower() not in GOOD:
        topics = zip(first, second, strict=False)
        return tuple((f"gives the talk about {a}", f"gives the talk about {b}") for a, b in topics)
    return tuple(_library().get(Pairs, own if own in known else VALENCE))


def people_between(query: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return how the people of both targets of a query are named in a decision; names stand as they are.

    >>> people_between(association_query("bai2025-age"))
    (('a young person',), ('an old person',))
    """
    frames = _library().get(Table, "decide-people")
    row = next((row for row in frames.rows if PREFIX + str(row[0]) == query.name), None)
    if row is None:
        first, second = (tuple(target) for target in query.targets)
        return first, second
    return _phrases(query, row, 0), _phrases(query, row, 1)


def _phrases(query: Query, row: Sequence[object], side: int) -> tuple[str, ...]:
    words = (str(row[2 + side]),) if row[2 + side] != EVERY else tuple(query.targets[side])
    lowered = str(row[1]).startswith("the ") or words[0] in ("Young", "Old")
    return tuple(with_articles(str(row[1]).replace("{word}", word.lower() if lowered else word)) for word in words)
