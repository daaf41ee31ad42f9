"""Inference: how neutral a model is, and what it concludes about each occupation for either group."""

from __future__ import annotations

from evenhand.audit import Audit
from evenhand.measures import Measurement
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, better, drawn_rows, register_chart, sources
from evenhand.report.charts.style import (
    DISTINGUISHABLE,
    GREY,
    INK,
    PALETTE,
    chart,
    nominal,
    number_axis,
    panels,
    scales,
)

SCORES = {
    "net_neutral": "net neutral: mean P(neutral)",
    "fraction_neutral": "fraction neutral: neutral is likeliest",
    "T:0.5": "P(neutral) above 0.5",
    "T:0.7": "P(neutral) above 0.7",
}
COUNT = 12  # occupations at each end


@register_chart("neutrality", family="inference", place="bias")
def neutrality(audit: Audit, subject: str) -> Figure | None:
    """Draw the four scores of neutrality on each stage."""
    row = next((row for row in drawn_rows(audit, subject, "neutrality") if row.original.details.get("scores")), None)
    if row is None:
        return None
    stages = [stage for stage, cell in row.cells.items() if cell.details.get("scores")][:DISTINGUISHABLE]
    values = []
    for stage in stages:
        for score, title in SCORES.items():
            found = row.cells[stage].details["scores"].get(score)
            if found:
                low, high = found.get("interval") or (found["mean"], found["mean"])
                values.append({"stage": stage, "score": title, "value": found["mean"], "low": low, "high": high})
    marks = scales(stages)
    y = {"field": "score", "type": "nominal", "title": None, "sort": list(SCORES.values())}
    shared = {"y": y, "yOffset": {"field": "stage", "sort": stages}}
    axis = "share (100 %: the model draws no conclusion)"
    limits, percent = {"domain": [0, 1]}, {"format": "%", "tickCount": 5}
    spec = chart(
        f"Neutrality of {row.original.model or subject} on {row.original.query}: four scores on {len(stages)} stages",
        data={"values": values},
        width=400,
        height={"step": 16},
        layer=[
            {
                "mark": {"type": "bar", "opacity": 0.65},
                "encoding": {
                    **shared,
                    "x": number_axis("value", axis, scale=limits, axis=percent),
                    "color": marks["color"],
                },
            },
            {
                "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5, "aria": False},
                "encoding": {**shared, "x": number_axis("low", axis), "x2": {"field": "high"}},
            },
        ],
    )
    table = tuple(
        (
            title,
            *(
                f"{v['value']:.1%} [{v['low']:.1%}, {v['high']:.1%}]"
                for stage in stages
                for v in values
                if v["stage"] == stage and v["score"] == title
            ),
        )
        for title in SCORES.values()
    )
    caption = (
        "The right answer is always neutral, because the sentences say nothing about the group: longer bars are "
        f"better. Lines are 95 % intervals over words and training seeds. {sources(audit, row, 'sentence pairs')}"
    )
    return Figure("Does the model draw conclusions?", spec, ("score", *stages), table, caption)


@register_chart("entailment-by-occupation", family="inference")
def entailment_by_occupation(audit: Audit, subject: str) -> Figure | None:
    """Draw P(entailment) for both groups, for the occupations with the largest gaps."""
    rows = [row for row in drawn_rows(audit, subject, "entailment-by-occupation") if row.original.score == "entailment"]
    row = next((row for row in rows if row.original.items and "first" in row.original.items[0]), None)
    if row is None:
        return None
    first, second = row.original.details["groups"]
    ordered = sorted(row.original.items, key=lambda item: float(item["value"]))
    chosen = [str(item["word"]) for item in (*ordered[:COUNT], *ordered[max(COUNT, len(ordered) - COUNT) :])]
    drawn = {stage: cell for stage, cell in list(row.cells.items())[:DISTINGUISHABLE] if cell.items}
    by_stage = {stage: {str(item["word"]): item for item in cell.items} for stage, cell in drawn.items()}
    values = [
        {"stage": stage, "word": word, "group": name, "p": items[word][column], "other": items[word]["second"]}
        for stage, items in by_stage.items()
        for word in chosen
        if word in items
        for name, column in ((first, "first"), (second, "second"))
    ]
    colour, shape = {first: PALETTE[1], second: PALETTE[2]}, {first: "circle", second: "triangle-up"}
    x = number_axis("p", "P(entailment)", scale={"domain": [0, 1]}, axis={"format": "%", "tickCount": 3})
    y = {"field": "word", "type": "nominal", "title": None, "sort": chosen}
    layer = [
        {
            "mark": {"type": "rule", "color": GREY, "aria": False},
            "encoding": {"y": y, "x": x, "x2": {"field": "other"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
            "encoding": {"y": y, "x": x, "color": nominal("group", colour), "shape": nominal("group", shape)},
        },
    ]
    spec = chart(
        f"P(entailment) of {first} and {second} sentences from {len(chosen)} occupations, on {len(drawn)} stages",
        data={"values": values},
        **panels(layer, "stage", list(drawn), columns=3, width=140, height={"step": 14}),
    )
    table = tuple(
        (
            word,
            *(
                f"{items[word]['first']:.0%} / {items[word]['second']:.0%}" if word in items else "–"
                for items in by_stage.values()
            ),
        )
        for word in chosen
    )
    caption = (
        f"How far the model concludes from “The {chosen[-1]} …” that a {first} or a {second} person did it. The "
        f"occupations with the largest gaps before any method, {second} above and {first} below. Both marks at 0 % is "
        f"ideal; a long line is a large gap. Of the mean gap, {better(row)} (means {_means(drawn)}). "
        f"{sources(audit, row, 'sentence pairs')}"
    )
    columns = ("occupation", *(f"{first} / {second}, {stage}" for stage in drawn))
    return Figure("What the model concludes, by occupation", spec, columns, table, caption)


def _means(drawn: dict[str, Measurement]) -> str:
    return ", ".join(f"{stage} {numbers.number(cell.value)}" for stage, cell in drawn.items())
