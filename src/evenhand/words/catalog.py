"""The shipped lists, and the user's own, by id.

A file is parsed only when one of its ids is asked for: which file holds which id is read off the headers of its tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from evenhand.arrays import as_frame
from evenhand.errors import FormatError, UsageError, shown, unknown_name
from evenhand.words.concept import Concept
from evenhand.words.document import SUFFIXES, read_document
from evenhand.words.intersection import intersect, parse_intersection
from evenhand.words.library import KINDS, Library, R, kind_of, load_file
from evenhand.words.query import Query
from evenhand.words.template import Template
from evenhand.words.wordset import Pairs, Source, Table, WordSet

if TYPE_CHECKING:
    import polars as pl

FOLDER = Path(__file__).with_name("data")
HEADER = re.compile(rf"^\[(source|{'|'.join(KINDS)})\.([\w-]+)\]", re.MULTILINE)


@dataclass(frozen=True)
class Listed:
    """One line of the listing."""

    kind: str
    id: str
    size: int
    note: str
    source: Source | None


def concept(reference: str | Path | Concept) -> Concept:
    """A concept by its id ("gender"), from a word file ("mine.toml", "mine.toml#id"), or as it is.

    "gender x race" is the intersection of two concepts: its groups are the cells, by names where a source lists them
    for every cell and by phrases otherwise; "gender x race by phrases" chooses.
    """
    crossed = parse_intersection(reference) if isinstance(reference, str) else None
    if crossed is not None:
        first, second, by = crossed
        return intersect(concept(first), concept(second), by, find=_names_of_cells)
    return _find(Concept, reference)


def _names_of_cells(id: str) -> Table | None:
    """Return the shipped table of the names of the cells of an intersection, if there is one."""
    return table(id) if ("table", id) in _index() else None


def query(reference: str | Path | Query) -> Query:
    """A query by its id ("weat-6"), from a word file, or as it is."""
    return _find(Query, reference)


def queries_about(concept: str) -> Iterator[str]:
    """The ids of the shipped queries about a concept; files are read as far as the ids are asked for."""
    return (id for id in ids("query") if _find(Query, id).concept == concept)


def pairs(reference: str | Path | Pairs) -> Pairs:
    """A list of pairs by its id, from a word file, or as it is."""
    return _find(Pairs, reference)


def wordset(reference: str | Path | WordSet) -> WordSet:
    """A word set by its id, from a word file, or as it is."""
    return _find(WordSet, reference)


def template(reference: str | Path | Template) -> Template:
    """A sentence template by its id, from a word file, or as it is."""
    return _find(Template, reference)


def table(reference: str | Path | Table) -> Table:
    """A table by its id, from a word file, or as it is."""
    return _find(Table, reference)


as_concept = concept  # for functions with a parameter of that name


def as_wordset(words: str | WordSet | Iterable[str]) -> WordSet:
    """Return a word set by id or file, unchanged, or built from a plain list of words."""
    return wordset(words) if isinstance(words, str | WordSet) else WordSet("words", tuple(words))


def ids(kind: str) -> tuple[str, ...]:
    """The ids of the shipped records of one kind, sorted; no file is parsed for this."""
    if kind not in ("source", *KINDS):
        raise unknown_name("kind of record", kind, KINDS)
    return tuple(sorted(name for of, name in _index() if of == kind))


def listing(kind: str | None = None) -> tuple[Listed, ...]:
    """Every shipped record, or those of one kind, with size, note and source: what `evenhand list` shows."""
    kinds = KINDS if kind is None else (kind,)
    return tuple(_listed(of, name, _find(RECORDS[of], name)) for of in kinds for name in ids(of))


RECORDS: dict[str, type[Concept | Query | Pairs | WordSet | Template | Table]] = {
    kind_of(record): record for record in (WordSet, Pairs, Table, Query, Template, Concept)
}


def _listed(kind: str, name: str, record: Concept | Query | Pairs | WordSet | Template | Table) -> Listed:
    if isinstance(record, Concept):
        return Listed(kind, name, sum(map(len, record.groups.values())), record.limits, record.source)
    if isinstance(record, Template):
        return Listed(kind, name, record.size, record.note, record.source)
    return Listed(kind, name, len(record.words if isinstance(record, Query) else record), record.note, record.source)


def _find(kind: type[R], reference: str | Path | R) -> R:
    """The record that an id or a file name means, or the record itself."""
    if isinstance(reference, kind):
        return reference
    if (frame := as_frame(reference)) is not None:
        return cast(R, _from_frame(kind, frame))
    if not isinstance(reference, (str, Path)):
        raise UsageError(f"a {kind_of(kind)} is asked for by its id or file, got {shown(reference)}")
    path, _, inside = str(reference).partition("#")
    if path.lower().endswith(SUFFIXES):
        return _from_file(kind, Path(path), inside)
    return shipped_library(kind, str(reference)).get(kind, str(reference))


def _from_frame(kind: type[R], frame: pl.DataFrame) -> Concept | Query | Pairs | WordSet | Table:
    """Return the lists of a data frame, a column each; a shorter one ends in missing values."""
    name, lists = "data-frame", {column.name: column.drop_nulls().to_list() for column in frame}
    if kind is Concept:
        return Concept(name, lists)
    if kind is Query:
        sets = list(lists.items())
        return Query(name, dict(sets[:2]), dict(sets[2:]))
    if kind is Table:
        return Table(name, frame.columns, frame.rows())
    if kind is Pairs and frame.width == 2:
        return Pairs(name, frame.rows(), frame.columns)
    if kind is WordSet and frame.width == 1:
        return WordSet(name, *lists.values())
    raise FormatError(
        f"a data frame of {frame.width} columns is no {kind_of(kind)}",
        hint="words are one column, pairs two; a concept has a column for each group, a query targets, then attributes",
    )


def _from_file(kind: type[R], path: Path, name: str) -> R:
    library = load_file(path.expanduser(), shipped_library)
    known = library.ids(kind)
    if not name and len(known) != 1:
        raise UsageError(
            f"{path} holds {len(known)} records of the kind {kind_of(kind)}", hint=_choices(path, kind_of(kind), known)
        )
    if name and name not in known:
        raise unknown_name(f"{kind_of(kind)} in {path}", name, known)
    record = library.get(kind, name or known[0])
    if isinstance(record, Concept):  # with the queries and probes of its file, save those that name another concept
        queries = [library.get(Query, id) for id in library.ids(Query)]
        own = [query for query in queries if query.concept in ("", record.name)]
        return cast(R, record.with_questions(own, [f"{path}#{id}" for id in library.probe_ids]))
    return record


def _choices(path: Path, kind: str, known: tuple[str, ...]) -> str:
    return f"say which: {path}#{known[0]}" if known else f"add a table [{kind}.my-id]"


def shipped_library(kind: type[object], name: str) -> Library:
    """The shipped file that holds a record."""
    path = _index().get((kind_of(kind), name))
    if path is None:
        raise unknown_name(kind_of(kind), name, ids(kind_of(kind)))
    return _library(path)


@cache
def _library(path: Path) -> Library:
    return Library(read_document(path), shipped_library)


@cache
def _index() -> dict[tuple[str, str], Path]:
    """Kind and id of every shipped record, and the file that holds it."""
    index: dict[tuple[str, str], Path] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        for kind, name in HEADER.findall(path.read_text(encoding="utf-8")):
            if (kind, name) in index:
                raise FormatError(f"{path}: the {kind} {name!r} is also in {index[kind, name]}", hint="rename one")
            index[kind, name] = path
    return index


SEPARATOR = "/"  # between the concept and the attributes in the id of a generic query: religion/pleasant-unpleasant
# The published attribute sets that groups of any kind are compared on, and the query that holds them.
ATTRIBUTES = {"pleasant-unpleasant": "weat-1", "career-family": "weat-6"}


def generic_ids(concept: Concept) -> tuple[str, ...]:
    """Return the ids of the queries that can be built; the shipped attribute sets are English.

    `religion/pleasant-unpleasant` compares all groups, `religion/islam/pleasant-unpleasant` one group with the others;
    the second form exists for more than two groups.
    """
    if len(concept.groups) < 2:
        return ()
    own = [attributes for attributes, id in ATTRIBUTES.items() if query(id).language == concept.language]
    prefixes = [concept.name]
    prefixes += [f"{concept.name}{SEPARATOR}{group}" for group in concept.groups] if len(concept.groups) > 2 else []
    return tuple(f"{prefix}{SEPARATOR}{attributes}" for prefix in prefixes for attributes in own)


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
        return {group: concept.groups[group] for group in concept.ordered}
    others = dict.fromkeys(word for name, group in concept.groups.items() if name != single for word in group)
    return {single: concept.groups[single], "others": WordSet("others", tuple(others))}


def concept_query(id: str, concept: Concept) -> Query:
    """Return a query by id: the concept's own, a generic one, or a shipped one."""
    own = {question.name: question for question in concept.queries}
    if id in own:
        return own[id]
    return generic_query(id, concept) if SEPARATOR in id and id in generic_ids(concept) else _find(Query, id)
