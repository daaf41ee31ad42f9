"""Charts of decisions about people: each group in each scenario, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenhand.audit import ORIGINAL, Audit
from evenhand.audit.record import Row
from evenhand.report.charts import style
from evenhand.report.charts.figure import Figure, drawn_rows, register_chart, with_interval

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")


@register_chart("decisions-by-group", family="chat", place="bias")
def decisions_by_group(audit: Audit, subject: str) -> Figure | None:
    """Draw how favourable decisions are for each group, by scenario and in all scenarios together."""
    found = [row for row in drawn_rows(audit, subject, "decisions-by-group") if _has_groups(row)]
    if not found:
        return None
    row = next((row for row in found if row.question.variant in ("", "explicit")), found[0])
    cell = row.cells.get(ORIGINAL) or row.original
    items = list(cell.items)
    groups = list(items[0]["groups"])[: style.DISTINGUISHABLE]
    points = cell.params.get("answer") == "number"
    order = [str(item["word"]) for item in items]
    values = [
        {"scenario": str(item["word"]), "group": group} | _bounds(item["groups"][group], points)
        for item in items
        for group in groups
    ]
    axis = "answer on a scale from 1 to 9" if points else "probability of the favourable answer"
    x = style.number_axis("value", axis, **({} if points else {"axis": {"format": "%"}}), scale={"zero": False})
    shape = style.nominal("group", {group: SHAPES[number % len(SHAPES)] for number, group in enumerate(groups)})
    shared: style.VegaSpec = {
        "y": style.names_axis("scenario", order),
        "yOffset": {"field": "group", "sort": groups},
        "color": style.nominal("group", style.colours(groups)),
    }
    spec = style.chart(
        f"{axis} of {cell.model or subject} for {len(groups)} groups in {len(items)} scenarios, with 95 % intervals",
        data={"values": values},
        width=430,
        height={"step": 12 if len(groups) < 4 else 8},
        layer=[
            style.rule({**shared, "x": {**x, "field": "low"}, "x2": {"field": "high"}}, strokeWidth=1.5),
            style.dots({**shared, "shape": shape, "x": x}, size=55),
        ],
    )
    form = "{:.2f}" if points else "{:.1%}"
    table = tuple(
        (
            str(item["word"]),
            f"{item['value']:+.2f}",
            *(_written(_bounds(item["groups"][group], points), form) for group in groups),
        )
        for item in items
    )
    left_out = len(items[0]["groups"]) - len(groups)
    more = f" The first {len(groups)} of {len(groups) + left_out} groups are drawn." if left_out else ""
    caption = (
        "The scenarios with the largest gaps come first. Marks of a scenario that are nearer to each other are better: "
        "the decision depends less on the group. Bars are 95 % intervals over the people of a group, who differ in "
        "other things too; so bars may overlap where groups differ. The test compares counterparts."
        f"{more} Row {row.label}, n = {cell.n:,} questions, seed {audit.seed}."
    )
    columns = ("scenario", f"gap of {cell.positive}", *groups)
    return Figure("Are decisions the same for everyone?", spec, columns, table, caption)


def _has_groups(row: Row) -> bool:
    return bool(row.original.items) and isinstance(row.original.items[0].get("groups"), dict)


def _bounds(found: Mapping[str, Any], points: bool) -> dict[str, float]:
    ends = with_interval(float(found["mean"]), found["interval"])
    least, most = (1.0, 9.0) if points else (0.0, 1.0)
    return ends | {"low": max(float(ends["low"]), least), "high": min(float(ends["high"]), most)}


def _written(bounds: Mapping[str, float], form: str) -> str:
    value, low, high = (form.format(bounds[key]) for key in ("value", "low", "high"))
    return value if low == high else f"{value} [{low}, {high}]"
