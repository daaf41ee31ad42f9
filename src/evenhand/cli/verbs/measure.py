"""`evenhand measure`: one measure on one subject; `evenhand explain`: where in a network a difference comes from."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import (
    ConceptOption,
    EngineChoice,
    Json,
    Only,
    Opening,
    Overwrite,
    Seed,
    SubjectArgument,
    with_groups,
)
from evenhand.cli.terminal import escape, note, notes_on_stderr, plain_table, show, show_json, show_table
from evenhand.errors import InputMissingError, UsageError
from evenhand.outputs import output_file

if TYPE_CHECKING:
    from evenhand.measures import Info, Measurement
    from evenhand.models.attribution.pairs import PairAttribution
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
            *("group", "label", "prediction", "score", "threshold", "positive", "texts", "text_column"),
            "positive_label",
        ),
    ],
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run one measure and explain its number."""
    from evenhand import measures, words
    from evenhand.audit.plan import Question, concept_queries, require_view
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
    named = source is not None and source.name != "DEFAULT"
    spans = not named and info.whole in info.default_queries()  # a measure that spans several concepts asks about all
    queries = query or ([info.whole] if spans else list(concept_queries(info, about, [opened])))
    if not queries:
        _require_data(info, about)
        raise UsageError(f"{measure_id} asks nothing about {about.name} by default", hint=_query_hint(info))
    if not query and info.takes == "dataset" and (missing := _sets_to_fetch(info, queries)):
        note(f"note: further sets: evenhand fetch {' '.join(missing)}")
    with notes_on_stderr(), engine.views_of([opened, *before], device=opening.device):
        results: list[Measurement] = []
        for text in queries:
            asked = Question(measure_id, text, options)
            results += as_measurements(ask(asked, opened, about, reference=before[0] if before else None, seed=seed))
    if as_json:
        documents = [measurement.to_dict() for measurement in results]
        show_json({**(documents[0] if len(documents) == 1 else {}), "measurements": documents})
    else:
        _show(info, results)


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


def _options(function: Callable[..., object], given: list[str]) -> dict[str, object]:
    """`name=value` pairs, values read as TOML (numbers, true, "text") or as bare text."""
    known = {name for name, kind in inspect.signature(function).parameters.items() if kind.kind is kind.KEYWORD_ONLY}
    options: dict[str, object] = {}
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
    from evenhand.measures import numbers
    from evenhand.measures.registry import ARROWS

    scored = any(item.score for item in results)
    names = ["query", "score", "better"] if scored else ["query"]
    table = plain_table(*names, "value", "95 % interval", "p", "words", left=names)
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


COLUMNS = 8  # sites beside the tokens on a screen of 80 columns
LONGEST = 24  # characters of a token's name
EXPLAINED = ("inference", "labels", "likelihood")


@with_groups
def explain(
    subject: Annotated[str, typer.Argument(metavar="MODEL", help="hf:FOLDER or a GGUF file.", show_default=False)],
    *,
    pair: Annotated[
        tuple[str, str],
        typer.Option(
            "--pair", metavar="FIRST SECOND", help="Two texts that differ in a few words.", show_default=False
        ),
    ],
    answers: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--answers",
            metavar="WORD WORD",
            help="Language models: compare the probabilities of two next words, or of two words at the mask.",
            show_default="score the tokens that both texts have",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="Classifiers: whose log-odds are compared.", show_default="last, or entailment"),
    ] = None,
    premise: Annotated[
        str | None,
        typer.Option("--premise", help="Inference models: the premise of both texts.", show_default=False),
    ] = None,
    hypothesis: Annotated[
        str | None,
        typer.Option("--hypothesis", help="Inference models: the hypothesis of both texts.", show_default=False),
    ] = None,
    opening: Annotated[Opening, Only("device", "precision", "labels", "allow_pickle")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a page with charts (.html).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Show which layers and tokens of a model decide that it scores two texts differently."""
    from evenhand.models.attribution.pairs import explain_pair

    (opened,) = opening.subjects([subject])
    with output_file(out, sources=[subject], overwrite=overwrite):
        with notes_on_stderr():
            view, texts = _question(opened, pair, premise, hypothesis)
            result = explain_pair(view, texts[0], texts[1], answers=answers, label=label)
        if out:
            from evenhand.report.attribution import write_attribution

            write_attribution(result, out)
    if as_json:
        show_json(result.to_dict())
    else:
        _show_pair(result)
    if out:
        note(f"wrote {out}")


def _question(
    subject: Subject, pair: tuple[str, str], premise: str | None, hypothesis: str | None
) -> tuple[object, Sequence[str | tuple[str, str]]]:
    """Return the view that is explained and its two inputs."""
    name = next((view for view in EXPLAINED if view in subject.offers), "")
    if not name:
        offers = ", ".join(subject.offers) or "no view"
        raise UsageError(
            f"{subject.name} is {subject.title}, which offers {offers}; explain needs likelihood, labels or inference",
            hint="open a language model, a classifier or an inference model",
        )
    if subject.network is None:
        raise UsageError(f"{subject.name} is {subject.title}, not a transformer", hint="open a model: hf:FOLDER")
    view = subject.view(name)
    if name != "inference":
        if premise or hypothesis:
            raise UsageError(
                f"--premise and --hypothesis are for inference models; {subject.name} is {subject.title}",
                hint="leave them out",
            )
        return view, pair
    if (premise is None) == (hypothesis is None):
        raise UsageError(
            "an inference model compares a premise with a hypothesis: name one of them for both texts",
            hint="--premise TEXT if the pair are hypotheses, --hypothesis TEXT if they are premises",
        )
    model = view.members[0]
    return model, [(premise, text) if premise is not None else (text, str(hypothesis)) for text in pair]


def _show_pair(result: PairAttribution) -> None:
    from evenhand.measures.numbers import number
    from evenhand.models.attribution.pairs import ALIGNMENT
    from evenhand.report.attribution import attribution_findings

    for sentence in attribution_findings(result):
        show(escape(sentence))
    shares = result.shares
    values = result.effects if shares is None else 100 * shares
    chosen = _spread(len(result.sites))
    columns = ["token", *(_site(result.sites[row]) for row in chosen), "grad 1", "grad 2"]
    rows = []
    for place, unit in enumerate(result.units):
        name = unit.name if len(unit.name) <= LONGEST else f"{unit.name[: LONGEST - 1]}…"
        cells = [number(float(values[row, place]), 1 if shares is None else 0) for row in chosen]
        rows.append(
            [f"{'*' if unit.changed else ''}{name}", *cells, *(number(float(g[place]), 2) for g in result.gradients)]
        )
    show("")
    show_table("By token and layer" + (" (% of the difference)" if shares is not None else ""), columns, rows)
    show(
        "[dim]A cell: how far the score of the second text moves to that of the first with the activations of the "
        "first at this token and layer. grad 1, grad 2: gradient times input in the first and the second text. "
        f"* differs; {ALIGNMENT}.[/]"
    )
    if len(chosen) < len(result.sites):
        show(f"[dim]{len(chosen)} of {len(result.sites)} layers are shown; --json and --out have all.[/]")


def _spread(count: int) -> list[int]:
    """Return up to `COLUMNS` numbers of sites, the first and the last among them."""
    if count <= COLUMNS:
        return list(range(count))
    return [round(place * (count - 1) / (COLUMNS - 1)) for place in range(COLUMNS)]


def _site(site: str) -> str:
    return "table" if site == "embeddings" else site.partition(":")[2]
