"""Draw the pictures of the documentation from the embedded vectors, with the charts of the report.

    python scripts/docs_pictures.py

They have a white background, because the site also has a dark scheme.
"""

from __future__ import annotations

from pathlib import Path

import vl_convert

from evenhand.audit import Audit
from evenhand.report.charts import CHARTS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURES = {  # where it goes: the chart, the methods of the audit and its measures
    "measures/weat.svg": ("effect-sizes", ["linear", "leace"], ["weat"]),
    "measures/words-on-the-axis.svg": ("extreme-words", ["linear"], ["direct-bias"]),
}


def draw(chart: str, methods: list[str], measures: list[str]) -> str:
    """Return a chart of an audit of the embedded vectors as SVG."""
    audit = Audit.run("glove-embedded", methods=methods, measures=measures, seed=0)
    figure = CHARTS.get(chart)(audit, audit.subjects[0])
    if figure is None:
        raise SystemExit(f"{chart} has nothing to show of {', '.join(measures)}")
    return str(vl_convert.vegalite_to_svg({**figure.spec, "background": "white"}))


if __name__ == "__main__":
    for place, settings in PICTURES.items():
        (DOCS / place).write_text(draw(*settings), encoding="utf-8")
        print(place)
