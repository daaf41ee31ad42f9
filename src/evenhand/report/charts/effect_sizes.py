"""Forest plots: scores with their intervals on one axis, one line per test and one mark per stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit import Audit
from evenhand.audit.record import Row
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, register_chart, rows_of
from evenhand.report.charts.style import DISTINGUISHABLE, chart, number_axis, reference_line, scales


@register_chart("effect-sizes", measures=("weat",), family="association", place="bias")
def effect_sizes(audit: Audit, subject: str) -> Figure | None:
    """Draw the word association tests before and after each method."""
    return _effects(audit, subject, "weat", "Association tests of words (WEAT)")


@register_chart("sentence-effect-sizes", measures=("seat",), family="sentences", place="bias")
def sentence_effect_sizes(audit: Audit, subject: str) -> Figure | None:
    """Draw the sentence association tests before and after each method."""
    return _effects(audit, subject, "seat", "Association tests of sentences (SEAT)")


@register_chart("decision-changes", measures=("counterfactual",), family="labels", place="bias")
def decision_changes(audit: Audit, subject: str) -> Figure | None:
    """Draw how far the probability of a label depends on the group."""
    gaps = [row for row in rows_of(audit, subject, "counterfactual") if row.original.score.startswith("gap")]
    caption = "Right of 0: the label is more probable for the first group. Nearer to 0 is better."
    return forest_figure(
        audit, gaps, "Does the decision depend on the group?", "difference in P(label) between groups", caption
    )


def _effects(audit: Audit, subject: str, measure: str, title: str) -> Figure | None:
    every = rows_of(audit, subject, measure)
    about = [row for row in every if row.question.asks_about(audit.concept)] or every
    caption = (
        "Right of 0: the named words go together, as the stereotype has it; left of 0: the opposite. Nearer to 0 is "
        "better. A bar that crosses the line at 0 may be chance."
    )
    return forest_figure(audit, about, title, "effect size d (standard deviations)", caption)


def forest_figure(audit: Audit, rows: Sequence[Row], title: str, axis: str, caption: str) -> Figure | None:
    """Return values and 95 % intervals of several rows as a figure, or None if none has a value."""
    drawn = [row for row in rows if any(cell.value is not None for cell in row.cells.values())]
    if not drawn:
        return None
    stages = list(drawn[0].cells)
    shown = stages[:DISTINGUISHABLE]
    table = tuple((row.label, *(numbers.cell(row.cells[stage]) for stage in stages)) for row in drawn)
    items = sum(row.original.n for row in drawn)
    left_out = f" The first {len(shown)} of {len(stages)} stages are drawn." if len(shown) < len(stages) else ""
    sources = f"Bars are 95 % intervals. {len(drawn)} tests, n = {items:,} in all, seed {audit.seed}.{left_out}"
    return Figure(title, effect_forest(drawn, axis, shown), ("test", *stages), table, f"{caption} {sources}")


def effect_forest(rows: Sequence[Row], title: str, stages: Sequence[str] = (), *, ideal: float = 0.0) -> dict[str, Any]:
    """Values and 95 % intervals of several rows on one axis, the stages beside each other."""
    shown = list(stages or rows[0].cells)
    points = [
        {
            "query": _name(row),
            "stage": stage,
            "value": cell.value,
            "low": cell.interval[0] if cell.interval else cell.value,
            "high": cell.interval[1] if cell.interval else cell.value,
        }
        for row in rows
        for stage, cell in row.cells.items()
        if cell.value is not None and stage in shown
    ]
    marks = scales(shown)
    y = {"field": "query", "type": "nominal", "title": None, "sort": [_name(row) for row in rows]}
    shared = {"y": y, "yOffset": {"field": "stage", "sort": shown}, "color": marks["color"]}
    return chart(
        f"{title}: value and 95 % interval of {len(rows)} tests on {len(shown)} stages",
        data={"values": points},
        width=430,
        height={"step": 14 if len(shown) < 4 else 9},
        layer=[
            reference_line("x", ideal),
            {
                "mark": {"type": "rule", "strokeWidth": 1.5, "aria": False},
                "encoding": {**shared, "x": number_axis("low", title), "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {**shared, "shape": marks["shape"], "x": {"field": "value", "type": "quantitative"}},
            },
        ],
    )


def _name(row: Row) -> str:
    return f"{row.label}: {row.original.positive}" if row.original.positive else row.label
