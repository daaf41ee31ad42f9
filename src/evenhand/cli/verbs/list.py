"""`evenhand list`: what there is, one line each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from evenhand.cli.options import Json
from evenhand.cli.screens.terminal import escape, show, show_json
from evenhand.errors import unknown_name


def listing(
    kind: Annotated[
        str,
        typer.Argument(
            help="measures, methods, probes, models, concepts, queries, wordsets, pairs, tables, templates, data or "
            "formats."
        ),
    ] = "measures",
    as_json: Json = False,
) -> None:
    """List measures, methods, probes, models, word lists, data sets or file formats."""
    if kind not in KINDS:
        raise unknown_name("list", kind, KINDS)
    rows = KINDS[kind]()
    if as_json:
        show_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in rows[0] if rows else ("id",):
        table.add_column(column, no_wrap=column == "id", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    more = "" if kind == "formats" else "; `evenhand show ID` tells more about one"
    show(table, f"[dim]{len(rows)} {kind}{more}.[/]")


def _measures() -> list[dict[str, Any]]:
    from evenhand import measures
    from evenhand.measures.registry import ARROWS

    found = [measures.info(name) for name in measures.ids()]
    return [{"id": i.id, "better": ARROWS[i.better], "family": i.family, "title": i.title} for i in found]


def _methods() -> list[dict[str, Any]]:
    from evenhand import mitigations

    return [{"id": entry.id, "title": entry.title, "citation": entry.citation} for entry in mitigations.listing()]


def _probes() -> list[dict[str, Any]]:
    from evenhand.words import probes

    return [
        {
            "id": entry.id,
            "pairs": entry.pairs,
            "varies": entry.varies,
            "source": entry.source,
        }
        for entry in probes.listing()
    ]


def _models() -> list[dict[str, Any]]:
    from evenhand.subjects import embedded_nli as embedded
    from evenhand.subjects.embedded_nli import TRAINED_ON

    return [
        {"id": f"embedded:{name}", "kind": "NLI", "seeds": len(embedded.SEEDS), "trained on": text}
        for name, text in TRAINED_ON.items()
    ]


def _data() -> list[dict[str, Any]]:
    from evenhand import data

    entries = data.catalog().values()
    return [{"id": e.id, "kind": e.kind, "here": "yes" if data.locate(e.id) else "", "title": e.title} for e in entries]


def _formats() -> list[dict[str, Any]]:
    from evenhand.models.vectors.formats import FORMATS

    return [
        {"id": f.id, "suffixes": " ".join(f.suffixes), "written": "yes" if f.write else "", "title": f.title}
        for f in FORMATS.values()
    ]


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].partition("; ")[0]


def _words(kind: str) -> Any:
    def rows() -> list[dict[str, Any]]:
        from evenhand import words

        return [
            {
                "id": entry.id,
                "size": entry.size,
                "source": entry.source.title if entry.source else "",
                "note": _first_sentence(entry.note),
            }
            for entry in words.listing(kind)
        ]

    return rows


KINDS: dict[str, Any] = {
    "measures": _measures,
    "methods": _methods,
    "probes": _probes,
    "models": _models,
    "concepts": _words("concept"),
    "queries": _words("query"),
    "wordsets": _words("wordset"),
    "pairs": _words("pairs"),
    "tables": _words("table"),
    "templates": _words("template"),
    "data": _data,
    "formats": _formats,
}
