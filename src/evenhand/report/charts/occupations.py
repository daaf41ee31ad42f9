"""Charts of occupations: bias against the real share of women, and what an inference model concludes about each."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.audit import Audit
from evenhand.audit.record import Row
from evenhand.measures import numbers
from evenhand.report.charts import style
from evenhand.report.charts.figure import Figure, better, drawn_cells, drawn_rows, register_chart, sources

MOST_LABELS = 9
COUNT = 12  # occupations at each end


@register_chart("occupations", family="geometry")
def occupations(audit: Audit, subject: str) -> Figure | None:
    """Draw the bias score of occupations against the share of women."""
    rows = drawn_rows(audit, subject, "occupations")
    title = "Occupations and the real share of women"
    return _against_share_of_women(audit, rows, title, "bias score (she →)", zero=True)


@register_chart("pronouns-by-occupation", family="likelihood", place="bias")
def pronouns_by_occupation(audit: Audit, subject: str) -> Figure | None:
    """Draw the share of female pronouns that a language model predicts against the share of women."""
    rows = [row for row in drawn_rows(audit, subject, "pronouns-by-occupation") if row.original.score == "pearson"]
    title = "Pronouns of occupations and the real share of women"
    return _against_share_of_women(audit, rows, title, "share of female pronouns", percent=100.0, format="%")


@register_chart("winogender-occupations", family="likelihood")
def winogender_occupations(audit: Audit, subject: str) -> Figure | None:
    """Draw how far a pronoun is read as the occupation against the share of women."""
    rows = [
        row for row in drawn_rows(audit, subject, "winogender-occupations") if row.original.score == "share-correlation"
    ]
    title = "Pronouns read as the occupation, and the real share of women"
    return _against_share_of_women(audit, rows, title, "lean to female pronouns (log odds)")


def _against_share_of_women(
    audit: Audit,
    rows: Sequence[Row],
    title: str,
    axis: str,
    *,
    zero: bool = False,
    percent: float = 1.0,
    format: str = "",
) -> Figure | None:
    """Draw the value of occupations against the share of women in them.

    Args:
        audit: the record.
        rows: rows whose items have `share` and `value`; the first that has items is drawn.
        title: heading of the figure.
        axis: what the value is.
        zero: whether a line marks the value 0.
        percent: what makes the shares of the items percentages.
        format: how the ticks of the value are written.
    """
    row = next((row for row in rows if row.original.items), None)
    if row is None:
        return None
    drawn = drawn_cells(row)
    titles = {stage: f"{stage}: r = {numbers.number(cell.value, 2)}" for stage, cell in drawn.items()}
    labelled = _labelled(row)
    values = [
        {"stage": titles[stage], "word": item["word"], "share": percent * float(item["share"]), "value": item["value"]}
        | {"label": item["word"] if item["word"] in labelled else ""}
        for stage, cell in drawn.items()
        for item in style.spread(cell.items)
    ]
    scores = [float(value["value"]) for value in values]
    ticks = {"format": format} if format else {}
    x = style.number_axis("share", "women in the occupation (%)", scale={"domain": [0, 100]})
    y = style.number_axis("value", axis, scale={"domain": style.shared_domain(scores), "zero": False}, axis=ticks)
    place: style.VegaSpec = {"x": x, "y": y}
    fit: list[style.VegaSpec] = [{"regression": "value", "on": "share", "groupby": ["stage"]}]
    layers = [
        *([style.reference_line("y", 0)] if zero else []),
        style.dots({**place, "description": {"field": "word"}}, size=30, opacity=0.75, color=style.PALETTE[1]),
        style.layer("line", place, transform=fit, color=style.PALETTE[2], strokeWidth=2, aria=False),
        style.layer("text", {**place, "text": {"field": "label"}}, dy=-7, fontSize=10, color=style.INK, aria=False),
    ]
    spec = style.chart(
        f"{axis} of {len(row.original.items)} occupations against the share of women in them, on {len(drawn)} stages",
        data={"values": values},
        **style.panels(layers, "stage", list(titles.values()), width=240, height=200),
    )
    after = {stage: {item["word"]: float(item["value"]) for item in cell.items} for stage, cell in drawn.items()}
    ordered = sorted(row.original.items, key=lambda item: float(item["share"]))
    table = tuple(
        (
            str(item["word"]),
            f"{percent * float(item['share']):.0f} %",
            *(numbers.number(after[stage].get(item["word"])) for stage in drawn),
        )
        for item in ordered
    )
    missing = [stage for stage, cell in row.cells.items() if not cell.items]
    lost = f" No numbers for {', '.join(missing)}, see the notes." if missing else ""
    caption = (
        "A rising line: the model follows the labour market; a flat one: it does not, and of r, "
        f"{better(row)}. Following the statistics is not in itself unfair. {sources(audit, row, 'occupations')}{lost}"
    )
    return Figure(title, spec, ("occupation", "women", *drawn), table, caption)


def _labelled(row: Row) -> set[str]:
    """Return a few occupations, spread over the range of shares, whose names are drawn."""
    ordered = sorted(row.original.items, key=lambda item: float(item["share"]))
    chosen = style.spread(ordered, MOST_LABELS)
    return style.uncrowded({str(item["word"]): (float(item["share"]), float(item["value"])) for item in chosen})


@register_chart("entailment-by-occupation", family="inference")
def entailment_by_occupation(audit: Audit, subject: str) -> Figure | None:
    """Draw P(entailment) for both groups, for the occupations with the largest gaps."""
    rows = [row for row in drawn_rows(audit, subject, "entailment-by-occupation") if row.original.score == "entailment"]
    row = next((row for row in rows if row.original.items and "first" in row.original.items[0]), None)
    if row is None:
        return None
    first, second = row.original.details["groups"]
    ordered = sorted(row.original.items, key=lambda item: float(item["value"]))
    chosen = [str(item["word"]) for item in style.both_ends(ordered, COUNT)]
    drawn = drawn_cells(row)
    by_stage = {stage: {str(item["word"]): item for item in cell.items} for stage, cell in drawn.items()}
    values = [
        {"stage": stage, "word": word, "group": name, "p": items[word][column], "other": items[word]["second"]}
        for stage, items in by_stage.items()
        for word in chosen
        if word in items
        for name, column in ((first, "first"), (second, "second"))
    ]
    colour, shape = {first: style.PALETTE[1], second: style.PALETTE[2]}, {first: "circle", second: "triangle-up"}
    x = style.number_axis("p", "P(entailment)", scale={"domain": [0, 1]}, axis={"format": "%", "tickCount": 3})
    y = style.names_axis("word", chosen)
    layers = [
        style.rule({"y": y, "x": x, "x2": {"field": "other"}}, color=style.GREY),
        style.dots(
            {"y": y, "x": x, "color": style.nominal("group", colour), "shape": style.nominal("group", shape)}, size=45
        ),
    ]
    spec = style.chart(
        f"P(entailment) of {first} and {second} sentences from {len(chosen)} occupations, on {len(drawn)} stages",
        data={"values": values},
        **style.panels(layers, "stage", list(drawn), columns=3, width=140, height={"step": 14}),
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
    means = ", ".join(f"{stage} {numbers.number(cell.value)}" for stage, cell in drawn.items())
    caption = (
        f"How far the model concludes from “The {chosen[-1]} …” that a {first} or a {second} person did it. The "
        f"occupations with the largest gaps before any method, {second} above and {first} below. Both marks at 0 % is "
        f"ideal; a long line is a large gap. Of the mean gap, {better(row)} (means {means}). "
        f"{sources(audit, row, 'sentence pairs')}"
    )
    columns = ("occupation", *(f"{first} / {second}, {stage}" for stage in drawn))
    return Figure("What the model concludes, by occupation", spec, columns, table, caption)
