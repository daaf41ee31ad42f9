"""`evenhand import`: the logs of other evaluation tools as audit records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import Json, invocation
from evenhand.cli.terminal import escape, note, show, show_json, write_record
from evenhand.files import require_folder
from evenhand.outputs import require_run_folder

if TYPE_CHECKING:
    from evenhand.interop.logs.run import LoggedRun

ImportFolder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for the record and its page, for check, compare and report.")
]
TablesOption = Annotated[bool, typer.Option("--tables", help="Print every number, not only the findings.")]


def lm_eval(
    context: typer.Context,
    results: Annotated[
        Path,
        typer.Argument(help="results_*.json of lm-eval, or the folder with it and the samples.", show_default=False),
    ],
    out: ImportFolder = Path("runs/imported"),
    tables: TablesOption = False,
    as_json: Json = False,
) -> None:
    """Read the bias tasks of a run of lm-eval: with samples (--log_samples), every number gets our interval and test.

    CrowS-Pairs, BBQ and Winogender are read. A task without samples keeps lm-eval's value and standard error.
    """
    from evenhand.interop.logs.lm_eval import read_lm_eval

    _check(out)
    _write(context, read_lm_eval(results), out, tables=tables, as_json=as_json)


def inspect(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(help="An .eval or .json log of one run.", show_default=False)],
    out: ImportFolder = Path("runs/imported"),
    tables: TablesOption = False,
    as_json: Json = False,
) -> None:
    """Read the bias task of a log of inspect: BBQ or StereoSet, as inspect_evals asks them."""
    from evenhand.interop.logs.inspect import read_inspect

    _check(out)
    _write(context, read_inspect(log), out, tables=tables, as_json=as_json)


def _check(out: Path) -> None:
    require_folder(out)
    require_run_folder(out)


def _write(context: typer.Context, run: LoggedRun, out: Path, *, tables: bool, as_json: bool) -> None:
    from evenhand.report.terminal import audit_summary, audit_tables

    record = run.audit(invocation(context))
    if as_json:
        show_json(record.to_dict())
    else:
        show(f"[bold]{escape(run.model)}[/], from a log of {run.tool} {escape(run.version)}", "")
        show(*(audit_tables if tables else audit_summary)(record))
    for text in record.manifest["warnings"]:
        note(f"note: {text}")
    write_record(record, out)


VERBS = {"lm-eval": lm_eval, "inspect": inspect}
