"""A chart of methods that were tried with several values of a parameter: effect and cost beside each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.audit import ORIGINAL, Audit
from evenhand.audit.plan import split_chain, step_parts
from evenhand.audit.record import Row, rows
from evenhand.errors import UsageError
from evenhand.measures import numbers
from evenhand.report.charts.figure import Figure, better, register_chart
from evenhand.report.charts.style import RULE, chart, nominal, number_axis, panels, scales

FEWEST = 2  # values of a parameter that make a line
MOST_ROWS = 5
CONTROLS = {"direction": "random", "control": "true"}


@dataclass(frozen=True)
class SweptStage:
    """A stage with the value of the parameter that is swept, and the name of its line."""

    stage: str
    parameter: str
    value: float
    line: str


def swept_stages(stages: Sequence[str]) -> list[SweptStage]:
    """Return the stages of the method and parameter that were tried with the most values, controls included."""
    families: dict[tuple[str, str], list[SweptStage]] = {}
    for stage in stages:
        try:
            id, given = step_parts(stage) if len(split_chain(stage)) == 1 else ("", {})
        except UsageError:
            continue
        control = any(given.get(name) == value for name, value in CONTROLS.items())
        for name, value in given.items():
            if re.fullmatch(r"[-+]?\d+(\.\d+)?", value):
                line = f"{id}, control" if control else id
                families.setdefault((id, name), []).append(SweptStage(stage, name, float(value), line))
    longest = max(families.values(), key=len, default=[])
    values = {(one.line, one.value) for one in longest}
    return longest if len({value for _, value in values}) >= FEWEST else []


@register_chart("strength", place="left")
def strength(audit: Audit, subject: str) -> Figure | None:
    """Draw every value of a swept parameter against what it does to bias and what it costs, one panel per row."""
    swept = swept_stages(audit.stage_names)
    if not swept:
        return None
    drawn = _shown(rows(audit, subject), swept)
    if not drawn:
        return None
    parameter = swept[0].parameter
    lines = list(dict.fromkeys(one.line for one in swept))
    names = {row.label: f"{row.label} ({better(row)})" for row in drawn}
    points: list[dict[str, Any]] = []
    for row in drawn:
        for one in swept:
            cell = row.cells[one.stage]
            if cell.value is not None:
                low, high = cell.interval or (cell.value, cell.value)
                points.append(
                    {"row": names[row.label], "stage": one.line, parameter: one.value, "value": cell.value}
                    | {"low": low, "high": high}
                )
        original = row.original
        if original.value is not None:
            points.append({"row": names[row.label], "stage": ORIGINAL, "original": original.value})
    marks = scales(lines)
    x, y = number_axis(parameter, parameter), number_axis("value", "value", scale={"zero": False})
    changed = [{"filter": f"datum.stage !== '{ORIGINAL}'"}]
    layer: list[dict[str, Any]] = [
        {
            "transform": [{"filter": f"datum.stage === '{ORIGINAL}'"}],
            "mark": {"type": "rule", "color": RULE, "strokeDash": [4, 3]},
            "encoding": {"y": {"field": "original", "type": "quantitative"}},
        },
        {
            "transform": changed,
            "mark": {"type": "rule", "strokeWidth": 1.2, "aria": False},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": marks["color"]},
        },
        {
            "transform": changed,
            "mark": {"type": "line", "strokeWidth": 1.5, "aria": False},
            "encoding": {"x": x, "y": y, "color": nominal("stage", _range(marks["color"]))},
        },
        {
            "transform": changed,
            "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
            "encoding": {"x": x, "y": y, **marks},
        },
    ]
    spec = chart(
        f"{len(drawn)} rows at {len({one.value for one in swept})} values of {parameter}, with the control",
        data={"values": points},
        **panels(layer, "row", list(names.values()), width=250, height=170),
        resolve={"scale": {"y": "independent"}},
    )
    table = tuple(
        (one.line, f"{one.value:g}", *(numbers.cell(row.cells[one.stage]) for row in drawn))
        for one in sorted(swept, key=lambda one: (lines.index(one.line), one.value))
    )
    caption = (
        f"Each panel is a row of the audit; the broken line is the model without the method. A control adds or removes "
        f"a random direction of the same length: what it does too is not due to the concept. Bars are 95 % intervals, "
        f"seed {audit.seed}."
    )
    columns = ("method", parameter, *(row.label for row in drawn))
    return Figure(f"What {parameter} does and costs", spec, columns, table, caption)


def _range(channel: dict[str, Any]) -> dict[str, object]:
    return dict(zip(channel["scale"]["domain"], channel["scale"]["range"], strict=True))


def _shown(every: Sequence[Row], swept: Sequence[SweptStage]) -> list[Row]:
    """Return the rows that are drawn: those that a reader understands first, and all costs."""
    whole = [row for row in every if all(one.stage in row.cells for one in swept) and row.original.value is not None]
    costs = [row for row in whole if row.info.role == "cost"]
    others = sorted((row for row in whole if row.info.role != "cost"), key=lambda row: row.info.prominence)
    return [*others[: MOST_ROWS - len(costs[:2])], *costs[:2]]
