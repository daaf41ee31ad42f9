"""`evenhand report`: the page of a saved audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import Json
from evenhand.cli.screens.terminal import note, show_json


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a saved audit.", show_default=False)],
    format: Annotated[
        str, typer.Option("--format", "-f", help="html, markdown, model-card or json.", show_default=True)
    ] = "html",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write.", show_default="RUN/report.html")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a saved audit: a page, Markdown, a section of a model card, or JSON."""
    from evenhand.audit import Audit
    from evenhand.errors import unknown_name
    from evenhand.report.formats import FORMATS, write_report

    if format not in FORMATS:
        raise unknown_name("report format", format, FORMATS)
    target = out or (run if run.is_dir() else run.parent) / FORMATS[format].file
    write_report(Audit.load(run), format, target)
    if as_json:
        show_json({"report": str(target)})
    else:
        note(f"report {target}")
