"""Specifications to pictures, offline, by vl-convert."""

from __future__ import annotations

import json
from typing import Any

VERSION = "5.21"


def svg(spec: dict[str, Any]) -> str:
    """An SVG picture."""
    import vl_convert  # 40 MB of renderer: only who draws pays

    drawn: str = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VERSION)
    return drawn


def png(spec: dict[str, Any], *, scale: float = 2.0) -> bytes:
    """A PNG picture."""
    import vl_convert

    drawn: bytes = vl_convert.vegalite_to_png(
        json.dumps({**spec, "background": "white"}), vl_version=VERSION, scale=scale
    )
    return drawn
