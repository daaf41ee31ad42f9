"""`audit.plot(...)` and `measurement.plot()`: figures that a notebook shows, by chart, measure or row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from evenhand.audit import Audit
from evenhand.audit.record import VIEWS, Row, rows
from evenhand.errors import UsageError, printable, unknown_name
from evenhand.measures import Measurement, numbers
from evenhand.measures.measurement import PLOTS, MeasuredItem
from evenhand.measures.registry import IDEALS, ids, info
from evenhand.report.charts import style
from evenhand.report.charts.figure import BETTER, CHARTS, Figure, drawn_measures, figures, find_figure, with_interval
from evenhand.report.charts.scores import forest_figure

MOST_ITEMS = 30  # bars of one figure: half of them from each end
NAMES = ("word", "pair", "target", "sentence", "item", "text")  # what an item of a measurement is called


@VIEWS.register("plot")
def plot(audit: Audit, what: str = "", subject: str = "") -> Figure:
    """Return a figure of an audit.

    Args:
        audit: the audit.
        what: the id of a chart ("effect-sizes"), a measure ("weat") or a row ("weat-6"). A measure is drawn by its own
            chart, or else by the values and intervals of its rows. Empty for the first chart with something to show.
        subject: whose rows are drawn, where there are several subjects.
    """
    if subject and subject not in audit.subjects:
        raise unknown_name("subject", subject, audit.subjects)
    of = subject or audit.subjects[0]
    if not what:
        drawn = figures(audit, of)
        if not drawn:
            raise UsageError("this audit has nothing to draw", hint="measure more: evenhand list measures")
        return drawn[0]
    if what in CHARTS.ids():
        return find_figure(audit, what, subject)
    every = rows(audit, of)
    if what in ids():
        own = [id for id in CHARTS.ids() if what in drawn_measures(id)]
        named = figures(audit, of, own) if own else []
        chosen = [row for row in every if row.question.measure == what]
        if not chosen:
            raise UsageError(f"this audit has no row of {what}", hint=f"it has {', '.join(audit.labels)}")
        return named[0] if named else _values(audit, chosen, info(what).title)
    label = audit.find_label(what)
    return _values(audit, [row for row in every if row.label == label], label)


def _values(audit: Audit, chosen: Sequence[Row], title: str) -> Figure:
    """Return the values of some rows with their intervals."""
    better = {row.info.better_score(row.original.score) for row in chosen}
    caption = f"{BETTER[better.pop()].capitalize()}." if len(better) == 1 else ""
    figure = forest_figure(audit, chosen, title, "value", caption)
    if figure is None:
        reason = next((row.original.reason for row in chosen if row.original.reason), "it has no value")
        raise UsageError(f"{title} cannot be drawn: {reason}")
    return replace(figure, id=chosen[0].question.measure)


@PLOTS.register("plot")
def plot_measurement(measured: Measurement) -> Figure:
    """Return the items of a measurement, the most extreme ones; or its value with the interval, if it has none."""
    if measured.value is None:
        raise UsageError(f"{measured.label} has no value to draw: {measured.reason}")
    shown = f"{numbers.value(measured)} {numbers.interval(measured)}".strip()
    items = [(_name(item), float(item["value"])) for item in measured.items if _is_drawable(item)]
    chosen = style.both_ends(
        sorted(items, key=lambda item: -item[1]), MOST_ITEMS // 2
    )  # the middle of many is left out
    spec = _bars(measured, chosen) if items else _interval(measured, measured.value)
    table = tuple((name, numbers.number(value)) for name, value in chosen) or ((measured.label, shown),)
    left_out = f" {MOST_ITEMS} of {len(items)} are drawn." if len(items) > MOST_ITEMS else ""
    caption = f"{measured.reading.rstrip('.')}.{left_out}" if measured.reading else left_out.strip()
    return Figure(f"{measured.label}: {shown}", spec, ("item" if items else "row", "value"), table, caption, id="plot")


def _is_drawable(item: MeasuredItem) -> bool:
    value = item.get("value")
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(_name(item))


def _name(item: MeasuredItem) -> str:
    return next((printable(str(item[name])) for name in NAMES if item.get(name) is not None), "")


def _bars(measured: Measurement, items: Sequence[tuple[str, float]]) -> style.VegaSpec:
    counts: Counter[str] = Counter()
    points: list[style.VegaSpec] = []
    for name, value in items:
        counts[name] += 1  # two items of one name are two bars
        shown = f"{name} ({counts[name]})" if counts[name] > 1 else name
        points.append({"item": shown, "value": value, "side": "above 0" if value > 0 else "below 0"})
    side = f" (positive: {measured.positive})" if measured.positive else ""
    encoding: style.VegaSpec = {
        "y": style.names_axis("item", [str(point["item"]) for point in points]),
        "x": style.number_axis("value", f"value of an item{side}"),
        "color": style.nominal("side", {"above 0": style.PALETTE[1], "below 0": style.PALETTE[2]}, legend=None),
        "description": {"field": "item"},
    }
    return style.chart(
        f"The value of {len(items)} items of {measured.label}, the largest first",
        data={"values": points},
        width=430,
        height={"step": 16},
        layer=[style.layer("bar", encoding, height=9), style.reference_line("x", 0)],
    )


def _interval(measured: Measurement, value: float) -> style.VegaSpec:
    better = info(measured.measure).better_score(measured.score) if measured.measure in ids() else "zero"
    y = {"field": "row", "type": "nominal", "title": None}
    return style.chart(
        f"The value of {measured.label} with its 95 % interval",
        data={"values": [{"row": measured.label} | with_interval(value, measured.interval)]},
        width=430,
        layer=[
            style.reference_line("x", IDEALS.get(better, 0.0)),
            style.rule({"y": y, "x": style.number_axis("low", "value"), "x2": {"field": "high"}}, strokeWidth=1.5),
            style.dots({"y": y, "x": {"field": "value", "type": "quantitative"}}, size=60, color=style.PALETTE[0]),
        ],
    )
