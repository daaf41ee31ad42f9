"""Outcomes of subjects: a table of predictions, and what a classifier predicts for labelled texts.

Both offer rows of group, label, and prediction or score, and are changed by rules that decide otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import numpy as np

from evenhand.arrays import Floats, Rows, as_frame
from evenhand.errors import UsageError
from evenhand.files import bare_name, existing, replacing
from evenhand.models.encoders.classifier import Classifier, label_index, unit_of
from evenhand.models.outcomes import (
    FORMATS,
    THRESHOLD,
    LabelledTexts,
    OutcomeColumns,
    Outcomes,
    TableFormat,
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
    def opening(self) -> dict[str, object]:
        """The columns that are read, guessed or given."""
        return {**self._read.columns, "format": self.format}

    def describe(self) -> dict[str, object]:
        """Name, columns, and how many rows were read and left out."""
        groups = {name: list(groups) for name, groups in self.own_groups.items()}
        return super().describe() | {"rows": len(self._read), "dropped": dict(self._read.dropped), "groups": groups}

    def check_output(self, out: Path, **options: object) -> None:
        """Raise if the name does not tell a format that a table can be written in."""
        if table_format(out) == "jsonl" and self.frame.is_empty():
            raise UsageError(f"{self.name} has no rows to write")

    def save(self, out: str | os.PathLike[str], **options: object) -> Written:
        """Write the table with the changed predictions, in the format of the suffix; rows without one keep none."""
        self.check_output(Path(out))
        column = self._read.columns.get("prediction", DECIDED)
        return _write_table(self.frame, {column: self.outcomes.prediction.astype(np.int64)}, self.outcomes, Path(out))

    @classmethod
    def recognise(cls, address: Address) -> str:
        """Only what says so: a CSV file may hold anything."""
        return ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> TableSubject:
        """Read a file."""
        path = existing(address.path, what="table")
        return cls(path, path.name, address.text, **options)


@dataclass(frozen=True)
class WrittenTable:
    """A table that was written: the file, the column of the changed predictions, and the number of rows."""

    file: str
    column: str
    rows: int

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return asdict(self)


def _write_table(
    frame: pl.DataFrame, columns: Mapping[str, Rows | Floats], outcomes: Outcomes, path: Path
) -> WrittenTable:
    """Write a table with more columns; rows that were left out have no value there. The last one has the decisions."""
    import polars as pl

    places = np.arange(len(outcomes)) if outcomes.places is None else outcomes.places
    for name, values in columns.items():
        every: list[float | None] = [None] * frame.height
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            every[place] = value
        frame = frame.with_columns(pl.Series(name, every, strict=False))
    format = table_format(path)
    with replacing(path) as partial:
        if format == "parquet":
            frame.write_parquet(partial)
        elif format == "jsonl":
            frame.write_ndjson(partial)
        else:
            frame.write_csv(partial, separator="," if format == "csv" else "\t")
    return WrittenTable(str(path), list(columns)[-1], frame.height)


# Labelled texts ------------------------------------------------------------------------------------------------------


class TextLabeller(Subject):
    """A subject with the view `labels` that may be opened with labelled texts. It then offers `outcomes` too."""

    text_options: ClassVar[tuple[str, ...]] = (
        "texts", "text_column", "group", "label", "threshold", "positive", "positive_label", "format",
    )  # fmt: skip
    texts: LabelledTexts | None = None

    def ask_texts(self, labels: Sequence[str], options: Mapping[str, Any]) -> None:
        """Read the labelled texts that options name.

        Args:
            labels: the labels of the classifier; none if the subject is no classifier.
            options: those of `text_options` among others; `texts` is a file or a data frame.
        """
        given = {name: options[name] for name in self.text_options if options.get(name) is not None}
        source = given.pop("texts", None)
        if source is None:
            if given:
                raise UsageError(
                    f"`{next(iter(given))}=` is about labelled texts, and no file of them is named",
                    hint="name it: `texts=`",
                )
            return
        if not labels:
            raise UsageError(f"{self.name} is {self.title}, and labelled texts are for text classifiers")
        frame, name, format = as_frame(source), "data frame", given.pop("format", None)
        if frame is None:
            path = existing(Path(source), what="table of texts")
            frame, name = read_frame(path, table_format(path, format)), path.name
        group, label = outcomes_groups(given.pop("group", None)), given.pop("positive_label", "")
        columns = OutcomeColumns(group=group, text=given.pop("text_column", ""), **given)
        self.texts = LabelledTexts.of(frame, name, columns, labels, label)

    def __reduce__(self) -> tuple[Any, ...]:
        if as_frame(self.opened_with.get("texts")) is not None:
            raise UsageError(f"the texts of {self.name} are only in memory", hint="save them and name the file")
        return super().__reduce__()

    @property
    def own_groups(self) -> Mapping[str, tuple[str, ...]]:
        """The groups of the labelled texts, by grouping."""
        return {name: each.groups for name, each in self.texts.rows.groupings.items()} if self.texts else {}

    @property
    def changeable(self) -> tuple[str, ...]:
        """With labelled texts also the decisions about them."""
        return (*super().changeable, *(("outcomes",) if self.texts else ()))

    @property
    def opening(self) -> dict[str, object]:
        """With labelled texts also these, and their columns."""
        if self.texts is None:
            return super().opening
        columns = {"text_column" if role == "text" else role: name for role, name in self.texts.rows.columns.items()}
        return super().opening | columns | {"texts_sha256": self.texts.digest}

    def describe(self) -> dict[str, object]:
        """With labelled texts also how many were read and left out, and their groups."""
        if self.texts is None:
            return super().describe()
        groups = {name: list(groups) for name, groups in self.own_groups.items()}
        rows = self.texts.rows
        return super().describe() | {"rows": len(rows), "dropped": dict(rows.dropped), "groups": groups}

    def outcomes(self) -> Outcomes:
        """Return what is decided about the labelled texts: what the model predicts, after all rules."""
        last = self.changes[-1] if self.changes else None
        if last is not None and last.acts_on == "outcomes" and self._before is not None:
            decided: Outcomes = cast(OutcomeChange, last).decide(self._before.view("outcomes"))
            return decided
        decided = predicted(cast(LabelledTexts, self.texts), self.view("labels"))
        for change in self.changes:
            decided = cast(OutcomeChange, change).decide(decided) if change.acts_on == "outcomes" else decided
        return decided

    def _apply(self, change: Change) -> None:
        if change.acts_on != "outcomes":  # decisions are changed when they are asked for
            super()._apply(change)

    def check_output(self, out: Path, *, parts: Sequence[str] = (), **options: Any) -> None:
        """Raise if `save` could not write there: decisions are written as a table, a model as a folder."""
        if self.texts is not None and bare_name(out).endswith(tuple(FORMATS)):
            return
        if "outcomes" in (*parts, *(change.acts_on for change in self.changes)):
            raise UsageError(
                f"{out}: thresholds by group are no part of a model, which has no group to read",
                hint="name a table for the decisions, such as decided.csv; `save_map=` writes the thresholds",
            )
        super().check_output(out, parts=parts, **options)

    def save(self, out: str | os.PathLike[str], **options: Any) -> Written:
        """Write the decisions about the labelled texts as a table, by the suffix; anything else is a changed model."""
        path = Path(out)
        self.check_output(path, **options)
        if self.texts is None or not bare_name(path).endswith(tuple(FORMATS)):
            return super().save(out, **options)
        taken, rows = set(self.texts.frame.columns), self.view("outcomes")
        score, decided = (name if name not in taken else f"model_{name}" for name in ("score", DECIDED))
        return _write_table(
            self.texts.frame, {score: rows.score, decided: rows.prediction.astype(np.int64)}, rows, path
        )


def predicted(texts: LabelledTexts, classifier: Classifier) -> Outcomes:
    """Return what a classifier decides about texts: the score is its probability of the positive label.

    A text is selected from a score of one half, or of the threshold that was given; of more than two labels that
    exclude each other, if no other label is more probable.
    """
    threshold = texts.rows.threshold
    if threshold is None and unit_of(classifier) == "score":
        raise UsageError(
            f"{classifier.name} gives scores without a range, which decide nothing",
            hint="say from which score on a text is selected: `threshold=`",
        )
    found = classifier.predict(texts.texts)
    column = label_index(classifier, texts.label)
    score = found[:, column]
    if threshold is None and classifier.exclusive and len(classifier.labels) > 2:
        return replace(texts.rows, prediction=found.argmax(axis=1) == column, score=score)
    limit = THRESHOLD if threshold is None else threshold
    return replace(texts.rows, prediction=score >= limit, score=score, threshold=limit)
