"""What every reproduction returns: a table of ours beside the published one, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenhand.errors import UsageError


@dataclass(frozen=True)
class PaperTable:
    """Named columns and rows of plain values; None is a cell that is undefined or was not published."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise UsageError(f"{self.title}: {len(row)} cells for {len(self.columns)} columns: {row!r}")

    def column(self, name: str) -> tuple[Any, ...]:
        """The cells under one heading."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "notes": list(self.notes)}
