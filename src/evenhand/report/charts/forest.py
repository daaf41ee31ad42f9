"""Effect sizes with their intervals, one line a query, one mark a stage: a forest plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.report.charts.style import chart, scales
from evenhand.report.tables import Row


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
        f"{title}: value and 95 % interval of {len(rows)} tests on {len(stages)} sets of vectors",
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
