"""How much an audit asks: sizes of samples and texts, what is said before it starts, and what was left out."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evenhand import measures
from evenhand.errors import EvenhandError, UsageError, counted, few
from evenhand.measures.text import counterfactual_text
from evenhand.models.endpoint.client import keeping_answers
from evenhand.models.endpoint.views import Demand
from evenhand.progress import followed
from evenhand.subjects import Subject
from evenhand.subjects.subject import VIEWS
from evenhand.words import Concept

if TYPE_CHECKING:
    from evenhand.audit.cells import CellStore
    from evenhand.audit.plan import Plan, Question
    from evenhand.audit.runner import StageTask


SAMPLES, TOKENS = 200, 100  # that a model writes in an audit; 2,000 texts of 500 tokens, as in the paper, take hours
FORESEEN = 30.0  # seconds that counting what will be asked may take
TOKEN_BUDGET = re.compile(r"(\d+(?:\.\d+)?) *([km])? *tokens?")
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


def budget_of(text: str) -> tuple[float | None, int | None]:
    """Return the seconds or the tokens of a budget such as "10min" or "50k tokens"; the other one is None.

    >>> budget_of("10min"), budget_of("50k tokens"), budget_of("2000 tokens")
    ((600.0, None), (None, 50000), (None, 2000))
    """
    found = TOKEN_BUDGET.fullmatch(text.strip().lower())
    if not found:
        try:
            return seconds_of(text), None
        except UsageError as error:
            raise UsageError(error.message, hint=f"{error.hint}; or tokens of a server, such as 50k tokens") from None
    most = int(float(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2] or ""])
    if not most:
        raise UsageError(f"{text!r} is not a number of tokens above 0", hint="such as 50k tokens")
    return None, most


def budget_text(plan: Plan) -> str:
    """Return the budget of a plan in words."""
    return f"{plan.most_tokens:,} tokens" if plan.most_tokens else f"{plan.budget:g} s"


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
    sizes = {"samples": samples or opened.get("samples") or SAMPLES, "tokens": tokens or opened.get("tokens") or TOKENS}
    return tuple(
        replace(question, options={**question.options, **sizes})
        if writers and question.info.view == "text"
        else question
        for question in questions
    )


def judged(questions: Sequence[Question], judge: str | None, label: str | None) -> tuple[Question, ...]:
    """Say in the questions that a judge answers who it is."""
    given = {name: value for name, value in (("judge", judge), ("judge_label", label)) if value is not None}
    if given and not any(question.info.asked_if == "judge" for question in questions):
        raise UsageError(
            "`judge=` rates what a language model writes, and nothing is written in this audit",
            hint="leave it out, or add the measure judged-generations (`measures=`)",
        )
    return tuple(
        replace(question, options={**question.options, **given}) if question.info.asked_if == "judge" else question
        for question in questions
    )


@dataclass
class Foreseen:
    """What servers will be asked, by the label of a question, and what could not be counted."""

    demands: dict[str, Demand] = field(default_factory=dict)
    uncounted: int = 0

    def total(self) -> Demand:
        """Return what all questions ask together."""
        total = Demand()
        for demand in self.demands.values():
            total.add(demand)
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a record; nothing where no server is asked."""
        return {"foreseen": self.total().to_dict()} if self.demands else {}

    def __str__(self) -> str:
        if not self.demands and not self.uncounted:
            return ""
        total = self.total()
        text = f"{counted(total.requests, 'request')} to the server; billed are about {round(total.read):,} tokens read"
        text += f" and at most {round(total.written):,} written"
        text += f"; {counted(total.kept, 'answer')} of an earlier run will be reused" if total.kept else ""
        return text + (f"; {counted(self.uncounted, 'cell')} could not be counted" if self.uncounted else "")


def foresee(tasks: Sequence[StageTask], plan: Plan, concept: Concept, store: CellStore) -> Foreseen:
    """Count what missing cells will ask of servers, by measuring them with invented answers."""
    from evenhand.audit.runner import ANSWERS, ask

    found, started = Foreseen(), time.monotonic()
    folder = store.folder / ANSWERS if store.folder else None
    for task in tasks:
        for key, question in task.cells.items():
            if store.cell(key) is not None or task.chain or (rehearsal := task.subject.rehearsal()) is None:
                continue
            if time.monotonic() - started > FORESEEN:
                found.uncounted += 1
                continue
            subject, demand = rehearsal
            with warnings.catch_warnings(), followed(None), keeping_answers(folder):
                warnings.simplefilter("ignore")
                try:
                    ask(question, subject, concept, reference=subject, seed=plan.seed)
                except EvenhandError:  # the measure itself will say why
                    found.uncounted += 0 if demand.requests else 1
            found.demands.setdefault(question.label(), Demand()).add(demand)
    return found


def outlook(
    tasks: Sequence[StageTask], plan: Plan, concept: Concept, store: CellStore, foreseen: Foreseen | None = None
) -> str:
    """Return what is measured, by view, how many texts the models write, and what is stored already."""
    missing = [q for task in tasks for key, q in task.cells.items() if store.cell(key) is None]
    stored = sum(len(task.cells) for task in tasks) - len(missing)
    views = Counter(question.info.view for question in missing)
    parts = ", ".join(f"{views[view]} of {view}" for view in VIEWS if views[view])
    lines = [f"{counted(len(missing), 'cell')} to measure" + (f": {parts}" if parts else "")]
    if stored:
        lines[0] += f"; {counted(stored, 'cell')} of an earlier run will be reused"
    writing = Counter[tuple[str, int, int]]()
    for question in missing:
        texts, tokens = texts_written(question, concept)
        writing[question.measure, texts, tokens] += 1 if texts else 0
    for (measure, texts, tokens), times in writing.items():
        if times:
            each = f" on each of {times} stages" if times > 1 else ""
            lines.append(f"{measure}: the model writes {texts:,} texts of up to {tokens:,} tokens{each}")
    asked = Counter[tuple[str, int]]()
    for question in missing:
        if count := conversations_asked(question, concept):
            asked[question.label(), count] += 1
    for (label, count), times in asked.items():
        each = f" on each of {times} stages" if times > 1 else ""
        lines.append(f"{label}: {counted(count, 'request')} to the chat model{each}")
    lines += [str(foreseen)] if foreseen and str(foreseen) else []
    if plan.budget or plan.most_tokens:
        lines.append(f"cells for which the budget of {budget_text(plan)} is too small will be named in the record")
    return "\n".join(lines)


def texts_written(question: Question, concept: Concept) -> tuple[int, int]:
    """Return how many texts a language model writes for a question, and the tokens of each; 0 if it writes none."""
    options = question.options
    if question.info.view == "text" and "samples" in options:
        return int(options["samples"]), int(options["tokens"])
    if question.measure == "counterfactual-text":
        sizes = {name: options[name] for name in ("rows", "samples") if name in options}
        try:
            count = counterfactual_text.count_texts(concept, **sizes)
        except EvenhandError:  # the measure itself will say why
            return 0, 0
        return count, int(options.get("tokens", counterfactual_text.TOKENS))
    return 0, 0


def conversations_asked(question: Question, concept: Concept) -> int:
    """Return how many conversations a chat model answers for a question; 0 where the measure does not say."""
    if question.info.requests is None:
        return 0
    try:
        return question.info.requests(question.query, concept, **question.options)
    except EvenhandError:  # the measure itself will say why
        return 0


def sample_notes(subjects: Sequence[Subject], plan: Plan) -> list[str]:
    """Return which questions were asked of a sample, and how much the models wrote, for the record and the page."""
    notes = []
    sampled: dict[int, list[str]] = {}
    for question in plan.questions:
        if size := question.options.get("sample"):
            sampled.setdefault(int(size), []).append(question.measure)
    for size, names in sampled.items():
        asked = ", ".join(dict.fromkeys(names))
        notes.append(f"a sample of at most {size:,} items, drawn with seed {plan.seed}, was asked by {asked}")
    for question in plan.questions:
        if "samples" in question.options and question.info.view == "text" and any(map(writes_text, subjects)):
            samples, tokens = question.options["samples"], question.options["tokens"]
            notes.append(
                f"{question.label()} reads {samples:,} texts of up to {tokens:,} tokens that the model wrote; the "
                "paper has 2,000 of 500 (`samples=`, `tokens=`)"
            )
    return notes


def budget_note(tasks: Sequence[StageTask], plan: Plan, left_out: Set[tuple[str, str]]) -> str:
    """Return which cells the budget left out, and how to add them; empty if there are none."""
    names = [task.title(key) for task in tasks for key in task.cells if (task.key, key) in left_out]
    if not names:
        return ""
    return (
        f"the budget of {budget_text(plan)} left out {counted(len(names), 'cell')} ({few(names, most=5)}); "
        "the same command with a larger budget, or without one, adds them to the finished cells"
    )
