"""`LoggedRun`: what a log of another tool holds of one model, and the audit record made from it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NoReturn

from evenhand import measures
from evenhand.audit import Audit, Question
from evenhand.audit.manifest import Invocation
from evenhand.audit.record import record_measured
from evenhand.errors import FormatError, UsageError, printable, shown
from evenhand.measures import Measurement
from evenhand.measures.call import Call
from evenhand.subjects import Subject
from evenhand.subjects.subject import ViewName

LONGEST_LINE = 64 << 20  # bytes of one sample, and of a file of results
NO_BIAS_TASK = "CrowS-Pairs, BBQ, Winogender, StereoSet, discrim-eval and ToxiGen are read"


@dataclass(frozen=True)
class LoggedRun:
    """The bias tasks of a log.

    Attributes:
        tool: "lm-eval" or "inspect".
        version: its version; empty where the log does not say.
        model: what the log calls the model.
        measured: the questions with their measurements.
        files: the files that were read.
        left_out: names of tasks that are about something else, or not read.
        warnings: what a reader must know: a task without samples, a run that did not end.
    """

    tool: str
    version: str
    model: str
    measured: Sequence[tuple[Question, Sequence[Measurement]]]
    files: Sequence[Path]
    left_out: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def audit(self, invocation: Invocation | None = None) -> Audit:
        """Return the record, for `check`, `compare`, `report` and the page.

        Raises:
            UsageError: If the log has no task about bias.
        """
        if not self.measured:
            others = f": it has {', '.join(self.left_out[:8])}" if self.left_out else ""
            raise UsageError(f"the log has no task about bias{others}", hint="; ".join([NO_BIAS_TASK, *self.warnings]))
        warnings = list(self.warnings)
        if self.left_out:
            warnings.append(f"tasks that evenhand does not read: {', '.join(self.left_out)}")
        return record_measured(LoggedModel(self), self.measured, None, invocation=invocation, warnings=warnings)


class LoggedModel(Subject):
    """A model of which only the log of another tool is at hand."""

    kind: ClassVar[str] = "log"
    title = "a model in the log of another tool"

    def __init__(self, run: LoggedRun) -> None:
        super().__init__(run.model, str(run.files[0]) if run.files else "")
        self.run = run

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """The views that the logged tasks ask, which cannot be asked again."""
        return tuple(dict.fromkeys(question.info.view for question, _ in self.run.measured))

    def _open_view(self, name: ViewName) -> NoReturn:
        raise UsageError(f"{self.name} is {self.title}, which cannot be asked", hint="open the model itself")

    def _content_digest(self) -> str:
        hasher = hashlib.sha256()
        for file in self.run.files:
            with file.open("rb") as stream:
                hasher.update(hashlib.file_digest(stream, "sha256").digest())
        return hasher.hexdigest()

    def describe(self) -> dict[str, object]:
        """Return what a record keeps: the tool and its version beside the rest."""
        return super().describe() | {"logged_by": self.run.tool, "logged_version": self.run.version}


@dataclass(frozen=True)
class LoggedTask:
    """Who logged a task, for the calls of measures."""

    tool: str
    version: str
    model: str
    task: str
    params: Mapping[str, object] = field(default_factory=dict)

    def call(self, measure_id: str, **params: object) -> Call:
        """Return the call of a measure whose answers the log has."""
        origin = {"logged_by": f"{self.tool} {self.version}".strip(), "task": self.task}
        return Call(
            measures.info(measure_id),
            self.model,
            {**origin, **self.params, **params},
            query=self.query,
            note=f"from a log of {self.tool}",
        )

    @property
    def query(self) -> str:
        """Tool and task: the prompts are not ours, so the row is not that of our own audit of the same set."""
        return printable(f"{self.tool}/{self.task.replace(',', ' ')}")

    def question(self, measure_id: str) -> Question:
        """Return the question of the row."""
        return Question(measure_id, self.query)


class Fields:
    """The fields of one sample; each access says which is missing, or of another type, and where."""

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, dict):
            raise FormatError(f"{where} is {shown(values)}, not an object", hint="the log is damaged")
        self.values, self.where = values, where

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field that is a text or a number, as a text."""
        value = self.values.get(name, default)
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise self._wrong(name, value, "a text")
        return printable(str(value))

    def number(self, name: str) -> float:
        """Return a field that is a finite number."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._wrong(name, value, "a number")
        return float(value)

    def index(self, name: str, size: int) -> int:
        """Return a field that is a whole number from 0 to below a size."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise self._wrong(name, value, f"a number from 0 to {size - 1}")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a field that is a list of texts."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, value, "a list of texts")
        return [printable(item) for item in value]

    def fields(self, name: str) -> Fields:
        """Return a field that is an object."""
        return Fields(self.values.get(name), f"{self.where}: {name}")

    def has(self, *names: str) -> bool:
        """Return whether all fields are there."""
        return all(name in self.values for name in names)

    def _wrong(self, name: str, value: object, wanted: str) -> FormatError:
        problem = "is missing" if value is None else f"is {shown(value)}, not {wanted}"
        return FormatError(f"{self.where}: {name} {problem}", hint="the log is damaged, or of another version")
