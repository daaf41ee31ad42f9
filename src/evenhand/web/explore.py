"""Pages on which a reader puts questions of their own to the vectors and models the server was started with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from evenhand.errors import EvenhandError
from evenhand.web.explore_sentences import (
    attribution_answer,
    attribution_example,
    blanks_answer,
    blanks_example,
    contexts_answer,
    contexts_example,
    inference_answer,
    inference_example,
    text_choices,
)
from evenhand.web.explore_vectors import (
    association_answer,
    association_example,
    axis_answer,
    axis_example,
    neighbours_answer,
    neighbours_example,
    query_choices,
)
from evenhand.web.forms import FormFields
from evenhand.web.subjects import ServedSubjects, concept_choices, method_choices
from evenhand.web.worker import BusyError, SlowError

if TYPE_CHECKING:
    from evenhand.web.application import WebSite


Content: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ExploreTool:
    """One page.

    Attributes:
        id: name in addresses and of the template.
        title: heading.
        lead: what the page answers, in a sentence.
        view: the view that a subject must offer; empty where none is needed.
        example: default values of the form, given the subjects and what was sent.
        answer: what the result shows; raises `EvenhandError` for input that cannot be answered.
        choices: what its own lists offer, beside subject, concept and method.
        posts: whether the form is sent by POST, because it is large.
    """

    id: str
    title: str
    lead: str
    view: str
    example: Callable[[ServedSubjects, FormFields], Mapping[str, str]]
    answer: Callable[[ServedSubjects, FormFields], Content]
    choices: Callable[[ServedSubjects], Mapping[str, dict[str, str]]] = lambda _: {}
    posts: bool = False


TOOLS: dict[str, ExploreTool] = {
    tool.id: tool
    for tool in (
        ExploreTool(
            "axis",
            "Words on the axis",
            "Where words lie between the two ends of a concept, before and after a method.",
            "vectors",
            axis_example,
            axis_answer,
        ),
        ExploreTool(
            "neighbours",
            "Neighbours",
            "The nearest words of a word, before and after a method.",
            "vectors",
            neighbours_example,
            neighbours_answer,
        ),
        ExploreTool(
            "association",
            "Association test",
            "Your own word sets in the Word Embedding Association Test (WEAT), before and after a method.",
            "vectors",
            association_example,
            association_answer,
            lambda _: {"query": query_choices()},
        ),
        ExploreTool(
            "inference",
            "Sentence pair",
            "What an inference model concludes when one word of the premise changes.",
            "inference",
            inference_example,
            inference_answer,
        ),
        ExploreTool(
            "blanks",
            "Fill the blank",
            "How probable a language model finds each filler of a blank.",
            "likelihood",
            blanks_example,
            blanks_answer,
        ),
        ExploreTool(
            "attribution",
            "Where in the model",
            "Which layers and tokens of a language model decide that it scores two texts differently.",
            "likelihood",
            attribution_example,
            attribution_answer,
        ),
        ExploreTool(
            "contexts",
            "Words in a text",
            "Which group a word of a text co-occurs with more, and where.",
            "",
            contexts_example,
            contexts_answer,
            lambda served: {"source": text_choices(served)},
            posts=True,
        ),
    )
}


WAIT = 5  # seconds before a reader asks again


async def explore(site: WebSite, request: Request) -> Response:
    """List the explore pages."""
    return site.page("explore.html", subjects=site.served.names)


async def explore_tool(site: WebSite, request: Request) -> Response:
    """Show the form of one page with its answer."""
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
    if tool.view and not site.served.offering(tool.view):
        return site.page("explore-missing.html", tool=tool)
    try:
        given = fields.with_defaults(tool.example(site.served, fields))
    except EvenhandError as error:
        return _problem(site, tool, fields.with_defaults(tool.example(site.served, FormFields([], site.limits))), error)
    try:
        return await site.computing.run(
            lambda: site.page(f"explore-{tool.id}.html", **_form(site, tool, given), **tool.answer(site.served, given))
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
        "subject": site.served.offering(tool.view) if tool.view else {},
        "concept": concept_choices(),
        "method": method_choices(),
    }
    choices |= tool.choices(site.served)
    return {"tool": tool, "form": fields.raw, "choices": choices, "limits": site.limits, "problem": "", "hint": ""}
