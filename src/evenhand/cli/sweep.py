"""`evenhand debias --sweep`: every method, ranked by bias left against quality kept."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.cli.screen import escape, note, progress, show, show_json

if TYPE_CHECKING:
    from evenhand.audit import Tradeoff
    from evenhand.models.vectors import Vectors

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
        _show(places, skipped)
    note(f"record {saved}\nreport {page}")


def _show(places: list[Tradeoff], skipped: dict[str, str]) -> None:
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
