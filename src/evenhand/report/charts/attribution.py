"""Charts of what happens inside a network: where a difference comes from, and what the strength of a method does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evenhand.audit import ORIGINAL, Audit
from evenhand.audit.plan import split_chain, step_parts
from evenhand.audit.record import Row, rows
from evenhand.errors import UsageError
from evenhand.measures import numbers
from evenhand.models.attribution.pairs import ALIGNMENT, PairAttribution
from evenhand.report.charts import style
from evenhand.report.charts.figure import Figure, better, drawn_rows, register_chart, sources, with_interval

DIVERGING = ["#c26a00", "#ffffff", "#0b7a75"]
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
    points: list[style.VegaSpec] = [
        {"layer": site_name(site), "token": names[place], "value": float(values[row, place])}
        for row, site in enumerate(result.sites)
        for place in units
    ]
    reach = max(1e-12, float(abs(values[:, units]).max())) if points else 1.0
    scale = {"domain": [-reach, 0, reach], "range": DIVERGING, "interpolate": "rgb"}
    spec = style.chart(
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
            "y": style.names_axis("token", list(names.values())),
            "color": style.number_axis("value", what, scale=scale, legend={"gradientLength": 160}),
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
    values = {(side, place): float(result.gradients[side][place]) for side in (0, 1) for place in units}
    domain = style.shared_domain(list(values.values()), around=0.0)
    encoding: style.VegaSpec = {
        "y": style.names_axis("token", list(names.values())),
        "yOffset": {"field": "text", "sort": list(sides)},
        "x": style.number_axis("value", "gradient times input", scale={"domain": domain}, axis={"tickCount": 7}),
        "color": style.nominal("text", dict(zip(sides, (style.PALETTE[1], style.INK), strict=True))),
    }
    spec = style.chart(
        f"Gradient times input of {len(units)} tokens of two texts",
        data={
            "values": [
                {"token": names[place], "text": sides[side], "value": value} for (side, place), value in values.items()
            ]
        },
        width=380,
        height={"step": 9},
        layer=[style.reference_line("x", 0), style.layer("bar", encoding)],
    )
    table = tuple(
        (names[place], *(numbers.number(float(result.gradients[side][place]), 3) for side in (0, 1))) for place in units
    )
    caption = (
        "To first order, how much each token raises the score of its text. It ignores what tokens do together: "
        "patching above measures that, a gradient only suggests it."
    )
    return Figure("Gradient times input", spec, ("token", *sides), table, caption, id="gradients")


KINDS = {
    "layer": "output of the layer, tokens that differ",
    "attention": "what attention reads",
    "mlp": "what the feed-forward part reads",
}


@register_chart("bias-by-site")
def bias_by_site(audit: Audit, subject: str) -> Figure | None:
    """Draw the share of the differences that each site carries, one panel per kind of site, one line per stage."""
    row = next((row for row in drawn_rows(audit, subject, "bias-by-site") if row.original.items), None)
    if row is None:
        return None
    stages = [stage for stage, cell in row.cells.items() if cell.items][: style.DISTINGUISHABLE]
    shares = [
        (stage, str(item["word"]).partition(":"), with_interval(item["value"], item["interval"]))
        for stage in stages
        for item in row.cells[stage].items
        if item["value"] is not None
    ]
    values = [
        {"stage": stage, "kind": KINDS[kind], "layer": int(number), "share": ends["value"]}
        | {"low": ends["low"], "high": ends["high"]}
        for stage, (kind, _, number), ends in shares
    ]
    marks = style.scales(stages, legend={"columns": 2, "symbolOpacity": 1})  # bands are pale, marks are not
    # Of a few pairs the bands may be wide: shares are drawn, bands end at the edge.
    domain = style.shared_domain([0.0, 1.0, *(float(ends["value"]) for *_, ends in shares)])
    ticks = style.spread(sorted({int(number) for _, (*_, number), _ in shares}), 8)
    x = style.number_axis("layer", "layer", axis={"values": ticks, "format": "d"})
    y = style.number_axis("share", "share of the differences", scale={"domain": domain}, axis={"format": "%"})
    band: style.VegaSpec = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": marks["color"]}
    lines = [
        style.reference_line("y", 0),
        style.layer("area", band, opacity=0.18, aria=False, clip=True),
        style.layer("line", {"x": x, "y": y, "color": marks["color"]}, strokeWidth=1.5, aria=False),
        style.dots({"x": x, "y": y, **marks}, size=30),
    ]
    shown = [title for title in KINDS.values() if any(value["kind"] == title for value in values)]
    spec = style.chart(
        f"Share of the differences between the texts of a pair that each layer carries, on {len(stages)} stages",
        data={"values": values},
        **style.panels(lines, "kind", shown, columns=3, width=210, height=170),
    )
    table = tuple(
        (
            stage,
            str(item["word"]),
            numbers.number(item["value"], 2),
            f"[{item['interval'][0]:.2f}, {item['interval'][1]:.2f}]" if item["interval"] else "–",
            str(item["pairs"]),
        )
        for stage in stages
        for item in row.cells[stage].items
    )
    caption = (
        "How much of the difference between the two texts of a pair follows when activations of the first are put "
        "into the run of the second: 100 % is all of it. Where the first panel falls, other tokens have read the words "
        "that differ; a peak in the others shows a part that moves or uses the difference. Bands are 95 % intervals "
        f"over phrases or pairs. No share is better than another. {sources(audit, row, 'pairs')}"
    )
    columns = ("stage", "site", "share", "95 % interval", "pairs")
    return Figure("Where in the model?", spec, columns, table, caption, family=row.info.family)


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
    points: list[style.VegaSpec] = [
        {"row": names[row.label], "stage": one.line, parameter: one.value, **with_interval(cell.value, cell.interval)}
        for row in drawn
        for one in swept
        if (cell := row.cells[one.stage]).value is not None
    ]
    points += [{"row": names[row.label], "stage": ORIGINAL, "original": row.original.value} for row in drawn]
    marks = style.scales(lines)
    x, y = style.number_axis(parameter, parameter), style.number_axis("value", "value", scale={"zero": False})
    ends: style.VegaSpec = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": marks["color"]}
    original: list[style.VegaSpec] = [{"filter": f"datum.stage === '{ORIGINAL}'"}]
    changed: list[style.VegaSpec] = [{"filter": f"datum.stage !== '{ORIGINAL}'"}]
    before: style.VegaSpec = {"y": {"field": "original", "type": "quantitative"}}
    layers = [
        style.layer("rule", before, transform=original, color=style.RULE, strokeDash=[4, 3]),
        style.rule(ends, transform=changed, strokeWidth=1.2),
        style.layer("line", {"x": x, "y": y, "color": marks["color"]}, transform=changed, strokeWidth=1.5, aria=False),
        style.dots({"x": x, "y": y, **marks}, transform=changed, size=45),
    ]
    spec = style.chart(
        f"{len(drawn)} rows at {len({one.value for one in swept})} values of {parameter}, with the control",
        data={"values": points},
        **style.panels(layers, "row", list(names.values()), width=250, height=170),
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


def _shown(every: Sequence[Row], swept: Sequence[SweptStage]) -> list[Row]:
    """Return the rows that are drawn: those that a reader understands first, and all costs."""
    whole = [row for row in every if all(one.stage in row.cells for one in swept) and row.original.value is not None]
    costs = [row for row in whole if row.info.role == "cost"]
    others = sorted((row for row in whole if row.info.role != "cost"), key=lambda row: row.info.prominence)
    return [*others[: MOST_ROWS - len(costs[:2])], *costs[:2]]
