"""The page of `evenhand corpus compare`: the regression and its scatter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.screen import note

if TYPE_CHECKING:
    from evenhand.corpus import Comparison

Html = Annotated[Path | None, typer.Option("--html", help="A page with the regression and its scatter.")]


def write_page(path: Path | None, found: Comparison, names: tuple[str, str]) -> None:
    """Write it, where a path was given."""
    if path is None:
        return
    from evenhand.report.comparison_page import write_comparison

    context = "infinite" if found.second.params["decay"] else "fixed"
    short = Path(names[0]).name, Path(names[1]).name
    write_comparison({context: found}, path, names=names if short[0] == short[1] else short)
    note(f"page: {path}")
