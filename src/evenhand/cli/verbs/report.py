"""`evenhand report`: the page of a saved audit, or of several side by side, and single figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import Json, Overwrite
from evenhand.cli.screens.terminal import note, show_json
from evenhand.errors import UsageError
from evenhand.outputs import output_file, remember, require_replaceable

if TYPE_CHECKING:
    from evenhand.audit import Audit


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folder of a saved audit; several are compared.", show_default=False)
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="html, markdown, model-card or json; several runs: html or markdown.",
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
    from evenhand.errors import unknown_name
    from evenhand.report.formats import FORMATS, write_report

    if format not in FORMATS:
        raise unknown_name("report format", format, FORMATS)
    target = out or (run if run.is_dir() else run.parent) / FORMATS[format].file
    with output_file(out, sources=[run], overwrite=overwrite):  # the files of a run are evenhand's own
        return write_report(Audit.load(run), format, target)


def _write_comparison(runs: list[Path], format: str, out: Path | None, *, overwrite: bool) -> Path:
    from evenhand.errors import unknown_name
    from evenhand.report.formats import COMPARISON_FORMATS, write_comparison_report
    from evenhand.report.run_comparison import compare_runs, load_runs

    if format not in COMPARISON_FORMATS:
        raise unknown_name("format of a comparison", format, COMPARISON_FORMATS)
    target = out or Path(COMPARISON_FORMATS[format][1])
    with output_file(target, sources=runs, overwrite=overwrite):
        return write_comparison_report(compare_runs(load_runs(runs)), format, target)


def _write_figures(
    run: Path, figure: str | None, folder: Path | None, subject: str, out: Path | None, *, overwrite: bool
) -> list[Path]:
    from evenhand.audit import Audit
    from evenhand.report import charts
    from evenhand.report.formats import write_figure

    audit = Audit.load(run)
    if figure:
        target = out or Path(f"{figure}.svg")
        with output_file(target, sources=[run], overwrite=overwrite):
            return [write_figure(charts.find_figure(audit, figure, subject), target)]
    if folder is None or out:
        raise UsageError("--figures names the folder itself", hint="leave out --out")
    folder.mkdir(parents=True, exist_ok=True)
    found = [(name, drawn) for name in _subjects(audit, subject) for drawn in charts.figures(audit, name)]
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


def _subjects(audit: Audit, subject: str) -> tuple[str, ...]:
    from evenhand.errors import unknown_name

    if subject and subject not in audit.subjects:
        raise unknown_name("subject", subject, audit.subjects)
    return (subject,) if subject else audit.subjects
