"""`evenhand measure`: one measure on one subject."""

from __future__ import annotations

import inspect
import tomllib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import ConceptOption, EngineChoice, Json, Only, Opening, Seed, SubjectArgument, with_groups
from evenhand.cli.terminal import escape, note, notes_on_stderr, show, show_json
from evenhand.errors import InputMissingError, UsageError

if TYPE_CHECKING:
    from evenhand.measures import Info, Measurement
    from evenhand.subjects import Subject
    from evenhand.words import Concept


@with_groups
def measure(
    context: typer.Context,
    measure_id: Annotated[str, typer.Argument(metavar="MEASURE", help="Its id; see `evenhand list measures`.")],
    subject: SubjectArgument = "glove-embedded",
    *,
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query", "-q", help="What to ask: an id or a file; may be repeated.", show_default="the concept's"
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="The subject before mitigation.", show_default=False)
    ] = None,
    concept: ConceptOption = "gender",
    option: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the measure, such as ddof=1.", show_default=False)
    ] = None,
    engine: EngineChoice,
    opening: Annotated[
        Opening,
        Only(
            *("device", "precision", "labels", "vectors", "case", "format", "allow_pickle"),
            *("group", "label", "prediction", "score", "threshold", "positive"),
        ),
    ],
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run one measure and explain its number."""
    from evenhand import measures, words
    from evenhand.audit.plan import Question, require_view
    from evenhand.audit.runner import ask
    from evenhand.measures.registry import as_measurements

    function, info = measures.get(measure_id), measures.info(measure_id)
    about = words.concept(concept)
    options = _options(function, option or [])
    if reference and "reference" not in inspect.signature(function).parameters:
        raise UsageError(f"{measure_id} takes no --reference", hint="measure both subjects, or use `evenhand compare`")
    opened, *before = opening.subjects([subject, *([reference] if reference else [])])
    require_view(info, [opened])
    source = context.get_parameter_source("concept")
    queries = query or _queries(info, about, opened, named=source is not None and source.name != "DEFAULT")
    if not queries:
        _require_data(info, about)
        raise UsageError(f"{measure_id} asks nothing about {about.name} by default", hint=_query_hint(info))
    if not query and info.takes == "dataset" and (missing := _sets_to_fetch(info, queries)):
        note(f"note: further sets: evenhand fetch {' '.join(missing)}")
    with notes_on_stderr(), engine.views_of([opened, *before], device=opening.device):
        results = [
            measurement
            for text in queries
            for measurement in as_measurements(
                ask(
                    Question(measure_id, text, options), opened, about, reference=before[0] if before else None,
                    seed=seed,
                )
            )
        ]  # fmt: skip
    if as_json:
        documents = [measurement.to_dict() for measurement in results]
        show_json({**(documents[0] if len(documents) == 1 else {}), "measurements": documents})
    else:
        _show(info, results)


def _queries(info: Info, concept: Concept, subject: Subject, *, named: bool) -> list[str]:
    """Return what a measure asks about a concept; a measure that spans several asks all of them unless one is named."""
    from evenhand.audit.plan import concept_queries

    if not named and info.whole in info.default_queries():
        return [info.whole]
    return list(concept_queries(info, concept, [subject]))


def _require_data(info: Info, concept: Concept) -> None:
    """Raise if a measure would ask something about the concept, but its data are not on this disk."""
    from evenhand import data

    missing = [name for name in info.data if data.locate(name) is None]
    if missing and not info.default_queries() and (not info.concepts or concept.name in info.concepts):
        raise InputMissingError(
            f"{info.id} needs data that are not on this disk: {', '.join(missing)}",
            hint=f"evenhand fetch {' '.join(missing)}",
        )


def _query_hint(info: Info) -> str:
    """Say how to name a query, or which data sets to fetch."""
    if info.takes != "dataset":
        return "give one: --query ID or FILE"
    if sets := _sets_to_fetch(info, []):
        return f"fetch a data set first: evenhand fetch {' '.join(sets)}"
    return f"name one of its queries: {', '.join(info.default_queries())}"


def _sets_to_fetch(info: Info, queries: list[str]) -> list[str]:
    """Return the data sets of a measure that are not among the queries; collections of several sets are left out."""
    from evenhand import data

    entries = [entry for entry in data.catalog().values() if entry.kind == info.id and not entry.is_folder]
    return [*(id for id in info.data if data.locate(id) is None), *(e.id for e in entries if e.id not in queries)]


def _options(function: Any, given: list[str]) -> dict[str, Any]:
    """`name=value` pairs, values read as TOML (numbers, true, "text") or as bare text."""
    known = {name for name, kind in inspect.signature(function).parameters.items() if kind.kind is kind.KEYWORD_ONLY}
    options: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        key = name.strip().replace("-", "_")
        if not sign or key not in known - {"reference", "seed", "concept"}:
            allowed = ", ".join(sorted(known - {"reference", "seed", "concept", "subspace"}))
            raise UsageError(
                f"{text!r} is not an option of this measure", hint=f"write name=value with one of {allowed}"
            )
        try:
            options[key] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            options[key] = value
    return options


def _show(info: Info, results: list[Measurement]) -> None:
    from rich.table import Table

    from evenhand.measures import numbers
    from evenhand.measures.registry import ARROWS

    table = Table(box=None, header_style="dim", pad_edge=False)
    scored = any(item.score for item in results)
    for column, how in (
        ("query", "left"),
        *([("score", "left"), ("better", "left")] if scored else []),
        ("value", "right"),
        ("95 % interval", "right"),
        ("p", "right"),
        ("words", "right"),
    ):
        table.add_column(column, justify=how)  # type: ignore[arg-type]
    for item in results:
        interval = escape(numbers.interval(item))
        p = numbers.p_value(item).removeprefix("p ").removeprefix("= ")
        score = [item.score, ARROWS[info.better_score(item.score)]] if scored else []
        value = f"[bold]{numbers.value(item)}[/]"
        table.add_row(item.query, *score, value, interval, p, numbers.words(item))
    direction = "" if info.scores else f"  {ARROWS[info.better]} is better"
    show(f"[bold]{info.title}[/]{direction}", table)
    for item in results:
        text = (
            f"undefined: {item.reason}" if item.status != "ok" else "; ".join(filter(None, (item.reading, item.note)))
        )
        lost = f" (lost: {', '.join(item.coverage.missing[:8])})" if item.coverage.missing else ""
        name = f"{item.query}, {item.score}" if item.score else item.query
        show(f"[dim]{name}: {text}{lost}[/]")
    show(f"[dim]{info.limits}[/]")
