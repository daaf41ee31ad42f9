"""Writing to the terminal: results on stdout, notes and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.printable import escape_markup, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evenhand.audit import Audit
    from evenhand.progress import Progress

SECONDS_BETWEEN_LINES = 30.0


def show_json(document: Any) -> None:
    """Write one JSON document to stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def show(*parts: RenderableType, columns: int = 0) -> None:
    """Write rich text and tables to stdout; a wide table may ask for more columns than the terminal has."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, columns)
    for part in parts:
        console.print(part)


def show_plain(text: str) -> None:
    """Write text unchanged, for BibTeX and lists to copy."""
    typer.echo(text)


def note(text: str) -> None:
    """Write a line to stderr."""
    typer.echo(printable(text), err=True)


def write_record(record: Audit, folder: Path) -> None:
    """Save an audit and its page, and say where."""
    note(f"record {record.save(folder)}\nreport {record.to_html(folder / 'report.html')}")


def escape(text: str) -> str:
    """Return text that rich prints literally, with control characters made visible."""
    return escape_markup(text)


@contextmanager
def progress(title: str) -> Iterator[Progress | None]:
    """Show a progress bar on stderr if it is a terminal; otherwise print a line now and then."""
    if not sys.stderr.isatty():
        yield _progress_lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what[:40])


def _progress_lines(title: str) -> Progress:
    """Return a callback that prints a line every half minute, for logs."""
    last = time.monotonic()

    def report(done: int, total: int, what: str) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            typer.echo(f"{title}: {done} of {total}, {what}", err=True)

    return report
