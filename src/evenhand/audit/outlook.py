"""What an audit will ask, said before it starts, and what it asked only in part, for the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from evenhand.audit.cells import CellStore
from evenhand.audit.plan import Plan, Question
from evenhand.audit.sizes import writes_text
from evenhand.errors import EvenhandError, counted, few
from evenhand.measures.text import counterfactual_text
from evenhand.subjects import Subject
from evenhand.subjects.subject import VIEWS
from evenhand.words import Concept

if TYPE_CHECKING:
    from evenhand.audit.runner import StageTask


def outlook(tasks: Sequence[StageTask], plan: Plan, concept: Concept, store: CellStore) -> str:
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
    if plan.budget:
        lines.append("cells that the budget leaves no time for will be named in the record")
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
        f"the budget of {plan.budget:g} s left out {counted(len(names), 'cell')} ({few(names, most=5)}); "
        "the same command with a longer budget, or without one, adds them to the finished cells"
    )
