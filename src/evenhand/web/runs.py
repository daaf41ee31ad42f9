"""Saved runs: those the server was started with, and the pages about them.

A browser names a run by an id of the page, never by a path.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from evenhand.audit import Audit
from evenhand.audit.record import FILE
from evenhand.audit.significance import RowPair, compare_rows
from evenhand.errors import EvenhandError, InputMissingError, UsageError
from evenhand.measures import Measurement
from evenhand.measures.registry import ARROWS
from evenhand.report import charts, html
from evenhand.report.charts.figure import Figure
from evenhand.report.findings import CORRECTION, capital, findings, headline, unmeasured_reasons
from evenhand.report.scorecard import MEANINGS, SIGNS
from evenhand.web.forms import PageLimits
from evenhand.web.worker import BoundedCache

if TYPE_CHECKING:
    from evenhand.web.application import WebSite


KEPT = 32


@dataclass(frozen=True)
class SavedRun:
    """A folder with an audit.json."""

    id: str
    name: str
    folder: Path
    modified_ns: int

    @property
    def when(self) -> str:
        """When it was written, in UTC."""
        return datetime.fromtimestamp(self.modified_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


class RunLibrary:
    """Runs in given folders: each folder is a run, or holds runs."""

    def __init__(self, folders: Sequence[Path], limits: PageLimits) -> None:
        self.folders = tuple(folders)
        self._limits = limits
        self._audits = BoundedCache(KEPT)
        self._figures = BoundedCache(KEPT)
        self._pictures = BoundedCache(KEPT * 4)

    @property
    def home(self) -> Path:
        """Where new runs are saved: the first folder that is not a run itself, or `runs`."""
        return next((folder for folder in self.folders if not (folder / FILE).is_file()), Path("runs"))

    def listing(self) -> list[SavedRun]:
        """Return the runs, newest first. Folders are read again, so that new runs appear."""
        runs = {run.id: run for folder in self.folders for run in _runs_in(folder)}
        return sorted(runs.values(), key=lambda run: (-run.modified_ns, run.name))[: self._limits.runs]

    def get(self, id: str) -> SavedRun:
        """Return a run by its id."""
        for run in self.listing():
            if run.id == id:
                return run
        raise InputMissingError("this run is not offered", hint="choose one of the list; the folder may have gone")

    def audit(self, run: SavedRun) -> Audit:
        """Return the record of a run."""
        return self._audits.get((run.id, run.modified_ns), lambda: Audit.load(run.folder))

    def figures(self, run: SavedRun, subject: int) -> list[Figure]:
        """Return the charts of one subject of a run."""
        audit = self.audit(run)
        if not 0 <= subject < len(audit.subjects):
            raise InputMissingError("this run has no such subject")
        name = audit.subjects[subject]
        return self._figures.get((run.id, run.modified_ns, subject), lambda: charts.figures(audit, name))

    def picture(self, run: SavedRun, subject: int, figure: int) -> str:
        """Return a chart as SVG."""
        every = self.figures(run, subject)
        if not 0 <= figure < len(every):
            raise InputMissingError("this run has no such chart")
        return self._pictures.get((run.id, run.modified_ns, subject, figure), lambda: charts.svg(every[figure].spec))


def _runs_in(folder: Path) -> Iterator[SavedRun]:
    if run := _run(folder, folder.name or str(folder)):
        yield run
        return
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return
    yield from filter(None, (_run(path, path.name) for path in inside))


def _run(folder: Path, name: str) -> SavedRun | None:
    file = folder / FILE
    try:
        modified = file.stat().st_mtime_ns if file.is_file() else None
        path = str(folder.resolve())
    except OSError:
        return None
    if modified is None:
        return None
    return SavedRun(hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:16], name, folder, modified)


LISTED = 20  # runs on a page of the list
SENTENCES = 3  # findings of each run in the list
SCRIPT = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
RowKey: TypeAlias = tuple[str, str, str]
"""Subject (empty where each run has one only), label and stage."""
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


async def run_list(site: WebSite, request: Request) -> Response:
    """List the runs, newest first, with their findings."""
    runs = site.runs.listing()
    last = max(1, -(-len(runs) // LISTED))
    page = site.query(request).number("page", 1, least=1, most=last)
    shown = runs[(page - 1) * LISTED : page * LISTED]
    lines = await site.reading.run(lambda: [_line(site, run) for run in shown])
    return site.page("runs.html", lines=lines, total=len(runs), page=page, last=last, running=site.audits.running)


def _line(site: WebSite, run: SavedRun) -> dict[str, object]:
    """Return what the list says of a run; a damaged one says why it cannot be read."""
    try:
        audit = site.runs.audit(run)
        found = findings(audit)
        return {"run": run, "audit": audit, "findings": found[:SENTENCES], "more": max(0, len(found) - SENTENCES)}
    except EvenhandError as error:
        return {"run": run, "problem": error.message}


async def one_run(site: WebSite, request: Request) -> Response:
    """Show a run: findings, score card and charts."""
    run = _run_pages_run(site, request.path_params["id"])
    return await site.reading.run(lambda: site.page("run.html", **_content(site, run)))


def _run_pages_run(site: WebSite, id: str) -> SavedRun:
    try:
        return site.runs.get(id)
    except InputMissingError as error:
        raise HTTPException(404, f"{capital(error.message)}: {error.hint}.") from None


def _content(site: WebSite, run: SavedRun) -> dict[str, Any]:
    audit = site.runs.audit(run)
    reasons = {name: unmeasured_reasons(audit, name) for name in audit.subjects}
    return {
        "run": run, "audit": audit, "headline": headline(audit), "beside": html.side_by_side_table(audit),
        "groups": html.grouped_findings(findings(audit), audit.subjects, reasons=reasons),
        "subjects": [
            {**html.card_content(audit, name), "figures": site.runs.figures(run, number)}
            for number, name in enumerate(audit.subjects)
        ],
        "signs": SIGNS, "meanings": MEANINGS, "correction": capital(CORRECTION),
    }  # fmt: skip


async def run_picture(site: WebSite, request: Request) -> Response:
    """Return a chart of a run as SVG."""
    run = _run_pages_run(site, request.path_params["id"])
    subject, figure = request.path_params["subject"], request.path_params["figure"]
    try:
        svg = await site.reading.run(lambda: site.runs.picture(run, subject, figure))
    except InputMissingError as error:
        raise HTTPException(404, f"{error.message}.") from None
    return Response(svg, media_type="image/svg+xml", headers={"content-security-policy": PICTURE_POLICY})


async def run_report(site: WebSite, request: Request) -> Response:
    """Return the report of a run: the same file that `evenhand report` writes."""
    run = _run_pages_run(site, request.path_params["id"])
    text = await site.reading.run(lambda: html.page(site.runs.audit(run)))
    policy = report_policy(text)
    return Response(text.encode(errors="replace"), media_type="text/html", headers={"content-security-policy": policy})


def report_policy(text: str) -> str:
    """Return the policy of a self-contained report: its own scripts by their hashes, in an origin of its own."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in SCRIPT.findall(text)]
    scripts = " ".join(f"'sha256-{value}'" for value in dict.fromkeys(hashes)) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
    )


async def run_record(site: WebSite, request: Request) -> Response:
    """Return the record of a run as JSON, to save."""
    run = _run_pages_run(site, request.path_params["id"])
    text = await site.reading.run(lambda: json.dumps(site.runs.audit(run).to_dict(), indent=1))
    headers = {"content-disposition": 'attachment; filename="audit.json"'}
    return Response(text, media_type="application/json", headers=headers)


async def compare_runs(site: WebSite, request: Request) -> Response:
    """Show two or more runs side by side."""
    runs = {run.id: run for run in site.runs.listing()}
    fields = site.query(request)
    named = [runs[id] for id in fields.choices("run", list(runs), most=site.limits.compared)]
    chosen = sorted(named, key=lambda run: run.modified_ns)
    if len(chosen) < 2:
        raise UsageError("choose at least two runs", hint="tick them in the list of runs")
    content = await site.reading.run(lambda: _comparison(site, chosen))
    return site.page("compare.html", runs=chosen, **content)


def _comparison(site: WebSite, chosen: list[SavedRun]) -> dict[str, Any]:
    """Return a line for each row and stage that two runs have, with the change from the first to the last of them."""
    audits = [site.runs.audit(run) for run in chosen]
    single = all(len(audit.subjects) == 1 for audit in audits)
    tables = [_cells(audit, single) for audit in audits]
    questions = {result.label: result.question for audit in audits for result in audit.results}
    shown: list[tuple[RowKey, list[Measurement | None]]] = []
    pairs: list[RowPair] = []
    for key in _by_label(tables):
        cells = [table.get(key) for table in tables]
        known = [cell for cell in cells if cell is not None]
        if len(known) > 1:
            subject, label, stage = key
            shown.append((key, cells))
            pairs.append(RowPair(subject, stage, label, questions[label], known[0], known[-1]))
    changes = compare_rows(pairs, audits[-1].concept)
    lines: list[dict[str, Any]] = [
        {"key": key, "cells": cells, "change": change} for (key, cells), change in zip(shown, changes, strict=True)
    ]
    return {
        "audits": audits,
        "lines": lines,
        "concepts": list(dict.fromkeys(audit.concept for audit in audits)),
        "counts": Counter(line["change"].verdict for line in lines),
        "arrows": {label: row_arrow(audit, label) for audit in audits for label in audit.labels},
        "single": single,
    }


def _by_label(tables: Sequence[Mapping[RowKey, Measurement]]) -> list[RowKey]:
    """Return the keys of all tables, with the stages of a row one after the other."""
    keys = list(dict.fromkeys(key for table in tables for key in table))
    places = {row: place for place, row in reversed(list(enumerate((subject, label) for subject, label, _ in keys)))}
    return sorted(keys, key=lambda key: places[key[0], key[1]])


def row_arrow(audit: Audit, label: str) -> str:
    """Return the sign that says which way is better in a row."""
    result = next(result for result in audit.results if result.label == label)
    return ARROWS[result.question.info.better_score(result.measurement.score)]


def _cells(audit: Audit, single: bool) -> dict[RowKey, Measurement]:
    return {
        ("" if single else result.subject, result.label, result.stage): result.measurement for result in audit.results
    }
