"""One HTML file about two texts: the regression, its scatter, and the same as tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from evenhand.corpus.comparison import Comparison, Point
from evenhand.files import write_text
from evenhand.report.charts.style import INK, PALETTE, chart
from evenhand.report.html import page_environment, picture

MOVED = 25  # words in the table of those that moved most
LEAST = 10  # occurrences in both texts that a word of that table has


def write_comparison(
    comparisons: Mapping[str, Comparison], path: Path, *, names: tuple[str, str], perplexity: str = ""
) -> Path:
    """Write the page, replacing an older one only when it is whole."""
    write_text(path, comparison_page(comparisons, names=names, perplexity=perplexity))
    return path


def comparison_page(comparisons: Mapping[str, Comparison], *, names: tuple[str, str], perplexity: str = "") -> str:
    """The page as text; each context is a section."""
    style = (resources.files("evenhand.report") / "static" / "report.css").read_text(encoding="utf-8")
    sections = [_section(name, comparison, names) for name, comparison in comparisons.items()]
    template = page_environment().get_template("comparison.html")
    return template.render(sections=sections, names=names, perplexity=perplexity, style=Markup(style))


def _section(name: str, comparison: Comparison, names: tuple[str, str]) -> dict[str, Any]:
    spec = bias_scatter(comparison, names)
    params = comparison.second.params
    reach = f"decay {params['decay']}" if params["decay"] else f"window of {params['window']} words"
    return {
        "title": f"{name.capitalize()} context ({reach})",
        "svg": picture(spec),
        "alt": spec["description"],
        "drawn": len(shown_points(comparison)),
        "words": comparison.beta.words,
        "table": _numbers(comparison),
        "moved": _moved(comparison),
        "positive": comparison.second.positive,
    }


def _numbers(comparison: Comparison) -> list[tuple[str, str, str]]:
    one, other, beta = comparison.first, comparison.second, comparison.beta
    bases = [f"{b.baseline.mu:.3f}" if b.baseline else "" for b in (one, other)]
    rows: list[tuple[str, str, str]] = [
        ("tokens", f"{one.tokens:,}", f"{other.tokens:,}"),
        *((f"{group} words", f"{one.hits[group]:,}", f"{other.hits[group]:,}") for group in one.hits),
        ("words scored", f"{one.n:,}", f"{other.n:,}"),
        ("mean |bias|", comparison.text("first_mu"), comparison.text("mu")),
        ("... with shuffled labels", bases[0], bases[1]),
        ("standard deviation", comparison.text("first_sigma"), comparison.text("sigma")),
        ("... corrected for noise", comparison.corrected_text("first_sigma"), comparison.corrected_text("sigma")),
        ("beta", "", comparison.text("beta")),
        ("... corrected for noise", "", comparison.corrected_text("beta")),
        ("... with outliers", "", f"{beta.untrimmed:.3f}"),
        ("... Theil-Sen", "", f"{beta.theil_sen:.3f}"),
    ]
    return [row for row in rows if any(row[1:])]


def _moved(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    return [
        (p["word"], f"{p['first']:+.2f}", f"{p['second']:+.2f}", f"{p['second'] - p['first']:+.2f}")
        for p in comparison.moved(MOVED, min_occurrences=LEAST)
    ]


MOST = 2_000  # points drawn; more would make a file of many megabytes and a single blot


def shown_points(comparison: Comparison, most: int = MOST) -> list[Point]:
    """The words to draw: all, or as many drawn evenly, the same ones each time."""
    points = comparison.points()
    if len(points) <= most:
        return points
    chosen = np.sort(np.random.default_rng(0).choice(len(points), most, replace=False))
    return [points[i] for i in chosen]


def bias_scatter(comparison: Comparison, names: tuple[str, str] = ("first", "second")) -> dict[str, Any]:
    """A dot for each word, the regression line without outliers, and the diagonal on which nothing has changed."""
    points = shown_points(comparison)
    beta, positive = comparison.beta, comparison.second.positive
    # The line is drawn over the words it was fitted to, give or take a few.
    ends = np.quantile([point["first"] for point in comparison.points()], [0.005, 0.995])
    line = [{"x": float(x), "y": beta.intercept + beta.trimmed * float(x), "line": f"beta {beta:.2f}"} for x in ends]
    same = [{"x": float(x), "y": float(x), "line": "as in the first text"} for x in ends]
    lines = [line[0]["line"], same[0]["line"]]
    x = {"field": "first", "type": "quantitative", "title": f"bias in {names[0]} (above 0: {positive})"}
    y = {"field": "second", "type": "quantitative", "title": f"bias in {names[1]}"}
    told = {"field": "line", "type": "nominal", "title": None}
    dashes = {**told, "scale": {"domain": lines, "range": [[1, 0], [5, 4]]}}
    colour = {**told, "scale": {"domain": lines, "range": [PALETTE[2], INK]}}
    return chart(
        f"Scores of {len(points):,} of {beta.words:,} words in {names[1]} against {names[0]}; slope {beta:.2f}",
        width=470,
        height=400,
        layer=[
            {
                "data": {"values": points},
                "mark": {"type": "point", "filled": True, "size": 12, "opacity": 0.35, "color": PALETTE[1]},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": line + same},
                "mark": {"type": "line", "strokeWidth": 2, "clip": True},
                "encoding": {
                    "x": {"field": "x", "type": "quantitative"},
                    "y": {"field": "y", "type": "quantitative"},
                    "color": colour,
                    "strokeDash": dashes,
                },
            },
        ],
    )
