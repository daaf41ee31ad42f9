"""The ASGI application: what its pages share, its routes, error pages, and the guard around them."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from evenhand.errors import EvenhandError, InputMissingError
from evenhand.measures import numbers
from evenhand.report.findings import capital
from evenhand.report.html import page_environment, page_style
from evenhand.subjects import Subject
from evenhand.web.audits import AuditJobs, audit_events, cancel_audit, new_audit, one_audit, start_audit
from evenhand.web.explore import TOOLS, explore, explore_tool
from evenhand.web.forms import FormFields, PageLimits
from evenhand.web.runs import RunLibrary, compare_runs, one_run, run_list, run_picture, run_record, run_report
from evenhand.web.server import LOOPBACK, RequestGuard
from evenhand.web.subjects import ServedSubjects
from evenhand.web.worker import BusyError, PageWorker, SlowError

FORM = "application/x-www-form-urlencoded"
STATIC = {
    "icon.svg": ("evenhand.web", "image/svg+xml"),
    "page.css": ("evenhand.web", "text/css"),
    "page.js": ("evenhand.web", "text/javascript"),
}


class WebSite:
    """The parts of one server."""

    def __init__(
        self, subjects: Sequence[Subject], folders: Sequence[Path], limits: PageLimits, *, read_only: bool = False
    ) -> None:
        self.limits, self.read_only = limits, read_only
        self.served = ServedSubjects(subjects, limits)
        self.runs = RunLibrary(folders, limits)
        self.audits = AuditJobs(limits)
        # Threads of their own, so pages about saved runs never wait for a method that is being fitted.
        self.computing = PageWorker(threads=2, seconds=limits.seconds, waiting=limits.waiting)
        self.reading = PageWorker(threads=4, seconds=limits.reading_seconds, waiting=limits.reading)
        self.streams = 0  # readers that follow audits
        self.token = secrets.token_urlsafe(32)
        self.templates = _templates()
        self.static = {
            name: ((resources.files(package) / "static" / name).read_bytes(), kind)
            for name, (package, kind) in STATIC.items()
        }
        self.static["report.css"] = page_style().encode(), "text/css"

    def page(self, template: str, status: int = 200, **content: Any) -> HTMLResponse:
        """Return a page."""
        token = "" if self.read_only else self.token
        text = self.templates.get_template(template).render(token=token, read_only=self.read_only, **content)
        return HTMLResponse(text.encode(errors="replace"), status_code=status)

    def error_page(self, status: int, message: str, hint: str = "") -> HTMLResponse:
        """Return a page that says in a sentence what went wrong."""
        return self.page("error.html", status, message=message, hint=hint, code=status)

    def query(self, request: Request) -> FormFields:
        """Return the fields of the address."""
        encoded: bytes = request.scope["query_string"]  # `request.url` fails where it is not UTF-8
        return FormFields.parse(encoded.decode("latin-1"), self.limits)

    async def form(self, request: Request) -> FormFields:
        """Return the fields of a form whose token is that of this server.

        Raises:
            HTTPException: If the body is too large, too slow or not a form, or the token is missing.
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
            raise HTTPException(415, "Only forms of this page are accepted.")
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > self.limits.body:
                        raise HTTPException(413, f"The form is larger than {self.limits.body:,} bytes.")
        except TimeoutError:
            raise HTTPException(408, "The form took too long to arrive.") from None
        except ClientDisconnect:
            raise HTTPException(400, "The form did not arrive whole.") from None
        fields = FormFields.parse(body.decode("latin-1"), self.limits)
        if not hmac.compare_digest(fields.raw("token").encode(errors="replace"), self.token.encode()):
            raise HTTPException(403, "This form is older than the server. Reload the page and send it again.")
        return fields

    def close(self) -> None:
        """Stop what runs."""
        self.audits.close()
        self.computing.close()
        self.reading.close()


def _templates() -> Environment:
    environment = page_environment().overlay(
        loader=ChoiceLoader(list(map(PackageLoader, ("evenhand.web", "evenhand.report"))))
    )
    environment.filters.update(
        cell=numbers.cell,
        signed=lambda value: f"{value:+z.3f}",
        percent=lambda value: f"{100 * value:z.1f} %",
    )
    environment.globals["tools"] = TOOLS
    return environment


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
    read_only: bool = False,
) -> RequestGuard:
    """Return the application.

    Args:
        subjects: what can be explored and audited; the first is the default.
        runs: folders of runs, or folders that hold such folders; new runs are saved in the first of the latter.
        hosts: host names that the server answers to, beside those of the loopback interface.
        limits: how much a browser may ask for.
        read_only: show and compare the runs only: nothing is computed about subjects, nothing is written, and no form
            is accepted.
    """
    site = WebSite(subjects, runs, limits or PageLimits(), read_only=read_only)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if not read_only:
            threading.Thread(target=site.served.warm_up, daemon=True).start()
        yield
        site.close()

    reading = {
        "/": home,
        "/runs": run_list,
        "/runs/{id}": one_run,
        "/runs/{id}/report": run_report,
        "/runs/{id}/audit.json": run_record,
        "/runs/{id}/charts/{subject:int}/{figure:int}.svg": run_picture,
        "/compare": compare_runs,
        "/static/{name}": static,
    }
    computing = {
        "/explore": explore,
        "/explore/{tool}": explore_tool,
        "/audits/new": new_audit,
        "/audits": start_audit,
        "/audits/{id}": one_audit,
        "/audits/{id}/cancel": cancel_audit,
        "/audits/{id}/events": audit_events,
    }
    pages = reading if read_only else reading | computing
    methods = {explore_tool: ["GET", "POST"], start_audit: ["POST"], cancel_audit: ["POST"]}
    app = Starlette(
        routes=[Route(path, partial(page, site), methods=methods.get(page)) for path, page in pages.items()],
        exception_handlers={
            HTTPException: partial(_http_error, site),
            EvenhandError: partial(_own_error, site),
            Exception: partial(_unexpected_error, site),
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # the redirect would repeat the Host header in an absolute address
    app.state.site = site
    return RequestGuard(app, hosts=[*LOOPBACK, *hosts], limits=site.limits, error_page=site.error_page)


async def home(site: WebSite, request: Request) -> Response:
    """Go to the runs where there are some, else to the explore pages."""
    return RedirectResponse("/runs" if site.read_only or site.runs.listing() else "/explore", status_code=303)


async def static(site: WebSite, request: Request) -> Response:
    """Return our style sheets and our script."""
    name = request.path_params["name"]
    if name not in site.static:
        raise HTTPException(404)
    content, kind = site.static[name]
    return Response(content, media_type=kind)


async def _http_error(site: WebSite, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    own = error.detail if isinstance(error, HTTPException) else ""
    plain = own if own and " " in own and own not in ("Not Found", "Method Not Allowed") else ""
    return site.error_page(status, plain or SENTENCES.get(status, "This request cannot be answered."))


async def _own_error(site: WebSite, request: Request, error: Exception) -> Response:
    if not isinstance(error, EvenhandError):
        return site.error_page(500, SENTENCES[500])
    waits = isinstance(error, BusyError | SlowError)
    status = 503 if waits else 404 if isinstance(error, InputMissingError) else 400
    message = capital(error.message).rstrip(".") + "."
    response = site.error_page(status, message, error.hint)
    if waits:
        response.headers["retry-after"] = "5"
    return response


async def _unexpected_error(site: WebSite, request: Request, error: Exception) -> Response:
    return site.error_page(500, SENTENCES[500])
