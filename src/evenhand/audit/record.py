"""`Audit`: the record of a run, its rows, and its file. Tables, pages and checks only read it.

A run is a folder: `cells/` and `stages/` while it runs and afterwards, `audit.json` when it is complete.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evenhand.audit.cells import ROW_ONLY
from evenhand.audit.manifest import SEVERAL, Invocation, call_text, manifest
from evenhand.audit.plan import Plan, Question
from evenhand.audit.schema import DIGEST, SCHEMA, UNREADABLE, content_digest, read_json, require_valid
from evenhand.errors import (
    EvenhandError,
    EvenhandWarning,
    FormatError,
    InputMissingError,
    UsageError,
    counted,
    printable,
    shown,
    unknown_name,
)
from evenhand.files import require_inside, write_text
from evenhand.measures import Info, Measurement
from evenhand.measures.registry import ARROWS
from evenhand.progress import Progress
from evenhand.registry import Registry
from evenhand.subjects import Subject, open_subject
from evenhand.words import Concept
from evenhand.words import concept as find_concept

ORIGINAL = "original"
FILE = "audit.json"
# How a record is shown, by the module of `report` that does it; it is imported when somebody looks.
VIEWS: Registry[Callable[..., Any]] = Registry("view of an audit", ("evenhand.report",))


@dataclass(frozen=True)
class Stage:
    """A subject as it came, or after a method, with the method's report of what it did."""

    name: str
    subject: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """One measurement on one stage of one subject."""

    subject: str
    stage: str
    question: Question
    measurement: Measurement

    @property
    def label(self) -> str:
        """The name of the row."""
        return self.question.label(self.measurement.score)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        row: dict[str, Any] = {"subject": self.subject, "stage": self.stage, "label": self.label}
        row |= {"variant": self.question.variant, "options": dict(self.question.options)}
        return row | {"only_query": self.question.only_query} | self.measurement.to_dict()

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Result:
        """Read the output of `to_dict`."""
        measurement = Measurement.from_dict({key: value for key, value in record.items() if key not in ROW_ONLY})
        question = Question(
            measurement.measure, measurement.query, record["options"], record["variant"], record["only_query"]
        )
        return cls(record["subject"], record["stage"], question, measurement)


@dataclass(frozen=True)
class Audit:
    """Everything a run found, and everything needed to run it again."""

    manifest: Mapping[str, Any]
    stages: tuple[Stage, ...]
    results: tuple[Result, ...]

    @classmethod
    def run(
        cls,
        subjects: object | Sequence[object],
        *,
        methods: Iterable[str] | None = None,
        measures: Iterable[str] = (),
        queries: Iterable[str] = (),
        concept: str | Path | Concept = "gender",
        seed: int = 0,
        plan: Plan | None = None,
        folder: str | os.PathLike[str] | None = None,
        jobs: int = 1,
        memory: float | None = None,
        skip_failing: bool = False,
        full_probes: bool = False,
        limit: int | None = None,
        samples: int | None = None,
        tokens: int | None = None,
        budget: float | None = None,
        progress: Progress | None = None,
        invocation: Invocation | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> Audit:
        """Measure subjects, apply each method, and measure again.

        Args:
            subjects: what is audited: anything `eh.open` accepts, or a list of such things.
            methods: method ids, chains as "hard.misp" applied from left to right, and "leace@layer:4" at a site of a
                transformer; None for linear and span where the subjects are word vectors, none otherwise.
            measures: measure ids; empty for every measure whose view a subject offers.
            queries: query ids for these measures; empty for those of the concept.
            concept: what is measured and removed.
            seed: seed of every random step.
            plan: the whole plan, instead of the arguments above.
            folder: where finished cells are stored; a later run there reuses every cell whose key is the same.
            jobs: number of processes.
            memory: gigabytes that they may use together.
            skip_failing: record a method that cannot be fitted and go on without it.
            full_probes: ask inference models about all pairs of a probe instead of a sample.
            limit: the most items that a measure asks which can draw a sample of them.
            samples: texts that a language model writes, for measures of text; 200 by default.
            tokens: the largest number of tokens in each of them; 100 by default.
            budget: seconds after which no cell begins; a later run in the same folder adds what was left out.
            progress: called with (cells done, all cells, what is being measured).
            invocation: how the run was started, for the record; this call by default.
            announce: called once before anything is measured, with what will be asked.
        """
        from evenhand.audit.runner import run

        several = isinstance(subjects, list | tuple)
        opened: list[Subject] = [open_subject(item) for item in (subjects if several else [subjects])]  # type: ignore[attr-defined]
        _require_distinct(opened)
        about = find_concept(concept if plan is None else plan.concept)
        chains, only, asked = None if methods is None else list(methods), list(measures), list(queries)
        given: dict[str, object] = {"methods": chains, "measures": only, "queries": asked, "concept": about.name}
        others = {"plan": plan, "jobs": jobs if jobs != 1 else None, "memory": memory}
        others |= {"skip_failing": skip_failing or None, "full_probes": full_probes or None}
        others |= {"limit": limit, "samples": samples, "tokens": tokens, "budget": budget}
        given |= {"seed": seed, **{name: value for name, value in others.items() if value is not None}}
        made = plan or Plan.default(
            opened, methods=chains, only=only, queries=asked, concept=concept, seed=seed, skip_failing=skip_failing,
            full_probes=full_probes, limit=limit, samples=samples, tokens=tokens, budget=budget,
        )  # fmt: skip
        return run(
            opened, made, concept=about, folder=Path(folder) if folder else None, jobs=jobs, memory=memory,
            progress=progress, announce=announce,
            invocation=invocation or Invocation(given=given, call=call_text("evenhand.Audit.run", subjects, given)),
        )  # fmt: skip

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.labels), 'row')} x {counted(len(self.stage_names), 'stage')}"
        return f"Audit({printable(', '.join(self.subjects))}: {sizes}, concept {self.concept}, seed {self.seed})"

    def __rich__(self) -> Any:
        return VIEWS.get("terminal")(self)

    def _repr_html_(self) -> str:
        table: str = VIEWS.get("tables")(self)
        return table

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of what was audited."""
        return tuple(dict.fromkeys(stage.subject for stage in self.stages))

    @property
    def stage_names(self) -> tuple[str, ...]:
        """Names of the stages, original first."""
        return tuple(dict.fromkeys(stage.name for stage in self.stages))

    @property
    def mitigated(self) -> tuple[str, ...]:
        """Names of the stages after a method."""
        return tuple(name for name in self.stage_names if name != ORIGINAL)

    @property
    def concept(self) -> str:
        """Name of the concept."""
        return str(self.manifest["concept"]["name"])

    @property
    def seed(self) -> int:
        """Seed of every random step."""
        return int(self.manifest["arguments"]["effective"]["seed"])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the rows in the order they were measured, each once."""
        return tuple(dict.fromkeys(result.label for result in self.results))

    @cached_property
    def _cells(self) -> dict[tuple[str, str, str], Result]:
        return {(result.subject, result.label, result.stage): result for result in self.results}

    def question(self, label: str) -> Question:
        """Return what was asked in a row."""
        return next(result.question for result in self.results if result.label == label)

    def find_label(self, text: str) -> str:
        """Return the row that a text names: its label, measure with query, or its measure alone where that is unique.

        Labels of version 0.1, with a comma before the variant, still work.
        """
        if text in self.labels:
            return text
        wanted = text.replace(", ", ":").replace(" ", "-")
        rows = {result.label: result for result in self.results}
        matches = [label for label, result in rows.items() if wanted in _aliases(result)]
        if len(matches) == 1:
            return matches[0]
        problem = f"{text!r} could be {', '.join(matches)}" if matches else f"this audit has no row {text!r}"
        raise UsageError(problem, hint=f"it has {', '.join(self.labels)}")

    def get(self, label: str, stage: str = ORIGINAL, subject: str = "") -> Measurement:
        """Return the measurement of one row on one stage; the subject may be left out where there is only one."""
        of = subject or (self.subjects[0] if len(self.subjects) == 1 else "")
        if not of:
            raise UsageError("this audit has several subjects", hint=f"say which: {', '.join(self.subjects)}")
        cell = self._cells.get((of, self.find_label(label), stage))
        if cell is None:
            known = ", ".join(self.stage_names)
            raise UsageError(f"this audit has no {label!r} on the stage {stage!r} of {of}", hint=f"stages: {known}")
        return cell.measurement

    def rows(self, subject: str = "") -> dict[str, dict[str, Measurement]]:
        """Return label -> stage -> measurement of one subject, in the order of the plan."""
        of = subject or self.subjects[0]
        table: dict[str, dict[str, Measurement]] = {}
        for result in self.results:
            if result.subject == of:
                table.setdefault(result.label, {})[result.stage] = result.measurement
        return table

    def plot(self, what: str = "", subject: str = "") -> Any:
        """Return a figure that a notebook shows; `figure.save("weat.svg")` writes it.

        Args:
            what: a chart ("effect-sizes"), a measure ("weat") or a row ("weat-6"); empty for the first chart.
            subject: whose rows are drawn, where there are several subjects.
        """
        return VIEWS.get("plot")(self, what, subject)

    def scalars(self, subject: str = "") -> dict[str, float]:
        """Return every value by name, for dashboards: "weat-6", "weat-6.low", "weat-6.high", "weat-6@linear".

        The ends of the 95 % interval are beside each value. Values that are undefined or cannot be interpreted as bias
        are left out. With several subjects, a name begins with the subject.

        Args:
            subject: only this one.
        """
        if subject and subject not in self.subjects:
            raise unknown_name("subject", subject, self.subjects)
        found: dict[str, float] = {}
        for result in self.results:
            m = result.measurement
            if (subject and result.subject != subject) or m.value is None or m.not_interpretable:
                continue
            of = f"{result.subject}/" if len(self.subjects) > 1 and not subject else ""
            name = f"{of}{result.label}" + (f"@{result.stage}" if result.stage != ORIGINAL else "")
            found[name] = m.value
            if m.interval:
                found |= {f"{name}.low": m.interval[0], f"{name}.high": m.interval[1]}
        return found

    def to_frame(self, library: str = "") -> Any:
        """Return one row per measurement as a polars or pandas data frame."""
        from evenhand.arrays import frame

        return frame([_flat(result) for result in self.results], library)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; `audit/schema.py` describes it."""
        record = {
            "schema": SCHEMA,
            "manifest": dict(self.manifest),
            **VIEWS.get("findings")(self),
            "stages": [{"name": s.name, "subject": s.subject, "report": dict(s.report)} for s in self.stages],
            "results": [result.to_dict() for result in self.results],
        }
        return signed(record)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write `audit.json` into a folder."""
        target = require_inside(Path(folder) / FILE, Path(folder))
        write_text(target, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")
        return target

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Audit:
        """Read a saved audit of this or an earlier schema, by its folder or its file."""
        path = Path(folder)
        file = path / FILE if path.is_dir() else path
        if not file.is_file():
            raise InputMissingError(f"there is no audit in {str(path)!r}", hint="`evenhand audit -o FOLDER` writes one")
        try:
            return from_dict(read_json(file.read_bytes()))
        except FormatError as error:
            raise FormatError(f"{file}: {error.message}", hint=error.hint) from error
        except EvenhandError:
            raise
        except UNREADABLE as error:
            reason = f"not a whole audit ({type(error).__name__})"
            raise FormatError(f"{file}: {reason}", hint="run the audit again") from error

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page."""
        written: Path = VIEWS.get("html")(self, Path(path))
        return written


def record_measured(
    subject: Subject,
    measured: Sequence[tuple[Question, Sequence[Measurement]]],
    concept: Concept | None,
    *,
    seed: int = 0,
    warnings: Sequence[str] = (),
    invocation: Invocation | None = None,
) -> Audit:
    """Return the record of measurements that were made elsewhere, for verbs with a screen of their own.

    Without a concept, the measurements are about several: the record calls it `social`.
    """
    questions = tuple(question for question, _ in measured)
    plan = Plan(
        questions,
        concept=concept.name if concept else SEVERAL["name"],
        seed=seed,
        subjects=(subject.address or subject.name,),
    )
    record = manifest(
        [subject], concept, plan.to_dict(), invocation=invocation, warnings=warnings, cells_computed=len(measured)
    )
    results = [Result(subject.name, ORIGINAL, question, m) for question, some in measured for m in some]
    return Audit(record, (Stage(ORIGINAL, subject.name),), tuple(results))


def _require_distinct(subjects: Sequence[Subject]) -> None:
    names = [subject.name for subject in subjects]
    if not names:
        raise UsageError("nothing to audit", hint="name at least one subject")
    for subject in subjects:
        if names.count(subject.name) > 1:
            subject.name = subject.address or subject.name
    if len({subject.name for subject in subjects}) < len(subjects):
        raise UsageError(f"two subjects have the same name: {', '.join(names)}", hint="rename a file")


def _aliases(result: Result) -> set[str]:
    """Return the label with and without its query."""
    question, score = result.question, result.measurement.score
    names = (question.measure, question.query, f"{question.measure}:{question.query}")
    return {":".join(filter(None, (name, question.variant, score))) for name in names} | {result.label}


def _flat(result: Result) -> dict[str, object]:
    m = result.measurement
    low, high = m.interval or (None, None)
    return {
        "subject": result.subject,
        "stage": result.stage,
        "label": result.label,
        "measure": m.measure,
        "query": m.query,
        "score": m.score,
        "value": m.value,
        "low": low,
        "high": high,
        "p_value": m.p_value,
        "n": m.n,
        "words_missing": len(m.coverage.missing),
        "status": m.status,
        "reason": m.reason,
        "note": m.note,
    }


@dataclass(frozen=True)
class Row:
    """One question and score on every stage of one subject."""

    label: str
    question: Question
    cells: dict[str, Measurement]

    @property
    def info(self) -> Info:
        """The description of the measure."""
        return self.question.info

    @property
    def arrow(self) -> str:
        """Which way is better."""
        return ARROWS[self.info.better_score(self.original.score)]

    @property
    def original(self) -> Measurement:
        """The measurement before any method."""
        return next(iter(self.cells.values()))


def rows(audit: Audit, subject: str = "") -> list[Row]:
    """Return the rows of one subject, in the order they were measured."""
    return [Row(label, audit.question(label), cells) for label, cells in audit.rows(subject).items()]


def from_dict(record: Mapping[str, Any]) -> Audit:
    """Build the record from plain data.

    Raises:
        FormatError: If it does not follow the schema, or was edited or damaged after evenhand wrote it.
    """
    schema = record.get("schema") if isinstance(record, Mapping) else None
    is_old = schema == SCHEMA - 1
    if is_old:
        record = signed({**record, "schema": SCHEMA})
    elif schema != SCHEMA:
        raise FormatError(
            f"the audit has schema {shown(schema)}; this version reads {SCHEMA - 1} and {SCHEMA}",
            hint="update evenhand; audits of version 0.1 are read by 0.3",
        )
    require_valid(record)
    if record[DIGEST] != signed(record)[DIGEST]:
        raise FormatError(
            "the record was edited or damaged after evenhand wrote it: its content does not have its sha256",
            hint="run the audit again; its finished cells are reused",
        )
    if is_old:
        warnings.warn(
            f"a record of evenhand {record['manifest']['evenhand']} kept no digest: edits do not show",
            EvenhandWarning,
            stacklevel=2,
        )
    stages = tuple(Stage(stage["name"], stage["subject"], stage["report"]) for stage in record["stages"])
    known = {(stage.subject, stage.name) for stage in stages}
    strange = next((row for row in record["results"] if (row["subject"], row["stage"]) not in known), None)
    if strange is not None:
        raise FormatError(
            f"a result is of the stage {shown(strange['stage'])} of {shown(strange['subject'])}, which is not listed",
            hint="run the audit again",
        )
    return Audit(record["manifest"], stages, tuple(Result.from_dict(result) for result in record["results"]))


def signed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the digest of everything else in it."""
    content = {name: value for name, value in record.items() if name != DIGEST}
    return {**content, DIGEST: content_digest(content)}
