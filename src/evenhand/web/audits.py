"""Audits that a page starts: one at a time, each in a process of its own, with the pages that start and follow them."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from evenhand import measures, mitigations
from evenhand.audit.plan import is_answered
from evenhand.errors import EvenhandError, InputMissingError, UsageError
from evenhand.files import require_folder
from evenhand.measures import Measurement, numbers
from evenhand.report.tables import view_order
from evenhand.web.forms import FormFields, PageLimits
from evenhand.web.subjects import DEFAULT_METHOD, NO_METHOD, concept_choices, method_choices
from evenhand.web.worker import BusyError

if TYPE_CHECKING:
    from evenhand.web.application import WebSite


JobState = Literal["running", "done", "cancelled", "failed"]
REMEMBERED = 20  # audits whose page can still be opened
HEARTBEAT = 0.25  # seconds between two looks at the clock


@dataclass(frozen=True)
class AuditRequest:
    """What is audited. It is sent to another process, which opens the subject again."""

    subject: str
    """Its address."""
    options: dict[str, object]
    name: str
    concept: str
    methods: tuple[str, ...]
    measures: tuple[str, ...]
    folder: Path
    seed: int = 0


@dataclass
class AuditJob:
    """An audit and what has arrived of it."""

    id: str
    request: AuditRequest
    state: JobState = "running"
    message: str = ""
    done: int = 0
    total: int = 0
    what: str = "starting"
    cells: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    """Row, stage, and the cell as text: the value, and what belongs to it."""
    version: int = 0
    """Grows with each change."""

    @property
    def stages(self) -> list[str]:
        """The stages in the order they began."""
        return list(dict.fromkeys(stage for row in self.cells.values() for stage in row))


class AuditJobs:
    """Starts audits, follows them and stops them."""

    def __init__(self, limits: PageLimits) -> None:
        self._limits = limits
        self._jobs: OrderedDict[str, AuditJob] = OrderedDict()
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None

    @property
    def running(self) -> AuditJob | None:
        """The audit that runs now."""
        return next((job for job in self._jobs.values() if job.state == "running"), None)

    def get(self, id: str) -> AuditJob:
        """Return an audit by its id."""
        if id not in self._jobs:
            raise InputMissingError("there is no such audit", hint="finished audits are in the list of runs")
        return self._jobs[id]

    def start(self, request: AuditRequest) -> AuditJob:
        """Start an audit; raise `BusyError` while another one runs."""
        with self._lock:
            if self.running:
                raise BusyError("an audit is running", hint="wait for it, or stop it")
            job = AuditJob(secrets.token_hex(8), request)
            self._jobs[job.id] = job
            while len(self._jobs) > REMEMBERED:
                self._jobs.popitem(last=False)
            context = get_context("spawn")
            receiving, sending = context.Pipe(duplex=False)
            self._process = context.Process(target=run_audit, args=(sending, request), daemon=True)
            self._process.start()
            sending.close()
        threading.Thread(target=self._follow, args=(job, receiving, self._process), daemon=True).start()
        return job

    def cancel(self, id: str) -> AuditJob:
        """Stop an audit; finished cells stay in its folder."""
        job = self.get(id)
        with self._lock:
            if job.state == "running":
                self._end(job, "cancelled", "stopped; finished cells are kept in its folder")
                if self._process:
                    self._process.terminate()
        return job

    def close(self) -> None:
        """Stop what runs."""
        if job := self.running:
            self.cancel(job.id)

    def _follow(self, job: AuditJob, receiving: Connection, process: BaseProcess) -> None:
        """Receive the messages of an audit until it ends or its time is over."""
        deadline = time.monotonic() + self._limits.audit_seconds
        try:
            while job.state == "running":
                if receiving.poll(HEARTBEAT):
                    self._receive(job, receiving.recv())
                elif time.monotonic() > deadline:
                    self._end(job, "failed", f"stopped after {self._limits.audit_seconds:g} seconds, the limit here")
                elif not process.is_alive() and not receiving.poll(HEARTBEAT):
                    raise EOFError
        except (EOFError, OSError):
            self._end(job, "failed", "the process of the audit ended early")
        process.terminate()
        process.join()
        receiving.close()

    def _receive(self, job: AuditJob, message: tuple[Any, Any]) -> None:
        kind, content = message
        if kind == "progress":
            job.done, job.total, job.what = content
        elif kind == "cell":
            stage, rows = content
            for label, text in rows:
                job.cells.setdefault(label, {})[stage] = text
        else:
            self._end(job, kind, content)
        job.version += 1

    def _end(self, job: AuditJob, state: JobState, message: str) -> None:
        if job.state == "running":
            job.state, job.message = state, message
            job.version += 1


def new_folder(home: Path, subject: str, concept: str) -> Path:
    """Return a folder for a new run, named after what is audited and when."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in subject).strip("-")[:40]
    stamp = datetime.now(tz=UTC).strftime("%Y%m%d-%H%M%S")
    return home / f"{plain or 'subject'}-{concept}-{stamp}"


def _shown(measurement: Measurement) -> tuple[str, str]:
    """Return the value as text, and interval, p-value and mark."""
    if measurement.value is None:
        return "undefined", measurement.reason
    parts = (numbers.interval(measurement), numbers.p_value(measurement), numbers.mark(measurement))
    return numbers.value(measurement), " ".join(filter(None, parts))


def run_audit(sending: Connection, request: AuditRequest) -> None:
    """Run an audit in this process, and send what happens."""
    from evenhand.audit import Plan
    from evenhand.audit.cells import Cell
    from evenhand.audit.manifest import Invocation
    from evenhand.audit.plan import Question
    from evenhand.audit.runner import run
    from evenhand.engines.processes import end_with_parent
    from evenhand.subjects import open_subject

    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal ends the server, which ends this process

    def arrived(subject: str, stage: str, question: Question, cell: Cell) -> None:
        rows = [(question.label(m.score), _shown(m)) for m in cell.measurements]
        sending.send(("cell", (stage, rows)))

    try:
        subject = open_subject(request.subject, **request.options)
        subject.name = request.name
        plan = Plan.default(
            [subject], methods=request.methods, only=request.measures, concept=request.concept, seed=request.seed,
            skip_failing=True,
        )  # fmt: skip
        audit = run(
            [subject], plan, folder=request.folder, arrived=arrived,
            invocation=Invocation(given={"methods": list(request.methods), "measures": list(request.measures)}),
            progress=lambda done, total, what: sending.send(("progress", (done, total, what))),
        )  # fmt: skip
        audit.save(request.folder)
        sending.send(("done", ""))
    except EvenhandError as error:
        sending.send(("failed", str(error.message)))
    except Exception as error:
        sending.send(("failed", f"an unexpected error: {type(error).__name__}"))
        raise


POLL = 0.3  # seconds between two looks at an audit that is followed
STREAMS = 8  # readers that follow audits at once


async def new_audit(site: WebSite, request: Request) -> Response:
    """Show the form."""
    return _form(site, FormFields([], site.limits))


def _form(site: WebSite, fields: FormFields, error: EvenhandError | None = None) -> Response:
    served = site.served
    asked = [id for id in measures.ids() if any(_asks(site, id, subject) for subject in served.names)]
    content = {
        "subjects": served.names,
        "concepts": concept_choices(),
        "methods": _methods(site),
        "measures": {id: measures.info(id).title for id in asked},
        "ticked": {name: fields.sent(name) if error else default for name, default in _ticked(site).items()},
        "form": fields.raw,
        "limits": site.limits,
        "running": site.audits.running,
        "problem": error.message if error else "",
        "hint": error.hint if error else "",
    }
    return site.page(
        "new-audit.html", 200 if error is None else 503 if isinstance(error, BusyError) else 400, **content
    )


def _ticked(site: WebSite) -> dict[str, Sequence[str]]:
    """Return what is ticked at first: for each subject, measures of what it does itself."""
    ticked: dict[str, None] = {}
    for name in site.served.names:
        subject = site.served.subject(name)
        first = next((view for view in view_order(subject.kind) if view in subject.offers), "")
        ticked |= dict.fromkeys(id for id in measures.ids() if first in measures.info(id).ticked)
    return {"method": [DEFAULT_METHOD], "measure": list(ticked)}


def _methods(site: WebSite) -> dict[str, str]:
    """Return the methods that can be ticked: those of vectors, and of decisions where a subject has any."""
    quick = {id: title for id, title in method_choices().items() if id != NO_METHOD}
    decides = any("outcomes" in site.served.subject(id).changeable for id in site.served.names)
    return quick | ({id: mitigations.get(id).title for id in mitigations.ids("outcomes")} if decides else {})


def _asks(site: WebSite, measure: str, subject: str) -> bool:
    opened = site.served.subject(subject)
    return measures.info(measure).view in opened.asked_by_default and is_answered(measures.info(measure), opened)


async def start_audit(site: WebSite, request: Request) -> Response:
    """Start an audit and go to its page."""
    fields = await site.form(request)
    try:
        job = await site.reading.run(lambda: _start(site, fields))
    except EvenhandError as error:
        return _form(site, fields, error)
    return RedirectResponse(f"/audits/{job.id}", status_code=303)


def _start(site: WebSite, fields: FormFields) -> AuditJob:
    served = site.served
    id = fields.choice("subject", served.names, next(iter(served.names)))
    subject = served.subject(id)
    if not subject.address:
        raise UsageError(f"{subject.name} is only in memory", hint="start the server with the address of a file")
    concept = fields.choice("concept", concept_choices(), "gender")
    ticked = fields.choices("method", _methods(site), most=site.limits.methods)
    kinds = {name: [target.accepts(subject) for target in mitigations.get(name).works_on] for name in ticked}
    methods = [name for name in ticked if any(kinds[name])]  # a tick for another subject is no mistake
    every = [name for name in measures.ids() if _asks(site, name, id)]
    chosen = [name for name in fields.choices("measure", measures.ids(), most=len(measures.ids())) if name in every]
    if not chosen:
        raise UsageError(f"no measure that {subject.name} can answer was chosen", hint="tick at least one")
    home = site.runs.home
    require_folder(home)
    request = AuditRequest(
        subject.address, dict(subject.opened_with), subject.name, concept, tuple(methods), tuple(chosen),
        new_folder(home, subject.name, concept),
    )  # fmt: skip
    return site.audits.start(request)


async def one_audit(site: WebSite, request: Request) -> Response:
    """Show what has arrived of an audit."""
    job = _job(site, request)
    finished = next((run for run in site.runs.listing() if run.folder == job.request.folder), None)
    return site.page("audit.html", job=job, run=finished if job.state == "done" else None)


def _job(site: WebSite, request: Request) -> AuditJob:
    try:
        return site.audits.get(request.path_params["id"])
    except InputMissingError:
        raise HTTPException(404, "There is no such audit. Finished audits are in the list of runs.") from None


async def cancel_audit(site: WebSite, request: Request) -> Response:
    """Stop an audit."""
    await site.form(request)
    job = _job(site, request)
    site.audits.cancel(job.id)
    return RedirectResponse(f"/audits/{job.id}", status_code=303)


async def audit_events(site: WebSite, request: Request) -> Response:
    """Send an event whenever something of an audit arrives."""
    job = _job(site, request)
    if site.streams >= STREAMS:
        raise HTTPException(503, "Too many readers follow audits.")
    return StreamingResponse(_events(site, request, job), media_type="text/event-stream")


async def _events(site: WebSite, request: Request, job: AuditJob) -> AsyncIterator[str]:
    site.streams += 1
    try:
        seen = -1
        while not await request.is_disconnected():
            if job.version != seen:
                seen = job.version
                yield f"data: {json.dumps({'state': job.state, 'done': job.done, 'total': job.total})}\n\n"
            if job.state != "running":
                return
            await asyncio.sleep(POLL)
    finally:
        site.streams -= 1
