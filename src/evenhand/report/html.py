"""The report: one self-contained HTML file made from an audit."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evenhand import measures
from evenhand.audit import rank
from evenhand.files import write_text
from evenhand.printable import printable
from evenhand.report import charts, numbers
from evenhand.report.tables import by_family

if TYPE_CHECKING:
    from evenhand.audit import Audit

KINDS = {"nli": "NLI model", "lm": "language model", "encoder": "encoder", "corpus": "corpus"}


def write(audit: Audit, path: Path) -> Path:
    """Write the page, replacing an older one only when it is whole."""
    write_text(path, page(audit))
    return path


def page(audit: Audit) -> str:
    """Return the page as text."""
    environment = page_environment()
    environment.filters.update(
        number=numbers.number,
        interval=numbers.interval,
        p_value=numbers.p_value,
        words=numbers.words,
        mark=numbers.mark,
    )
    style = (resources.files("evenhand.report") / "static" / "report.css").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(**_content(audit), style=Markup(style))


def page_environment() -> Environment:
    """Return the environment of our templates: markup is escaped, and words and names are printable."""
    return Environment(
        loader=PackageLoader("evenhand.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable_text,
    )


def _printable_text(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _content(audit: Audit) -> dict[str, Any]:
    used = dict.fromkeys(result.question.measure for result in audit.results)
    return {
        "manifest": audit.manifest,
        "stages": audit.stage_names,
        "mitigated": audit.mitigated,
        "subjects": [_subject(audit, record) for record in audit.manifest["subjects"]],
        "ranking": rank(audit) if len(audit.subjects) > 1 else None,
        "infos": [measures.info(name) for name in used],
        "concept": audit.manifest["concept"],
        "record": json.dumps(audit.manifest, indent=1),
    }


def _subject(audit: Audit, record: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of one subject."""
    name = record["name"]
    drawn = [
        {"title": f.title, "svg": picture(f.spec), "alt": f.alt, "columns": f.columns, "table": f.table}
        for f in charts.figures(audit, name)
    ]
    stages = [stage for stage in audit.stages if stage.subject == name]
    return {
        "name": name, "about": _about(record), "sha256": record["sha256"], "families": by_family(audit, name),
        "figures": drawn, "stages": stages,
    }  # fmt: skip


def _about(record: dict[str, Any]) -> str:
    """Return a subject in a few words."""
    if "dimensions" in record:
        return f"{record['words']:,} words, {record['dimensions']} dimensions"
    return f"{KINDS.get(record['kind'], record['kind'])}, offers {', '.join(record['offers'])}"


def picture(spec: dict[str, Any]) -> Markup:
    """The SVG without its fixed size, so that it shrinks on a small screen; its view box keeps the proportions."""
    opening, _, rest = charts.svg(spec).partition(">")
    width = re.search(r' width="([\d.]+)"', opening)
    bare = re.sub(r' (?:width|height)="[\d.]+"', "", opening)
    return Markup(f'{bare} style="max-width:{width[1] if width else 700}px">{rest}')
