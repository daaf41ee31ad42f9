"""What the handlers of one server share: subjects, runs, audits, worker, templates and the token of its forms."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from evenhand.report import numbers
from evenhand.report.html import page_environment
from evenhand.subjects import Subject
from evenhand.web.audits import AuditDesk
from evenhand.web.explore import TOOLS
from evenhand.web.fields import FormFields
from evenhand.web.limits import PageLimits
from evenhand.web.offered import OfferedSubjects
from evenhand.web.runs import RunLibrary
from evenhand.web.worker import PageWorker

FORM = "application/x-www-form-urlencoded"
STATIC = {
    "icon.svg": ("evenhand.web", "image/svg+xml"),
    "page.css": ("evenhand.web", "text/css"),
    "page.js": ("evenhand.web", "text/javascript"),
    "report.css": ("evenhand.report", "text/css"),
}


class WebSite:
    """The parts of one server."""

    def __init__(self, subjects: Sequence[Subject], folders: Sequence[Path], limits: PageLimits) -> None:
        self.limits = limits
        self.offered = OfferedSubjects(subjects, limits)
        self.runs = RunLibrary(folders, limits)
        self.audits = AuditDesk(limits)
        self.worker = PageWorker(seconds=limits.seconds, waiting=limits.waiting)
        self.token = secrets.token_urlsafe(32)
        self.templates = _templates()
        self.static = {
            name: ((resources.files(package) / "static" / name).read_bytes(), kind)
            for name, (package, kind) in STATIC.items()
        }

    def page(self, template: str, status: int = 200, **content: Any) -> HTMLResponse:
        """Return a page."""
        text = self.templates.get_template(template).render(token=self.token, **content)
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
        fields = FormFields.parse(body.decode("latin-1"), self.limits)
        if not hmac.compare_digest(fields.raw("token").encode(errors="replace"), self.token.encode()):
            raise HTTPException(403, "This form is older than the server. Reload the page and send it again.")
        return fields

    def close(self) -> None:
        """Stop what runs."""
        self.audits.close()
        self.worker.close()


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
