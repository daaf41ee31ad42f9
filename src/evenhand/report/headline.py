"""What stands on top of a report: one sentence about the whole audit, and several subjects side by side."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.audit import Audit, rank
from evenhand.audit.record import Row
from evenhand.audit.significance import is_changeable
from evenhand.errors import counted
from evenhand.report import numbers
from evenhand.report.findings import Finding, bias_findings, join
from evenhand.report.scorecard import ScoreCell, score_card
from evenhand.report.subject_tests import SubjectTests
from evenhand.report.tables import PLAIN, kind_name, prominence, subject_record

EFFECT_SIZES = ("weat", "seat")  # measures whose value is an effect size d
# Cohen's names of effect sizes: the least |d| of each.
SIZES = {"very small": 0.0, "small": 0.2, "medium": 0.5, "large": 0.8}
NAMED = 2  # methods that the headline names one by one


def headline(audit: Audit) -> str:
    """Return what an audit found, how strong and how sure it is, what the methods did and at what cost."""
    every = [SubjectTests(audit, subject) for subject in audit.subjects]
    if len(every) == 1:
        return "; ".join(filter(None, (_what(every[0]), _methods(every[0])))) + "."
    return _several(audit, every)


def _several(audit: Audit, every: list[SubjectTests]) -> str:
    biased = [tests for tests in every if _is_biased(tests)]
    counts = [f"{tests.subject}: {_significant(tests)}" for tests in every if tests.found]
    verb = "shows" if len(biased) == 1 else "show"
    text = f"{len(biased)} of {len(every)} subjects {verb} significant {audit.concept} bias"
    text += f" ({'; '.join(counts)})" if counts else ""
    ranks = rank(audit).mean_ranks
    best = min(ranks, key=lambda subject: ranks[subject]) if ranks else ""
    if best and list(ranks.values()).count(ranks[best]) == 1:
        text += f"; {best} has the best mean rank ({ranks[best]:.2f})"
    return f"{text}."


def _is_biased(tests: SubjectTests) -> bool:
    return any(test.sure for test in tests.found) or any(_is_fact_of_bias(found) for found in bias_findings(tests)[:1])


def _is_fact_of_bias(found: Finding) -> bool:
    """Return whether a finding tells of decisions that differ, which needs no test."""
    return found.p_value is None and bool(found.value)


def _significant(tests: SubjectTests) -> str:
    sure = sum(test.sure for test in tests.found)
    return f"{sure} of {counted(len(tests.found), 'test')}"


def _what(tests: SubjectTests) -> str:
    """Return what was found, how strong and how sure it is."""
    concept, kind = tests.audit.concept, kind_name(subject_record(tests.audit, tests.subject))
    subject = f"{tests.subject} ({kind})" if kind else tests.subject
    lead = next(iter(bias_findings(tests)), None)
    if lead is None:
        return f"{subject} has no score of {concept} bias that can be tested"
    if not _is_biased(tests):
        return f"No significant {concept} bias was found in {subject} ({_significant(tests)} significant)"
    clause = lead.text.partition(". ")[0].rstrip(".")
    measured = next(row.cells[tests.first] for row in tests.about if row.label == lead.label)
    value = f"{numbers.value(measured)} {numbers.interval(measured)}".rstrip()
    strength = f"{_size(measured.value or 0.0)} effect, d = {value}" if measured.measure in EFFECT_SIZES else value
    sure = [numbers.format_p(lead.p_value)] if lead.p_value is not None else []
    sure += [f"{_significant(tests)} significant"] if len(tests.found) > 1 else []
    return f"{subject} shows {concept} bias: {_lower(clause)} ({'; '.join([strength, *sure])})"


def _lower(text: str) -> str:
    return text if text[1:2].isupper() or text[1:2] == "(" else text[:1].lower() + text[1:]


def _size(effect: float) -> str:
    return max((name for name, least in SIZES.items() if abs(effect) >= least), key=lambda name: SIZES[name])


def _methods(tests: SubjectTests) -> str:
    """Return what the methods did, what they left and what they cost; empty without methods."""
    stages = tests.later
    if not stages:
        return ""
    improved = {stage: [c for c in tests.changes[stage] if c.sure and c.closer] for stage in stages}
    if len(stages) <= NAMED:
        parts = [
            f"{stage} improves {len(improved[stage]) or 'none'} of {counted(len(tests.changes[stage]), 'score')}"
            for stage in stages
        ]
    else:
        active = sum(map(bool, improved.values()))
        parts = [f"{active or 'none'} of {len(stages)} methods improve{'s' if active == 1 else ''} a score"]
    left = [stage for stage in stages if any(test.sure for test in tests.left if test.stage == stage)]
    parts.append(f"significant bias is left after {_some(left, stages)}" if left else "no significant bias is left")
    return join([*parts, _cost(tests)])


def _some(some: list[str], stages: tuple[str, ...]) -> str:
    if len(some) < len(stages) or len(stages) == 1:
        return join(some) if len(some) <= NAMED else f"{len(some)} of them"
    return "both" if len(some) == NAMED else "all of them"


def _cost(tests: SubjectTests) -> str:
    if not any(tests.quality_changes.values()):
        return "the cost was not measured"
    lost = list(dict.fromkeys(stage for stage, _ in tests.lost))
    return f"quality falls after {_some(lost, tests.later)}" if lost else "no significant loss of quality was found"


@dataclass(frozen=True)
class SideBySideRow:
    """One row of several subjects on the first stage; None for a subject that was not asked."""

    row: Row
    cells: dict[str, ScoreCell | None]


def side_by_side(audit: Audit) -> list[SideBySideRow]:
    """Return the rows that two subjects or more have, those that a reader understands first; quality comes last.

    Rows without a test or a plain reading are left to the tables, and so are those that are at their maximum on every
    original by construction.
    """
    if len(audit.subjects) < 2:
        return []
    cards = {subject: score_card(audit, subject) for subject in audit.subjects}
    kinds = [str(subject_record(audit, subject).get("kind", "")) for subject in audit.subjects]
    by_label: dict[str, SideBySideRow] = {}
    for subject, card in cards.items():
        for line in card:
            state = next(iter(line.cells.values())).state
            quality = line.row.info.family == "quality" and line.row.question.measure in QUALITY
            bias = not line.is_control and line.row.info.family != "quality" and is_changeable(line.row)
            if quality or (bias and (line.row.question.measure in PLAIN or state in ("bias", "not significant"))):
                made = by_label.setdefault(line.row.label, SideBySideRow(line.row, dict.fromkeys(audit.subjects)))
                made.cells[subject] = next(iter(line.cells.values()))
    shared = [each for each in by_label.values() if sum(cell is not None for cell in each.cells.values()) > 1]
    return sorted(
        shared,
        key=lambda each: (each.row.info.family == "quality", min(prominence(each.row, kind) for kind in kinds)),
    )


QUALITY = ("similarity", "analogy", "perplexity")  # what a subject can do; how far a method moved it is not comparable
