"""The words furthest along the concept's direction, to either side, before and after a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import CHARTS, Figure
from evenhand.report.charts.style import DISTINGUISHABLE, chart, scales
from evenhand.report.tables import Row, rows

# Direct bias first: it asks every stage about one and the same direction, that of the original vectors.
ON_AN_AXIS = ("direct-bias", "ripa", "corpus-bias")


@CHARTS.register("extreme-words")
def extreme_words(audit: Audit, subject: str) -> Figure | None:
    """Draw the words at the two ends of the axis."""
    every = rows(audit, subject)
    on_axis = [row for name in ON_AN_AXIS for row in every if row.question.measure == name and row.original.items]
    if not on_axis or len(audit.stage_names) > DISTINGUISHABLE:
        return None
    row = on_axis[0]
    words = extremes(row)
    values = {(item["word"], item["stage"]): item["value"] for item in positions(row, words)}
    table = tuple((word, *(numbers.number(values.get((word, stage))) for stage in row.cells)) for word in words)
    return Figure(f"Words at the two ends of an axis ({row.label})", axis_extremes(row), ("word", *row.cells), table)


def extremes(row: Row, count: int = 12) -> list[str]:
    """The words with the largest and smallest values on the original vectors, from one end to the other."""
    ordered = sorted(row.original.items, key=lambda item: float(item["value"]))
    ends = ordered[:count] + ordered[max(count, len(ordered) - count) :]
    return [str(item["word"]) for item in reversed(ends)]


def positions(row: Row, words: Sequence[str]) -> list[dict[str, Any]]:
    """Where these words lie on every stage."""
    wanted = set(words)
    return [
        {"word": item["word"], "stage": stage, "value": item["value"]}
        for stage, cell in row.cells.items()
        for item in cell.items
        if item["word"] in wanted
    ]


def axis_extremes(row: Row, count: int = 12) -> dict[str, Any]:
    """A dot for each word and stage on one axis."""
    words = extremes(row, count)
    marks = scales(list(row.cells))
    pole = row.original.positive
    y = {"field": "word", "type": "nominal", "title": None, "sort": words}
    title = f"← away from {pole}   |   towards {pole} →"
    return chart(
        f"{len(words)} words at the two ends of the direction towards {pole}, on {len(row.cells)} stages",
        data={"values": positions(row, words)},
        width=470,
        height={"step": 15},
        layer=[
            {"mark": {"type": "rule", "color": "#8d8778"}, "encoding": {"x": {"datum": 0}}},
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"y": y, "x": {"field": "value", "type": "quantitative", "title": title}, **marks},
            },
        ],
    )
