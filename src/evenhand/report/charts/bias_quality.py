"""Bias left against quality kept, one mark per method: better methods are towards the upper left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit import ORIGINAL, Audit, Tradeoff, tradeoffs
from evenhand.report.charts.figure import Figure, register_chart
from evenhand.report.charts.style import GREY, INK, PALETTE, chart

OVERLAP = 0.002  # of the original
FEWEST = 4  # stages: fewer are easier to read as a table


@register_chart("bias-against-quality", place="left")
def bias_against_quality(audit: Audit, subject: str) -> Figure | None:
    """Draw every stage by what is left of bias and of quality."""
    if len(audit.stage_names) < FEWEST or ORIGINAL not in audit.stage_names:
        return None
    points = tradeoffs(audit, subject)
    table = tuple(
        (p.method, f"{100 * p.bias_left:.0f} %", f"{100 * p.quality_kept:.0f} %", str(p.measures_used)) for p in points
    )
    caption = (
        "Towards the upper left is better: less bias left, more quality kept. Squares: no other method is better on "
        "both. Each axis is a mean of shares of the original over measures, so small differences mean little. "
        f"n is the number of rows in the table, seed {audit.seed}."
    )
    columns = ("method", "bias left", "quality kept", "rows")
    return Figure("Bias left against quality kept", tradeoff(points), columns, table, caption)


def tradeoff(points: Sequence[Tradeoff]) -> dict[str, Any]:
    """A labelled scatter; methods that no other beats on both axes are filled."""
    values = [
        {
            "method": _label(points, number),
            "bias": point.bias_left,
            "quality": point.quality_kept,
            "front": "not beaten" if point.on_the_front else "beaten on both",
        }
        for number, point in enumerate(points)
    ]
    x = {
        "field": "bias",
        "type": "quantitative",
        "title": "bias left (share of the original)",
        "scale": {"zero": False, "padding": 20},
        "axis": {"format": "%"},
    }
    y = {
        "field": "quality",
        "type": "quantitative",
        "title": "quality kept (share of the original)",
        "scale": {"zero": False, "padding": 20},
        "axis": {"format": "%"},
    }
    front_field = {"field": "front", "type": "nominal", "title": None}
    front = ["not beaten", "beaten on both"]
    colour = {**front_field, "scale": {"domain": front, "range": [PALETTE[1], GREY]}}
    shape = {**front_field, "scale": {"domain": front, "range": ["square", "circle"]}}
    return chart(
        f"{len(points)} stages by bias left and quality kept",
        data={"values": values},
        width=430,
        height=330,
        layer=[
            {
                "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": colour, "shape": shape},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8, "dy": -6, "color": INK},
                "encoding": {"x": x, "y": y, "text": {"field": "method"}},
            },
        ],
    )


def _label(points: Sequence[Tradeoff], number: int) -> str:
    """Return the names of all marks that lie on top of each other for the first of them, nothing for the others."""
    together = [index for index, other in enumerate(points) if _coincide(points[number], other)]
    return ", ".join(points[index].method for index in together) if together[0] == number else ""


def _coincide(one: Tradeoff, other: Tradeoff) -> bool:
    return abs(one.bias_left - other.bias_left) < OVERLAP and abs(one.quality_kept - other.quality_kept) < OVERLAP
