"""Pages on which a reader puts questions of their own."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from evenhand.errors import EvenhandError
from evenhand.web.explore import TOOLS, ExploreTool
from evenhand.web.explore.association import query_choices
from evenhand.web.explore.contexts import text_choices
from evenhand.web.fields import FormFields
from evenhand.web.offered import concept_choices, method_choices
from evenhand.web.site import WebSite
from evenhand.web.worker import BusyError, SlowError

WAIT = 5  # seconds before a reader asks again


async def explore(request: Request) -> Response:
    """List the explore pages."""
    site: WebSite = request.app.state.site
    return site.page("explore.html", subjects=site.offered.names)


async def explore_tool(request: Request) -> Response:
    """Show the form of one page with its answer."""
    site: WebSite = request.app.state.site
    tool = TOOLS.get(request.path_params["tool"])
    if tool is None:
        raise HTTPException(404, "There is no such page.")
    if request.method == "POST":
        if not tool.posts:
            raise HTTPException(405, "This form is sent by GET.")
        fields = await site.form(request)
    else:
        fields = site.query(request)
    return await _answer(site, tool, fields)


async def _answer(site: WebSite, tool: ExploreTool, fields: FormFields) -> Response:
    """Answer a form; input that cannot be answered is shown again, with a sentence that says why."""
    if tool.view and not site.offered.offering(tool.view):
        return site.page("explore-missing.html", tool=tool)
    try:
        given = fields.with_defaults(tool.example(site.offered, fields))
    except EvenhandError as error:
        return _problem(
            site, tool, fields.with_defaults(tool.example(site.offered, FormFields([], site.limits))), error
        )
    try:
        return await site.worker.run(
            lambda: site.page(f"explore-{tool.id}.html", **_form(site, tool, given), **tool.answer(site.offered, given))
        )
    except EvenhandError as error:
        return _problem(site, tool, given, error)


def _problem(site: WebSite, tool: ExploreTool, fields: FormFields, error: EvenhandError) -> Response:
    waits = isinstance(error, BusyError | SlowError)
    status = 503 if waits else 400
    content = _form(site, tool, fields) | {"problem": error.message, "hint": error.hint}
    response = site.page(f"explore-{tool.id}.html", status, **content)
    if waits:
        response.headers["retry-after"] = str(WAIT)
        if not tool.posts:
            response.headers["refresh"] = str(WAIT)  # the browser asks again by itself
    return response


def _form(site: WebSite, tool: ExploreTool, fields: FormFields) -> dict[str, Any]:
    choices: dict[str, dict[str, str]] = {
        "subject": site.offered.offering(tool.view) if tool.view else {},
        "concept": concept_choices(),
        "method": method_choices(),
    }
    if tool.id == "association":
        choices["query"] = query_choices()
    if tool.id == "contexts":
        choices["source"] = text_choices(site.offered)
    return {"tool": tool, "form": fields.raw, "choices": choices, "limits": site.limits, "problem": "", "hint": ""}
