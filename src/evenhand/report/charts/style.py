"""One look for all charts: colours that the colour-blind can tell apart, and never pink and blue."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias, TypeVar

from evenhand.errors import printable

VegaSpec: TypeAlias = dict[str, object]
"""A Vega-Lite specification, or a part of one, which is only written."""
Item = TypeVar("Item")

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
INK = "#2b2b2b"
GRID = "#e4e0d8"
RULE = "#8d8778"  # reference lines
GREY = "#77736a"  # what is there for comparison only
# Dark to light as well as different in hue, so that a grey print still tells them apart.
DISTINGUISHABLE = 6  # stages that colours and shapes can tell apart
PALETTE = ("#2b2b2b", "#0b7a75", "#c26a00", "#6a4c93", "#738000", "#a65628", "#5c7c99", "#8d7d50")
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left")
# The same colours on a dark page. An SVG keeps the light ones as attributes, which these rules override.
DARK = {
    INK: "#eceae4",
    GRID: "#3b3833",
    RULE: "#8d8778",
    GREY: "#a8a398",
    "#888": "#8d8778",
    "#0b7a75": "#4db8b0",
    "#c26a00": "#f0a347",
    "#6a4c93": "#b79be0",
    "#738000": "#b5c443",
    "#a65628": "#d98a5f",
    "#5c7c99": "#8fb0cc",
    "#8d7d50": "#c2b183",
}
MOST_POINTS = 300  # of one panel: more make a large file and a blot


def colours(stages: Sequence[str]) -> dict[str, str]:
    """A colour for each stage, the original always in ink."""
    return {stage: PALETTE[i % len(PALETTE)] for i, stage in enumerate(stages)}


def nominal(field: str, range_of: Mapping[str, object], **more: object) -> VegaSpec:
    """A channel of names, with the colour, shape or dashes of each, in this order."""
    scale = {"domain": list(range_of), "range": list(range_of.values())}
    return {"field": field, "type": "nominal", "title": None, "scale": scale, **more}


def names_axis(field: str, order: Sequence[str], **more: object) -> VegaSpec:
    """A channel of names in an order, without a title."""
    return {"field": field, "type": "nominal", "title": None, "sort": list(order), **more}


def scales(stages: Sequence[str], **more: object) -> dict[str, VegaSpec]:
    """Colour and shape of the marks, which tell the same thing twice."""
    shapes = {stage: SHAPES[i % len(SHAPES)] for i, stage in enumerate(stages)}
    return {"color": nominal("stage", colours(stages), **more), "shape": nominal("stage", shapes, **more)}


def number_axis(field: str, title: str, **more: object) -> VegaSpec:
    """A channel of numbers with a title that says what they are."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def layer(mark: str, encoding: VegaSpec, *, transform: Sequence[VegaSpec] = (), **settings: object) -> VegaSpec:
    """A layer of marks (bar, line, text ...) with their settings; `transform` is done to its data first."""
    before = {"transform": list(transform)} if transform else {}
    return {**before, "mark": {"type": mark, **settings}, "encoding": encoding}


def dots(encoding: VegaSpec, *, size: int, transform: Sequence[VegaSpec] = (), **settings: object) -> VegaSpec:
    """A layer of filled marks."""
    return layer("point", encoding, transform=transform, **{"filled": True, "size": size, "opacity": 1, **settings})


def rule(encoding: VegaSpec, *, transform: Sequence[VegaSpec] = (), **settings: object) -> VegaSpec:
    """A layer of lines from one end to the other, such as intervals; readers hear of the marks on them instead."""
    return layer("rule", encoding, transform=transform, aria=False, **settings)


def reference_line(channel: Literal["x", "y"], value: float) -> VegaSpec:
    """A layer with one line at a value; without the aggregate it would be drawn once for each row of the data."""
    once: list[VegaSpec] = [{"aggregate": [{"op": "count", "as": "rows"}]}]
    return layer("rule", {channel: {"datum": value}}, transform=once, color=RULE)


def shared_domain(values: Sequence[float], *, around: float | None = None) -> list[float]:
    """Return one range for all panels, with a margin; symmetric around a value if one is given."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if around is not None:
        reach = max(abs(low - around), abs(high - around)) or 1.0
        low, high = around - reach, around + reach
    margin = 0.06 * ((high - low) or 1.0)
    return [round(low - margin, 6), round(high + margin, 6)]


def panels(layers: list[VegaSpec], field: str, order: Sequence[str], *, columns: int = 2, **size: object) -> VegaSpec:
    """The same layers once for each value of a field, some beside each other, on the same axes."""
    header = {"labelColor": INK, "labelFontSize": 12, "labelFontWeight": 600, "labelAnchor": "start"}
    facet = names_axis(field, order, header=header)
    return {"facet": facet, "columns": columns, "spec": {**size, "layer": layers}}


def both_ends(items: Sequence[Item], count: int) -> list[Item]:
    """Return the first and the last items of an ordered sequence, each once."""
    return [*items[:count], *items[max(count, len(items) - count) :]]


def spread(items: Sequence[Item], most: int = MOST_POINTS) -> list[Item]:
    """Return all items, or as many as `most`, spread evenly over the sequence."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def uncrowded(places: Mapping[str, tuple[float, float]], *, across: float = 0.25, along: float = 0.06) -> set[str]:
    """Return names whose labels do not run into that of an earlier one.

    Args:
        places: where each name lies.
        across: width of a label, as a share of the horizontal range.
        along: height of a label, as a share of the vertical range.
    """
    ranges = [max(axis) - min(axis) or 1.0 for axis in zip(*places.values(), strict=True)]
    kept: dict[str, tuple[float, float]] = {}
    for name, (x, y) in places.items():
        if not any(abs(x - u) < across * ranges[0] and abs(y - v) < along * ranges[1] for u, v in kept.values()):
            kept[name] = (x, y)
    return set(kept)


def chart(description: str, **parts: object) -> VegaSpec:
    """A specification with the shared configuration; the description is its alternative text."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "background": "transparent",
        # Text is measured with the renderer's own font and shown with the reader's, which may be wider.
        "padding": {"left": 30, "right": 14, "top": 5, "bottom": 5},
        "config": {
            "font": "Helvetica, Arial, sans-serif",
            "axis": {
                "labelColor": INK,
                "titleColor": INK,
                "gridColor": GRID,
                "labelLimit": 260,
                "labelFlush": False,
                "labelFontSize": 11,
                "titleFontSize": 12,
                "titleFontWeight": 500,
            },
            "legend": {"labelColor": INK, "titleColor": INK, "orient": "top", "labelFontSize": 11, "labelLimit": 260},
            "text": {"color": INK, "fontSize": 11},
            "view": {"stroke": None},
        },
        **parts,
    }


def dark_rules(selector: str) -> str:
    """Return CSS that gives the marks inside `selector` the colours of a dark page."""
    rules = [
        f'{selector} [{kind}="{light}"] {{ {kind}: {dark}; }}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    ]
    return "@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}\n"


VERSION = "5.21"
BACKSLASH = "\N{SET MINUS}"  # looks like a backslash


def svg(spec: VegaSpec) -> str:
    """An SVG picture."""
    return _svg(_document(spec))


@lru_cache(maxsize=64)
def _svg(document: str) -> str:
    import vl_convert  # 40 MB of renderer: only who draws pays

    drawn: str = vl_convert.vegalite_to_svg(document, vl_version=VERSION)
    return drawn


def png(spec: VegaSpec, *, scale: float = 2.0) -> bytes:
    """A PNG picture on a white ground."""
    import vl_convert

    drawn: bytes = vl_convert.vegalite_to_png(_document(on_white(spec)), vl_version=VERSION, scale=scale)
    return drawn


def pdf(spec: VegaSpec) -> bytes:
    """A PDF page of the size of the picture."""
    import vl_convert

    drawn: bytes = vl_convert.vegalite_to_pdf(_document(on_white(spec)), vl_version=VERSION)
    return drawn


def on_white(spec: VegaSpec) -> VegaSpec:
    """Return a specification for a page that may be dark, while the ink is."""
    return {**spec, "background": "white"}


def _document(spec: VegaSpec) -> str:
    """Return a specification as JSON whose strings the renderer can draw; it aborts the process on some characters."""
    return json.dumps(_drawable(spec))


def _drawable(part: object) -> object:
    if isinstance(part, str):
        # Vega evaluates backslash escapes in titles, and line breaks end its expressions.
        return re.sub(r"[\n\t]", " ", printable(part)).replace("\\", BACKSLASH)
    if isinstance(part, Mapping):
        return {_drawable(key): _drawable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(item) for item in part]
    return part
