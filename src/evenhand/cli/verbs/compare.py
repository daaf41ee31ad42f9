"""`evenhand compare`: the same measures on two sets of vectors, side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from evenhand.cli.options import AllowPickle, Case, Json, Seed, load, notes_on_stderr
from evenhand.cli.screens.terminal import cell, escape, progress, show, show_json


def compare(
    before: Annotated[str, typer.Argument(help="Vectors before: a file or a catalog id.", show_default=False)],
    after: Annotated[str, typer.Argument(help="Vectors after.", show_default=False)],
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Only these measures; may be repeated.", show_default="all")
    ] = None,
    case: Case = "auto",
    allow_pickle: AllowPickle = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure two sets of vectors and print before, after and change."""
    from evenhand.audit.plan import Plan
    from evenhand.audit.runner import measured

    first, second = (load(path, case=case, allow_pickle=allow_pickle) for path in (before, after))
    plan = Plan.default(only=measure or (), seed=seed)
    found: list[tuple[Any, Any, Any]] = []
    with progress("compare") as bar, notes_on_stderr():
        for done, item in enumerate(plan.cases):
            if bar:
                bar(done, len(plan.cases), item.label)
            one, other = (measured(vectors, item, reference=first, seed=seed) for vectors in (first, second))
            found.append((item, one, other))
    if as_json:
        rows = [
            {"label": c.label, "before": b.to_dict(), "after": a.to_dict(), "change": _change(b, a)}
            for c, b, a in found
        ]
        show_json({"before": before, "after": after, "rows": rows})
    else:
        _show(found, first.name, second.name)


def _change(before: Any, after: Any) -> float | None:
    return None if before.value is None or after.value is None else float(after.value - before.value)


def _show(found: list[tuple[Any, Any, Any]], first: str, second: str) -> None:
    from rich.table import Table

    from evenhand import measures
    from evenhand.measures.registry import ARROWS
    from evenhand.report import numbers

    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("measure", overflow="fold")
    for column in ("better", "before", "after", "change"):
        table.add_column(
            column, justify="left" if column == "better" else "right", no_wrap=column in ("better", "change")
        )
    for item, before, after in found:
        change = _change(before, after)
        shown = "" if change is None else numbers.number(change) if change < 0 else f"+{numbers.number(change)}"
        arrow = ARROWS[measures.info(item.measure).better]
        table.add_row(escape(item.label), arrow, cell(before), cell(after), shown)
    show(f"before [bold]{first}[/], after [bold]{second}[/]", table)
    for item, *both in found:
        for when, measurement in zip(("before", "after"), both, strict=True):
            if measurement.status != "ok":
                show(f"[dim]undefined: {item.label}: {measurement.reason}[/]")
            elif measurement.note:
                show(f"[dim]{item.label}, {when}: {measurement.note}[/]")
