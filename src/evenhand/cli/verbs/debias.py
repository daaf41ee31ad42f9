"""`evenhand debias`: fit a method, apply it, write the vectors with their history; or a corpus, changed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    AllowPickle,
    Case,
    ConceptOption,
    Format,
    Json,
    Seed,
    SkipBad,
    SubjectArgument,
    notes_on_stderr,
    open_subjects,
)
from evenhand.cli.screens.terminal import escape, note, progress, show, show_json
from evenhand.cli.verbs.debias_corpus import is_corpus, write_corpus
from evenhand.errors import EvenhandError, UsageError, counted

if TYPE_CHECKING:
    from evenhand.audit import Tradeoff
    from evenhand.mitigations import Mitigation, VectorMap
    from evenhand.models.vectors import Vectors
    from evenhand.subjects import Subject
    from evenhand.words import Concept


def debias(
    subject: SubjectArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write; the suffix says the format.", show_default=False)
    ],
    method: Annotated[
        str,
        typer.Option("--method", "-m", help="A method, or several in order: hard.misp.", show_default=False),
    ] = "",
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Try all methods but the slow gp and rank them; OUT is then a folder.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of the method, such as k=2 or inlp.rounds=20.", show_default=False),
    ] = None,
    concept: ConceptOption = "gender",
    save_map: Annotated[
        Path | None,
        typer.Option("--save-map", help="Also write the fitted map or change.", show_default=False),
    ] = None,
    case: Case = None,
    format: Format = None,
    allow_pickle: AllowPickle = False,
    field: Annotated[
        str | None,
        typer.Option(help="Corpora: field with the text, or several with commas.", show_default="text"),
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option(help="Corpora: whether a plain text file or each line is a document.", show_default="file"),
    ] = None,
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Remove a concept from vectors, or swap its words in a corpus, and write the result; or compare all methods."""
    from evenhand import words
    from evenhand.models.vectors.formats import format_for_writing

    _check_sweep(sweep, method, option, save_map)
    about = words.concept(concept)
    methods = parse_methods(method, option or []) if method else []
    for one in methods:
        one.check_concept(about)
    reading = {"field": field, "documents": documents, "skip_bad": skip_bad or None}
    if not sweep and is_corpus(subject):
        reading["format"] = format
        write_corpus(subject, methods, about, out, reading, save=save_map, seed=seed, as_json=as_json)
        return
    if given := next((name for name, value in reading.items() if value is not None), ""):
        raise UsageError(f"--{given.replace('_', '-')} is for corpora", hint="write corpus:PATH, or leave it out")
    if not sweep:
        format_for_writing(out)  # an impossible name should not cost a long fit
    (opened,) = open_subjects([subject], case=case, format=format, allow_pickle=allow_pickle or None)
    if not opened.can_change:
        raise UsageError(
            f"{opened.name} is {opened.title}; methods change word vectors", hint="name a vector file or catalog id"
        )
    if sweep:
        compare_all(opened, out, concept=concept, seed=seed, as_json=as_json)
        return
    vectors = opened.view("vectors")
    fitted = _written(vectors, methods, about, out, seed)
    if save_map:
        fitted.save(save_map)
    if as_json:
        shape = {"words": len(vectors), "dimensions": fitted.out_dim_of(vectors.dim)}
        show_json({"out": str(out), **shape, "seed": seed, "report": dict(fitted.report)})
    else:
        _show(dict(fitted.report))
    note(f"wrote {out}, seed {seed}")


def _check_sweep(sweep: bool, method: str, option: list[str] | None, save_map: Path | None) -> None:
    if sweep == bool(method):
        raise UsageError("name a method, or ask for --sweep", hint="`evenhand list methods` shows them")
    if sweep and option:
        raise UsageError("--set needs --method", hint="a sweep tries every method with its own parameters")
    if sweep and save_map:
        raise UsageError("--save-map needs --method", hint="choose a method from the sweep, then save its map")


def parse_methods(chain: str, options: list[str]) -> list[Mitigation]:
    """Return the methods of a chain with their parameters; `method.key=value` sets one of several methods."""
    from evenhand import mitigations
    from evenhand.audit.plan import split_chain

    ids = split_chain(chain)
    given: dict[str, dict[str, str]] = {id: {} for id in ids}
    for text in options:
        name, sign, value = text.partition("=")
        id, dot, key = name.partition(".")
        if not sign or (dot and id not in given):
            raise UsageError(f"--set {text} is not a parameter", hint="write --set key=value or --set method.key=value")
        if not dot and len(ids) > 1:
            raise UsageError(f"--set {text}: which method?", hint=f"write --set {ids[0]}.{text}")
        given[id if dot else ids[0]][(key if dot else name).strip()] = value
    return [mitigations.get(id)().with_params(given[id]) for id in ids]


def _written(vectors: Vectors, methods: list[Mitigation], concept: Concept, out: Path, seed: int) -> VectorMap:
    """Fit each method on the result of the one before, write the last result, and return the maps as one."""
    from evenhand.models.vectors.formats import format_for_writing

    with notes_on_stderr():
        fitted = last = methods[0].fit(vectors, concept, seed=seed)
        for one in methods[1:]:
            vectors = last(vectors)
            last = one.fit(vectors, concept, seed=seed)
            fitted = last @ fitted
    if format_for_writing(out).id == "safetensors":
        last.write(vectors, out)  # block by block: the result need not fit into memory
    else:
        last(vectors).save(out)
    return fitted


def _show(report: dict[str, Any]) -> None:
    for step in report.get("chain", [report]):
        name = step.get("method", "method")
        removed, missing = step.get("rank_removed", "?"), len(step.get("words_missing", ()))
        kept = step.get("variance_kept")
        changed, about = step.get("words_changed"), "about " if "measured_on" in step else ""
        show(
            f"[bold]{name}[/]: {removed} {'direction' if removed == 1 else 'directions'} removed"
            + (f", {about}{changed:,} words changed" if changed is not None else "")
            + (f", variance {100 * kept:.1f} % of before" if kept is not None else "")
            + f", {counted(missing, 'list word')} missing"
        )
    show("[dim]Less measured bias is not the absence of bias: `evenhand compare BEFORE AFTER` shows what is left.[/]")


COSTS = ("retention", "similarity", "analogy")
SLOW = ("gp",)  # minutes of training: only when it is named in an audit


def compare_all(subject: Subject, folder: Path, *, concept: str, seed: int, as_json: bool) -> None:
    """Run the audit of all methods, print the ranking, write record and page."""
    from evenhand import measures, mitigations, words
    from evenhand.audit import Audit, tradeoffs
    from evenhand.audit.plan import concept_queries
    from evenhand.audit.tradeoff import BIAS

    about = words.concept(concept)
    methods = [entry.id for entry in mitigations.listing("vectors") if entry.id not in SLOW]
    fitting, unfit = _fitting(methods, about)
    asked = [name for name in (*BIAS, *COSTS) if concept_queries(measures.info(name), about)]
    with progress("sweep") as bar:
        audit = Audit.run(
            subject,
            methods=fitting,
            measures=asked,
            concept=concept,
            seed=seed,
            folder=folder,
            skip_failing=True,
            progress=bar,
        )
    places = tradeoffs(audit)
    skipped = unfit | dict(audit.manifest["skipped"]) | dict.fromkeys(SLOW, "minutes of training: name it in an audit")
    saved, page = audit.save(folder), audit.to_html(folder / "report.html")
    if as_json:
        show_json({"ranking": [asdict(place) for place in places], "skipped": skipped, "record": str(saved)})
    else:
        _show_ranking(places, skipped)
    note(f"record {saved}\nreport {page}")


def _fitting(methods: list[str], concept: Concept) -> tuple[list[str], dict[str, str]]:
    """Separate the methods that can work with a concept from those that cannot, with the reasons."""
    from evenhand import mitigations

    unfit: dict[str, str] = {}
    for id in methods:
        try:
            mitigations.get(id)().check_concept(concept)
        except EvenhandError as error:
            unfit[id] = error.message
    return [id for id in methods if id not in unfit], unfit


def _show_ranking(places: list[Tradeoff], skipped: dict[str, str]) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("method", "bias left", "quality kept", "not beaten", "measures"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for place in places:
        shares = (f"{100 * place.bias_left:.0f} %", f"{100 * place.quality_kept:.0f} %")
        table.add_row(place.method, *shares, "yes" if place.on_the_front else "", str(place.measures_used))
    show(table)
    for method, why in skipped.items():
        show(f"[dim]not run: {escape(f'{method}: {why}')}[/]")
    show(
        "[dim]Shares of the original, averaged over the measures that are defined after the method. "
        "A share hides which bias is left: read the report.[/]"
    )
