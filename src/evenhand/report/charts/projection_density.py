"""Density of projections: where the words of each group, and neutral words, lie along the concept's direction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evenhand.audit import Audit
from evenhand.report import numbers
from evenhand.report.charts.figure import Figure, drawn_rows, register_chart
from evenhand.report.charts.style import (
    DISTINGUISHABLE,
    GREY,
    PALETTE,
    chart,
    nominal,
    number_axis,
    panels,
    reference_line,
    shared_domain,
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
    for stage, cell in list(row.cells.items())[:DISTINGUISHABLE]:
        named = {**cell.details.get("groups", {}), neutral: [float(item["value"]) for item in cell.items]}
        groups |= {(stage, name): values for name, values in named.items() if len(values) >= FEWEST}
    if not groups:
        return None
    stages = list(dict.fromkeys(stage for stage, _ in groups))
    names = list(dict.fromkeys(name for _, name in groups))
    domain = shared_domain([value for values in groups.values() for value in values])
    colour = {name: GREY if name == neutral else PALETTE[1 + i % 7] for i, name in enumerate(names)}
    values = [
        {"stage": stage, "group": name, "cosine": x, "density": y}
        for (stage, name), some in groups.items()
        for x, y in density(some, domain)
    ]
    legend = {"symbolOpacity": 1, "symbolType": "square"}
    layer = [
        reference_line("x", 0),
        {
            "mark": {"type": "area", "opacity": 0.18, "aria": False},
            "encoding": {
                "x": number_axis("cosine", "cosine with the direction", scale={"domain": domain}),
                "y": number_axis("density", "density", stack=None),
                "color": {**nominal("group", colour), "legend": legend},
            },
        },
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {
                "x": {"field": "cosine", "type": "quantitative"},
                "y": {"field": "density", "type": "quantitative"},
                "color": nominal("group", colour),
                "strokeDash": nominal("group", dashes(names)),
            },
        },
    ]
    spec = chart(
        f"Density of the cosines with the {audit.concept} direction of {len(names)} lists of words on "
        f"{len(stages)} stages",
        data={"values": values},
        **panels(layer, "stage", stages, width=230, height=130),
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
