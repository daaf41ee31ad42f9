"""`evenhand compare`: the same measures on two subjects, or several saved audits, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    AllowPickle,
    Case,
    ConceptOption,
    DeviceOption,
    Json,
    Seed,
    invocation,
    notes_on_stderr,
    open_subjects,
)
from evenhand.cli.screens.terminal import note, progress, show, show_json, write_record
from evenhand.errors import UsageError
from evenhand.files import require_folder
from evenhand.outputs import require_run_folder

if TYPE_CHECKING:
    from evenhand.audit import Audit, RowChange
    from evenhand.audit.manifest import Invocation


def compare(
    context: typer.Context,
    compared: Annotated[
        list[str],
        typer.Argument(
            help="What was before, then what is after: two subjects, or the folders of two audits or more.",
            metavar="BEFORE AFTER...",
            show_default=False,
        ),
    ],
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Only these measures; may be repeated.", show_default="all")
    ] = None,
    concept: ConceptOption = "gender",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the report; of subjects, also the record.", show_default=False),
    ] = None,
    device: DeviceOption = None,
    case: Case = None,
    allow_pickle: AllowPickle = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare two subjects, or several saved audits: what differs beyond the intervals, then every row."""
    from evenhand.report.terminal import comparison_table

    if len(compared) < 2:
        raise UsageError(f"{compared[0]} alone is nothing to compare", hint="name two subjects, or two audits or more")
    runs = [(Path(text) / "audit.json").is_file() for text in compared]
    if any(runs) and not all(runs):
        raise UsageError("one is the folder of an audit and the other is not", hint="compare two of the same kind")
    if all(runs):
        if measure:
            raise UsageError("--measure applies to two subjects, not to saved audits")
        _compare_runs(compared, out, as_json=as_json)
        return
    if len(compared) > 2:
        raise UsageError("more than two subjects", hint="evenhand audit A B C measures several and ranks them")
    if out:
        require_folder(out)
        require_run_folder(out)
    before, after = compared
    opening = {"device": device, "case": case, "allow_pickle": allow_pickle or None}
    record = _measured(before, after, measure or [], concept, opening, seed, invocation(context))
    changes = _stages(record)
    if out:
        write_record(record, out)
    if as_json:
        show_json({"before": before, "after": after, "rows": [change.to_dict() for change in changes]})
    else:
        show(*comparison_table(changes, before, after))


def _compare_runs(paths: list[str], out: Path | None, *, as_json: bool) -> None:
    """Show what differs between saved audits, and write the report."""
    from evenhand.report.formats import COMPARISON_FORMATS, write_comparison_report
    from evenhand.report.run_comparison import compare_runs, load_runs
    from evenhand.report.terminal import comparison_findings, comparison_table

    if out:
        require_folder(out)
        require_run_folder(out)
    runs = load_runs(paths)
    with notes_on_stderr():
        pairs = [(path, _saved(paths[0], path)) for path in paths[1:]]
        comparison = compare_runs(runs)
    if out:
        for format, (_, name) in COMPARISON_FORMATS.items():
            note(f"report {write_comparison_report(comparison, format, out / name)}")
    if as_json:
        rows = [change.to_dict() | {"run": path} for path, changes in pairs for change in changes]
        found = [finding.to_dict() for finding in comparison.findings()]
        show_json({"before": paths[0], "after": paths[1], "runs": paths, "findings": found, "rows": rows})
    else:
        show(*comparison_findings(comparison))
        for path, changes in pairs:
            show(*comparison_table(changes, paths[0], path))


def _saved(before: str, after: str) -> list[RowChange]:
    from evenhand.audit import Audit
    from evenhand.audit import compare as compare_audits

    with notes_on_stderr():
        changes = compare_audits(Audit.load(before), Audit.load(after))
    if not changes:
        raise UsageError("the two audits have no row in common", hint="run both with the same measures and concept")
    return changes


def _measured(
    before: str, after: str, only: list[str], concept: str, opening: dict[str, Any], seed: int, started: Invocation
) -> Audit:  # fmt: skip
    from evenhand.audit import Plan
    from evenhand.audit.runner import run_pair

    first, second = open_subjects([before, after], **opening)
    if first.kind != second.kind:
        raise UsageError(
            f"{first.name} is {first.title} and {second.name} is {second.title}", hint="compare two of the same kind"
        )
    plan = Plan.default([first, second], methods=(), only=only, concept=concept, seed=seed)
    with progress("compare") as bar:
        record = run_pair(first, second, plan, progress=bar, invocation=started)
    for text in record.manifest["warnings"]:
        note(f"note: {text}")
    return record


def _stages(record: Audit) -> list[RowChange]:
    from evenhand.audit.significance import RowPair, compare_rows

    subject, stage = record.subjects[0], record.mitigated[0]
    pairs = [
        RowPair(subject, stage, label, record.question(label), cells["original"], cells[stage])
        for label, cells in record.rows().items()
    ]
    return compare_rows(pairs, record.concept)
