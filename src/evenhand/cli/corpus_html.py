"""The page of `evenhand corpus compare`: the regression and its scatter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.screen import note

if TYPE_CHECKING:
    from evenhand.corpus import Beta, CorpusBias

Html = Annotated[Path | None, typer.Option("--html", help="A page with the regression and its scatter.")]


def write_page(path: Path | None, one: CorpusBias, other: CorpusBias, beta: Beta, names: tuple[str, str]) -> None:
    """Write it, where a path was given."""
    if path is None:
        return
    from evenhand.corpus.comparison import Comparison
    from evenhand.report.comparison_page import write_comparison

    context = "infinite" if other.params["decay"] else "fixed"
    write_comparison({context: Comparison(one, other, beta)}, path, names=names)
    note(f"page: {path}")
