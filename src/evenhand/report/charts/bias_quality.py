"""Bias left against quality kept, one mark per method: better methods are towards the upper left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit import Audit, Tradeoff, tradeoffs
from evenhand.report.charts.figure import CHARTS, Figure
from evenhand.report.charts.style import INK, PALETTE, chart

FEWEST = 4  # stages: fewer are easier to read as a table


@CHARTS.register("bias-against-quality")
def bias_against_quality(audit: Audit, subject: str) -> Figure | None:
    """Draw every stage by what is left of bias and of quality."""
    if len(audit.stage_names) < FEWEST:
        return None
    points = tradeoffs(audit, subject)
    table = tuple((p.method, f"{100 * p.bias_left:.0f} %", f"{100 * p.quality_kept:.0f} %") for p in points)
    return Figure("Bias left against quality kept", tradeoff(points), ("method", "bias left", "quality kept"), table)


def tradeoff(points: Sequence[Tradeoff]) -> dict[str, Any]:
    """A labelled scatter; methods that no other beats on both axes are filled."""
    values = [
        {
            "method": point.method,
            "bias": point.bias_left,
            "quality": point.quality_kept,
            "front": "not beaten" if point.on_the_front else "beaten on both",
        }
        for point in points
    ]
    x = {
        "field": "bias",
        "type": "quantitative",
        "title": "bias left (share of the original)",
        "scale": {"zero": False},
    }
    y = {"field": "quality", "type": "quantitative", "title": "quality kept", "scale": {"zero": False}}
    front_field = {"field": "front", "type": "nominal", "title": None}
    front = ["not beaten", "beaten on both"]
    colour = {**front_field, "scale": {"domain": front, "range": [PALETTE[1], "#a09a8c"]}}
    shape = {**front_field, "scale": {"domain": front, "range": ["square", "circle"]}}
    return chart(
        f"{len(points)} stages by bias left and quality kept",
        data={"values": values},
        width=470,
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
