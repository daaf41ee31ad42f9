"""`evenhand debias`: fit a method, apply it, write the vectors with their history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.cli.options import AllowPickle, Case, ConceptOption, Format, Json, VectorsArgument, load, notes_on_stderr
from evenhand.cli.screen import note, show, show_json


def debias(
    vectors: VectorsArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write; the suffix says the format.", show_default=False)
    ],
    method: Annotated[
        str,
        typer.Option("--method", "-m", help="A method, or several applied in order: hard,misp.", show_default=False),
    ],
    concept: ConceptOption = "gender",
    save_map: Annotated[
        Path | None, typer.Option("--save-map", help="Also write the fitted map (.safetensors).", show_default=False)
    ] = None,
    case: Case = "auto",
    format: Format = None,
    allow_pickle: AllowPickle = False,
    as_json: Json = False,
) -> None:
    """Remove a concept from vectors and write the result."""
    from evenhand import mitigations, words
    from evenhand.models.vectors.formats import format_for_writing

    format_for_writing(out)  # a wrong name should not cost a long fit
    chosen = [mitigations.get(name) for name in method.replace(".", ",").split(",")]
    about = words.concept(concept)
    loaded = load(vectors, case=case, format=format, allow_pickle=allow_pickle)
    fitted: Any = None
    with notes_on_stderr():
        changed = loaded
        for kind in chosen:
            step = kind().fit(changed, about)
            changed = step(changed)
            fitted = step if fitted is None else step @ fitted
    changed.save(out)
    if save_map:
        fitted.save(save_map)
    account = [dict(step) for step in changed.history[len(loaded.history) :]]
    report = dict(fitted.report)
    if as_json:
        show_json(
            {"out": str(out), "words": len(changed), "dimensions": changed.dim, "history": account, "report": report}
        )
    else:
        _show(report)
    note(f"wrote {out}")


def _show(report: dict[str, Any]) -> None:
    for step in report.get("steps", [report]):
        name = step.get("method", "method")
        removed, missing = step.get("rank_removed", "?"), len(step.get("words_missing", ()))
        kept = step.get("variance_kept")
        changed = step.get("words_changed")
        show(
            f"[bold]{name}[/]: {removed} {'direction' if removed == 1 else 'directions'} removed"
            + (f", {changed:,} words changed" if changed is not None else "")
            + (f", {100 * kept:.1f} % of the variance kept" if kept is not None else "")
            + f", {missing} list words missing"
        )
    show("[dim]Less measured bias is not the absence of bias: `evenhand compare BEFORE AFTER` shows what is left.[/]")
