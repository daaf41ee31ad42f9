"""The ASGI application: routes, error pages, and the guard around them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evenhand.errors import EvenhandError, InputMissingError
from evenhand.subjects import Subject
from evenhand.web.audit_pages import audit_events, cancel_audit, new_audit, one_audit, start_audit
from evenhand.web.explore_pages import explore, explore_tool
from evenhand.web.guard import LOOPBACK, RequestGuard
from evenhand.web.limits import PageLimits
from evenhand.web.run_pages import compare_runs, one_run, run_list, run_picture, run_record, run_report
from evenhand.web.site import WebSite
from evenhand.web.worker import BusyError, SlowError

SENTENCES = {
    404: "There is no such page.",
    405: "This page cannot be asked in this way.",
    500: "Something went wrong. The terminal in which `evenhand serve` runs shows more.",
}


def create_app(
    subjects: Sequence[Subject],
    runs: Sequence[Path] = (),
    *,
    hosts: Iterable[str] = (),
    limits: PageLimits | None = None,
) -> RequestGuard:
    """Return the application.

    Args:
        subjects: what can be explored and audited; the first is the default.
        runs: folders of runs, or folders that hold such folders; new runs are saved in the first of the latter.
        hosts: host names that the server answers to, beside those of the loopback interface.
        limits: how much a browser may ask for.
    """
    site = WebSite(subjects, runs, limits or PageLimits())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=site.offered.warm_up, daemon=True).start()
        yield
        site.close()

    app = Starlette(
        routes=[
            Route("/", home),
            Route("/runs", run_list),
            Route("/runs/{id}", one_run),
            Route("/runs/{id}/report", run_report),
            Route("/runs/{id}/audit.json", run_record),
            Route("/runs/{id}/charts/{subject:int}/{figure:int}.svg", run_picture),
            Route("/compare", compare_runs),
            Route("/explore", explore),
            Route("/explore/{tool}", explore_tool, methods=["GET", "POST"]),
            Route("/audits/new", new_audit),
            Route("/audits", start_audit, methods=["POST"]),
            Route("/audits/{id}", one_audit),
            Route("/audits/{id}/cancel", cancel_audit, methods=["POST"]),
            Route("/audits/{id}/events", audit_events),
            Route("/static/{name}", static),
        ],
        exception_handlers={HTTPException: _http_error, EvenhandError: _own_error, Exception: _unexpected_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # the redirect would repeat the Host header in an absolute address
    app.state.site = site
    app.state.streams = 0
    return RequestGuard(app, hosts=[*LOOPBACK, *hosts], limits=site.limits, error_page=site.error_page)


async def home(request: Request) -> Response:
    """Go to the runs where there are some, else to the explore pages."""
    site: WebSite = request.app.state.site
    return RedirectResponse("/runs" if site.runs.listing() else "/explore", status_code=303)


async def static(request: Request) -> Response:
    """Return our style sheets and our script."""
    site: WebSite = request.app.state.site
    name = request.path_params["name"]
    if name not in site.static:
        raise HTTPException(404)
    content, kind = site.static[name]
    return Response(content, media_type=kind)


async def _http_error(request: Request, error: Exception) -> Response:
    site: WebSite = request.app.state.site
    status = error.status_code if isinstance(error, HTTPException) else 500
    own = error.detail if isinstance(error, HTTPException) else ""
    plain = own if own and " " in own and own not in ("Not Found", "Method Not Allowed") else ""
    return site.error_page(status, plain or SENTENCES.get(status, "This request cannot be answered."))


async def _own_error(request: Request, error: Exception) -> Response:
    site: WebSite = request.app.state.site
    if not isinstance(error, EvenhandError):
        return site.error_page(500, SENTENCES[500])
    waits = isinstance(error, BusyError | SlowError)
    status = 503 if waits else 404 if isinstance(error, InputMissingError) else 400
    message = f"{error.message[:1].upper()}{error.message[1:]}".rstrip(".") + "."
    response = site.error_page(status, message, error.hint)
    if waits:
        response.headers["retry-after"] = "5"
    return response


async def _unexpected_error(request: Request, error: Exception) -> Response:
    site: WebSite = request.app.state.site
    return site.error_page(500, SENTENCES[500])
