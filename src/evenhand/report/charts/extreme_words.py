"""The words furthest along the concept's direction, to either side, before and after a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit import Audit
from evenhand.audit.record import Row
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, better, register_chart, rows_of, sources
from evenhand.report.charts.style import DISTINGUISHABLE, chart, reference_line, scales

# Direct bias first: it asks every stage about one and the same direction, that of the original vectors.
ON_AN_AXIS = ("direct-bias", "ripa", "corpus-bias")


@register_chart("extreme-words", measures=ON_AN_AXIS)
def extreme_words(audit: Audit, subject: str) -> Figure | None:
    """Draw the words at the two ends of the axis."""
    on_axis = [row for row in rows_of(audit, subject, *ON_AN_AXIS) if row.original.items and row.original.positive]
    if not on_axis:
        return None
    row = on_axis[0]
    stages = list(row.cells)[:DISTINGUISHABLE]
    words = extremes(row)
    values = {(item["word"], item["stage"]): item["value"] for item in positions(row, words)}
    table = tuple((word, *(numbers.number(values.get((word, stage))) for stage in stages)) for word in words)
    caption = (
        f"The {len(words)} words furthest to either side{' before any method' if len(stages) > 1 else ''}. "
        f"{better(row).capitalize()}: a word at 0 has no side. {sources(audit, row)}"
    )
    title = f"Words furthest towards and away from {row.original.positive}"
    return Figure(title, axis_extremes(row), ("word", *stages), table, caption, family=row.info.family)


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
        for stage, cell in list(row.cells.items())[:DISTINGUISHABLE]
        for item in cell.items
        if item["word"] in wanted
    ]


def axis_extremes(row: Row, count: int = 12) -> dict[str, Any]:
    """A dot for each word and stage on one axis."""
    words = extremes(row, count)
    stages = list(row.cells)[:DISTINGUISHABLE]
    pole = row.original.positive
    y = {"field": "word", "type": "nominal", "title": None, "sort": words}
    unit = "log ratio" if row.question.measure == "corpus-bias" else "cosine"
    title = f"← away from {pole}   |   towards {pole} →   ({unit})"
    return chart(
        f"{len(words)} words at the two ends of the direction towards {pole}, on {len(stages)} stages",
        data={"values": positions(row, words)},
        width=430,
        height={"step": 15},
        layer=[
            reference_line("x", 0),
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {
                    "y": y,
                    "x": {"field": "value", "type": "quantitative", "title": title},
                    **scales(stages),
                },
            },
        ],
    )
