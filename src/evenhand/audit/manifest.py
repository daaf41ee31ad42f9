"""What ran: versions, hashes, seeds, arguments given and effective, so that a number can be computed again."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from evenhand import version, words
from evenhand.audit.plan import Plan
from evenhand.errors import EvenhandError, UsageError, printable
from evenhand.models.vectors import Vectors
from evenhand.subjects import Subject
from evenhand.subjects.subject import installed_versions, is_plain, without_secrets
from evenhand.words import Concept

PACKAGES = ("numpy", "scipy", "scikit-learn", "polars", "safetensors", "torch", "transformers", "gensim")

# The options of opening a subject that `evenhand audit` has.
OPENING_OPTIONS = (
    "device", "precision", "labels", "vectors", "case", "format", "encoding_errors", "vocabulary", "allow_pickle",
    "system", "prompts", "key_env", "concurrency", "timeout",
    "group", "label", "prediction", "score", "threshold", "positive", "texts", "text_column", "positive_label",
)  # fmt: skip
# The entry of a record that is about several concepts at once, such as the categories of a benchmark.
SEVERAL = {
    "name": "social",
    "digest": "",
    "limits": "Every category that was asked counts; the scores by category say which.",
}
LONGEST_ARGUMENT = 200  # characters of an object in the text of a call


@dataclass(frozen=True)
class Invocation:
    """How a run was started, so that it can be repeated.

    Attributes:
        command: the command that repeats it, as one line for a shell, without where its result is written; empty if
            there is none.
        given: the arguments as they were given.
        call: the call of Python that started it; empty for a command.
        no_command: why there is no command.
    """

    command: str = ""
    given: Mapping[str, object] = field(default_factory=dict)
    call: str = ""
    no_command: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the record, without keys and passwords of addresses."""
        plain: dict[str, object] = {"given": _plain(self.given), "command": without_secrets(self.command)}
        if self.call:
            plain["call"] = without_secrets(self.call)
        return plain | ({"no_command": self.no_command} if self.no_command else {})


def call_text(function: str, subject: object, arguments: Mapping[str, object]) -> str:
    """Return a call of Python as text; long objects are cut."""
    shown = [_cut(subject), *(f"{name}={_cut(value)}" for name, value in arguments.items())]
    return printable(f"{function}({', '.join(shown)})")


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_ARGUMENT else f"<{type(value).__name__}>"


def _plain(value: object) -> object:
    """Return arguments as JSON holds them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str | Path):
        return without_secrets(str(value))
    return value if isinstance(value, int | float | None) else printable(_cut(value))


def with_command(
    invocation: Invocation,
    subjects: Sequence[Subject],
    plan: Plan,
    concept: Concept,
    *,
    skipped: Iterable[tuple[str, str]] = (),
) -> Invocation:
    """Return the invocation with the command that asks the same, where it has none; see `equivalent_command`."""
    if invocation.command:
        return invocation
    command, why_none = equivalent_command(subjects, plan, concept, skipped=skipped)
    return replace(invocation, command=command, no_command=why_none)


def equivalent_command(
    subjects: Sequence[Subject], plan: Plan, concept: Concept, *, skipped: Iterable[tuple[str, str]] = ()
) -> tuple[str, str]:
    """Return the command that asks the same of the same subjects; or an empty text, and why there is none.

    Args:
        subjects: the opened subjects.
        plan: what was asked.
        concept: the concept of the plan.
        skipped: subjects and methods that could not be fitted.
    """
    try:
        parts = [*map(_address, subjects), *_methods(plan, subjects, set(skipped)), *_asking(subjects, plan, concept)]
        parts += [] if name_own_groups(subjects) else ["--concept", plan.concept]
        parts += ["--seed", str(plan.seed), *_opening(subjects)]
    except UsageError as error:
        return "", error.message
    return shlex.join(["evenhand", "audit", *parts]), ""


def _address(subject: Subject) -> str:
    if getattr(subject, "vectors", None) is Vectors.default():
        return Vectors.default().name
    if not subject.address or any(vars(subject).get(name) for name in ("changes", "maps")):
        raise UsageError(f"{subject.name} is only in memory")
    return subject.address


def _methods(plan: Plan, subjects: Sequence[Subject], skipped: set[tuple[str, str]]) -> list[str]:
    failing = {method for _, method in skipped}
    if any((subject.name, method) not in skipped for subject in subjects for method in failing):
        raise UsageError(f"{', '.join(sorted(failing))} could be fitted to some of the subjects only")
    fitted = [part for method in plan.methods if method not in failing for part in ("--method", method)]
    return fitted or ["--no-methods"]


def _asking(subjects: Sequence[Subject], plan: Plan, concept: Concept) -> list[str]:
    """Return the options that lead to the questions of the plan, which is verified by making the plan again."""
    try:
        if words.concept(plan.concept).digest != concept.digest:
            raise UsageError(f"the concept {concept.name} is an object, not an id or a file")
    except EvenhandError as error:
        raise UsageError(f"the concept {concept.name} is an object, not an id or a file") from error
    measures = list(dict.fromkeys(question.measure for question in plan.questions))
    queries = list(dict.fromkeys(question.query for question in plan.questions))
    for full, (only, asked) in product((False, True), (([], []), (measures, []), (measures, queries))):
        try:
            made = Plan.default(
                subjects, methods=(), only=only, queries=asked, concept=plan.concept, seed=plan.seed, full_probes=full
            )
        except EvenhandError:
            continue
        if made.questions == plan.questions:
            named = [part for name in only for part in ("--measure", name)]
            named += [part for id in asked for part in ("--query", id)]
            return named + (["--full-probes"] if full else [])
    raise UsageError(
        "its questions are those of a plan; write them with Plan.to_toml and run `evenhand audit --plan FILE`"
    )


def _opening(subjects: Sequence[Subject]) -> list[str]:
    parts: list[str] = []
    for name in dict.fromkeys(name for subject in subjects for name in subject.opened_with):
        given = [subject.opened_with.get(name) for subject in subjects if name in subject.options]
        if not all(value is None or is_plain(value) for value in given):
            raise UsageError(f"{name} is only in memory")
        values = set(map(str, given))
        if name not in OPENING_OPTIONS:
            raise UsageError(f"`evenhand audit` has no option for {name}={values.pop()}")
        if len(values) > 1:
            raise UsageError(f"the subjects were opened with different values of {name}")
        option, (value,) = f"--{name.replace('_', '-')}", values
        parts += [option, value] if value not in ("True", "False") else [option] if value == "True" else []
    return parts


OWN_GROUPS = "The groups are those that the table names. What else the rows differ in is not known here."


def name_own_groups(subjects: Sequence[Subject]) -> bool:
    """Return whether all subjects are tables, which name their groups themselves."""
    return bool(subjects) and all(subject.own_groups and subject.offers == ("outcomes",) for subject in subjects)


def _own_concept(subjects: Sequence[Subject]) -> dict[str, object]:
    """Return what a run is about whose subjects name their groups themselves; empty for all other runs."""
    if not name_own_groups(subjects):
        return {}
    groups = {name: list(groups) for subject in subjects for name, groups in subject.own_groups.items()}
    digest = hashlib.sha256(repr(sorted(groups.items())).encode()).hexdigest()
    return {"name": ", ".join(groups), "groups": groups, "limits": OWN_GROUPS, "digest": digest}


def manifest(
    subjects: Sequence[Subject],
    concept: Concept | None,
    plan: Mapping[str, object],
    *,
    invocation: Invocation | None = None,
    running: Mapping[str, object] | None = None,
    seconds: float = 0.0,
    warnings: Sequence[str] = (),
    skipped: Mapping[str, str] | None = None,
    cells_computed: int = 0,
) -> dict[str, Any]:
    """Return everything about a finished run but its results. The concept's words are part of it.

    Args:
        subjects: what was measured.
        concept: what was measured and removed; None for several at once.
        plan: methods, questions and seed.
        invocation: how the run was started.
        running: how it was computed: processes, memory.
        seconds: how long it took.
        warnings: notes for the reader.
        skipped: methods that could not be fitted, with the reason.
        cells_computed: how many cells were not reused.
    """
    created = datetime.now(UTC).isoformat(timespec="seconds")
    engines = {type(subject.engine).__name__.removesuffix("Engine").lower() for subject in subjects if subject.engine}
    effective = {**plan, **(running or {}), "engine": ", ".join(sorted(engines)) or "local"}
    return {
        "run": hashlib.sha256(f"{created}{os.getpid()}{os.urandom(8).hex()}".encode()).hexdigest()[:12],
        "created": created,
        "evenhand": version.__version__,
        "arguments": {**(invocation or Invocation()).to_dict(), "effective": effective},
        "subjects": [subject.describe() for subject in subjects],
        "concept": _own_concept(subjects) or ({**concept.to_dict(), "digest": concept.digest} if concept else SEVERAL),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "threads": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count())),
        "packages": dict(installed_versions(PACKAGES)),
        "status": "done",
        "seconds": round(seconds, 3),
        "warnings": list(warnings),
        "skipped": dict(skipped or {}),
        "cells_computed": cells_computed,
    }
