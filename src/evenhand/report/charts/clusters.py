"""Clusters before and after: can the most biased words of the original still be told apart?"""

from __future__ import annotations

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, better, drawn_rows, register_chart, sources
from evenhand.report.charts.style import DISTINGUISHABLE, PALETTE, chart, nominal, number_axis, panels, spread


@register_chart("clusters", family="geometry", place="left")
def clusters(audit: Audit, subject: str) -> Figure | None:
    """Draw the most biased words on two principal components of each stage."""
    row = next((row for row in drawn_rows(audit, subject, "clusters") if row.original.items), None)
    if row is None or "x" not in row.original.items[0]:
        return None
    poles = row.original.params.get("pair") or row.original.params.get("poles") or ["first", "second"]
    sides = [f"nearer to {poles[0]} at first", f"nearer to {poles[1]} at first"]
    drawn = {stage: cell for stage, cell in list(row.cells.items())[:DISTINGUISHABLE] if cell.items}
    titles = {stage: f"{stage}: accuracy {numbers.number(cell.value, 2)}" for stage, cell in drawn.items()}
    values = [
        {
            "stage": titles[stage],
            "word": item["word"],
            "side": sides[0 if item["value"] > 0 else 1],
            "x": item["x"],
            "y": item["y"],
        }
        for stage, cell in drawn.items()
        for item in spread(cell.items)
    ]
    ticks = {"domain": [-1.05, 1.05]}
    colour = {sides[0]: PALETTE[1], sides[1]: PALETTE[2]}
    shape = {sides[0]: "circle", sides[1]: "triangle-up"}
    layer = [
        {
            "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.6},
            "encoding": {
                "x": number_axis("x", "1st principal component", scale=ticks, axis={"tickCount": 3}),
                "y": number_axis("y", "2nd", scale=ticks, axis={"tickCount": 3}),
                "color": nominal("side", colour),
                "shape": nominal("side", shape),
                "description": {"field": "word"},
            },
        }
    ]
    spec = chart(
        f"The most biased words on two principal components of each of {len(drawn)} stages, marked by the side they "
        "were on before any method",
        data={"values": values},
        **panels(layer, "stage", list(titles.values()), width=230, height=180),
    )
    table = tuple((stage, numbers.cell(cell), f"{cell.n:,}") for stage, cell in drawn.items())
    caption = (
        "Two clouds that lie apart: bias is left, whatever other measures say. Accuracy is how well two clusters find "
        f"the two sides; 0.5 is chance, and {better(row)}. Each stage has its own components. "
        f"{sources(audit, row)} {len(spread(row.original.items))} of them are drawn, the most biased of each side."
    )
    title = "Can the biased words still be told apart?"
    return Figure(title, spec, ("stage", "accuracy [95 % interval] (0.5 is chance)", "n"), table, caption)
