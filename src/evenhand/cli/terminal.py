"""Writing to the terminal: results on stdout, notes and progress on stderr, arguments of the library as options."""

from __future__ import annotations

import json
import sys
import threading
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import typer

from evenhand.errors import EvenhandError, EvenhandWarning, escape_markup, printable, with_arguments

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from evenhand.audit import Audit
    from evenhand.progress import Progress


SECONDS_BETWEEN_LINES = 30.0
BAR = 20  # columns of a progress bar
NAMES = {"change": "map_file", "measures": "measure", "probe": "which", "queries": "query"}  # argument, parameter
UNITS = {"max_record": " (in MB)"}  # of an option whose argument is in bytes
_flags: ContextVar[Mapping[str, str]] = ContextVar("flags")  # the options of the running verb by parameter


def show_json(document: object) -> None:
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


def plain_table(*columns: str, left: Collection[str] = (), title: str | None = None) -> Table:
    """Return a table without rules for `show`; its columns are on the right, but for those that hold text."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(escape(column), justify="left" if column in left else "right")
    return table


def show_records(records: Sequence[Mapping[str, object]], below: str) -> None:
    """Write records with the same fields as the rows of a table, and a line below them."""
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in records[0] if records else ("id",):
        table.add_column(column, no_wrap=column == "id", overflow="fold")
    for record in records:
        table.add_row(*(escape(str(value)) for value in record.values()))
    show(table, f"[dim]{below}[/]")


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


@contextmanager
def writing_flags(flags: Mapping[str, str]) -> Iterator[None]:
    """Write the arguments in the notes of a verb as its options."""
    token = _flags.set(flags)
    try:
        yield
    finally:
        _flags.reset(token)


def flag_of(argument: str, flags: Mapping[str, str]) -> str | None:
    """Return the option of a verb for an argument of the library, or None."""
    return flags.get(argument) or flags.get(NAMES.get(argument, ""))


def with_flags(text: str, flags: Mapping[str, str], *, settable: bool = False) -> str:
    """Return a message of the library with its arguments as options: `skip_bad=True` becomes --skip-bad.

    An argument without an option stays, or is written with --set if it is one of a method or a measure (`settable`).
    """

    def written(argument: str, value: str) -> str:
        flag = flag_of(argument, flags)
        plain = ",".join(part.strip(" \"'") for part in value.strip("()").split(","))
        if flag is None:
            return f"--set {argument}={plain or '...'}" if settable else f"`{argument}={value}`"
        if not plain or plain == "True":
            return flag + UNITS.get(argument, "")
        return f"{flag} {plain}"

    return with_arguments(text, written)


@contextmanager
def arguments_named(**parameters: str) -> Iterator[None]:
    """Name arguments in errors by the parameters of a verb that are passed as these arguments."""
    try:
        yield
    except EvenhandError as error:
        for part in ("message", "hint"):
            text = with_arguments(getattr(error, part), lambda name, value: f"`{parameters.get(name, name)}={value}`")
            setattr(error, part, text)
        raise


def note(text: str) -> None:
    """Write a line to stderr, with arguments as options of the running verb."""
    typer.echo(printable(with_flags(text, _flags.get({}))), err=True)


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Our warnings as one-line notes, each once, instead of Python's two lines with a path."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EvenhandWarning)
        try:
            yield
        finally:
            for warning in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, EvenhandWarning)):
                note(f"note: {warning}")


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each of our warnings once, as a one-line note, when it occurs; leave all others to Python."""
    seen: set[str] = set()

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, EvenhandWarning):
                usual(message, category, filename, lineno, file, line)
            elif str(message) not in seen:
                seen.add(str(message))
                note(f"note: {message}")

        warnings.simplefilter("always", EvenhandWarning)
        warnings.showwarning = show
        yield


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
