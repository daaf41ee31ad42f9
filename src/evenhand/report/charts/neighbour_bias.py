"""Neighbour bias: does the original bias of a word still predict its neighbours?"""

from __future__ import annotations

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, better, drawn_rows, register_chart, sources
from evenhand.report.charts.style import (
    DISTINGUISHABLE,
    PALETTE,
    chart,
    number_axis,
    panels,
    reference_line,
    shared_domain,
    spread,
)

LISTED = 20


@register_chart("neighbour-bias", family="geometry")
def neighbour_bias(audit: Audit, subject: str) -> Figure | None:
    """Draw the share of neighbours on the positive side against the original bias."""
    rows = [row for row in drawn_rows(audit, subject, "neighbour-bias") if row.original.items]
    if not rows:
        return None
    row = next((row for row in rows if row.question.query != "vocabulary"), rows[0])
    drawn = {stage: cell for stage, cell in list(row.cells.items())[:DISTINGUISHABLE] if cell.items}
    titles = {stage: f"{stage}: r = {numbers.number(cell.value, 2)}" for stage, cell in drawn.items()}
    values = [
        {"stage": titles[stage], "word": item["word"], "bias": item["value"], "share": item["neighbours"]}
        for stage, cell in drawn.items()
        for item in spread(cell.items)
    ]
    pole, k = row.original.positive, row.original.details.get("k", "")
    domain = shared_domain([float(value["bias"]) for value in values])
    x = number_axis("bias", f"bias before any method ({pole} →)", scale={"domain": domain})
    y = number_axis("share", f"neighbours on the {pole} side", scale={"domain": [0, 1]}, axis={"format": "%"})
    layer = [
        reference_line("x", 0),
        {
            "mark": {"type": "point", "filled": True, "size": 18, "opacity": 0.55, "color": PALETTE[1]},
            "encoding": {"x": x, "y": y, "description": {"field": "word"}},
        },
    ]
    spec = chart(
        f"Share of {pole} neighbours of {len(row.original.items)} words against their original bias, on "
        f"{len(drawn)} stages",
        data={"values": values},
        **panels(layer, "stage", list(titles.values()), width=230, height=180),
    )
    after = {stage: {item["word"]: item["neighbours"] for item in cell.items} for stage, cell in drawn.items()}
    ordered = sorted(row.original.items, key=lambda item: -abs(float(item["value"])))[:LISTED]
    table = tuple(
        (
            str(item["word"]),
            numbers.number(float(item["value"])),
            *(f"{after[stage][item['word']]:.0%}" if item["word"] in after[stage] else "–" for stage in drawn),
        )
        for item in ordered
    )
    caption = (
        f"A slope from lower left to upper right: the {k} nearest words still give away the original bias. "
        f"{better(row).capitalize()} (a flat cloud). {sources(audit, row)} Table: the {len(ordered)} most biased."
    )
    columns = ("word", "bias before", *(f"{pole} neighbours, {stage}" for stage in drawn))
    return Figure("Do neighbours give the bias away?", spec, columns, table, caption)
