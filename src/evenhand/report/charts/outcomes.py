"""Charts of what groups get: the rates of decisions about them, and what judges give to texts about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.audit import Audit
from evenhand.audit.record import Row
from evenhand.measures import Measurement
from evenhand.report.charts import style
from evenhand.report.charts.figure import Figure, drawn_rows, drawn_stages, register_chart, with_interval

# The rows that are drawn, in this order, and what their items are.
PANELS = {
    "demographic-parity-difference": "selection rate",
    "equal-opportunity-difference": "true positive rate",
    "false-positive-rate-difference": "false positive rate",
    "predictive-parity-difference": "precision",
    "accuracy-difference": "accuracy",
}
MOST_GROUPS = 16  # of a grouping: more lines cannot be read
OFFSET = 7  # points between the marks of two stages


@register_chart("group-metrics", family="outcomes", place="bias")
def group_metrics(audit: Audit, subject: str) -> Figure | None:
    """Draw the rates of each group with their intervals, on each stage."""
    every = [row for row in drawn_rows(audit, subject, "group-metrics") if row.original.score in PANELS]
    every = [row for row in every if row.original.items]
    if not every:
        return None
    groupings = list(dict.fromkeys(row.question.query for row in every))
    drawn = [row for row in every if row.question.query == groupings[0]]
    stages = drawn_stages(drawn[0])
    groups = _groups(drawn[0].original)
    values = [value for row in drawn for stage in stages for value in _values(row, stage, groups)]
    titles = [PANELS[row.original.score] for row in drawn]
    spec = style.chart(
        f"Rates of {len(groups)} groups of {groupings[0]} with 95 % intervals: {', '.join(titles)}",
        data={"values": values},
        **style.panels(_layers(stages, groups), "rate", titles, width=230, height=_height(stages)),
    )
    table = tuple((group, *(_cell(row, stage, group) for row in drawn for stage in stages)) for group in groups)
    heads = [
        PANELS[row.original.score] + (f", {stage}" if len(stages) > 1 else "") for row in drawn for stage in stages
    ]
    return Figure(
        f"Rates by {groupings[0]}", spec, ("group", *heads), table, _caption(audit, drawn[0], groupings, groups)
    )


def _height(stages: Sequence[str]) -> dict[str, float | str]:
    """Return the height of a group; without `for`, the marks of each stage would have it."""
    return {"step": 14 + OFFSET * len(stages), **({"for": "position"} if len(stages) > 1 else {})}


def _groups(measurement: Measurement) -> list[str]:
    """Return the groups that are drawn: all of them, or the largest."""
    ordered = sorted(measurement.items, key=lambda item: -int(item["n"]))[:MOST_GROUPS]
    return sorted(str(item["word"]) for item in ordered)


def _values(row: Row, stage: str, groups: Sequence[str]) -> list[style.VegaSpec]:
    cell = row.cells.get(stage)
    return [
        {
            "rate": PANELS[row.original.score],
            "stage": stage,
            "group": str(item["word"]),
            **with_interval(item["value"], item["interval"]),
        }
        for item in (cell.items if cell is not None else ())
        if str(item["word"]) in groups
    ]


def _layers(
    stages: Sequence[str], groups: Sequence[str], *, what: str = "share", domain: Sequence[float] = (0, 1)
) -> list[style.VegaSpec]:
    several = len(stages) > 1
    offset = {"field": "stage", "type": "nominal", "sort": list(stages)}
    shared: style.VegaSpec = {"y": style.names_axis("group", groups), **({"yOffset": offset} if several else {})}
    marks = style.scales(stages) if several else style.scales(stages, legend=None)
    x = style.number_axis(
        "value", f"{what}, with its 95 % interval", scale={"domain": list(domain)}, axis={"format": "%"}
    )
    ends = {"x": {**x, "field": "low"}, "x2": {"field": "high"}}
    return [
        style.rule({**shared, **ends, "color": marks["color"] if several else {"value": style.INK}}, strokeWidth=1.5),
        style.dots({**shared, "x": x, **marks, "description": {"field": "group"}}, size=55),
    ]


def _cell(row: Row, stage: str, group: str) -> str:
    cell = row.cells.get(stage)
    found = next((item for item in (cell.items if cell is not None else ()) if str(item["word"]) == group), None)
    if found is None:
        return "–"
    low, high = found["interval"]
    return f"{found['value']:.1%} [{low:.1%}, {high:.1%}], n = {found['n']:,}"


def _caption(audit: Audit, row: Row, groupings: Sequence[str], groups: Sequence[str]) -> str:
    others = f" Not drawn: {', '.join(groupings[1:])}, see the tables." if len(groupings) > 1 else ""
    hidden = len(row.original.items) - len(groups)
    others += f" The {hidden} smallest groups are not drawn." if hidden > 0 else ""
    return (
        "Points at the same place are ideal: the groups are treated alike. Where labels are not equally often "
        f"positive, not all panels can be equal at once. Lines are 95 % intervals of each group.{others} "
        f"n = {row.original.n:,} rows, seed {audit.seed}."
    )


MOST_JUDGES = 6


@register_chart("judged-generations", family="text", place="bias")
def judged_generations(audit: Audit, subject: str) -> Figure | None:
    """Draw what each judge gives the texts about each group, with the gap that the judge has by itself."""
    every = [
        row for row in drawn_rows(audit, subject, "judged-generations") if row.original.score == "expected-maximum"
    ]
    row = next((row for row in every if _by_group(row.original)), None)
    if row is None:
        return None
    stages = [stage for stage, cell in row.cells.items() if _by_group(cell)][: style.DISTINGUISHABLE]
    judges = list(_by_group(row.original))[:MOST_JUDGES]
    groups = list(_by_group(row.original)[judges[0]])
    titles = {name: f"{name}: P({row.original.details['judges'][name]['label']})" for name in judges}
    values = [
        {"rate": titles[judge], "stage": stage, "group": group} | with_interval(entry["mean"], entry["interval"])
        for stage in stages
        for judge, by_group in _by_group(row.cells[stage]).items()
        if judge in titles
        for group, entry in by_group.items()
    ]
    domain = [0, round(max(0.05, *(float(value["high"]) for value in values)) * 1.05, 3)]
    spec = style.chart(
        f"Mean verdict of {len(judges)} judges on texts about {len(groups)} groups, with 95 % intervals",
        data={"values": values},
        **style.panels(
            _layers(stages, groups, what="mean verdict", domain=domain), "rate", list(titles.values()), width=230,
            height=_height(stages),
        ),
    )  # fmt: skip
    table = tuple(
        (judge, stage, *(_entry(_by_group(row.cells[stage]).get(judge, {}).get(group)) for group in groups),
         _own_gap(row.cells[stage], judge, groups[0]))
        for judge in judges
        for stage in stages
    )  # fmt: skip
    caption = (
        "Points at the same place are ideal: the judge gives the texts about all groups the same. Read the last column "
        "of the table first: what the judge gives the same sentences about a group, before a model writes. Lines are "
        f"95 % intervals over prompts. Row {row.label}, n = {row.original.n:,} prompts, seed {audit.seed}."
    )
    heads = ("judge", "stage", *groups, "gap of the judge alone")
    return Figure("What judges say of the texts", spec, heads, table, caption)


def _by_group(measurement: Measurement) -> dict[str, dict[str, Any]]:
    """Return the verdicts by judge and group; empty where there are none."""
    judges = measurement.details.get("judges", {})
    return {name: entry["by_group"] for name, entry in judges.items() if entry.get("by_group")}


def _entry(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "–"
    limits = entry["interval"]
    return f"{entry['mean']:.3f}" + (f" [{limits[0]:.3f}, {limits[1]:.3f}]" if limits else "")


def _own_gap(measurement: Measurement, judge: str, first: str) -> str:
    found = measurement.details["judges"][judge].get("own_gap", {})
    shown = [
        f"{score.partition(':')[2] or first} {entry['value']:+.3f}"
        for score, entry in found.items()
        if entry["value"] is not None
    ]
    return ", ".join(shown) or "–"
