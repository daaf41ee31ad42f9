"""`Audit`: the record of a run, which tables, pages and checks only read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evenhand.audit.plan import DEFAULT_METHODS, Case, Plan
from evenhand.errors import UsageError
from evenhand.measures import Measurement
from evenhand.models.vectors import Vectors

ORIGINAL = "original"
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Stage:
    """The vectors as they came, or after a method, with the method's own account of what it did."""

    name: str
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """One measurement on one stage."""

    stage: str
    case: Case
    measurement: Measurement

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        case = {"label": self.case.label, "variant": self.case.variant, "options": dict(self.case.options)}
        return {"stage": self.stage, **case, **self.measurement.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Result:
        """The inverse of `to_dict`."""
        rest = {key: value for key, value in record.items() if key not in ("stage", "label", "variant", "options")}
        case = Case(record["measure"], record["query"], record["options"], record["variant"])
        return cls(record["stage"], case, Measurement.from_dict(rest))


@dataclass(frozen=True)
class Audit:
    """Everything a run found, and everything needed to run it again."""

    manifest: Mapping[str, Any]
    stages: tuple[Stage, ...]
    results: tuple[Result, ...]

    @classmethod
    def run(
        cls,
        vectors: Vectors,
        *,
        methods: Iterable[str] = DEFAULT_METHODS,
        measures: Iterable[str] = (),
        concept: str = "gender",
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        skip_failing: bool = False,
        full_probes: bool = False,
        progress: Progress | None = None,
    ) -> Audit:
        """Measure the vectors, apply each method and measure again.

        Args:
            vectors: what is audited.
            methods: method ids; a chain is written "hard.misp" and applied from left to right.
            measures: measure ids; all of them when empty.
            concept: what the methods remove.
            seed: of every random step.
            folder: keep finished measurements here while running, so that an interrupted audit goes on from there.
            skip_failing: note a method that cannot be fitted here and go on without it.
            full_probes: ask inference models about all two million pairs instead of a sample: a minute a stage.
            progress: called with (done, total, what is being measured).
        """
        from evenhand.audit.runner import run

        given: dict[str, Any] = {"methods": list(methods), "measures": list(measures), "concept": concept, "seed": seed}
        given |= {"full_probes": True} if full_probes else {}
        plan = Plan.default(
            methods=given["methods"],
            only=given["measures"],
            concept=concept,
            seed=seed,
            skip_failing=skip_failing,
            full_probes=full_probes,
        )
        return run(vectors, plan, given=given, folder=Path(folder) if folder else None, progress=progress)

    @property
    def cases(self) -> tuple[Case, ...]:
        """What was measured, in order, once."""
        unique = {result.case.label: result.case for result in self.results}
        return tuple(unique.values())

    @cached_property
    def _cells(self) -> dict[tuple[str, str], Measurement]:
        return {(result.case.label, result.stage): result.measurement for result in self.results}

    def get(self, label: str, stage: str = ORIGINAL) -> Measurement:
        """The measurement of one row on one stage."""
        if (label, stage) in self._cells:
            return self._cells[label, stage]
        known = ", ".join(case.label for case in self.cases)
        raise UsageError(f"this audit has no {label!r} on the stage {stage!r}", hint=f"it has {known}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "manifest": dict(self.manifest),
            "stages": [{"name": stage.name, "report": dict(stage.report)} for stage in self.stages],
            "results": [result.to_dict() for result in self.results],
        }

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write `audit.json` into a folder."""
        from evenhand.audit.store import save

        return save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Audit:
        """Read a saved audit, by its folder or its file."""
        from evenhand.audit.store import load

        return load(Path(folder))

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page."""
        from evenhand.report.html import write  # the one upward import: the page is a view of the record

        return write(self, Path(path))
