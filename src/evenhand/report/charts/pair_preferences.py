"""Pair likelihoods: in what share of pairs does a model prefer the stereotype? By category, with the 50 % line."""

from __future__ import annotations

from evenhand.audit import Audit
from evenhand.audit.record import rows
from evenhand.report import numbers
from evenhand.report.charts.effect_sizes import effect_forest
from evenhand.report.charts.figure import Figure, register_chart
from evenhand.report.charts.style import DISTINGUISHABLE

MEASURES = ("crows-pairs", "aul", "aula", "stereoset", "winobias", "holistic-bias")


@register_chart("pair-preferences", measures=MEASURES, family="likelihood", place="bias")
def pair_preferences(audit: Audit, subject: str) -> Figure | None:
    """Draw every score of which 50 % is ideal, by measure and category."""
    fifty = [row for row in rows(audit, subject) if row.info.better_score(row.original.score) == "fifty"]
    drawn = [row for row in fifty if any(cell.value is not None for cell in row.cells.values())]
    if not drawn:
        return None
    stages = list(drawn[0].cells)[:DISTINGUISHABLE]
    spec = effect_forest(drawn, "pairs in which the stereotype is preferred (%)", stages, ideal=50.0)
    for layer in spec["layer"][1:]:
        layer["encoding"]["x"]["scale"] = {"domain": [0, 100]}
    table = tuple(
        (row.label, *(numbers.cell(row.cells[stage]) for stage in stages), f"{row.original.n:,}") for row in drawn
    )
    caption = (
        "At the line, 50 %, the model has no preference, which is ideal. Right of it, it prefers the stereotyping "
        f"sentence. Bars are 95 % intervals; n is in the table; seed {audit.seed}. The pairs can show bias, never its "
        "absence."
    )
    return Figure("Which sentence of a pair is more likely?", spec, ("pairs", *stages, "n"), table, caption)
