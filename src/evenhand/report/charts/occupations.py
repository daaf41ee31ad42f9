"""Occupations against the real share of women in them, with the line of the regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand.audit import Audit
from evenhand.audit.record import Row
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, better, register_chart, rows_of, sources
from evenhand.report.charts.style import (
    DISTINGUISHABLE,
    INK,
    PALETTE,
    chart,
    number_axis,
    panels,
    reference_line,
    shared_domain,
    spread,
    uncrowded,
)


@dataclass(frozen=True)
class _Axis:
    """What a measure puts on the vertical axis, and the factor that makes its shares percentages."""

    title: str
    factor: float
    score: str
    ticks: Mapping[str, str] = field(default_factory=dict)


AXES = {
    "occupation-share": _Axis("bias score (she →)", 1.0, ""),
    "pronoun-share": _Axis("share of female pronouns", 100.0, "pearson", {"format": "%"}),
    "winogender": _Axis("lean to female pronouns (log odds)", 1.0, "share-correlation"),
}
MOST_LABELS = 9


@register_chart("occupations", measures=("occupation-share",), family="geometry")
def occupations(audit: Audit, subject: str) -> Figure | None:
    """Draw the bias score of occupations against the share of women."""
    return _occupations(audit, subject, "occupation-share")


@register_chart("pronouns-by-occupation", measures=("pronoun-share",), family="likelihood", place="bias")
def pronouns_by_occupation(audit: Audit, subject: str) -> Figure | None:
    """Draw the share of female pronouns that a language model predicts against the share of women."""
    return _occupations(audit, subject, "pronoun-share")


@register_chart("winogender-occupations", measures=("winogender",), family="likelihood")
def winogender_occupations(audit: Audit, subject: str) -> Figure | None:
    """Draw how far a pronoun is read as the occupation against the share of women."""
    return _occupations(audit, subject, "winogender")


def _occupations(audit: Audit, subject: str, measure: str) -> Figure | None:
    axis = AXES[measure]
    rows = [row for row in rows_of(audit, subject, measure) if row.original.score == axis.score]
    row = next((row for row in rows if row.original.items), None)
    if row is None:
        return None
    drawn = {stage: cell for stage, cell in list(row.cells.items())[:DISTINGUISHABLE] if cell.items}
    titles = {stage: f"{stage}: r = {numbers.number(cell.value, 2)}" for stage, cell in drawn.items()}
    labelled = _labelled(row)
    values = [
        {
            "stage": titles[stage],
            "word": item["word"],
            "share": axis.factor * float(item["share"]),
            "value": item["value"],
            "label": item["word"] if item["word"] in labelled else "",
        }
        for stage, cell in drawn.items()
        for item in spread(cell.items)
    ]
    scores = [float(value["value"]) for value in values]
    x = number_axis("share", "women in the occupation (%)", scale={"domain": [0, 100]})
    y = number_axis("value", axis.title, scale={"domain": shared_domain(scores), "zero": False}, axis=axis.ticks)
    place = {"x": x, "y": y}
    layer: list[dict[str, Any]] = [
        {
            "mark": {"type": "point", "filled": True, "size": 30, "opacity": 0.75, "color": PALETTE[1]},
            "encoding": {**place, "description": {"field": "word"}},
        },
        {
            "transform": [{"regression": "value", "on": "share", "groupby": ["stage"]}],
            "mark": {"type": "line", "color": PALETTE[2], "strokeWidth": 2, "aria": False},
            "encoding": place,
        },
        {
            "mark": {"type": "text", "dy": -7, "fontSize": 10, "color": INK, "aria": False},
            "encoding": {**place, "text": {"field": "label"}},
        },
    ]
    if measure == "occupation-share":
        layer.insert(0, reference_line("y", 0))
    spec = chart(
        f"{axis.title} of {len(row.original.items)} occupations against the share of women in them, on "
        f"{len(drawn)} stages",
        data={"values": values},
        **panels(layer, "stage", list(titles.values()), width=240, height=200),
    )
    after = {stage: {item["word"]: float(item["value"]) for item in cell.items} for stage, cell in drawn.items()}
    ordered = sorted(row.original.items, key=lambda item: float(item["share"]))
    table = tuple(
        (
            str(item["word"]),
            f"{axis.factor * float(item['share']):.0f} %",
            *(numbers.number(after[stage].get(item["word"])) for stage in drawn),
        )
        for item in ordered
    )
    missing = [stage for stage, cell in row.cells.items() if not cell.items]
    lost = f" No numbers for {', '.join(missing)}, see the notes." if missing else ""
    caption = (
        "A rising line: the model follows the labour market; a flat one: it does not, and of r, "
        f"{better(row)}. Following the statistics is not in itself unfair. {sources(audit, row, 'occupations')}{lost}"
    )
    title = {
        "occupation-share": "Occupations and the real share of women",
        "pronoun-share": "Pronouns of occupations and the real share of women",
        "winogender": "Pronouns read as the occupation, and the real share of women",
    }[measure]
    return Figure(title, spec, ("occupation", "women", *drawn), table, caption)


def _labelled(row: Row) -> set[str]:
    """Return a few occupations, spread over the range of shares, whose names are drawn."""
    ordered = sorted(row.original.items, key=lambda item: float(item["share"]))
    chosen = spread(ordered, MOST_LABELS)
    return uncrowded({str(item["word"]): (float(item["share"]), float(item["value"])) for item in chosen})
