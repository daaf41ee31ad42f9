"""Several saved runs side by side: what differs significantly, in sentences, tables and charts.

The runs become one record whose stages are the runs and whose subjects are the stages that all of them have. Score
card, charts and tables are then those of a report. The first run is what the others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.audit import ORIGINAL, Audit, Result, Stage
from evenhand.audit.record import Row, rows
from evenhand.audit.significance import Changed, run_change_tests
from evenhand.errors import UsageError, counted
from evenhand.measures import numbers
from evenhand.report.findings import Finding, FindingKind, first_of

HEADINGS: dict[FindingKind, str] = {
    "unmeasured": "Before you compare",
    "change": "Where bias differs",
    "cost": "Where quality differs",
    "bias": "Bias",
    "left": "Bias left",
}
CORRECTION = (
    "differences are tested on the same words, pairs or texts; p-values are corrected by Holm's method over the "
    "questions of one stage and run. Rows that share no units are compared by their intervals, as independent values"
)


@dataclass(frozen=True)
class RunComparison:
    """Runs as one record, with what the runs do not share."""

    record: Audit
    """Its stages are the runs, its subjects the stages that the runs have in common."""
    runs: Mapping[str, Audit]
    unshared: tuple[str, ...]
    """Rows that are not in all runs."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the runs, the first being what the others are compared with."""
        return tuple(self.runs)

    def findings(self) -> list[Finding]:
        """Return what differs, in sentences."""
        found = list(_cautions(self))
        tables = {subject: rows(self.record, subject) for subject in self.record.subjects}
        bias = {
            subject: [
                row for row in every if row.info.family != "quality" and row.question.asks_about(self.record.concept)
            ]
            for subject, every in tables.items()
        }
        quality = {subject: [row for row in every if row.info.family == "quality"] for subject, every in tables.items()}
        found += _differences(bias, self.names, "bias", "change")
        return [*found, *_differences(quality, self.names, "quality", "cost")]


def compare_runs(runs: Mapping[str, Audit]) -> RunComparison:
    """Return runs as one record.

    Args:
        runs: saved audits by name; the others are compared with the first.

    Raises:
        UsageError: fewer than two runs, or nothing in common.
    """
    if len(runs) < 2:
        raise UsageError("a comparison needs two runs or more", hint="evenhand compare runs/a runs/b")
    results: list[Result] = []
    subjects: list[dict[str, Any]] = []
    seen: list[set[str]] = [set() for _ in runs]
    for label, stage, names in _shared_stages(runs):
        tables = [audit.rows(name) for audit, name in zip(runs.values(), names, strict=True)]
        for rows_seen, cells in zip(seen, tables, strict=True):
            rows_seen |= {row for row, stages in cells.items() if stage in stages}
        common = [row for row in tables[0] if all(stage in cells.get(row, {}) for cells in tables)]
        first = next(iter(runs.values()))
        results += [
            Result(label, run, first.question(row), cells[row][stage])
            for row in common
            for run, cells in zip(runs, tables, strict=True)
        ]
        if common:
            described = next(record for record in first.manifest["subjects"] if record["name"] == names[0])
            subjects.append({**described, "name": label})
    if not results:
        raise UsageError("the runs have no row in common", hint="run them with the same measures and concept")
    shared = {result.label for result in results}
    unshared = tuple(dict.fromkeys(row for rows_seen in seen for row in rows_seen if row not in shared))
    manifest = {**next(iter(runs.values())).manifest, "subjects": subjects}
    stages = tuple(Stage(run, subject["name"]) for subject in subjects for run in runs)
    return RunComparison(Audit(manifest, stages, tuple(results)), runs, unshared)


def load_runs(paths: Sequence[str | Path]) -> dict[str, Audit]:
    """Load runs by the names of their folders, or by their whole paths where two names are equal."""
    short = [Path(path).resolve().name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise UsageError(f"a run is named twice: {', '.join(names)}", hint="name each run once")
    return {name: Audit.load(path) for name, path in zip(names, paths, strict=True)}


def _shared_stages(runs: Mapping[str, Audit]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the label, the stage, and the subject of each run, for every stage that all runs have."""
    audits = list(runs.values())
    if all(len(audit.subjects) == 1 for audit in audits):
        groups = [tuple(audit.subjects[0] for audit in audits)]
    else:
        groups = [(name,) * len(audits) for name in audits[0].subjects if all(name in a.subjects for a in audits)]
    for names in groups:
        same = len(set(names)) == 1
        for stage in audits[0].stage_names:
            if all(stage in audit.stage_names for audit in audits):
                about = names[0] if same else "all subjects"
                yield about if stage == ORIGINAL else f"{about} after {stage}", stage, names


def _cautions(comparison: RunComparison) -> Iterator[Finding]:
    """Yield why numbers of these runs may not compare."""
    audits = list(comparison.runs.values())
    for what, values in (
        ("concepts", [audit.concept for audit in audits]),
        ("seeds", [str(audit.seed) for audit in audits]),
        ("versions of evenhand", [str(audit.manifest.get("evenhand", "")) for audit in audits]),
    ):
        if len(set(values)) > 1:
            told = ", ".join(f"{name} {value}" for name, value in zip(comparison.names, values, strict=True))
            yield Finding("unmeasured", f"The runs have different {what}: {told}.", "")
    digests = {str(audit.manifest["concept"].get("digest", "")) for audit in audits} - {""}
    if len(digests) > 1 and len({audit.concept for audit in audits}) == 1:
        yield Finding("unmeasured", "The runs have the same concept with different words.", "")
    contents = {tuple(str(record.get("sha256", "")) for record in audit.manifest["subjects"]) for audit in audits}
    own = dict.fromkeys(r.question.measure for r in comparison.record.results if r.question.info.role == "left")
    if own and len(contents) > 1:
        choose = "chooses" if len(own) == 1 else "choose"
        text = f"{', '.join(own)} {choose} words by the bias in each run's own subject: the runs ask about other words."
        yield Finding("unmeasured", text, "")
    if comparison.unshared:
        verb = "is" if len(comparison.unshared) == 1 else "are"
        rows = counted(len(comparison.unshared), "row")
        text = f"{rows} {verb} not in all runs and not compared: {first_of(comparison.unshared, 4)}."
        yield Finding("unmeasured", text, "")


def _differences(
    about: Mapping[str, Sequence[Row]], names: Sequence[str], what: str, kind: FindingKind
) -> Iterator[Finding]:
    """Yield a sentence for each run beside the first and each stage that differs, and one for all that do not."""
    first, *others = names
    tests = {subject: run_change_tests(group, others) for subject, group in about.items()}
    for run in others:
        by_subject = {subject: changes[run] for subject, changes in tests.items() if changes[run]}
        alike = {subject: some for subject, some in by_subject.items() if not any(map(_differs, some))}
        for subject, changes in by_subject.items():
            if subject not in alike:
                yield _difference(changes, subject, run, first, what, kind)
        if alike:
            every = [change for some in alike.values() for change in some]
            where = f" ({', '.join(alike)})" if len(about) > 1 else ""
            total = counted(len(every), f"{what} score")
            same = all(change.is_same for change in every)
            text = (
                f"{run} and {first} have the same values in {total}{where}."
                if same
                else f"{run} and {first} do not differ significantly in {total}{where}. They may still differ."
            )
            yield Finding(kind, text, "", run)


def _differs(change: Changed) -> bool:
    return change.sure or change.changes_sign


def _difference(
    changes: Sequence[Changed], subject: str, run: str, first: str, what: str, kind: FindingKind
) -> Finding:
    sure = [change for change in changes if _differs(change)]
    groups = {
        "better": [change for change in sure if change.closer and not change.changes_sign],
        "worse": [change for change in sure if not change.closer and not change.changes_sign],
        "with the other sign": [change for change in sure if change.changes_sign],
    }
    counts = ", ".join(f"{word} in {len(group)}" for word, group in groups.items() if group)
    unclear = len(changes) - len(sure)
    total = counted(len(changes), f"{what} score")
    rest = f", no significant difference in {unclear}." if unclear else "."
    text = f"{run} against {first}, {total}: {counts}{rest}"
    evidence = [
        f"{word.capitalize()}: {_values(max(group, key=lambda change: change.strength), first)}"
        for word, group in groups.items()
        if group
    ]
    clearest = max(sure, key=lambda change: change.strength)
    return Finding(
        kind, text, subject, run, clearest.row.label, clearest.after.value, clearest.after.interval, clearest.p,
        clearest.row.info.reading, ". ".join(evidence),
    )  # fmt: skip


def _values(change: Changed, first: str) -> str:
    return f"{change.row.label} {numbers.cell(change.after)}, {numbers.number(change.before.value)} in {first}"


def described(name: str, audit: Audit) -> dict[str, str]:
    """Return a run in a few words."""
    manifest = audit.manifest
    return {
        "run": name,
        "subject": ", ".join(audit.subjects),
        "written": str(manifest.get("created", ""))[:16].replace("T", " "),
        "evenhand": str(manifest.get("evenhand", "")),
        "seed": str(audit.seed),
        "sha256": ", ".join(f"{record.get('sha256', '')[:16]}" for record in manifest["subjects"]),
    }
