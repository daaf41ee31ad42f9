"""The verbs on saved audits: `compare`, `report`, `check`; and `import`, which makes audits of other tools' logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import (
    ConceptOption,
    Json,
    Measures,
    Only,
    Opening,
    Overwrite,
    Seed,
    TablesOption,
    invocation,
    with_groups,
)
from evenhand.cli.terminal import escape, note, notes_on_stderr, progress, show, show_json, show_plain, write_record
from evenhand.errors import UsageError, unknown_name
from evenhand.outputs import output_file, remember, require_replaceable, require_run_folder

if TYPE_CHECKING:
    from evenhand.audit import Audit, RowChange
    from evenhand.audit.manifest import Invocation
    from evenhand.interop.logs.run import LoggedRun


@with_groups
def compare(
    context: typer.Context,
    compared: Annotated[
        list[str],
        typer.Argument(
            help="What was before, then what is after: two subjects, or the folders of two audits or more.",
            metavar="BEFORE AFTER",
            show_default=False,
        ),
    ],
    *,
    measure: Measures = None,
    concept: ConceptOption = "gender",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the report; of subjects, also the record.", show_default=False),
    ] = None,
    opening: Annotated[Opening, Only("device", "case", "allow_pickle")],
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
        require_run_folder(out)
    before, after = compared
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
    from evenhand.report.formats import COMPARISON_FORMATS
    from evenhand.report.run_comparison import compare_runs, load_runs
    from evenhand.report.terminal import comparison_findings, comparison_table

    if out:
        require_run_folder(out)
    runs = load_runs(paths)
    with notes_on_stderr():
        pairs = [(path, _saved(paths[0], path)) for path in paths[1:]]
        comparison = compare_runs(runs)
    if out:
        for format in COMPARISON_FORMATS.values():
            note(f"report {format.write(comparison, out / format.file)}")
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
    before: str, after: str, only: list[str], concept: str, opening: Opening, seed: int, started: Invocation
) -> Audit:  # fmt: skip
    from evenhand.audit import Plan
    from evenhand.audit.runner import run_pair

    first, second = opening.subjects([before, after])
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


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folder of an audit; several are compared.", show_default=False)
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="html, markdown, model-card, json or lm-eval; several runs: html or markdown.",
            show_default=True,
        ),
    ] = "html",
    figure: Annotated[
        str | None,
        typer.Option("--figure", help="Write this figure only: .svg, .png, .pdf or .json.", show_default=False),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Write every figure into this folder, as SVG.", show_default=False)
    ] = None,
    subject: Annotated[
        str, typer.Option("--subject", help="Subject of the figure, where the audit has several.", show_default=False)
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write.", show_default="RUN/report.html")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write the report of a saved audit, a comparison of several, or the figures of an audit."""
    if figure and figures:
        raise UsageError("--figure writes one figure and --figures writes all", hint="give one of them")
    if len(runs) > 1:
        if figure or figures:
            raise UsageError("figures are those of one run", hint="name one run")
        written = [_write_comparison(runs, format, out, overwrite=overwrite)]
    elif figure or figures:
        written = _write_figures(runs[0], figure, figures, subject, out, overwrite=overwrite)
    else:
        written = [_write_report(runs[0], format, out, overwrite=overwrite)]
    if as_json:
        paths = [str(path) for path in written]
        show_json({"report": paths[0]} if not (figure or figures) else {"figures": paths})
    else:
        for path in written:
            note(f"{'figure' if figure or figures else 'report'} {path}")


def _write_report(run: Path, format: str, out: Path | None, *, overwrite: bool) -> Path:
    from evenhand.audit import Audit
    from evenhand.report.formats import report_format

    chosen = report_format(format)
    target = out or (run if run.is_dir() else run.parent) / chosen.file
    with output_file(out, sources=[run], overwrite=overwrite):  # the files of a run are evenhand's own
        return chosen.write(Audit.load(run), target)


def _write_comparison(runs: list[Path], format: str, out: Path | None, *, overwrite: bool) -> Path:
    from evenhand.report.formats import comparison_format
    from evenhand.report.run_comparison import compare_runs, load_runs

    chosen = comparison_format(format)
    target = out or Path(chosen.file)
    with output_file(target, sources=runs, overwrite=overwrite):
        return chosen.write(compare_runs(load_runs(runs)), target)


def _write_figures(
    run: Path, figure: str | None, folder: Path | None, subject: str, out: Path | None, *, overwrite: bool
) -> list[Path]:
    from evenhand.audit import Audit
    from evenhand.report import charts
    from evenhand.report.charts import write_figure

    audit = Audit.load(run)
    if figure:
        target = out or Path(f"{figure}.svg")
        with output_file(target, sources=[run], overwrite=overwrite):
            return [write_figure(charts.find_figure(audit, figure, subject), target)]
    if folder is None or out:
        raise UsageError("--figures names the folder itself", hint="leave out --out")
    folder.mkdir(parents=True, exist_ok=True)
    if subject and subject not in audit.subjects:
        raise unknown_name("subject", subject, audit.subjects)
    chosen = [subject] if subject else audit.subjects
    found = [(name, drawn) for name in chosen for drawn in charts.figures(audit, name)]
    if not found:
        raise UsageError("this audit has nothing to draw", hint="measure more: evenhand list measures")
    several = len(audit.subjects) > 1
    numbers = {name: number for number, name in enumerate(audit.subjects, 1)}
    files = [folder / (f"{numbers[name]}-{drawn.id}.svg" if several else f"{drawn.id}.svg") for name, drawn in found]
    for file in files:  # before the first is written
        require_replaceable(file, overwrite=overwrite)
    for file, (_, drawn) in zip(files, found, strict=True):
        write_figure(drawn, file)
        remember(file)
    return files


EXCEEDED = 3


def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a saved audit.", show_default=False)],
    maximum: Annotated[
        list[str] | None,
        typer.Option("--max", help="Largest absolute value: weat-6=0.5, weat-6@linear=0.5.", show_default=False),
    ] = None,
    minimum: Annotated[
        list[str] | None, typer.Option("--min", help="Smallest value: retention=0.9.", show_default=False)
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="An earlier audit; a row fails if it is significantly worse."),
    ] = None,
    stage: Annotated[
        list[str] | None,
        typer.Option("--stage", help="Only this stage; may be repeated: original, linear.", show_default="all"),
    ] = None,
    by: Annotated[
        str,
        typer.Option("--by", help="What is limited: value, or interval for the end of the 95 % interval."),
    ] = "value",
    format: Annotated[str, typer.Option("--format", help="text, junit (XML) or markdown (a summary for CI).")] = "text",
    as_json: Json = False,
) -> None:
    """Check a saved audit against limits; exits with 3 if any is exceeded.

    A limit applies to every stage, the original included, unless it names one (weat-6@linear=0.5) or --stage does.
    """
    from evenhand.audit import Audit
    from evenhand.audit import check as check_limits
    from evenhand.report import check_results as shown

    if not maximum and not minimum and baseline is None:
        raise UsageError("no limit given", hint="for example --max weat-6=0.5, or --baseline RUN")
    if format not in ("text", *shown.FORMATS):
        raise unknown_name("format", format, ("text", *shown.FORMATS))
    if as_json and format != "text":
        raise UsageError("--json and --format contradict each other", hint="leave one of them out")
    if by not in ("value", "interval"):
        raise unknown_name("way to check", by, ("value", "interval"))
    if by == "interval" and not maximum and not minimum:
        raise UsageError("--by is for limits, and none is given", hint="add --max or --min")
    earlier = Audit.load(baseline) if baseline else None
    audit = Audit.load(run)
    limits = check_limits(
        audit, maximum=maximum or (), minimum=minimum or (), baseline=earlier, stages=stage or (),
        by="interval" if by == "interval" else "value",
    )  # fmt: skip
    failed = [limit for limit in limits if not limit.holds]
    if as_json:
        every = [limit.to_dict() for limit in limits]
        show_json({"passed": not failed, "limits": every, "breaches": [limit.to_dict() for limit in failed]})
    elif format != "text":
        show_plain(shown.FORMATS[format](limits, audit).rstrip("\n"))
    else:
        for limit in limits:
            show(f"{'ok  ' if limit.holds else '[bold]FAIL[/]'} {escape(shown.limit_line(limit))}")
        show(shown.summary(limits))
    if failed:
        raise typer.Exit(EXCEEDED)


ImportFolder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for the record and its page, for check, compare and report.")
]


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

    require_run_folder(out)
    _write_import(context, read_lm_eval(results), out, tables=tables, as_json=as_json)


def inspect(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(help="An .eval or .json log of one run.", show_default=False)],
    out: ImportFolder = Path("runs/imported"),
    tables: TablesOption = False,
    as_json: Json = False,
) -> None:
    """Read the bias task of a log of inspect: BBQ or StereoSet, as inspect_evals asks them."""
    from evenhand.interop.logs.inspect import read_inspect

    require_run_folder(out)
    _write_import(context, read_inspect(log), out, tables=tables, as_json=as_json)


def _write_import(context: typer.Context, run: LoggedRun, out: Path, *, tables: bool, as_json: bool) -> None:
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


IMPORTS = {"lm-eval": lm_eval, "inspect": inspect}
