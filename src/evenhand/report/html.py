"""The report: one HTML file that needs nothing else, made from an audit."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evenhand import measures, words
from evenhand.audit.tradeoff import tradeoffs
from evenhand.files import write_text
from evenhand.report import charts, numbers
from evenhand.report.charts.axis import extremes, positions
from evenhand.report.tables import Row, by_family

if TYPE_CHECKING:
    from evenhand.audit import Audit

MANY_METHODS = 3
TOO_MANY_TO_TELL_APART = 6
ON_AN_AXIS = ("direct-bias", "ripa")


def write(audit: Audit, path: Path) -> Path:
    """Write the page, replacing an older one only when it is whole."""
    write_text(path, page(audit))
    return path


def page(audit: Audit) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("evenhand.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=numbers.number, interval=numbers.interval, p_value=numbers.p_value)
    style = (resources.files("evenhand.report") / "static" / "report.css").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(**_content(audit), style=Markup(style))


def _content(audit: Audit) -> dict[str, Any]:
    families = by_family(audit)
    concept = words.concept(audit.manifest["arguments"]["effective"]["concept"])
    return {
        "manifest": audit.manifest,
        "vectors": audit.manifest["vectors"],
        "stages": audit.stages,
        "families": families,
        "figures": _figures(audit, [row for rows in families.values() for row in rows]),
        "infos": [measures.info(name) for name in dict.fromkeys(case.measure for case in audit.cases)],
        "concept": concept,
        "record": json.dumps(audit.manifest, indent=1),
    }


def _figures(audit: Audit, rows: list[Row]) -> list[dict[str, Any]]:
    figures = [_tradeoff_figure(audit)] if len(audit.stages) > MANY_METHODS else []
    if len(audit.stages) > TOO_MANY_TO_TELL_APART:
        return figures
    weat = [row for row in rows if row.case.measure == "weat"]
    if any(cell.value is not None for row in weat for cell in row.cells.values()):
        spec = charts.effect_forest(weat, "WEAT effect size")
        figures.append(
            {"title": "Association tests, before and after", "svg": picture(spec), "alt": spec["description"]}
        )
    # Direct bias first: it asks every stage about one and the same direction, that of the original vectors.
    on_an_axis = [row for name in ON_AN_AXIS for row in rows if row.case.measure == name and row.original.items]
    return figures + [_axis_figure(row) for row in on_an_axis[:1]]


def _tradeoff_figure(audit: Audit) -> dict[str, Any]:
    places = tradeoffs(audit)
    spec = charts.tradeoff(places)
    shares = [[f"{100 * p.bias_left:.0f} %", f"{100 * p.quality_kept:.0f} %"] for p in places]
    return {
        "title": "Bias left against quality kept",
        "svg": picture(spec),
        "alt": spec["description"],
        "columns": ["method", "bias left", "quality kept"],
        "table": [[place.method, *cells] for place, cells in zip(places, shares, strict=True)],
    }


def _axis_figure(row: Row) -> dict[str, Any]:
    spec = charts.axis_extremes(row)
    chosen = extremes(row)
    values = {(item["word"], item["stage"]): item["value"] for item in positions(row, chosen)}
    table = [[word, *(numbers.number(values.get((word, stage))) for stage in row.cells)] for word in chosen]
    return {
        "title": f"Words at the two ends of an axis ({row.label})",
        "svg": picture(spec),
        "alt": spec["description"],
        "columns": ["word", *row.cells],
        "table": table,
    }


def picture(spec: dict[str, Any]) -> Markup:
    """The SVG without its fixed size, so that it shrinks on a small screen; its view box keeps the proportions."""
    opening, _, rest = charts.svg(spec).partition(">")
    width = re.search(r' width="([\d.]+)"', opening)
    bare = re.sub(r' (?:width|height)="[\d.]+"', "", opening)
    return Markup(f'{bare} style="max-width:{width[1] if width else 700}px">{rest}')
