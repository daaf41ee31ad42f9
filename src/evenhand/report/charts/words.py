"""Charts of word scores: clusters, neighbours, one text against another, and whether the measures agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.audit import Audit
from evenhand.audit.record import Row, rows
from evenhand.corpus.comparison import Point
from evenhand.measures import numbers
from evenhand.report.charts import style
from evenhand.report.charts.figure import Figure, better, drawn_cells, drawn_rows, register_chart, sources
from evenhand.stats.correlation import spearman_rows


@register_chart("clusters", family="geometry", place="left")
def clusters(audit: Audit, subject: str) -> Figure | None:
    """Draw the most biased words on two principal components of each stage."""
    row = next((row for row in drawn_rows(audit, subject, "clusters") if row.original.items), None)
    if row is None or "x" not in row.original.items[0]:
        return None
    poles = row.original.params.get("pair") or row.original.params.get("poles") or ["first", "second"]
    sides = [f"nearer to {poles[0]} at first", f"nearer to {poles[1]} at first"]
    drawn = drawn_cells(row)
    titles = {stage: f"{stage}: accuracy {numbers.number(cell.value, 2)}" for stage, cell in drawn.items()}
    values = [
        {"stage": titles[stage], "word": item["word"], "side": sides[0 if item["value"] > 0 else 1]}
        | {"x": item["x"], "y": item["y"]}
        for stage, cell in drawn.items()
        for item in style.spread(cell.items)
    ]
    ticks = {"scale": {"domain": [-1.05, 1.05]}, "axis": {"tickCount": 3}}
    encoding: style.VegaSpec = {
        "x": style.number_axis("x", "1st principal component", **ticks),
        "y": style.number_axis("y", "2nd", **ticks),
        "color": style.nominal("side", dict(zip(sides, style.PALETTE[1:3], strict=True))),
        "shape": style.nominal("side", dict(zip(sides, ("circle", "triangle-up"), strict=True))),
        "description": {"field": "word"},
    }
    spec = style.chart(
        f"The most biased words on two principal components of each of {len(drawn)} stages, marked by the side they "
        "were on before any method",
        data={"values": values},
        **style.panels(
            [style.dots(encoding, size=22, opacity=0.6)], "stage", list(titles.values()), width=230, height=180
        ),
    )
    table = tuple((stage, numbers.cell(cell), f"{cell.n:,}") for stage, cell in drawn.items())
    caption = (
        "Two clouds that lie apart: bias is left, whatever other measures say. Accuracy is how well two clusters find "
        f"the two sides; 0.5 is chance, and {better(row)}. Each stage has its own components. "
        f"{sources(audit, row)} {len(style.spread(row.original.items))} of them are drawn, the most biased of each "
        "side."
    )
    title = "Can the biased words still be told apart?"
    return Figure(title, spec, ("stage", "accuracy [95 % interval] (0.5 is chance)", "n"), table, caption)


NEIGHBOURS_LISTED = 20


@register_chart("neighbour-bias", family="geometry")
def neighbour_bias(audit: Audit, subject: str) -> Figure | None:
    """Draw the share of neighbours on the positive side against the original bias."""
    rows = [row for row in drawn_rows(audit, subject, "neighbour-bias") if row.original.items]
    if not rows:
        return None
    row = next((row for row in rows if row.question.query != "vocabulary"), rows[0])
    drawn = drawn_cells(row)
    titles = {stage: f"{stage}: r = {numbers.number(cell.value, 2)}" for stage, cell in drawn.items()}
    values = [
        {"stage": titles[stage], "word": item["word"], "bias": item["value"], "share": item["neighbours"]}
        for stage, cell in drawn.items()
        for item in style.spread(cell.items)
    ]
    pole, k = row.original.positive, row.original.details.get("k", "")
    domain = style.shared_domain([float(value["bias"]) for value in values])
    x = style.number_axis("bias", f"bias before any method ({pole} →)", scale={"domain": domain})
    y = style.number_axis("share", f"neighbours on the {pole} side", scale={"domain": [0, 1]}, axis={"format": "%"})
    cloud = style.dots(
        {"x": x, "y": y, "description": {"field": "word"}}, size=18, opacity=0.55, color=style.PALETTE[1]
    )
    spec = style.chart(
        f"Share of {pole} neighbours of {len(row.original.items)} words against their original bias, on "
        f"{len(drawn)} stages",
        data={"values": values},
        **style.panels([style.reference_line("x", 0), cloud], "stage", list(titles.values()), width=230, height=180),
    )
    after = {stage: {item["word"]: item["neighbours"] for item in cell.items} for stage, cell in drawn.items()}
    ordered = sorted(row.original.items, key=lambda item: -abs(float(item["value"])))[:NEIGHBOURS_LISTED]
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


MOVED_LISTED = 25  # words in the table: those that moved most
MOST = 1_500  # points of a page about two texts
SAME = "as in the first text"


@register_chart("beta-regression", family="text", place="bias")
def beta_regression(audit: Audit, subject: str) -> Figure | None:
    """Draw the scores of a text against those of the text it is compared with."""
    rows = [row for row in drawn_rows(audit, subject, "beta-regression") if row.original.score.endswith("beta")]
    row = next((row for row in rows if row.original.items and row.original.value is not None), None)
    if row is None:
        return None
    beta = row.original
    points: list[Point] = [
        {"word": str(item["word"]), "first": float(item["first"]), "second": float(item["value"])}
        for item in beta.items
    ]
    line = (float(beta.value or 0.0), float(beta.details.get("intercept", 0.0)))
    spec = beta_scatter(points, line, ("the first text", "this text"), beta.positive, words=beta.n)
    moved = sorted(points, key=lambda point: -abs(point["second"] - point["first"]))[:MOVED_LISTED]
    table = tuple(
        (str(p["word"]), *(numbers.number(value) for value in (p["first"], p["second"], p["second"] - p["first"])))
        for p in moved
    )
    caption = (
        f"Beta {numbers.cell(beta)}. On the dashed line a word is as biased as in the first text; a flatter line: the "
        f"text has less of the bias. Lower is better. {len(points)} words are drawn. {sources(audit, row)} The table "
        f"has those that differ most."
    )
    return Figure(
        "Bias in this text against the first text", spec, ("word", "first text", "this text", "change"), table, caption
    )


def beta_scatter(
    points: Sequence[Point], line: tuple[float, float], names: tuple[str, str], positive: str, *, words: int
) -> style.VegaSpec:
    """A dot for each word, the regression line without outliers, and the diagonal on which nothing has changed.

    Args:
        points: words with `first` and `second`, their scores in the two texts.
        line: slope and intercept.
        names: names of the two texts.
        positive: the group of scores above 0.
        words: how many words the regression has.
    """
    slope, intercept = line
    shown = style.spread(points, MOST)
    # The line is drawn over the words it was fitted to, give or take a few.
    ends = np.quantile([point["first"] for point in points], [0.005, 0.995]).tolist()
    fitted = f"regression, beta {slope:.2f}"
    lines = [{"x": x, "y": intercept + slope * x, "line": fitted} for x in ends]
    lines += [{"x": x, "y": x, "line": SAME} for x in ends]
    place: style.VegaSpec = {
        "x": style.number_axis("first", f"bias in {names[0]} (log ratio; above 0: {positive})"),
        "y": style.number_axis("second", f"bias in {names[1]} (log ratio)"),
    }
    along: style.VegaSpec = {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
        "color": style.nominal("line", {fitted: style.PALETTE[2], SAME: style.GREY}),
        "strokeDash": style.nominal("line", {fitted: [1, 0], SAME: [5, 4]}),
    }
    cloud = style.dots(place, size=16, opacity=0.55, color=style.PALETTE[1], aria=False)
    return style.chart(
        f"Scores of {len(shown):,} of {words:,} words in {names[1]} against {names[0]}; slope {slope:.2f}",
        width=430,
        height=380,
        layer=[
            {"data": {"values": shown}, **cloud},
            {"data": {"values": lines}, **style.layer("line", along, strokeWidth=2, clip=True)},
        ],
    )


SHARED = 20  # words that two measures must have in common
ON_CELLS = ("#fffffe", "#2b2b2c")  # text on a coloured cell, which keeps its colour on a dark page


@register_chart("measure-agreement", place="details")
def measure_agreement(audit: Audit, subject: str) -> Figure | None:
    """Draw the rank correlation of the word scores of every two measures, before any method."""
    scored = {row.label: _scores(row) for row in rows(audit, subject) if "measure-agreement" in row.info.charts}
    labels = [label for label, scores in scored.items() if len(scores) >= SHARED and len(set(scores.values())) > 2]
    labels = [label for label in labels if not label.endswith((":old-direction", ":spearman", ":slope"))]
    cells = []
    for one in labels:
        for other in labels:
            shared = [word for word in scored[one] if word in scored[other]]
            if len(shared) >= SHARED:
                first, second = (np.array([[scored[name][word] for word in shared]]) for name in (one, other))
                (rho,) = np.nan_to_num(spearman_rows(first, second)).tolist()  # 0 where all scores are the same
                cells.append({"one": one, "other": other, "rho": round(rho, 3), "n": len(shared)})
    compared = [cell for cell in cells if cell["one"] != cell["other"]]
    if len(compared) < 2:
        return None
    used = [label for label in labels if any(cell["one"] == label for cell in compared)]
    cells = [cell for cell in cells if cell["one"] in used]
    place: style.VegaSpec = {
        "x": style.names_axis("one", used, axis={"labelAngle": -35}),
        "y": style.names_axis("other", used),
    }
    scale = {"domain": [-1, 0, 1], "range": [style.PALETTE[2], "#f7f5f0", style.PALETTE[1]]}
    colour = style.number_axis("rho", "rank correlation", scale=scale, legend={"gradientLength": 150})
    ink = {"condition": {"test": "abs(datum.rho) > 0.6", "value": ON_CELLS[0]}, "value": ON_CELLS[1]}
    spec = style.chart(
        f"Rank correlation between the word scores of {len(used)} measures",
        data={"values": cells},
        width={"step": 52},
        height={"step": 30},
        layer=[
            style.layer("rect", {**place, "color": colour}),
            style.layer("text", {**place, "text": {"field": "rho", "format": ".2f"}, "color": ink}, aria=False),
        ],
    )
    index = {label: number for number, label in enumerate(used)}
    once = [cell for cell in compared if index[str(cell["one"])] < index[str(cell["other"])]]
    table = tuple((str(c["one"]), str(c["other"]), f"{c['rho']:.2f}", str(c["n"])) for c in once)
    caption = (
        "1: two measures order the words alike; 0: their orders are unrelated, so one cannot stand for the other; "
        "below 0: opposite. Before any method, over the words that two measures share (n in the table); blank: fewer "
        f"than {SHARED}. Seed {audit.seed}."
    )
    return Figure("Do the measures agree?", spec, ("measure", "measure", "rank correlation", "words"), table, caption)


def _scores(row: Row) -> dict[str, float]:
    column = "neighbours" if row.question.measure == "neighbours" else "value"
    items = (item for item in row.original.items if "word" in item and item.get(column) is not None)
    return {str(item["word"]).lower(): float(item[column]) for item in items}
