"""Charts of a concept's direction.

They show the words at its ends, where the words of each group lie along it, how a method moves words, and how much of
the differences between the concept's pairs one direction explains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

from evenhand.audit import Audit
from evenhand.measures import numbers
from evenhand.report.charts import style
from evenhand.report.charts.figure import Figure, better, drawn_rows, drawn_stages, register_chart, sources

AT_EACH_END = 12  # words of the direction


@register_chart("extreme-words")
def extreme_words(audit: Audit, subject: str) -> Figure | None:
    """Draw the words at the two ends of the axis."""
    on_axis = [
        row for row in drawn_rows(audit, subject, "extreme-words") if row.original.items and row.original.positive
    ]
    if not on_axis:
        return None
    row = on_axis[0]  # direct bias first: it asks every stage about one direction, that of the original vectors
    stages, pole = drawn_stages(row), row.original.positive
    ordered = sorted(row.original.items, key=lambda item: float(item["value"]))
    words = [str(item["word"]) for item in reversed(style.both_ends(ordered, AT_EACH_END))]
    values: list[WordPlace] = [
        {"word": str(item["word"]), "stage": stage, "value": float(item["value"])}
        for stage in stages
        for item in row.cells[stage].items
        if item["word"] in words
    ]
    spec = words_on_axis(
        values,
        f"{len(words)} words at the two ends of the direction towards {pole}, on {len(stages)} stages",
        axis=f"← away from {pole}   |   towards {pole} →   "
        f"({'log ratio' if row.question.measure == 'corpus-bias' else 'cosine'})",
        words=words,
        stages=stages,
    )
    places = {(place["word"], place["stage"]): place["value"] for place in values}
    table = tuple((word, *(numbers.number(places.get((word, stage))) for stage in stages)) for word in words)
    caption = (
        f"The {len(words)} words furthest to either side{' before any method' if len(stages) > 1 else ''}. "
        f"{better(row).capitalize()}: a word at 0 has no side. {sources(audit, row)}"
    )
    title = f"Words furthest towards and away from {pole}"
    return Figure(title, spec, ("word", *stages), table, caption, family=row.info.family)


class WordPlace(TypedDict):
    """Where a word lies on a stage."""

    word: str
    stage: str
    value: float


def words_on_axis(
    values: Sequence[WordPlace], description: str, *, axis: str, words: Sequence[str], stages: Sequence[str]
) -> style.VegaSpec:
    """A dot for each word and stage on one axis, with a line from the first to the last dot of a word.

    Args:
        values: the dots.
        description: what the chart shows, in words.
        axis: title of the axis.
        words: the words from top to bottom.
        stages: the stages, the original first.
    """
    y = style.names_axis("word", words)
    scale = {"domain": style.shared_domain([place["value"] for place in values], around=0.0)}
    ends: style.VegaSpec = {
        "aggregate": [{"op": op, "field": "value", "as": op} for op in ("min", "max")],
        "groupby": ["word"],
    }
    across: style.VegaSpec = {"y": y, "x": style.number_axis("min", axis, scale=scale), "x2": {"field": "max"}}
    return style.chart(
        description,
        data={"values": list(values)},
        width=430,
        height={"step": 15},
        layer=[
            style.reference_line("x", 0),
            style.rule(across, transform=[ends], color=style.GREY),
            style.dots({"y": y, "x": style.number_axis("value", axis, scale=scale), **style.scales(stages)}, size=60),
        ],
    )


FEWEST = 3  # words of a group; a density of fewer shows the bandwidth only
STEPS = 60


@register_chart("projection-density", family="geometry")
def projection_density(audit: Audit, subject: str) -> Figure | None:
    """Draw the distribution of cosines with the direction, for each group of the concept and for the words asked."""
    rows = [row for row in drawn_rows(audit, subject, "projection-density") if row.original.details.get("groups")]
    row = next((row for row in rows if row.question.variant != "old-direction"), rows[0] if rows else None)
    if row is None:
        return None
    neutral = row.question.query
    groups: dict[tuple[str, str], list[float]] = {}
    for stage, cell in list(row.cells.items())[: style.DISTINGUISHABLE]:
        named = {**cell.details.get("groups", {}), neutral: [float(item["value"]) for item in cell.items]}
        groups |= {(stage, name): values for name, values in named.items() if len(values) >= FEWEST}
    if not groups:
        return None
    stages = list(dict.fromkeys(stage for stage, _ in groups))
    names = list(dict.fromkeys(name for _, name in groups))
    domain = style.shared_domain([value for values in groups.values() for value in values])
    colour = {name: style.GREY if name == neutral else style.PALETTE[1 + i % 7] for i, name in enumerate(names)}
    values = [
        {"stage": stage, "group": name, "cosine": x, "density": y}
        for (stage, name), some in groups.items()
        for x, y in density(some, domain)
    ]
    area: style.VegaSpec = {
        "x": style.number_axis("cosine", "cosine with the direction", scale={"domain": domain}),
        "y": style.number_axis("density", "density", stack=None),
        "color": style.nominal("group", colour, legend={"symbolOpacity": 1, "symbolType": "square"}),
    }
    line: style.VegaSpec = {
        "x": {"field": "cosine", "type": "quantitative"},
        "y": {"field": "density", "type": "quantitative"},
        "color": style.nominal("group", colour),
        "strokeDash": style.nominal("group", dashes(names)),
    }
    layers = [
        style.reference_line("x", 0),
        style.layer("area", area, opacity=0.18, aria=False),
        style.layer("line", line, strokeWidth=2),
    ]
    spec = style.chart(
        f"Density of the cosines with the {audit.concept} direction of {len(names)} lists of words on "
        f"{len(stages)} stages",
        data={"values": values},
        **style.panels(layers, "stage", stages, width=230, height=130),
    )
    table = tuple(
        (name, *(_mean(groups.get((stage, name), ())) for stage in stages), f"{len(groups[stages[0], name])}")
        for name in names
        if (stages[0], name) in groups
    )
    caption = (
        "Each stage has its own direction. Curves that lie apart: the direction tells the groups apart. Curves on top "
        f"of each other are better, and {neutral} should lie at 0. Seed {audit.seed}; n of each list is in the table."
    )
    missing = [stage for stage in row.cells if stage not in stages]
    caption += f" No direction is left in {', '.join(missing)}." if missing else ""
    columns = ("words", *(f"mean, {stage}" for stage in stages), "n")
    return Figure("Where the groups lie along the direction", spec, columns, table, caption)


def dashes(names: Sequence[str]) -> Mapping[str, list[int]]:
    """Return a dash pattern for each name, so that curves differ without colour."""
    patterns = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
    return {name: patterns[i % len(patterns)] for i, name in enumerate(names)}


def density(values: Sequence[float], domain: Sequence[float]) -> list[tuple[float, float]]:
    """Return a Gaussian kernel density with Silverman's bandwidth on a grid over the domain."""
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))
    width = max(1.06 * deviation * len(values) ** -0.2, 0.01 * (domain[1] - domain[0]))
    grid = [domain[0] + (domain[1] - domain[0]) * step / STEPS for step in range(STEPS + 1)]
    scale = 1 / (len(values) * width * math.sqrt(2 * math.pi))
    return [
        (round(x, 4), round(scale * sum(math.exp(-0.5 * ((x - value) / width) ** 2) for value in values), 4))
        for x in grid
    ]


def _mean(values: Sequence[float]) -> str:
    return numbers.number(sum(values) / len(values)) if values else "–"


COUNT = 14  # words whose arrows are drawn


@register_chart("word-movement", family="geometry")
def word_movement(audit: Audit, subject: str) -> Figure | None:
    """Draw where a method moves the words that lie furthest along the original direction."""
    rows = [
        row for row in drawn_rows(audit, subject, "word-movement") if row.question.variant in row.info.by_construction
    ]
    row = next((row for row in rows if any("across" in item for item in row.original.items)), None)
    if row is None or len(row.cells) < 2:
        return None
    before = {str(item["word"]): item for item in row.original.items}
    ordered = sorted(before, key=lambda word: float(before[word]["value"]))
    words = style.both_ends(ordered, COUNT // 2)
    outer = [word for pair in zip(words, reversed(words), strict=True) for word in pair]  # the furthest first
    places = {word: (float(before[word]["value"]), float(before[word]["across"])) for word in dict.fromkeys(outer)}
    labelled = style.uncrowded(places)
    moves = [
        {"stage": stage, "word": word, "label": word if word in labelled else ""}
        | {"x": before[word]["value"], "y": before[word]["across"], "x2": item["value"], "y2": item["across"]}
        for stage in drawn_stages(row)[1:]
        for after in [{str(item["word"]): item for item in row.cells[stage].items}]
        for word, item in ((word, after[word]) for word in words if word in after)
    ]
    if not moves:
        return None
    stages = list(dict.fromkeys(str(move["stage"]) for move in moves))
    across = [float(move[key]) for move in moves for key in ("y", "y2")]
    along = [float(move[key]) for move in moves for key in ("x", "x2")]
    pole = row.original.positive
    titles = (f"cosine with the original direction ({pole} →)", "cosine across it")
    x = style.number_axis("x", titles[0], scale={"domain": style.shared_domain(along)})
    y = style.number_axis("y", titles[1], scale={"domain": style.shared_domain(across), "zero": False})
    ends = {"x": style.number_axis("x2", titles[0]), "y": style.number_axis("y2", titles[1])}
    layers = [
        style.reference_line("x", 0),
        style.rule({"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"}}, color=style.GREY),
        style.layer("point", {"x": x, "y": y}, filled=False, color=style.INK, size=26, aria=False),
        style.dots({**ends, "tooltip": {"field": "word"}}, size=50, shape="diamond", color=style.PALETTE[1]),
        style.layer(
            "text",
            {"x": x, "y": y, "text": {"field": "label"}},
            align="left",
            dx=5,
            dy=-5,
            fontSize=10,
            color=style.INK,
        ),
    ]
    spec = style.chart(
        f"Movement of {len(words)} words under {len(stages)} methods, along the original direction and across it",
        data={"values": moves},
        **style.panels(layers, "stage", stages, width=250, height=260),
    )
    last = {stage: {str(item["word"]): float(item["value"]) for item in row.cells[stage].items} for stage in stages}
    table = tuple(
        (word, numbers.number(float(before[word]["value"])), *(numbers.number(last[s].get(word)) for s in stages))
        for word in words
    )
    caption = (
        "Circles: before; diamonds: after. A projection moves every word to the vertical line at 0 by construction, "
        f"which alone does not show that bias is gone. {len(words)} words, the furthest on both sides. "
        f"{sources(audit, row)}"
    )
    return Figure("How a method moves words", spec, ("word", "before", *stages), table, caption)


RANDOM = "random pairs"


@register_chart("scree", family="geometry")
def scree(audit: Audit, subject: str) -> Figure | None:
    """Draw the share of each principal direction of the pair differences."""
    row = next((row for row in drawn_rows(audit, subject, "scree") if "scree" in row.original.details), None)
    if row is None:
        return None
    found = row.original.details["scree"]
    own = f"{audit.concept} pairs"
    bars = [{"k": k, "share": share, "pairs": own} for k, share in enumerate(found["shares"], 1)]
    random = [
        {"k": k, "share": mean, "low": low, "high": high, "pairs": RANDOM}
        for k, (mean, low, high) in enumerate(
            zip(found["random"], found["random_low"], found["random_high"], strict=True), 1
        )
    ]
    x = {
        "field": "k",
        "type": "ordinal",
        "title": "principal direction of the pair differences",
        "axis": {"labelAngle": 0},
    }
    title = "share of the differences"
    shares: style.VegaSpec = {
        "x": x,
        "y": style.number_axis("share", title, axis={"format": "%"}),
        "color": style.nominal("pairs", {own: style.PALETTE[1], RANDOM: style.GREY}),
    }
    drawn: style.VegaSpec = {"data": {"values": random}}
    spec = style.chart(
        f"Share of the differences of {found['pairs']} {audit.concept} pairs by principal direction, against random "
        f"pairs",
        width=400,
        height=220,
        layer=[
            {"data": {"values": bars}, **style.layer("bar", shares, size=18)},
            drawn
            | style.rule(
                {"x": x, "y": style.number_axis("low", title), "y2": {"field": "high"}}, color=style.GREY, strokeWidth=2
            ),
            drawn | style.dots(shares, size=60, shape="diamond"),
        ],
    )
    table = tuple(
        (str(bar["k"]), f"{bar['share']:.1%}", f"{r['share']:.1%} [{r['low']:.1%}, {r['high']:.1%}]")
        for bar, r in zip(bars, random, strict=False)
    )
    caption = (
        "Bars: the concept's pairs; diamonds: as many pairs of random words, with the range of 95 % of the draws. A "
        "first bar far above its diamond: the pairs share one direction, which a method can remove. Bars near the "
        f"diamonds: there is no such direction. n = {found['pairs']} pairs, {found['draws']} draws, seed {audit.seed}."
    )
    columns = ("direction", own, f"{RANDOM} [95 %]")
    return Figure("Do the pairs share one direction?", spec, columns, table, caption)
