"""Forest plot: WEAT effect sizes with their intervals, one line per query and one mark per stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import CHARTS, Figure
from evenhand.report.charts.style import DISTINGUISHABLE, chart, scales
from evenhand.report.tables import Row, rows


@CHARTS.register("effect-sizes")
def effect_sizes(audit: Audit, subject: str) -> Figure | None:
    """Draw the association tests before and after each method."""
    weat = [row for row in rows(audit, subject) if row.question.measure == "weat"]
    defined = any(cell.value is not None for row in weat for cell in row.cells.values())
    if not defined or len(audit.stage_names) > DISTINGUISHABLE:
        return None
    columns = ("test", *weat[0].cells)
    table = tuple((row.label, *(numbers.cell(cell) for cell in row.cells.values())) for row in weat)
    return Figure("Association tests, before and after", effect_forest(weat, "WEAT effect size"), columns, table)


def effect_forest(rows: Sequence[Row], title: str) -> dict[str, Any]:
    """Values and 95 % intervals of several rows on one axis, the stages beside each other."""
    stages = list(rows[0].cells)
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
        if cell.value is not None
    ]
    marks = scales(stages)
    y = {"field": "query", "type": "nominal", "title": None, "sort": [_name(row) for row in rows]}
    offset = {"field": "stage", "sort": stages}
    shared = {"y": y, "yOffset": offset, "color": marks["color"]}
    return chart(
        f"{title}: value and 95 % interval of {len(rows)} tests on {len(stages)} stages",
        data={"values": points},
        width=470,
        height={"step": 14},
        layer=[
            {"mark": {"type": "rule", "color": "#8d8778"}, "encoding": {"x": {"datum": 0}}},
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {
                    **shared,
                    "x": {"field": "low", "type": "quantitative", "title": title},
                    "x2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {**shared, "shape": marks["shape"], "x": {"field": "value", "type": "quantitative"}},
            },
        ],
    )


def _name(row: Row) -> str:
    return f"{row.label}: {row.original.positive}" if row.original.positive else row.label
