"""`evenhand measure`: one measure on one set of vectors."""

from __future__ import annotations

import inspect
import tomllib
from typing import Annotated, Any

import typer

from evenhand.cli.options import (
    AllowPickle,
    Case,
    ConceptOption,
    Format,
    Json,
    Seed,
    VectorsArgument,
    load,
    notes_on_stderr,
)
from evenhand.cli.screens.terminal import escape, show, show_json
from evenhand.errors import UsageError


def measure(
    measure_id: Annotated[str, typer.Argument(metavar="MEASURE", help="Its id; see `evenhand list measures`.")],
    vectors: VectorsArgument = "glove-embedded",
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query", "-q", help="What to ask: an id or a file; may be repeated.", show_default="all defaults"
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="The vectors before mitigation.", show_default=False)
    ] = None,
    concept: ConceptOption = "gender",
    option: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the measure, such as ddof=1.", show_default=False)
    ] = None,
    case: Case = "auto",
    format: Format = None,
    allow_pickle: AllowPickle = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run one measure and say what its number means."""
    from evenhand import measures

    function, info = measures.get(measure_id), measures.info(measure_id)
    asked = query or list(info.default_queries())
    if not asked:
        raise UsageError(f"{measure_id} names no query of its own", hint="give one: --query ID or FILE")
    options = {**_options(function, option or []), **_concept(function, concept)}
    loaded = load(vectors, case=case, format=format, allow_pickle=allow_pickle)
    before = load(reference, case=case) if reference else None
    with notes_on_stderr():
        found = [function(loaded, text, reference=before, seed=seed, **options) for text in asked]
    if as_json:
        documents = [measurement.to_dict() for measurement in found]
        show_json(documents[0] if len(documents) == 1 else documents)
    else:
        _show(info, found)


def _options(function: Any, given: list[str]) -> dict[str, Any]:
    """`name=value` pairs, values read as TOML (numbers, true, "text") or as bare text."""
    known = {name for name, kind in inspect.signature(function).parameters.items() if kind.kind is kind.KEYWORD_ONLY}
    options: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        key = name.strip().replace("-", "_")
        if not sign or key not in known - {"reference", "seed", "concept"}:
            allowed = ", ".join(sorted(known - {"reference", "seed", "concept", "subspace"}))
            raise UsageError(f"{text!r} is no option of this measure", hint=f"write name=value with one of {allowed}")
        try:
            options[key] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            options[key] = value
    return options


def _concept(function: Any, concept: str) -> dict[str, Any]:
    return {"concept": concept} if "concept" in inspect.signature(function).parameters else {}


def _show(info: Any, found: list[Any]) -> None:
    from rich.table import Table

    from evenhand.measures.registry import ARROWS
    from evenhand.report import numbers

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column, how in (
        ("query", "left"),
        ("value", "right"),
        ("95 % interval", "right"),
        ("p", "right"),
        ("words", "right"),
    ):
        table.add_column(column, justify=how)  # type: ignore[arg-type]
    for item in found:
        interval = escape(numbers.interval(item))
        p = numbers.p_value(item).removeprefix("p ").removeprefix("= ")
        table.add_row(item.query, f"[bold]{numbers.number(item.value)}[/]", interval, p, str(item.coverage))
    show(f"[bold]{info.title}[/]  {ARROWS[info.better]} is better", table)
    for item in found:
        text = (
            f"undefined: {item.reason}" if item.status != "ok" else "; ".join(filter(None, (item.reading, item.note)))
        )
        lost = f" (lost: {', '.join(item.coverage.missing[:8])})" if item.coverage.missing else ""
        show(f"[dim]{item.query}: {text}{lost}[/]")
    show(f"[dim]{info.limits}[/]")
