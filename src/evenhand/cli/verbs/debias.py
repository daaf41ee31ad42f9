"""`evenhand debias`: fit a method, apply it, write the vectors with their history."""

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
    VectorsArgument,
    load,
    notes_on_stderr,
)
from evenhand.cli.screens.terminal import escape, note, progress, show, show_json
from evenhand.errors import UsageError, counted

if TYPE_CHECKING:
    from evenhand.audit import Tradeoff
    from evenhand.mitigations import VectorMap
    from evenhand.models.vectors import Vectors


def debias(
    vectors: VectorsArgument,
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
    concept: ConceptOption = "gender",
    save_map: Annotated[
        Path | None, typer.Option("--save-map", help="Also write the fitted map (.safetensors).", show_default=False)
    ] = None,
    case: Case = "auto",
    format: Format = None,
    allow_pickle: AllowPickle = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Remove a concept from vectors and write the result, or compare all methods."""
    from evenhand import words
    from evenhand.models.vectors.formats import format_for_writing

    if sweep == bool(method):
        raise UsageError("name a method, or ask for --sweep", hint="`evenhand list methods` shows them")
    if not sweep:
        format_for_writing(out)  # a wrong name should not cost a long fit
    words.concept(concept)
    loaded = load(vectors, case=case, format=format, allow_pickle=allow_pickle)
    if sweep:
        compare_all(loaded, out, concept=concept, seed=seed, as_json=as_json)
        return
    fitted = _written(loaded, method, concept, out)
    if save_map:
        fitted.save(save_map)
    if as_json:
        shape = {"words": len(loaded), "dimensions": fitted.out_dim_of(loaded.dim)}
        show_json({"out": str(out), **shape, "report": dict(fitted.report)})
    else:
        _show(dict(fitted.report))
    note(f"wrote {out}")


def _written(vectors: Vectors, method: str, concept: str, out: Path) -> VectorMap:
    """Fit each method on what the one before left, write the last result, and return the maps as one."""
    from evenhand import mitigations
    from evenhand.models.vectors.formats import format_for_writing

    chosen = [mitigations.get(name)() for name in method.replace(".", ",").split(",")]
    with notes_on_stderr():
        fitted = last = chosen[0].fit(vectors, concept)
        for one in chosen[1:]:
            vectors = last(vectors)
            last = one.fit(vectors, concept)
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


def compare_all(vectors: Vectors, folder: Path, *, concept: str, seed: int, as_json: bool) -> None:
    """Run the audit of all methods, print the ranking, write record and page."""
    from evenhand import measures, mitigations
    from evenhand.audit import Audit, tradeoffs
    from evenhand.audit.tradeoff import BIAS

    methods = [entry.id for entry in mitigations.listing() if entry.id not in SLOW]
    asked = [name for name in (*BIAS, *COSTS) if measures.info(name).default_queries()]
    with progress("sweep") as bar:
        audit = Audit.run(
            vectors,
            methods=methods,
            measures=asked,
            concept=concept,
            seed=seed,
            folder=folder,
            skip_failing=True,
            progress=bar,
        )
    places = tradeoffs(audit)
    skipped = dict(audit.manifest["skipped"]) | dict.fromkeys(SLOW, "minutes of training: name it in an audit")
    saved, page = audit.save(folder), audit.to_html(folder / "report.html")
    if as_json:
        show_json({"ranking": [asdict(place) for place in places], "skipped": skipped, "record": str(saved)})
    else:
        _show_ranking(places, skipped)
    note(f"record {saved}\nreport {page}")


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
