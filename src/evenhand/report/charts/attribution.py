"""Charts of attribution: where in a network the difference of a pair comes from, by layer and token."""

from __future__ import annotations

from typing import Any

from evenhand.measures import numbers
from evenhand.models.attribution.pairs import ALIGNMENT, PairAttribution
from evenhand.report.charts.figure import Figure
from evenhand.report.charts.style import INK, PALETTE, chart, number_axis, reference_line, shared_domain

DIVERGING = ["#7a4a00", "#c26a00", "#ffffff", "#0b7a75", "#003f3c"]
WIDEST = 46  # units that a chart has room for


def site_name(site: str) -> str:
    """Return a site as a chart names it: the number of a layer, 0 for the word table."""
    return "0" if site == "embeddings" else site.partition(":")[2]


def shown_units(result: PairAttribution) -> list[int]:
    """Return the units that are drawn: all, or those with the largest effects, in the order of the text."""
    reach = abs(result.effects).max(axis=0)
    order = sorted(range(len(result.units)), key=lambda place: (-reach[place], place))[:WIDEST]
    return sorted(order)


def patching_figure(result: PairAttribution) -> Figure:
    """Draw what the second text gains with the activations of the first, by layer and token."""
    shares = result.shares
    values, what = (result.effects, f"gain ({result.kind})") if shares is None else (shares, "share of the difference")
    units = shown_units(result)
    names = {place: f"{place + 1}. {result.units[place].name}" for place in units}
    points = [
        {"layer": site_name(site), "token": names[place], "value": float(values[row, place])}
        for row, site in enumerate(result.sites)
        for place in units
    ]
    reach = max(1e-12, *(abs(float(point["value"])) for point in points)) if points else 1.0  # type: ignore[arg-type]
    spec = chart(
        f"{what} by layer and token for two texts that {result.model} scores differently",
        data={"values": points},
        width={"step": 20},
        height={"step": 18},
        mark={"type": "rect"},
        encoding={
            "x": {
                "field": "layer",
                "type": "ordinal",
                "title": "layer (0: word table)",
                "sort": [site_name(site) for site in result.sites],
                "axis": {"labelAngle": 0, "labelOverlap": True},
            },
            "y": {"field": "token", "type": "nominal", "title": None, "sort": list(names.values())},
            "color": {
                "field": "value",
                "type": "quantitative",
                "title": what,
                "scale": {"domain": [-reach, 0, reach], "range": [DIVERGING[1], DIVERGING[2], DIVERGING[3]]},
                "legend": {"gradientLength": 160},
            },
        },
    )
    table = tuple(
        (names[place], *(numbers.number(float(values[row, place]), 2) for row in range(len(result.sites))))
        for place in units
    )
    left_out = (
        f" The {len(units)} of {len(result.units)} tokens with the largest effects."
        if len(units) < len(result.units)
        else ""
    )
    caption = (
        f"How far the score of the second text moves to that of the first when the activations of the first stand at "
        f"one token of one layer; 1 is the whole difference of {result.difference:+.3f} ({result.kind}). Both texts "
        f"stand where tokens differ (first | second); {ALIGNMENT}.{left_out}"
    )
    columns = ("token", *(site if site == "embeddings" else site_name(site) for site in result.sites))
    return Figure("Where the difference comes from", spec, columns, table, caption, id="patching")


def gradient_figure(result: PairAttribution) -> Figure:
    """Draw gradient times input of both texts, by token."""
    units = shown_units(result)
    sides = ("first text", "second text")
    names = {place: f"{place + 1}. {result.units[place].name}" for place in units}
    points: list[dict[str, Any]] = [
        {"token": names[place], "text": sides[side], "value": float(result.gradients[side][place])}
        for side in (0, 1)
        for place in units
    ]
    domain = shared_domain([point["value"] for point in points], around=0.0)
    spec = chart(
        f"Gradient times input of {len(units)} tokens of two texts",
        data={"values": points},
        width=380,
        height={"step": 9},
        layer=[
            reference_line("x", 0),
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "y": {"field": "token", "type": "nominal", "title": None, "sort": list(names.values())},
                    "yOffset": {"field": "text", "sort": list(sides)},
                    "x": number_axis("value", "gradient times input", scale={"domain": domain}),
                    "color": {
                        "field": "text",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": list(sides), "range": [PALETTE[1], INK]},
                    },
                },
            },
        ],
    )
    table = tuple(
        (names[place], *(numbers.number(float(result.gradients[side][place]), 3) for side in (0, 1))) for place in units
    )
    caption = (
        "To first order, how much each token raises the score of its text. It ignores what tokens do together: "
        "patching above measures that, a gradient only suggests it."
    )
    return Figure("Gradient times input", spec, ("token", *sides), table, caption, id="gradients")
