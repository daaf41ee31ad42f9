"""One look for all charts: colours that the colour-blind can tell apart, and never pink and blue."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.printable import printable

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
INK = "#2b2b2b"
# Dark to light as well as different in hue, so that a grey print still tells them apart.
DISTINGUISHABLE = 6  # stages that colours and shapes can tell apart
PALETTE = ("#2b2b2b", "#0b7a75", "#d17a00", "#6a4c93", "#8a9a00", "#a65628", "#5c7c99", "#b0a078")
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left")


def colours(stages: Sequence[str]) -> dict[str, str]:
    """A colour for each stage, the original always in ink."""
    return {stage: PALETTE[i % len(PALETTE)] for i, stage in enumerate(stages)}


def scales(stages: Sequence[str]) -> dict[str, Any]:
    """Colour and shape of the marks, which tell the same thing twice."""
    chosen = list(colours(stages).values())
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(stages))]
    return {
        "color": {
            "field": "stage",
            "type": "nominal",
            "title": "vectors",
            "scale": {"domain": list(stages), "range": chosen},
        },
        "shape": {
            "field": "stage",
            "type": "nominal",
            "title": "vectors",
            "scale": {"domain": list(stages), "range": shapes},
        },
    }


def chart(description: str, **parts: Any) -> dict[str, Any]:
    """A specification with the shared configuration; the description is its alternative text."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "background": "transparent",
        # Text is measured with the renderer's own font and shown with the reader's, which may be wider.
        "padding": {"left": 50, "right": 10, "top": 5, "bottom": 5},
        "config": {
            "font": "Helvetica, Arial, sans-serif",
            "axis": {
                "labelColor": INK,
                "titleColor": INK,
                "gridColor": "#e4e0d8",
                "labelLimit": 260,
                "titleFontWeight": 500,
            },
            "legend": {"labelColor": INK, "titleColor": INK, "orient": "top"},
            "view": {"stroke": None},
        },
        **parts,
    }


VERSION = "5.21"
BACKSLASH = "\N{SET MINUS}"  # looks like a backslash


def svg(spec: dict[str, Any]) -> str:
    """An SVG picture."""
    import vl_convert  # 40 MB of renderer: only who draws pays

    drawn: str = vl_convert.vegalite_to_svg(_document(spec), vl_version=VERSION)
    return drawn


def png(spec: dict[str, Any], *, scale: float = 2.0) -> bytes:
    """A PNG picture."""
    import vl_convert

    drawn: bytes = vl_convert.vegalite_to_png(
        _document({**spec, "background": "white"}), vl_version=VERSION, scale=scale
    )
    return drawn


def _document(spec: dict[str, Any]) -> str:
    """Return a specification as JSON whose strings the renderer can draw; it aborts the process on some characters."""
    return json.dumps(_drawable(spec))


def _drawable(part: Any) -> Any:
    if isinstance(part, str):
        # Vega evaluates backslash escapes in titles, and line breaks end its expressions.
        return re.sub(r"[\n\t]", " ", printable(part)).replace("\\", BACKSLASH)
    if isinstance(part, Mapping):
        return {_drawable(key): _drawable(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(item) for item in part]
    return part
