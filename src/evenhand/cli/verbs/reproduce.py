"""`evenhand reproduce`: a paper's table beside ours."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from evenhand.cli.options import CaseOption, Json, Seed, load
from evenhand.cli.terminal import escape, notes_on_stderr, progress, show, show_json, show_table


def reproduce(
    paper: Annotated[str, typer.Argument(help="ethayarajh2019, dawkins2021.", show_default="list them")] = "",
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="Which table or figure.", show_default="list them")
    ] = None,
    vectors: Annotated[
        list[str] | None,
        typer.Option("--vectors", "-v", help="Vector files; may be repeated.", show_default="embedded"),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="For tables about a text: an id such as enwik8, or files; may be repeated."),
    ] = None,
    case: CaseOption = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compute a table of a paper and print it beside the published numbers."""
    from evenhand import reproduce as reproductions

    if not paper or table is None:
        _list([paper] if paper else list(reproductions.papers()), as_json=as_json)
        return
    loaded = [load(source, case=case) for source in vectors or ()]
    with progress(f"{paper} {table}") as bar, notes_on_stderr():
        about = {"corpus": corpus[0] if len(corpus) == 1 else corpus, "progress": bar} if corpus else {}
        found = reproductions.compute(paper, table, *loaded, seed=seed, **about)
    if as_json:
        show_json(found.to_dict())
    else:
        _show(found)


def _list(papers: list[str], *, as_json: bool) -> None:
    from evenhand import reproduce as reproductions

    rows = [
        {"paper": paper, "table": name, "shows": table.shows}
        for paper in papers
        for name, table in reproductions.tables(paper).items()
    ]
    if as_json:
        show_json(rows)
        return
    show_table("", ("paper", "--table", "shows"), [tuple(row.values()) for row in rows])


def _show(found: Any) -> None:
    from evenhand.measures import numbers

    rows = [[numbers.number(v) if isinstance(v, float) or v is None else str(v) for v in row] for row in found.rows]
    show_table(found.title, found.columns, rows)
    for text in found.notes:
        show(f"[dim]{escape(text)}[/]")
