"""`evenhand fetch`: download data sets and vectors from the catalog."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json
from evenhand.cli.terminal import note, notes_on_stderr, show_json
from evenhand.errors import FetchError, UsageError

if TYPE_CHECKING:
    from evenhand.data import CatalogEntry
    from evenhand.data.fetch import DownloadProgress, Fetched


def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="Catalog ids; see --list.", show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the data sets and the local copies.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not use the network (same as EVENHAND_OFFLINE=1).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Download even if there is a local copy.")] = False,
    as_json: Json = False,
) -> None:
    """Download data sets and vectors from the catalog."""
    from evenhand import data
    from evenhand.data.fetch import obtain

    if listing:
        selection = [data.get(name) for name in names] if names else list(data.catalog().values())
        _show_listing(selection, as_json=as_json)
        return
    if not names:
        raise UsageError("no data set was named", hint="evenhand fetch --list shows the data sets")
    entries = [data.get(name) for name in dict.fromkeys(names)]
    results: list[dict[str, Any]] = []
    failures: list[FetchError] = []
    for entry in entries:
        try:
            with notes_on_stderr(), _bar(entry.id) as progress:
                fetched = obtain(entry, offline=offline or None, force=force, verify=True, progress=progress)
        except FetchError as error:
            if len(entries) == 1:
                raise
            failures.append(error)
            results.append({"id": entry.id, "error": error.message, "hint": error.hint})
            note(f"error: {error}")
            continue
        results.append(describe(fetched))
        if not as_json:
            _show(results[-1])
    if as_json:
        show_json(results)
    if failures:
        missing = ", ".join(result["id"] for result in results if "error" in result)
        raise FetchError(
            f"{len(failures)} of {len(entries)} data sets could not be obtained: {missing}",
            hint="the reasons are above; the other data sets are available",
        )


def describe(fetched: Fetched) -> dict[str, Any]:
    """Return the result of a download as plain data."""
    from evenhand.files import sha256_of

    entry, copy = fetched.entry, fetched.copy
    files = [{"path": str(path), "bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in copy.files]
    return {
        "id": entry.id,
        "path": str(copy.path),
        "bytes": sum(path.stat().st_size for path in copy.files),
        "files": files,
        "licence": entry.licence,
        "citation": entry.citation,
        "source": fetched.source,
        "note": entry.note,
    }


def _show(result: dict[str, Any]) -> None:
    lines = [("path", result["path"]), ("bytes", f"{result['bytes']:,}")]
    lines += [("sha256", f"{file['sha256']}  {Path(file['path']).name}") for file in result["files"]]
    lines += [("licence", result["licence"]), ("source", result["source"])]
    typer.echo("\n".join([result["id"], *(f"  {key:<8} {value}" for key, value in lines)]))
    if result["note"]:
        note(f"note: {result['id']}: {result['note']}")


def _show_listing(entries: list[CatalogEntry], *, as_json: bool) -> None:
    from evenhand.data.local_copies import find_copy

    with notes_on_stderr():
        rows = [(entry, find_copy(entry)) for entry in entries]
    if as_json:
        show_json([_row(entry, str(copy.path) if copy else None) for entry, copy in rows])
        return
    width = max(len(entry.id) for entry, _ in rows)
    columns = max(40, shutil.get_terminal_size().columns)
    for entry, copy in rows:
        where = copy.origin if copy else "-" if entry.sources else "by hand"
        typer.echo(f"{entry.id:<{width}}  {_size(entry.size):>8}  {where:<13}  {entry.kind}")
        typer.echo(textwrap.fill(entry.title, columns, initial_indent="    ", subsequent_indent="    "))
    if not all(entry.sources for entry, _ in rows):
        note("by hand: cannot be downloaded; put it into the folder EVENHAND_DATA")


def _row(entry: CatalogEntry, path: str | None) -> dict[str, object]:
    facts = {key: getattr(entry, key) for key in ("id", "kind", "title", "licence", "citation", "format", "note")}
    return {**facts, "bytes": entry.size, "sources": [str(source) for source in entry.sources], "path": path}


def _size(size: int) -> str:
    unit, letters = next((pair for pair in ((1e9, "GB"), (1e6, "MB")) if size >= pair[0]), (1e3, "kB"))
    return f"{size / unit:.1f} {letters}" if size else "?"


@contextmanager
def _bar(name: str) -> Iterator[DownloadProgress]:
    """Show a progress bar if stderr is a terminal."""
    from evenhand.data.fetch import silent

    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
