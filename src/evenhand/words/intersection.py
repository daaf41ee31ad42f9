"""Intersections: the cells of two concepts, such as the women and men of two races, from names or from phrases."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, get_args

from evenhand.errors import UsageError
from evenhand.words.concept import Concept
from evenhand.words.wordset import FrozenMap, Source, Table

CellsBy = Literal["names", "phrases"]
SIGN = " x "
FEWEST = 4  # words of a cell; fewer leave no spread to test an interaction against
PEOPLE = "people"
REFERENCE = re.compile(r"(?P<first>\S.*?)\s+[x×]\s+(?P<second>\S.*?)(?:\s+by\s+(?P<by>\w+))?", re.DOTALL)


@dataclass(frozen=True, init=False, repr=False)
class Intersection(Concept):
    """The cells of two concepts as groups, named "female x african-american".

    The cells hold first names where a source says of each name to which group of both concepts it belongs, and phrases
    otherwise: an adjective of one concept and a noun of the other ("Black women"). Word vectors have no vectors of
    phrases. A vector composed of the words of a phrase is the sum of two parts by construction, so that it has no
    interaction: use names for word vectors, phrases for encoders and language models.

    Attributes:
        factors: the two concepts.
        cells: the group of each concept that a cell belongs to.
        by: what the cells hold, "names" or "phrases".
    """

    factors: tuple[Concept, Concept]
    cells: Mapping[str, tuple[str, str]]
    by: CellsBy

    def __init__(
        self,
        first: Concept,
        second: Concept,
        groups: Mapping[str, tuple[str, ...]],
        by: CellsBy,
        *,
        source: Source | None = None,
        note: str = "",
    ) -> None:
        cells = {cell_name(a, b): (a, b) for a, b in product(first.groups, second.groups)}
        filled = {cell: groups.get(cell, ()) for cell in cells}
        rows = [a for a in first.groups if any(filled[cell_name(a, b)] for b in second.groups)]
        columns = [b for b in second.groups if any(filled[cell_name(a, b)] for a in first.groups)]
        kept = {cell: sides for cell, sides in cells.items() if sides[0] in rows and sides[1] in columns}
        if empty := [cell for cell in kept if not filled[cell]]:
            raise UsageError(
                f"{first.name}{SIGN}{second.name} by {by}: no word for {', '.join(empty)}",
                hint="give both concepts adjectives or nouns for every group, or names that both of them list",
            )
        if len(rows) < 2 or len(columns) < 2:
            raise UsageError(
                f"{first.name}{SIGN}{second.name} by {by}: words for {len(rows)} and {len(columns)} groups; an "
                "intersection needs two groups of each concept",
                hint="give both concepts adjectives or nouns for every group, or names that both of them list",
            )
        positive = next(
            (c for c, sides in kept.items() if sides == (first.positive, second.positive)), next(iter(kept))
        )
        super().__init__(
            first.name + SIGN + second.name,
            {cell: filled[cell] for cell in kept},
            positive=positive,
            specific=tuple(dict.fromkeys((*first.specific, *second.specific))),
            source=source or first.source,
            limits=_limits(first, second, by, note),
            language=first.language,
        )
        vars(self).update(factors=(first, second), cells=FrozenMap(kept), by=by)

    @property
    def rows(self) -> tuple[str, ...]:
        """The groups of the first concept that have cells."""
        return tuple(dict.fromkeys(a for a, _ in self.cells.values()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The groups of the second concept that have cells."""
        return tuple(dict.fromkeys(b for _, b in self.cells.values()))


def cell_name(first: str, second: str) -> str:
    """Return the name of a cell.

    >>> cell_name("female", "old")
    'female x old'
    """
    return first + SIGN + second


def parse_intersection(reference: str) -> tuple[str, str, CellsBy | None] | None:
    """Return the two concepts of "gender x race" or "gender x race by phrases"; None for any other reference."""
    match = REFERENCE.fullmatch(reference.strip())
    if match is None:
        return None
    first, second, by = match["first"], match["second"], match["by"]
    if REFERENCE.fullmatch(second):
        raise UsageError(f"{reference!r}: an intersection has two concepts", hint='write "gender x race"')
    if by is not None and by not in get_args(CellsBy):
        raise UsageError(f"{reference!r}: unknown words {by!r}", hint="write by names, or by phrases")
    return first, second, by  # type: ignore[return-value]


def intersect(
    first: Concept, second: Concept, by: CellsBy | None = None, *, find: Callable[[str], Table | None] = lambda id: None
) -> Intersection:
    """Build the cells of two concepts.

    Args:
        first: the concept whose groups are the rows.
        second: the concept whose groups are the columns.
        by: "names" or "phrases"; None takes names where every cell has at least four, phrases otherwise.
        find: looks up a table of the names of the cells by its id, such as "gender-x-race".

    >>> sex = Concept("sex", groups={"f": ["she"], "m": ["he"]}, nouns={"f": ["women"], "m": ["men"]})
    >>> age = Concept("age", groups={"o": ["old"], "y": ["new"]}, adjectives={"o": ["old"], "y": ["young"]})
    >>> {cell: words.words for cell, words in intersect(sex, age).groups.items()}
    {'f x o': ('old women',), 'f x y': ('young women',), 'm x o': ('old men',), 'm x y': ('young men',)}
    """
    if first.language != second.language:
        raise UsageError(
            f"{first.name} is in {first.language}, {second.name} in {second.language}",
            hint="cross concepts of one language",
        )
    if first.name == second.name:
        raise UsageError(f"{first.name} cannot be crossed with itself", hint="name two concepts")
    listed = _listed(first, second, find) if by != "phrases" else None
    names = listed.names if listed else {}
    enough = [words for words in names.values() if words]
    if by == "names" or (enough and min(map(len, enough)) >= FEWEST and _is_table(first, second, names)):
        source, note = (listed.source, listed.note) if listed else (None, "")
        return Intersection(first, second, names, "names", source=source, note=note)
    return Intersection(first, second, _phrases(first, second), "phrases")


class _Listed(NamedTuple):
    """The names of the cells, and where they come from."""

    names: Mapping[str, tuple[str, ...]]
    source: Source | None = None
    note: str = ""


def _listed(first: Concept, second: Concept, find: Callable[[str], Table | None]) -> _Listed:
    """Return the names of each cell: those that a source lists by both groups, else those that both concepts list."""
    for one, other in ((first, second), (second, first)):
        table = find(f"{one.name}-x-{other.name}")
        if table is None:
            continue
        columns = zip(table.columns, zip(*table.rows, strict=True), strict=True)
        cells = {tuple(column.split(SIGN)): tuple(map(str, names)) for column, names in columns}
        turned = one is second
        names = {cell_name(*(cell[::-1] if turned else cell)): words for cell, words in cells.items()}
        return _Listed(names, table.source, table.note)
    return _Listed(
        {
            cell_name(a, b): tuple(name for name in first.names[a] if name in second.names[b])
            for a, b in product(first.groups, second.groups)
            if a in first.names and b in second.names
        }
    )


def _is_table(first: Concept, second: Concept, names: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether the cells with names are all cells of at least two groups of each concept."""
    filled = [(a, b) for a, b in product(first.groups, second.groups) if names.get(cell_name(a, b))]
    rows, columns = {a for a, _ in filled}, {b for _, b in filled}
    return min(len(rows), len(columns)) >= 2 and len(filled) == len(rows) * len(columns)


def _phrases(first: Concept, second: Concept) -> dict[str, tuple[str, ...]]:
    """Return the phrases of each cell: adjective and noun, or two adjectives and "people"."""
    if first.nouns and second.adjectives:
        return _joined(first, second, lambda a, b: (second.adjectives.get(b, ()), first.nouns.get(a, ())))
    if second.nouns and first.adjectives:
        return _joined(first, second, lambda a, b: (first.adjectives.get(a, ()), second.nouns.get(b, ())))
    people = (PEOPLE,) if first.language == "en" else ()
    return _joined(first, second, lambda a, b: (first.adjectives.get(a, ()), second.adjectives.get(b, ()), people))


def _joined(
    first: Concept, second: Concept, parts: Callable[[str, str], tuple[object, ...]]
) -> dict[str, tuple[str, ...]]:
    cells = product(first.groups, second.groups)
    return {cell_name(a, b): tuple(" ".join(words) for words in product(*parts(a, b))) for a, b in cells}  # type: ignore[call-overload]


def _limits(first: Concept, second: Concept, by: CellsBy, note: str) -> str:
    words = (
        "First names stand for people: a name is a proxy for two groups at once, and carries age, class and fame."
        if by == "names"
        else "Phrases of an adjective and a noun; phrases that share a word are not independent."
    )
    return " ".join(filter(None, (words, note, f"{first.name}: {first.limits} {second.name}: {second.limits}")))
