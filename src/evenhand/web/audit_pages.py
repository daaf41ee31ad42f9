"""Pages that start an audit and show its cells as they arrive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from evenhand import measures
from evenhand.audit.plan import is_answered
from evenhand.errors import EvenhandError, InputMissingError, UsageError
from evenhand.files import require_folder
from evenhand.report.tables import view_order
from evenhand.web.audits import AuditJob, AuditRequest, new_folder
from evenhand.web.fields import FormFields
from evenhand.web.offered import NO_METHOD, concept_choices, method_choices
from evenhand.web.site import WebSite
from evenhand.web.worker import BusyError

POLL = 0.3  # seconds between two looks at an audit that is followed
STREAMS = 8  # readers that follow audits at once
TICKED_METHODS = ("linear",)  # at first
# Measures that are ticked at first for subjects that offer the view: a few that answer quickly.
TICKED_MEASURES = {
    "labels": ("counterfactual",),
    "inference": ("nli-gap", "nli-neutrality"),
    "likelihood": ("pronoun-share", "perplexity"),
    "text": ("corpus-bias",),
    "sentences": ("seat",),
    "vectors": ("weat", "direct-bias", "ripa", "similarity"),
}


async def new_audit(request: Request) -> Response:
    """Show the form."""
    site: WebSite = request.app.state.site
    return _form(site, FormFields([], site.limits))


def _form(site: WebSite, fields: FormFields, error: EvenhandError | None = None) -> Response:
    offered = site.offered
    asked = [id for id in measures.ids() if any(_asks(site, id, subject) for subject in offered.names)]
    content = {
        "subjects": offered.names,
        "concepts": concept_choices(),
        "methods": {id: title for id, title in method_choices().items() if id != NO_METHOD},
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
    for id in site.offered.names:
        subject = site.offered.subject(id)
        first = next((view for view in view_order(subject.kind) if view in subject.offers), "")
        ticked |= dict.fromkeys(TICKED_MEASURES.get(first, ()))
    return {"method": TICKED_METHODS, "measure": list(ticked)}


def _asks(site: WebSite, measure: str, subject: str) -> bool:
    opened = site.offered.subject(subject)
    return measures.info(measure).view in opened.asked_by_default and is_answered(measures.info(measure), opened)


async def start_audit(request: Request) -> Response:
    """Start an audit and go to its page."""
    site: WebSite = request.app.state.site
    fields = await site.form(request)
    try:
        job = await site.worker.run(lambda: _start(site, fields))
    except EvenhandError as error:
        return _form(site, fields, error)
    return RedirectResponse(f"/audits/{job.id}", status_code=303)


def _start(site: WebSite, fields: FormFields) -> AuditJob:
    offered = site.offered
    id = fields.choice("subject", offered.names, next(iter(offered.names)))
    subject = offered.subject(id)
    if not subject.address:
        raise UsageError(f"{subject.name} is only in memory", hint="start the server with the address of a file")
    concept = fields.choice("concept", concept_choices(), "gender")
    methods = fields.choices("method", [m for m in method_choices() if m != NO_METHOD], most=site.limits.methods)
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


async def one_audit(request: Request) -> Response:
    """Show what has arrived of an audit."""
    site: WebSite = request.app.state.site
    job = _job(site, request)
    finished = next((run for run in site.runs.listing() if run.folder == job.request.folder), None)
    return site.page("audit.html", job=job, run=finished if job.state == "done" else None)


def _job(site: WebSite, request: Request) -> AuditJob:
    try:
        return site.audits.get(request.path_params["id"])
    except InputMissingError:
        raise HTTPException(404, "There is no such audit. Finished audits are in the list of runs.") from None


async def cancel_audit(request: Request) -> Response:
    """Stop an audit."""
    site: WebSite = request.app.state.site
    await site.form(request)
    job = _job(site, request)
    site.audits.cancel(job.id)
    return RedirectResponse(f"/audits/{job.id}", status_code=303)


async def audit_events(request: Request) -> Response:
    """Send an event whenever something of an audit arrives."""
    site: WebSite = request.app.state.site
    job = _job(site, request)
    if request.app.state.streams >= STREAMS:
        raise HTTPException(503, "Too many readers follow audits.")
    return StreamingResponse(_events(request, job), media_type="text/event-stream")


async def _events(request: Request, job: AuditJob) -> AsyncIterator[str]:
    state = request.app.state
    state.streams += 1
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
        state.streams -= 1
