"""Bias left against quality kept, one mark a method: the better methods stand towards the upper left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit.tradeoff import Tradeoff
from evenhand.report.charts.style import INK, PALETTE, chart


def tradeoff(places: Sequence[Tradeoff]) -> dict[str, Any]:
    """A labelled scatter; methods that no other beats on both axes are filled."""
    values = [
        {
            "method": place.method,
            "bias": place.bias_left,
            "quality": place.quality_kept,
            "front": "not beaten" if place.on_the_front else "beaten on both",
        }
        for place in places
    ]
    x = {
        "field": "bias",
        "type": "quantitative",
        "title": "bias left (share of the original)",
        "scale": {"zero": False},
    }
    y = {"field": "quality", "type": "quantitative", "title": "quality kept", "scale": {"zero": False}}
    told = {"field": "front", "type": "nominal", "title": None}
    front = ["not beaten", "beaten on both"]
    colour = {**told, "scale": {"domain": front, "range": [PALETTE[1], "#a09a8c"]}}
    shape = {**told, "scale": {"domain": front, "range": ["square", "circle"]}}
    return chart(
        f"{len(places)} sets of vectors by bias left and quality kept",
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
