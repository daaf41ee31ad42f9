"""Tables on the terminal, readable at 80 columns, and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from evenhand.printable import escape_markup, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evenhand.audit import Audit
    from evenhand.audit.record import Progress
    from evenhand.measures import Measurement
    from evenhand.report.tables import Row


def show_json(document: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def show(*parts: RenderableType, columns: int = 0) -> None:
    """Rich text and tables on stdout; a table of many columns may ask for more width than the terminal has."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, columns)
    for part in parts:
        console.print(part)


def show_plain(text: str) -> None:
    """Text as it is, for BibTeX and lists that somebody will copy."""
    typer.echo(text)


def note(text: str) -> None:
    """Print a line on stderr."""
    typer.echo(printable(text), err=True)


def escape(text: str) -> str:
    """Return text that rich prints literally, with control characters made visible."""
    return escape_markup(text)


def cell(measurement: Measurement) -> str:
    """A measurement in a table cell: value, interval, p-value."""
    from evenhand.report import numbers

    if measurement.status != "ok":
        return "[dim]undefined[/]"
    lines = [
        f"[bold]{numbers.number(measurement.value)}[/]",
        numbers.interval(measurement),
        numbers.p_value(measurement),
    ]
    return "\n".join(line if i == 0 else f"[dim]{escape(line)}[/]" for i, line in enumerate(lines) if line)


def audit_tables(audit: Audit) -> Iterator[RenderableType]:
    """The rows of an audit under the headings of their families, then what is undefined and why."""
    from evenhand.report.tables import by_family

    undefined: dict[str, dict[str, None]] = {}
    for title, rows in by_family(audit).items():
        yield _table(title, rows, [stage.name for stage in audit.stages])
        notes: dict[str, None] = {}
        for row in rows:
            for stage, measurement in row.cells.items():
                if measurement.status != "ok":
                    undefined.setdefault(measurement.reason, {})[row.label] = None
                elif measurement.note:
                    notes[f"[dim]{escape(f'{stage}: {measurement.note}')}[/]"] = None
        yield from notes
    yield from (f"[dim]undefined: {escape('; '.join(rows) + ': ' + why)}[/]" for why, rows in undefined.items())
    yield (
        "[dim]Values with 95 % bootstrap interval over words (inference: over words and training seeds); "
        "p one-sided, not corrected for many tests.[/]"
    )


def _table(title: str, rows: Iterable[Row], stages: list[str]) -> RenderableType:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    table.add_column("measure", overflow="fold")
    table.add_column("better", no_wrap=True)
    for stage in stages:
        table.add_column(stage, justify="right")
    table.add_column("words", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            escape(row.label), row.arrow, *(cell(row.cells[stage]) for stage in stages), str(row.original.coverage)
        )
    return table


@contextmanager
def progress(title: str) -> Iterator[Progress | None]:
    """A bar on stderr when somebody is watching, nothing otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what[:40])
