"""The runs that the server was started with. A browser names a run by an id of the page, never by a path."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evenhand.audit import Audit
from evenhand.audit.record import FILE
from evenhand.errors import InputMissingError
from evenhand.report import charts
from evenhand.report.charts.figure import Figure
from evenhand.web.limits import PageLimits
from evenhand.web.worker import BoundedCache

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
