"""The beta regression: bias of words in one text against another, with the line of the slope beta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, drawn_rows, register_chart, sources
from evenhand.report.charts.style import GREY, PALETTE, chart, nominal, number_axis, spread

LISTED = 25  # words in the table: those that moved most
MOST = 1_500  # points of a page about two texts
SAME = "as in the first text"


@register_chart("beta-regression", family="text", place="bias")
def beta_regression(audit: Audit, subject: str) -> Figure | None:
    """Draw the scores of a text against those of the text it is compared with."""
    rows = [row for row in drawn_rows(audit, subject, "beta-regression") if row.original.score.endswith("beta")]
    row = next((row for row in rows if row.original.items and row.original.value is not None), None)
    if row is None:
        return None
    beta = row.original
    points: list[dict[str, Any]] = [
        {"word": str(item["word"]), "first": float(item["first"]), "second": float(item["value"])}
        for item in beta.items
    ]
    line = (float(beta.value or 0.0), float(beta.details.get("intercept", 0.0)))
    spec = beta_scatter(points, line, ("the first text", "this text"), beta.positive, words=beta.n)
    moved = sorted(points, key=lambda point: -abs(point["second"] - point["first"]))[:LISTED]
    table = tuple(
        (str(p["word"]), *(numbers.number(value) for value in (p["first"], p["second"], p["second"] - p["first"])))
        for p in moved
    )
    caption = (
        f"Beta {numbers.cell(beta)}. On the dashed line a word is as biased as in the first text; a flatter line: the "
        f"text has less of the bias. Lower is better. {len(points)} words are drawn. {sources(audit, row)} The table "
        f"has those that differ most."
    )
    return Figure(
        "Bias in this text against the first text", spec, ("word", "first text", "this text", "change"), table, caption
    )


def beta_scatter(
    points: Sequence[dict[str, Any]], line: tuple[float, float], names: tuple[str, str], positive: str, *, words: int
) -> dict[str, Any]:
    """A dot for each word, the regression line without outliers, and the diagonal on which nothing has changed.

    Args:
        points: words with `first` and `second`, their scores in the two texts.
        line: slope and intercept.
        names: names of the two texts.
        positive: the group of scores above 0.
        words: how many words the regression has.
    """
    slope, intercept = line
    shown = spread(points, MOST)
    # The line is drawn over the words it was fitted to, give or take a few.
    ends = np.quantile([point["first"] for point in points], [0.005, 0.995]).tolist()
    fitted = f"regression, beta {slope:.2f}"
    lines = [{"x": x, "y": intercept + slope * x, "line": fitted} for x in ends]
    lines += [{"x": x, "y": x, "line": SAME} for x in ends]
    return chart(
        f"Scores of {len(shown):,} of {words:,} words in {names[1]} against {names[0]}; slope {slope:.2f}",
        width=430,
        height=380,
        layer=[
            {
                "data": {"values": shown},
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 16,
                    "opacity": 0.55,
                    "color": PALETTE[1],
                    "aria": False,
                },
                "encoding": {
                    "x": number_axis("first", f"bias in {names[0]} (log ratio; above 0: {positive})"),
                    "y": number_axis("second", f"bias in {names[1]} (log ratio)"),
                },
            },
            {
                "data": {"values": lines},
                "mark": {"type": "line", "strokeWidth": 2, "clip": True},
                "encoding": {
                    "x": {"field": "x", "type": "quantitative"},
                    "y": {"field": "y", "type": "quantitative"},
                    "color": nominal("line", {fitted: PALETTE[2], SAME: GREY}),
                    "strokeDash": nominal("line", {fitted: [1, 0], SAME: [5, 4]}),
                },
            },
        ],
    )
