"""Lists whose items have more than two members: the defining sets of several classes, the rows of an analogy test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.errors import UsageError, few, unknown_name
from evenhand.words.source import Cited, Source, source_dict
from evenhand.words.wordset import Pairs, WordSet, checked_words


@dataclass(frozen=True, init=False)
class Table(Cited):
    """Named columns and rows of words; a cell may also be a pair written `first:second`."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: Source | None
    note: str

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        source: Source | None = None,
        *,
        note: str = "",
    ) -> None:
        heads = checked_words(columns, what=f"columns of table {name!r}")
        kept = tuple(checked_words(row, what=f"table {name!r}") for row in rows)
        for number, row in enumerate(kept, start=1):
            if len(row) != len(heads):
                raise UsageError(f"table {name!r}: row {number} has {len(row)} cells for {len(heads)} columns: {row!r}")
        if len(set(heads)) != len(heads):
            raise UsageError(f"table {name!r}: two columns have the same name")
        vars(self).update(name=name, columns=heads, rows=kept, source=source, note=note)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows of {few(self.columns, most=4)})"

    def column(self, name: str) -> WordSet:
        """One column as a word set, repeats included."""
        if name not in self.columns:
            raise unknown_name(f"column of table {self.name!r}", name, self.columns)
        place = self.columns.index(name)
        return WordSet(name, (row[place] for row in self.rows), self.source)

    def pairs(self, name: str) -> Pairs:
        """One column of `first:second` cells as pairs, in the order of the rows."""
        split = [cell.partition(":") for cell in self.column(name)]
        return Pairs(name, [(first, second) for first, _, second in split], source=self.source)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, in the form that a word file has."""
        plain: dict[str, Any] = {"name": self.name, "columns": list(self.columns)}
        plain["rows"] = [list(row) for row in self.rows]
        return plain | ({"note": self.note} if self.note else {}) | source_dict(self.source)
