"""Charts of scores: values and intervals by stage, neutrality, bias by layer, and bias left against quality kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenhand.audit import ORIGINAL, Audit, Tradeoff, tradeoffs
from evenhand.audit.record import Row, rows
from evenhand.errors import counted
from evenhand.measures import numbers
from evenhand.report.charts import style
from evenhand.report.charts.figure import Figure, drawn_rows, drawn_stages, register_chart, sources, with_interval


@register_chart("effect-sizes", family="association", place="bias")
def effect_sizes(audit: Audit, subject: str) -> Figure | None:
    """Draw the word association tests before and after each method."""
    return _effects(audit, subject, "effect-sizes", "Association tests of words (WEAT)")


@register_chart("sentence-effect-sizes", family="sentences", place="bias")
def sentence_effect_sizes(audit: Audit, subject: str) -> Figure | None:
    """Draw the sentence association tests before and after each method."""
    return _effects(audit, subject, "sentence-effect-sizes", "Association tests of sentences (SEAT)")


@register_chart("decision-changes", family="labels", place="bias")
def decision_changes(audit: Audit, subject: str) -> Figure | None:
    """Draw how far the probability of a label depends on the group."""
    gaps = [row for row in drawn_rows(audit, subject, "decision-changes") if row.original.score.startswith("gap")]
    caption = "Right of 0: the label is more probable for the first group. Nearer to 0 is better."
    return forest_figure(
        audit, gaps, "Does the decision depend on the group?", "difference in P(label) between groups", caption
    )


def _effects(audit: Audit, subject: str, id: str, title: str) -> Figure | None:
    every = drawn_rows(audit, subject, id)
    about = [row for row in every if row.question.asks_about(audit.concept)] or every
    caption = (
        "Right of 0: the named words go together, as the stereotype has it; left of 0: the opposite. Nearer to 0 is "
        "better. A bar that crosses the line at 0 may be chance."
    )
    return forest_figure(audit, about, title, "effect size d (standard deviations)", caption)


def forest_figure(audit: Audit, rows: Sequence[Row], title: str, axis: str, caption: str) -> Figure | None:
    """Return values and 95 % intervals of several rows as a figure, or None if none has a value."""
    drawn = [row for row in rows if any(cell.value is not None for cell in row.cells.values())]
    if not drawn:
        return None
    stages, shown = list(drawn[0].cells), drawn_stages(drawn[0])
    table = tuple((row.label, *(numbers.cell(row.cells[stage]) for stage in stages)) for row in drawn)
    items = sum(row.original.n for row in drawn)
    left_out = f" The first {len(shown)} of {len(stages)} stages are drawn." if len(shown) < len(stages) else ""
    sources = (
        f"Bars are 95 % intervals. {counted(len(drawn), 'test')}, n = {items:,} in all, seed {audit.seed}.{left_out}"
    )
    return Figure(title, effect_forest(drawn, axis, shown), ("test", *stages), table, f"{caption} {sources}")


def effect_forest(
    rows: Sequence[Row], title: str, stages: Sequence[str] = (), *, ideal: float = 0.0, **axis: object
) -> style.VegaSpec:
    """Values and 95 % intervals of several rows on one axis, the stages beside each other."""
    shown = list(stages or rows[0].cells)
    values = [
        {"query": _name(row), "stage": stage, **with_interval(cell.value, cell.interval)}
        for row in rows
        for stage, cell in row.cells.items()
        if cell.value is not None and stage in shown
    ]
    marks = style.scales(shown)
    y = style.names_axis("query", [_name(row) for row in rows])
    shared = {"y": y, "yOffset": {"field": "stage", "sort": shown}, "color": marks["color"]}
    return style.chart(
        f"{title}: value and 95 % interval of {len(rows)} tests on {len(shown)} stages",
        data={"values": values},
        width=430,
        height={"step": 14 if len(shown) < 4 else 9},
        layer=[
            style.reference_line("x", ideal),
            style.rule(
                {**shared, "x": style.number_axis("low", title, **axis), "x2": {"field": "high"}}, strokeWidth=1.5
            ),
            style.dots(
                {**shared, "shape": marks["shape"], "x": {"field": "value", "type": "quantitative", **axis}}, size=60
            ),
        ],
    )


def _name(row: Row) -> str:
    return f"{row.label}: {row.original.positive}" if row.original.positive else row.label


@register_chart("pair-preferences", family="likelihood", place="bias")
def pair_preferences(audit: Audit, subject: str) -> Figure | None:
    """Draw every score of which 50 % is ideal, by measure and category."""
    fifty = [row for row in rows(audit, subject) if row.info.better_score(row.original.score) == "fifty"]
    drawn = [row for row in fifty if any(cell.value is not None for cell in row.cells.values())]
    if not drawn:
        return None
    stages = drawn_stages(drawn[0])
    title = "pairs in which the stereotype is preferred (%)"
    spec = effect_forest(drawn, title, stages, ideal=50.0, scale={"domain": [0, 100]})
    table = tuple(
        (row.label, *(numbers.cell(row.cells[stage]) for stage in stages), f"{row.original.n:,}") for row in drawn
    )
    caption = (
        "At the line, 50 %, the model has no preference, which is ideal. Right of it, it prefers the stereotyping "
        f"sentence. Bars are 95 % intervals; n is in the table; seed {audit.seed}. The pairs can show bias, never its "
        "absence."
    )
    return Figure("Which sentence of a pair is more likely?", spec, ("pairs", *stages, "n"), table, caption)


@register_chart("layer-bias", family="sentences")
def layer_bias(audit: Audit, subject: str) -> Figure | None:
    """Draw the effect size at every layer, one panel per query and one line per stage."""
    rows = [row for row in drawn_rows(audit, subject, "layer-bias") if row.original.items]
    if not rows:
        return None
    stages = drawn_stages(rows[0])
    names = {row.label: f"{row.question.query}: {row.original.positive}" for row in rows}
    values = [
        {"query": names[row.label], "stage": stage, "layer": layer, "d": item["value"]}
        for row in rows
        for stage in stages
        for layer, item in enumerate(row.cells[stage].items)
    ]
    marks = style.scales(stages)
    domain = style.shared_domain([float(value["d"]) for value in values], around=0.0)
    x = style.number_axis("layer", "layer (0: input)", axis={"tickMinStep": 1, "format": "d"})
    y = style.number_axis("d", "effect size d", scale={"domain": domain})
    lines = [
        style.reference_line("y", 0),
        style.layer("line", {"x": x, "y": y, "color": marks["color"]}, strokeWidth=1.5, aria=False),
        style.dots({"x": x, "y": y, **marks}, size=35),
    ]
    spec = style.chart(
        f"Effect size of {len(rows)} association tests at every layer, on {len(stages)} stages",
        data={"values": values},
        **style.panels(lines, "query", list(names.values()), width=230, height=160),
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


OVERLAP = 0.002  # of the original
FEWEST = 4  # stages: fewer are easier to read as a table


@register_chart("bias-against-quality", place="left")
def bias_against_quality(audit: Audit, subject: str) -> Figure | None:
    """Draw every stage by what is left of bias and of quality."""
    if len(audit.stage_names) < FEWEST or ORIGINAL not in audit.stage_names:
        return None
    points = tradeoffs(audit, subject)
    table = tuple(
        (p.method, f"{100 * p.bias_left:.0f} %", f"{100 * p.quality_kept:.0f} %", str(p.measures_used)) for p in points
    )
    caption = (
        "Towards the upper left is better: less bias left, more quality kept. Squares: no other method is better on "
        "both. Each axis is a mean of shares of the original over measures, so small differences mean little. "
        f"n is the number of rows in the table, seed {audit.seed}."
    )
    columns = ("method", "bias left", "quality kept", "rows")
    return Figure("Bias left against quality kept", tradeoff(points), columns, table, caption)


def tradeoff(points: Sequence[Tradeoff]) -> style.VegaSpec:
    """A labelled scatter; methods that no other beats on both axes are filled."""
    front = "not beaten", "beaten on both"
    values = [
        {"method": _label(points, number), "bias": point.bias_left, "quality": point.quality_kept}
        | {"front": front[0 if point.on_the_front else 1]}
        for number, point in enumerate(points)
    ]
    share = {"scale": {"zero": False, "padding": 20}, "axis": {"format": "%"}}
    place = {
        "x": style.number_axis("bias", "bias left (share of the original)", **share),
        "y": style.number_axis("quality", "quality kept (share of the original)", **share),
    }
    marks = {
        "color": style.nominal("front", dict(zip(front, (style.PALETTE[1], style.GREY), strict=True))),
        "shape": style.nominal("front", dict(zip(front, ("square", "circle"), strict=True))),
    }
    return style.chart(
        f"{len(points)} stages by bias left and quality kept",
        data={"values": values},
        width=430,
        height=330,
        layer=[
            style.dots({**place, **marks}, size=80),
            style.layer("text", {**place, "text": {"field": "method"}}, align="left", dx=8, dy=-6, color=style.INK),
        ],
    )


def _label(points: Sequence[Tradeoff], number: int) -> str:
    """Return the names of all marks that lie on top of each other for the first of them, nothing for the others."""
    together = [index for index, other in enumerate(points) if _coincide(points[number], other)]
    return ", ".join(points[index].method for index in together) if together[0] == number else ""


def _coincide(one: Tradeoff, other: Tradeoff) -> bool:
    return abs(one.bias_left - other.bias_left) < OVERLAP and abs(one.quality_kept - other.quality_kept) < OVERLAP


NEUTRALITY_SCORES = {
    "net_neutral": "net neutral: mean P(neutral)",
    "fraction_neutral": "fraction neutral: neutral is likeliest",
    "T:0.5": "P(neutral) above 0.5",
    "T:0.7": "P(neutral) above 0.7",
}


@register_chart("neutrality", family="inference", place="bias")
def neutrality(audit: Audit, subject: str) -> Figure | None:
    """Draw the four scores of neutrality on each stage."""
    row = next((row for row in drawn_rows(audit, subject, "neutrality") if row.original.details.get("scores")), None)
    if row is None:
        return None
    stages = [stage for stage, cell in row.cells.items() if cell.details.get("scores")][: style.DISTINGUISHABLE]
    found = {
        (title, stage): with_interval(score["mean"], score.get("interval"))
        for stage in stages
        for name, title in NEUTRALITY_SCORES.items()
        if (score := row.cells[stage].details["scores"].get(name))
    }
    shared: style.VegaSpec = {
        "y": style.names_axis("score", list(NEUTRALITY_SCORES.values())),
        "yOffset": {"field": "stage", "sort": stages},
    }
    axis = "share (100 %: the model draws no conclusion)"
    share = style.number_axis("value", axis, scale={"domain": [0, 1]}, axis={"format": "%", "tickCount": 5})
    spec = style.chart(
        f"Neutrality of {row.original.model or subject} on {row.original.query}: four scores on {len(stages)} stages",
        data={"values": [{"stage": stage, "score": title, **ends} for (title, stage), ends in found.items()]},
        width=400,
        height={"step": 16},
        layer=[
            style.layer("bar", {**shared, "x": share, "color": style.scales(stages)["color"]}, opacity=0.65),
            style.rule(
                {**shared, "x": style.number_axis("low", axis), "x2": {"field": "high"}},
                color=style.INK,
                strokeWidth=1.5,
            ),
        ],
    )
    table = tuple(
        (title, *(_share(found.get((title, stage))) for stage in stages)) for title in NEUTRALITY_SCORES.values()
    )
    caption = (
        "The right answer is always neutral, because the sentences say nothing about the group: longer bars are "
        f"better. Lines are 95 % intervals over words and training seeds. {sources(audit, row, 'sentence pairs')}"
    )
    return Figure("Does the model draw conclusions?", spec, ("score", *stages), table, caption)


def _share(ends: Mapping[str, float] | None) -> str:
    return "{value:.1%} [{low:.1%}, {high:.1%}]".format(**ends) if ends else "–"
