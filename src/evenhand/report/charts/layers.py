"""Bias by layer of an encoder: where an association enters, and whether it reaches the output."""

from __future__ import annotations

from typing import Any

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, drawn_rows, register_chart
from evenhand.report.charts.style import (
    DISTINGUISHABLE,
    chart,
    number_axis,
    panels,
    reference_line,
    scales,
    shared_domain,
)


@register_chart("layer-bias", family="sentences")
def layer_bias(audit: Audit, subject: str) -> Figure | None:
    """Draw the effect size at every layer, one panel per query and one line per stage."""
    rows = [row for row in drawn_rows(audit, subject, "layer-bias") if row.original.items]
    if not rows:
        return None
    stages = list(rows[0].cells)[:DISTINGUISHABLE]
    names = {row.label: f"{row.question.query}: {row.original.positive}" for row in rows}
    values = [
        {"query": names[row.label], "stage": stage, "layer": layer, "d": item["value"]}
        for row in rows
        for stage in stages
        for layer, item in enumerate(row.cells[stage].items)
    ]
    marks = scales(stages)
    domain = shared_domain([float(value["d"]) for value in values], around=0.0)
    x = number_axis("layer", "layer (0: input)", axis={"tickMinStep": 1, "format": "d"})
    y = number_axis("d", "effect size d", scale={"domain": domain})
    layer: list[dict[str, Any]] = [
        reference_line("y", 0),
        {
            "mark": {"type": "line", "strokeWidth": 1.5, "aria": False},
            "encoding": {"x": x, "y": y, "color": marks["color"]},
        },
        {"mark": {"type": "point", "filled": True, "size": 35, "opacity": 1}, "encoding": {"x": x, "y": y, **marks}},
    ]
    spec = chart(
        f"Effect size of {len(rows)} association tests at every layer, on {len(stages)} stages",
        data={"values": values},
        **panels(layer, "query", list(names.values()), width=230, height=160),
    )
    table = tuple(
        (row.question.query, stage, *(numbers.number(float(item["value"]), 2) for item in row.cells[stage].items))
        for row in rows
        for stage in stages
    )
    layers = max(len(line) for line in table) - 2
    filled = tuple((*line, *("–",) * (layers + 2 - len(line))) for line in table)
    caption = (
        "Nearer to 0 is better. A line that leaves 0 at some layer shows where the association enters; the last layer "
        f"is what the model puts out. n = {rows[0].original.n} words per test, seed {audit.seed}."
    )
    columns = ("test", "stage", *(f"layer {number}" for number in range(layers)))
    return Figure("Bias by layer", spec, columns, filled, caption)
