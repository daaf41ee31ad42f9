"""A table of predictions as a subject: rows of group, label, and prediction or score."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from evenhand.errors import UsageError, unknown_name
from evenhand.files import existing, replacing
from evenhand.models.outcomes import (
    OutcomeColumns,
    Outcomes,
    TableFormat,
    as_frame,
    outcomes_groups,
    outcomes_of,
    read_frame,
    table_format,
)
from evenhand.models.vectors.cache import content_hash
from evenhand.subjects.subject import SUBJECTS, Address, Change, Subject, ViewName, Written

if TYPE_CHECKING:
    import polars as pl

DECIDED = "prediction"  # the column of changed predictions, where the table has none of its own


class OutcomeChange(Change, Protocol):
    """A fitted change of decisions."""

    def decide(self, outcomes: Outcomes) -> Outcomes:
        """Return the rows with other predictions."""


@SUBJECTS.register("table")
class TableSubject(Subject):
    """A table of predictions. It offers `outcomes`."""

    kind = "table"
    title = "a table of predictions"
    opens = "table:FILE"
    options: ClassVar[tuple[str, ...]] = ("group", "label", "prediction", "score", "threshold", "positive", "format")
    changeable = ("outcomes",)
    instead_of_changes = "use a method that changes decisions: equalised-odds"

    def __init__(self, source: Path | pl.DataFrame, name: str, address: str = "", **options: Any) -> None:
        super().__init__(name, address)
        given = {key: value for key, value in options.items() if value is not None}
        format = given.pop("format", None)
        self.path = source if isinstance(source, Path) else None
        self.format: TableFormat = table_format(source, format) if isinstance(source, Path) else "csv"
        self.frame = read_frame(source, self.format) if isinstance(source, Path) else source
        given["group"] = outcomes_groups(given.get("group"))
        self._read = outcomes_of(self.frame, name, OutcomeColumns(**given))

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """Outcomes only."""
        return ("outcomes",)

    @property
    def own_groups(self) -> Mapping[str, tuple[str, ...]]:
        """The groups of the table, by grouping."""
        return {name: grouping.groups for name, grouping in self._read.groupings.items()}

    @cached_property
    def outcomes(self) -> Outcomes:
        """The rows after all changes."""
        decided = self._read
        for change in self.changes:
            decided = change.decide(decided)  # type: ignore[attr-defined]  # it acts on outcomes
        return decided

    def _open_view(self, name: ViewName) -> Outcomes:
        return self.outcomes

    def _apply(self, change: Change) -> None:
        pass  # the predictions are changed when they are asked for

    def _content_digest(self) -> str:
        return self._read.digest if self.path is None else content_hash(self.path)

    @property
    def opening(self) -> dict[str, Any]:
        """The columns that are read, guessed or given."""
        return {**self._read.columns, "format": self.format}

    def describe(self) -> dict[str, Any]:
        """Name, columns, and how many rows were read and left out."""
        groups = {name: list(groups) for name, groups in self.own_groups.items()}
        return super().describe() | {"rows": len(self._read), "dropped": dict(self._read.dropped), "groups": groups}

    def check_output(self, out: Path, **options: Any) -> None:
        """Raise if the name does not tell a format that a table can be written in."""
        if table_format(out) == "jsonl" and self.frame.is_empty():
            raise UsageError(f"{self.name} has no rows to write")

    def save(self, out: str | os.PathLike[str], **options: Any) -> Written:
        """Write the table with the changed predictions, in the format of the suffix; rows without one keep none."""
        import polars as pl

        path = Path(out)
        self.check_output(path)
        column = self._read.columns.get("prediction", DECIDED)
        decided: list[int | None] = [None] * self.frame.height
        outcomes = self.outcomes
        places = range(len(outcomes)) if outcomes.places is None else outcomes.places.tolist()
        for place, selected in zip(places, outcomes.prediction.tolist(), strict=True):
            decided[place] = int(selected)
        written = self.frame.with_columns(pl.Series(column, decided, dtype=pl.Int64))
        format = table_format(path)
        with replacing(path) as partial:
            if format == "parquet":
                written.write_parquet(partial)
            elif format == "jsonl":
                written.write_ndjson(partial)
            else:
                written.write_csv(partial, separator="," if format == "csv" else "\t")
        return WrittenTable(path, column, written.height)

    @classmethod
    def recognise(cls, address: Address) -> str:
        """Only what says so: a CSV file may hold anything."""
        return ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> TableSubject:
        """Read a file."""
        path = existing(address.path, what="table")
        return cls(path, path.name, address.text, **options)

    @classmethod
    def from_object(cls, source: object, **options: Any) -> Subject | None:
        """Wrap a polars or pandas data frame."""
        frame = as_frame(source) if type(source).__module__.split(".")[0] in ("polars", "pandas") else None
        if frame is None:
            return None
        for name in options:
            if name not in cls.options:
                raise unknown_name("option of a table", name, cls.options)
        return cls(frame, "data frame", **options)


class WrittenTable:
    """A table that was written.

    Attributes:
        path: the file.
        column: where the changed predictions are.
        rows: how many rows it has.
    """

    def __init__(self, path: Path, column: str, rows: int) -> None:
        self.path, self.column, self.rows = path, column, rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"file": str(self.path), "column": self.column, "rows": self.rows}
