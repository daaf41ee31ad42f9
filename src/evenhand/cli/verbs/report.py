"""`evenhand report`: the page of a saved audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import Json
from evenhand.cli.screens.terminal import note, show_json


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a saved audit.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write.", show_default="RUN/report.html")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the page of a saved audit."""
    from evenhand.audit import Audit

    target = out or (run if run.is_dir() else run.parent) / "report.html"
    Audit.load(run).to_html(target)
    if as_json:
        show_json({"report": str(target)})
    else:
        note(f"report {target}")
