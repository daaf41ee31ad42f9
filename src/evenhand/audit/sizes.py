"""How large an audit is: items of a sample, texts that a model writes, and the time for all of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evenhand import measures
from evenhand.errors import UsageError
from evenhand.subjects import Subject

if TYPE_CHECKING:
    from evenhand.audit.plan import Question

SAMPLES, TOKENS = 200, 100  # that a model writes in an audit; 2,000 texts of 500 tokens, as in the paper, take hours
DURATION = re.compile(r"(\d+(?:\.\d+)?) *(s|sec|seconds?|m|min|minutes?|h|hours?)?")


def seconds_of(text: str) -> float:
    """Return the seconds of a time such as "90s", "10min" or "1.5 h"; a number alone is in seconds.

    >>> seconds_of("10min"), seconds_of("1.5 h"), seconds_of("45")
    (600.0, 5400.0, 45.0)
    """
    found = DURATION.fullmatch(text.strip().lower())
    if not found or not float(found[1]):
        raise UsageError(f"{text!r} is not a length of time above 0", hint="such as 90s, 10min or 1.5h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[(found[2] or "s")[0]]


def check_sizes(**given: float | None) -> None:
    """Raise if a size is not above 0."""
    for name, value in given.items():
        if value is not None and not value > 0:
            raise UsageError(f"{name} must be above 0, got {value}")


def limited(questions: Sequence[Question], limit: int) -> tuple[Question, ...]:
    """Let measures that can draw a sample of their items draw no more than a limit."""
    found = []
    for question in questions:
        usual = inspect.signature(measures.get(question.measure)).parameters.get("sample")
        size = question.options.get("sample", usual.default if usual else 0)
        is_smaller = usual is not None and (not size or limit < size)
        found.append(replace(question, options={**question.options, "sample": limit}) if is_smaller else question)
    if tuple(found) == tuple(questions):
        raise UsageError(
            f"no measure of this audit asks more than {limit} items of a sample", hint="leave `limit=` out"
        )
    return tuple(found)


def writes_text(subject: Subject) -> bool:
    """Return whether the view `text` of a subject is what a language model writes."""
    return "text" in subject.offers and subject.likelihood_of == "causal-lm"


def with_texts(
    questions: Sequence[Question], subjects: Sequence[Subject], samples: int | None, tokens: int | None
) -> tuple[Question, ...]:
    """Say in the questions about text how much a model writes; a corpus is read as it is."""
    writers = any(map(writes_text, subjects))
    if (samples or tokens) and not (writers and any(question.info.view == "text" for question in questions)):
        raise UsageError(
            "`samples=` and `tokens=` say how much a language model writes, and none does in this audit",
            hint="leave them out, or add the measure corpus-bias (`measures=`)",
        )
    opened: Mapping[str, Any] = next((subject.opened_with for subject in subjects if writes_text(subject)), {})
    sizes = {
        "samples": samples or opened.get("samples") or SAMPLES,
        "tokens": tokens or opened.get("tokens") or TOKENS,
    }
    return tuple(
        replace(question, options={**question.options, **sizes})
        if writers and question.info.view == "text"
        else question
        for question in questions
    )
