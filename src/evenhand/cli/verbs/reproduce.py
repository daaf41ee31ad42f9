"""`evenhand reproduce`: the tables and figures of the papers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import CaseOption, Json, Seed, load
from evenhand.cli.terminal import escape, note, notes_on_stderr, progress, show, show_json, show_plain, show_table
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.models.vectors import Vectors
    from evenhand.reproduce import PaperComparison, PaperItem
    from evenhand.reproduce.inputs import PaperInputs


class PageFormat(StrEnum):
    """How the comparison is written."""

    text = "text"
    markdown = "markdown"
    html = "html"


def reproduce(
    which: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="A paper (dev2019, bordia2019, dawkins2021, ethayarajh2019) or one of its tables: dev2019/table-13.",
            show_default="list them",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", "-t", help="A table or figure of the paper: 13, figure-1.", show_default="all"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="Compute with this model, ADDRESS or ROW=ADDRESS with a row of the table; may be repeated.",
            show_default="embedded",
        ),
    ] = None,
    vectors: Annotated[
        list[str] | None,
        typer.Option("--vectors", "-v", help="Vector files, or elmo:FOLDER; may be repeated.", show_default="embedded"),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help="For tables about a text: an id such as enwik8, or files; may be repeated."),
    ] = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample", help="Pairs that NLI models are asked, or texts that a language model writes; 0 for all.", min=0
        ),
    ] = 20_000,
    only_recorded: Annotated[
        bool, typer.Option("--recorded", help="Show recorded results only, and compute nothing.")
    ] = False,
    as_page: Annotated[PageFormat, typer.Option("--format", help="text, markdown or html.")] = PageFormat.text,
    case: CaseOption = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show what the papers print beside ours, and whether it agrees."""
    from evenhand import reproduce as reproductions

    wanted = _wanted(which or [], table)
    if not which:
        _list(wanted, as_json=as_json)
        return
    _require_used(wanted, {"--model": model, "--vectors": vectors, "--corpus": corpus}, only_recorded=only_recorded)
    inputs = None if only_recorded else _inputs(wanted, model, vectors, corpus, sample, case, seed)
    found = [_beside(item, inputs) for item in wanted]
    if as_json:
        show_json([one.to_dict() for one in found])
    elif as_page is not PageFormat.text:
        from evenhand.reproduce import markdown

        show_plain((markdown.markdown if as_page is PageFormat.markdown else markdown.html)(found).rstrip("\n"))
    elif len(which) == 1 and which[0] in reproductions.PAPERS and table is None:
        _show_summary(found)
    else:
        for one in found:
            _show(one)
        _show_rules()


def _wanted(which: Sequence[str], table: str | None) -> list[PaperItem]:
    """Return the tables and figures that were named; all of them if none was."""
    from evenhand import reproduce as reproductions

    if table is not None:
        if len(which) != 1 or "/" in which[0]:
            raise UsageError("--table names a table of one paper", hint="write dev2019 --table 13, or dev2019/table-13")
        reproductions.paper(which[0])
        table = {"contrived": "section-4"}.get(table, table)
        return [reproductions.item(f"{which[0]}/table-{table}" if table.isdecimal() else f"{which[0]}/{table}")]
    found: dict[str, PaperItem] = {}
    for name in which or [""]:
        several = reproductions.items(name) if "/" not in name else {name: reproductions.item(name)}
        found |= several
    return list(found.values())


def _require_used(wanted: Sequence[PaperItem], options: Mapping[str, list[str] | None], *, only_recorded: bool) -> None:
    """Raise if an option is given that none of the tables takes; without a model, no NLI model reads given vectors."""
    from evenhand.reproduce import COMPUTED

    given = [option for option, value in options.items() if value]
    if given and only_recorded:
        raise UsageError(f"--recorded computes nothing, and {given[0]} gives something to compute from")
    for option in given:
        alone = option == "--vectors" and not options["--model"]
        taking = [id for id, (_, *takes) in COMPUTED.items() if option in takes and not (alone and "--model" in takes)]
        if not any(item.id in taking for item in wanted):
            named = ", ".join(item.id for item in wanted)
            near = [id for id in taking if id.partition("/")[0] == wanted[0].paper] or taking
            raise UsageError(f"{option} has no effect on {named}", hint=f"it is for {', '.join(near)}")


def _inputs(
    wanted: Sequence[PaperItem], models: list[str] | None, vectors: list[str] | None, corpus: list[str] | None,
    sample: int, case: str | None, seed: int,
) -> PaperInputs:  # fmt: skip
    from evenhand.reproduce.inputs import PaperInputs, check_rows

    check_rows(models or (), wanted)
    loaded = tuple(_load(source, case) for source in vectors or ())
    return PaperInputs(
        models=tuple(models or ()), vectors=loaded, sources=tuple(vectors or ()), sample=sample or None, seed=seed,
        corpus=corpus[0] if corpus and len(corpus) == 1 else corpus,
    )  # fmt: skip


def _load(source: str, case: str | None) -> Vectors:
    """Load a file, or the token vectors of an ELMo model."""
    from evenhand.subjects.opening import open_subject

    if not source.startswith("elmo:"):
        return load(source, case=case)
    found: Vectors = open_subject(source).view("vectors")
    return found


def _beside(item: PaperItem, inputs: PaperInputs | None) -> PaperComparison:
    from dataclasses import replace

    from evenhand import reproduce as reproductions

    if inputs is None or item.id not in reproductions.COMPUTED:
        return reproductions.beside(item.id)
    with progress(item.id) as bar, notes_on_stderr():
        return reproductions.beside(item.id, replace(inputs, progress=bar))


def _list(wanted: Sequence[PaperItem], *, as_json: bool) -> None:
    from evenhand import reproduce as reproductions

    found = [reproductions.beside(item.id) for item in wanted]
    if as_json:
        data = [(one.item.id, one.item.shows, one.item.how, one.item.claim, one.verdict or None) for one in found]
        show_json([dict(zip(("id", "shows", "how", "claim", "holds"), row, strict=True)) for row in data])
        return
    rows = [(i.id, i.shows, i.how, one.verdict or "not tested") for one in found for i in [one.item]]
    show_table("", ("id", "shows", "ours", "holds"), rows)
    papers = {item.paper for item in wanted}
    count = len([item for item in wanted if not item.extra])
    note(f"{count} tables and figures of {len(papers)} papers; `evenhand reproduce ID` shows the numbers of one")


def _show_summary(found: Sequence[PaperComparison]) -> None:
    from evenhand import reproduce as reproductions
    from evenhand.reproduce.markdown import counts

    paper = reproductions.paper(found[0].item.paper)
    rows = [(one.item.name, one.item.claim, counts(one), one.verdict or "not tested") for one in found]
    title = f"{paper.authors}: {paper.title}"
    show_table(title, ("", "the paper says", "numbers agree", "holds"), rows)
    _show_rules()
    note(f"`evenhand reproduce {paper.id}/{found[0].item.name}` shows the numbers of one")


def _show(one: PaperComparison) -> None:
    from evenhand.reproduce import markdown

    item = one.item
    show(f"[bold]{escape(item.id)}[/]  {escape(item.shows)}")
    show(f"{escape(item.claim)} [dim]({escape(item.source)})[/]")
    if one.verdict:
        show(f"holds: [bold]{one.verdict}[/] [dim]({escape(markdown.verdicts(one))})[/]")
    for series in one.series:
        show_table(markdown.title(one, series), markdown.HEADS, markdown.number_rows(one, series.name))
        if (own := markdown.own_table(series)) and series.table:
            show_table(series.table.title, *own)
    if total := markdown.counts(one):
        show(f"numbers that agree: {total}")
    for line in markdown.lines_below(one):
        show(f"[dim]{escape(line)}[/]")
    show("")


def _show_rules() -> None:
    from evenhand.reproduce.comparison import CLAIM_RULE, RULE

    show(f"[dim]{RULE}[/]", f"[dim]{CLAIM_RULE}[/]")
