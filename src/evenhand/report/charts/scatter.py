"""The scores of words in one text against those of the same words in another, with the line through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.corpus.comparison import Comparison, Point
from evenhand.report.charts.style import INK, PALETTE, chart

MOST = 2_000  # points drawn; more would make a file of many megabytes and a single blot


def shown_points(comparison: Comparison, most: int = MOST) -> list[Point]:
    """The words to draw: all, or as many drawn evenly, the same ones each time."""
    points = comparison.points()
    if len(points) <= most:
        return points
    chosen = np.sort(np.random.default_rng(0).choice(len(points), most, replace=False))
    return [points[i] for i in chosen]


def bias_scatter(comparison: Comparison, names: tuple[str, str] = ("first", "second")) -> dict[str, Any]:
    """A dot for each word, the regression line without outliers, and the diagonal on which nothing has changed."""
    points = shown_points(comparison)
    beta, positive = comparison.beta, comparison.second.positive
    # The line is drawn over the words it was fitted to, give or take a few.
    ends = np.quantile([point["first"] for point in comparison.points()], [0.005, 0.995])
    line = [{"x": float(x), "y": beta.intercept + beta.trimmed * float(x), "line": f"beta {beta:.2f}"} for x in ends]
    same = [{"x": float(x), "y": float(x), "line": "as in the first text"} for x in ends]
    lines = [line[0]["line"], same[0]["line"]]
    x = {"field": "first", "type": "quantitative", "title": f"bias in {names[0]} (above 0: {positive})"}
    y = {"field": "second", "type": "quantitative", "title": f"bias in {names[1]}"}
    told = {"field": "line", "type": "nominal", "title": None}
    dashes = {**told, "scale": {"domain": lines, "range": [[1, 0], [5, 4]]}}
    colour = {**told, "scale": {"domain": lines, "range": [PALETTE[2], INK]}}
    return chart(
        f"Scores of {len(points):,} of {beta.words:,} words in {names[1]} against {names[0]}; slope {beta:.2f}",
        width=470,
        height=400,
        layer=[
            {
                "data": {"values": points},
                "mark": {"type": "point", "filled": True, "size": 12, "opacity": 0.35, "color": PALETTE[1]},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": line + same},
                "mark": {"type": "line", "strokeWidth": 2, "clip": True},
                "encoding": {
                    "x": {"field": "x", "type": "quantitative"},
                    "y": {"field": "y", "type": "quantitative"},
                    "color": colour,
                    "strokeDash": dashes,
                },
            },
        ],
    )
