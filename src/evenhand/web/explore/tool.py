"""An explore page: its form with an example, and the function that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from evenhand.web.explore import association, axis, blanks, contexts, inference, neighbours
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects

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
        posts: whether the form is sent by POST, because it is large.
    """

    id: str
    title: str
    lead: str
    view: str
    example: Callable[[OfferedSubjects, FormFields], Mapping[str, str]]
    answer: Callable[[OfferedSubjects, FormFields], Content]
    posts: bool = False


TOOLS: dict[str, ExploreTool] = {
    tool.id: tool
    for tool in (
        ExploreTool(
            "axis",
            "Words on the axis",
            "Where words lie between the two ends of a concept, before and after a method.",
            "vectors",
            axis.example,
            axis.answer,
        ),
        ExploreTool(
            "neighbours",
            "Neighbours",
            "The nearest words of a word, before and after a method.",
            "vectors",
            neighbours.example,
            neighbours.answer,
        ),
        ExploreTool(
            "association",
            "Association test",
            "Your own word sets in the Word Embedding Association Test (WEAT), before and after a method.",
            "vectors",
            association.example,
            association.answer,
        ),
        ExploreTool(
            "inference",
            "Sentence pair",
            "What an inference model concludes when one word of the premise changes.",
            "inference",
            inference.example,
            inference.answer,
        ),
        ExploreTool(
            "blanks",
            "Fill the blank",
            "How probable a language model finds each filler of a blank.",
            "likelihood",
            blanks.example,
            blanks.answer,
        ),
        ExploreTool(
            "contexts",
            "Words in a text",
            "Which group a word of a text co-occurs with more, and where.",
            "",
            contexts.example,
            contexts.answer,
            posts=True,
        ),
    )
}
