"""The report: one self-contained HTML file made from an audit."""

from __future__ import annotations

import json
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from evenhand import measures, mitigations
from evenhand.audit import rank
from evenhand.audit.plan import split_chain
from evenhand.audit.record import VIEWS
from evenhand.data.citations import bibtex, short_citation
from evenhand.errors import printable
from evenhand.files import write_text
from evenhand.measures import numbers
from evenhand.report import charts, run_comparison
from evenhand.report.charts.style import dark_rules
from evenhand.report.findings import (
    CORRECTION,
    HEADINGS,
    Finding,
    FindingKind,
    capital,
    findings,
    headline,
    under_headings,
    unmeasured_reasons,
)
from evenhand.report.run_comparison import RunComparison, described
from evenhand.report.scorecard import MEANINGS, SIGNS, ScoreRow, score_card, side_by_side
from evenhand.report.tables import FAMILIES, by_family, kind_name

if TYPE_CHECKING:
    from evenhand.audit import Audit


@VIEWS.register("html")
def write(audit: Audit, path: Path) -> Path:
    """Write the page, replacing an older one only when it is whole."""
    write_text(path, page(audit))
    return path


def page(audit: Audit) -> str:
    """Return the page as text."""
    return render("report.html", **_content(audit))


def runs_page(comparison: RunComparison) -> str:
    """Return the page of several runs side by side."""
    record = comparison.record
    return render(
        "runs.html",
        **shared_content(record),
        runs=[described(name, audit) for name, audit in comparison.runs.items()],
        first=comparison.names[0],
        findings=grouped_findings(comparison.findings(), record.subjects, run_comparison.HEADINGS),
        correction=f"{capital(run_comparison.CORRECTION)}.",
    )


def render(template: str, **content: object) -> str:
    """Fill one of our templates; every page has the same style sheet and script."""
    return page_environment().get_template(template).render(**content, style=page_style(), script=page_script())


def page_style() -> Markup:
    """Return the style sheet of our pages, with the colours of charts on a dark page."""
    return Markup(_static("report.css") + dark_rules(".picture"))


def page_script() -> Markup:
    """Return the script of our pages, which sorts and filters tables; they are complete without it."""
    return Markup(_static("report.js"))


def _static(name: str) -> str:
    return (resources.files("evenhand.report") / "static" / name).read_text(encoding="utf-8")


def anchor(label: str, subject: int) -> str:
    """Return the id of a row on the page: letters and digits only, unique to the label."""
    plain = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
    return f"row-{subject}-{plain}-{zlib.crc32(label.encode(errors='surrogatepass')):08x}"


def page_environment() -> Environment:
    """Return the environment of our templates: markup is escaped, and words and names are printable."""
    environment = Environment(
        loader=PackageLoader("evenhand.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable_text,
    )
    environment.filters.update(
        number=numbers.number,
        value=numbers.value,
        interval=numbers.interval,
        p_value=numbers.p_value,
        words=numbers.words,
        mark=numbers.mark,
        anchor=lambda row, subject: anchor(row.label, subject),
    )
    return environment


def _printable_text(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class Notes:
    """Long texts that cells share: each is shown once, below the tables, under a number."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """Return the number of a text as "note 1"."""
        if text not in self.texts:
            self.texts.append(text)
        return f"note {self.texts.index(text) + 1}"


def _content(audit: Audit) -> dict[str, Any]:
    return {
        **shared_content(audit),
        "mitigated": audit.mitigated,
        "compared": [
            record["compared_with"]["name"] for record in audit.manifest["subjects"] if "compared_with" in record
        ],
        "headline": headline(audit),
        "beside": side_by_side_table(audit),
        "findings": grouped_findings(
            findings(audit), audit.subjects, reasons={name: unmeasured_reasons(audit, name) for name in audit.subjects}
        ),
        "correction": capital(CORRECTION),
        "ranking": rank(audit) if len(audit.subjects) > 1 else None,
        "command": _command(audit),
        "record": json.dumps(audit.manifest, indent=1),
    }


def shared_content(audit: Audit) -> dict[str, Any]:
    """Return what the page of a run and the page of several runs both show."""
    used = dict.fromkeys(result.question.measure for result in audit.results)
    keys = list(dict.fromkeys(key for name in used for key in measures.info(name).cites))
    keys += [key for key in _method_citations(audit) if key not in keys]
    return {
        "manifest": audit.manifest,
        "concept": audit.manifest["concept"],
        "subjects": [_subject(audit, record, number) for number, record in enumerate(audit.manifest["subjects"])],
        "signs": SIGNS,
        "meanings": MEANINGS,
        "infos": [measures.info(name) for name in used],
        "papers": [short_citation(key) for key in keys],
        "bibtex": "\n\n".join(bibtex(key) for key in keys),
    }


def side_by_side_table(audit: Audit) -> dict[str, Any]:
    """Return what the table of several subjects shows; without rows where there is one subject."""
    lines = side_by_side(audit)
    used = {cell.state for line in lines for cell in line.cells.values() if cell is not None}
    states = [state for state in SIGNS if state in used]
    ranks = rank(audit).mean_ranks if lines else {}
    return {"subjects": audit.subjects, "rows": lines, "states": states, "ranks": ranks}


def grouped_findings(
    found: Sequence[Finding],
    subjects: Sequence[str],
    headings: Mapping[FindingKind, str] = HEADINGS,
    reasons: Mapping[str, Mapping[str, Mapping[str, list[str]]]] | None = None,
) -> list[dict[str, object]]:
    """Return findings under their headings, each with the id of its row, and all reasons for values that are missing.

    Args:
        found: the findings.
        subjects: names of what was audited.
        headings: the heading of each kind.
        reasons: of each subject, what `unmeasured_reasons` returns.
    """
    groups: dict[str, list[dict[str, object]]] = {}
    for title, group in under_headings(found, headings, several=len(subjects) > 1):
        for finding in group:
            link = anchor(finding.label, list(subjects).index(finding.subject)) if finding.label else ""
            item = {**finding.to_dict(), "anchor": link, "reasons": {}}
            if finding.kind == "unmeasured" and reasons is not None:
                states = list(reasons[finding.subject].values())
                item["reasons"] = states[sum(other["kind"] == "unmeasured" for other in groups.get(title, ()))]
            groups.setdefault(title, []).append(item)
    return [{"title": title, "findings": group} for title, group in groups.items()]


def _method_citations(audit: Audit) -> list[str]:
    """Return the papers of the methods of the audit, in their order; methods of other packages have none here."""
    steps = [step for stage in audit.mitigated for step in split_chain(stage)]
    ids = dict.fromkeys(re.split(r"[(@]", step)[0] for step in steps)
    return [key for id in ids if id in mitigations.ids() for key in mitigations.get(id).cites]


def _command(audit: Audit) -> str:
    """Return the command that repeats the audit; for a record of version 0.2, which held none, as far as it tells."""
    arguments = audit.manifest["arguments"]
    if "command" in arguments:
        return str(arguments["command"])
    plan = audit.manifest["arguments"]["effective"]
    parts = [
        "evenhand audit",
        *(shlex.quote(record["address"] or record["name"]) for record in audit.manifest["subjects"]),
    ]
    methods = plan.get("methods", [])
    parts += [f"--method {shlex.quote(method)}" for method in methods] or ["--no-methods"]
    parts += [f"--measure {name}" for name in audit.manifest["arguments"]["given"].get("measures") or ()]
    return " ".join([*parts, f"--concept {shlex.quote(str(plan.get('concept', audit.concept)))} --seed {audit.seed}"])


def _subject(audit: Audit, record: dict[str, Any], number: int) -> dict[str, Any]:
    """Return what the page shows of one subject."""
    name = record["name"]
    drawn = charts.figures(audit, name)
    overview = [figure for figure in drawn if figure.place == "bias"] or drawn[:1]
    left = [figure for figure in drawn if figure.place == "left" and figure not in overview]
    others = [figure for figure in drawn if figure not in overview and figure not in left]
    families = [
        {"title": title, "rows": rows, "figures": [draw(f, number) for f in others if FAMILIES.get(f.family) == title]}
        for title, rows in by_family(audit, name).items()
    ]
    placed = {family["title"] for family in families}
    across = [draw(figure, number) for figure in others if FAMILIES.get(figure.family) not in placed]
    stages = [stage for stage in audit.stages if stage.subject == name]
    return {
        "about": _about(record), "sha256": record["sha256"],
        "families": families, "overview": [draw(figure, number) for figure in overview],
        "left": [draw(figure, number) for figure in left], "across": across, "stages": stages, "notes": Notes(),
        **card_content(audit, name),
    }  # fmt: skip


CONTROLS = "Controls: not about the concept, so a method should not change them"


def card_content(audit: Audit, subject: str) -> dict[str, Any]:
    """Return what the template of a score card needs of a subject."""
    card = score_card(audit, subject)
    used = {cell.state for line in card for cell in line.cells.values()}
    return {
        "name": subject,
        "number": audit.subjects.index(subject),
        "card": [{"title": title, "lines": lines} for title, lines in _by_family(audit, subject, card).items()],
        "stage_names": [stage.name for stage in audit.stages if stage.subject == subject],
        "states": [state for state in SIGNS if state in used],
    }


def _by_family(audit: Audit, subject: str, card: list[ScoreRow]) -> dict[str, list[ScoreRow]]:
    """Return the rows of a score card under the titles of their families, in the order of the tables."""
    groups: dict[str, list[ScoreRow]] = {}
    for title in by_family(audit, subject):
        lines = [line for line in card if FAMILIES[line.row.info.family] == title and not line.is_control]
        if lines:
            groups[title] = lines
    controls = [line for line in card if line.is_control]
    return groups | ({CONTROLS: controls} if controls else {})


def _about(record: dict[str, Any]) -> str:
    """Return a subject in a few words."""
    if "dimensions" in record:
        return f"{record['words']:,} words, {record['dimensions']} dimensions"
    return f"{kind_name(record)}, offers {', '.join(record['offers'])}"


def draw(figure: charts.Figure, number: int = 0) -> dict[str, Any]:
    """Return a figure as the template shows it; `number` tells figures of several subjects apart."""
    return {
        "id": f"figure-{number}-{figure.id}",
        "title": figure.title,
        "svg": picture(figure.spec, f"{figure.id}-{number}-"),
        "alt": figure.alt,
        "caption": figure.caption,
        "columns": figure.columns,
        "table": figure.table,
    }


def picture(spec: dict[str, object], prefix: str = "") -> Markup:
    """Return the SVG without its fixed height, so it shrinks on a small screen; its view box keeps the proportions.

    The page names the whole picture, so the roles of single marks are left out. Ids get the prefix, because a page has
    several pictures.
    """
    opening, _, rest = charts.svg(spec).partition(">")
    rest = re.sub(r' (?:role|aria-roledescription)="[^"]*"', "", rest)
    rest = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", rest)
    return Markup(re.sub(r' height="[\d.]+"', "", opening) + f">{rest}")
