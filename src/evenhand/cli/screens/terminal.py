"""Writing to the terminal: results on stdout, notes and progress on stderr."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from evenhand.printable import escape_markup, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from evenhand.audit import Audit
    from evenhand.progress import Progress

SECONDS_BETWEEN_LINES = 30.0
BAR = 20  # columns of a progress bar


def show_json(document: Any) -> None:
    """Write one JSON document to stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def show(*parts: RenderableType) -> None:
    """Write rich text and tables to stdout."""
    console = _stdout_console()
    for part in parts:
        console.print(part)


def _stdout_console() -> Console:
    from rich.console import Console

    class StdoutConsole(Console):
        def on_broken_pipe(self) -> None:
            # rich would exit with 1, but a reader that goes away, as `| head` does, is no failure of the command.
            raise BrokenPipeError

    return StdoutConsole(highlight=False)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table of text; one wider than the terminal is continued below, with its first column repeated.

    Cells break between words only.
    """
    from rich.table import Table

    console = _stdout_console()
    lines = [tuple(columns), *(tuple(row) for row in rows)]
    least = [max((len(word) for line in lines for word in line[i].split()), default=0) for i in range(len(columns))]
    most = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for number, part in enumerate(fitting_columns(least, console.width)):
        widths = {i: least[i] for i in part}
        for i in part:  # what is left of the line goes to the cells that would break
            free = console.width - sum(widths.values()) - 2 * (len(part) - 1)
            widths[i] += max(0, min(free, most[i] - least[i]))
        table = Table(box=None, header_style="dim", pad_edge=False, title_justify="left")
        table.title = escape(title) if number == 0 else f"{escape(title)} (continued)"
        for i in part:
            numeric = not any(letter.isalpha() for row in rows for letter in row[i])
            justify: Literal["left", "right"] = "right" if numeric and i else "left"
            table.add_column(escape(columns[i]), justify=justify, width=widths[i])
        for row in rows:
            table.add_row(*(escape(row[i]) for i in part))
        console.print(table)


def fitting_columns(widths: Sequence[int], available: int) -> list[list[int]]:
    """Divide columns into parts that fit a width, each with the first column; columns are two blanks apart."""
    parts: list[list[int]] = [[0]]
    for i in range(1, len(widths)):
        used = sum(widths[j] + 2 for j in parts[-1])
        if used + widths[i] > available and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(i)
    return parts


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
    """Show a progress bar on stderr if it is a terminal; otherwise print a line every half minute."""
    if not sys.stderr.isatty():
        with _progress_lines(title) as report:
            yield report
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    room = max(20, console.width - BAR - 30)  # less the numbers and the time
    columns = (TextColumn("{task.description}"), BarColumn(BAR), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=escape(_shortened(what, room))
        )


def _shortened(text: str, most: int) -> str:
    """Return a text without its middle if it is too long: it ends with how far the work is."""
    return text if len(text) <= most else f"{text[: most // 3]}…{text[len(text) - (most - most // 3 - 1) :]}"


@contextmanager
def _progress_lines(title: str) -> Iterator[Progress]:
    """Yield a callback; a thread prints a line with the latest news every half minute, for logs.

    A step may compute for minutes without a word, so the callback cannot do it.
    """
    latest: list[tuple[int, int, str]] = []
    ended = threading.Event()

    def print_lines() -> None:
        while not ended.wait(SECONDS_BETWEEN_LINES):
            for done, total, what in latest[-1:]:
                typer.echo(printable(f"{title}: {done} of {total}, {what}"), err=True)

    def report(done: int, total: int, what: str) -> None:
        latest[:] = [(done, total, what)]

    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield report
    finally:
        ended.set()
        printer.join()
