"""What an audit shows in sentences: a headline, and at most ten findings, each with the numbers it rests on.

Wording depends on the tests of `audit.significance`, never on point values. Scores that a method lowers by construction
count for what is left only. That a classifier decides otherwise when the group changes is a fact about the texts it was
asked, and is reported without a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

from evenhand.audit import ORIGINAL, Audit, rank
from evenhand.audit.record import VIEWS, Row, rows
from evenhand.audit.significance import Changed, Tested
from evenhand.audit.tradeoff import cost_note
from evenhand.errors import counted
from evenhand.measures import Measurement, numbers
from evenhand.report.scorecard import SubjectTests
from evenhand.report.tables import kind_name, subject_record

FindingKind = Literal["bias", "change", "left", "cost", "unmeasured"]
ORDER: tuple[FindingKind, ...] = ("bias", "change", "left", "cost", "unmeasured")
HEADINGS: dict[FindingKind, str] = {
    "bias": "What was found",
    "change": "What the methods changed",
    "left": "What is left",
    "cost": "What it cost",
    "unmeasured": "What could not be measured",
}
MOST = 10
# Kinds in the order in which their sentences give way, and how many stay.
SHORTENED: tuple[tuple[FindingKind, int], ...] = (
    *(("unmeasured", 1), ("left", 1), ("bias", 2), ("change", 1), ("bias", 1), ("cost", 1)),
)
MOST_BIAS = 4  # sentences on bias found; the others are kept for what was done about it
CORRECTION = "p-values in the findings are corrected by Holm's method over the questions put to one stage of a subject"


@dataclass(frozen=True)
class Finding:
    """One plain sentence, with the numbers it rests on and the row where they stand."""

    kind: FindingKind
    text: str
    subject: str
    stage: str = ""
    label: str = ""
    value: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    """After correction."""
    reading: str = ""
    """How to read the number."""
    evidence: str = ""
    """The numbers behind the sentence, in words."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def findings(audit: Audit, *, most: int = MOST) -> list[Finding]:
    """Return what an audit shows, most important first.

    Args:
        audit: the record of a run.
        most: the largest number of sentences.
    """
    share = most if len(audit.subjects) == 1 else max(2, most // len(audit.subjects))
    every = [finding for subject in audit.subjects for finding in _of_subject(SubjectTests(audit, subject), share)]
    return every[:most]


@VIEWS.register("findings")
def summary(audit: Audit) -> dict[str, object]:
    """Return headline and findings as plain data, for the record."""
    return {"headline": headline(audit), "findings": [finding.to_dict() for finding in findings(audit)]}


def _of_subject(tests: SubjectTests, most: int) -> list[Finding]:
    mitigated = tests.audit.mitigated
    parts: dict[FindingKind, list[Finding]] = {
        "bias": bias_findings(tests)[: MOST_BIAS if mitigated else MOST],
        "change": _changes(tests),
        "left": _left(tests),
        "cost": _cost(tests),
        "unmeasured": _unmeasured(tests.audit, tests.subject),
    }
    # With many methods, their sentences give way; what was found, what it cost and what is missing stay.
    for kind, least in SHORTENED:
        excess = sum(map(len, parts.values())) - most
        part = parts[kind]
        parts[kind] = part[: max(min(least, len(part)), len(part) - max(0, excess))]
    return [finding for kind in ORDER for finding in parts[kind]][:most]


def under_headings(
    found: Iterable[Finding], headings: Mapping[FindingKind, str] = HEADINGS, *, several: bool
) -> Iterator[tuple[str, Iterator[Finding]]]:
    """Yield the headings of findings with what stands below each; of several subjects, a heading names its own."""
    return groupby(
        found, lambda finding: headings[finding.kind] + (f": {finding.subject}" if several and finding.subject else "")
    )


def capital(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def sentence(reading: str) -> str:
    """Return the plain part of a reading, which ends at a semicolon, as the beginning of a sentence.

    >>> sentence("entailment is concluded less often for female words; -0.5 to -0.4 by seed")
    'Entailment is concluded less often for female words'
    """
    return capital(reading.partition("; ")[0])


def bias_findings(tests: SubjectTests) -> list[Finding]:
    """Return what was found on the original: decisions first, then each measure that finds bias.

    The best measure of each view comes before the others, and views in the order of what the subject does itself.
    """
    facts = [*_decisions(tests)]
    by_measure: dict[str, list[Tested]] = {}
    for test in tests.found:
        by_measure.setdefault(_told_together(test.row), []).append(test)
    # Flips and differences of decisions are told as facts; only their direction is told as the result of a test.
    told = {
        measure: [test for test in group if not facts or not _is_fact(test.row)]
        for measure, group in by_measure.items()
    }
    groups = [group for group in told.values() if any(test.sure for test in group)]
    if not groups:
        return [*facts, *_nothing_found(tests, by_measure, facts)]
    groups.sort(key=lambda group: (tests.place(group[0].row), min(test.p for test in group)))
    seen: set[str] = set()
    first: list[list[Tested]] = []
    rest: list[list[Tested]] = []
    for group in groups:
        view = group[0].row.info.view
        (rest if view in seen else first).append(group)
        seen.add(view)
    return [*facts, *(_bias_sentence(group, tests) for group in (*first, *rest))]


def _told_together(row: Row) -> str:
    """Return what one sentence tells of: a measure; of a table, which may name several groups, each by itself."""
    asked = row.question
    return f"{asked.measure} by {asked.query}" if row.info.family == "outcomes" else asked.measure


def _nothing_found(tests: SubjectTests, measures: Iterable[str], facts: list[Finding]) -> Iterable[Finding]:
    if not tests.found:
        return
    total = counted(len(tests.found), "test")
    score = "other score" if facts else "score"
    text = f"No {score} is significantly different from no bias. This does not show that there is none."
    yield Finding("bias", text, tests.subject, ORIGINAL, evidence=f"{total}: {', '.join(measures)}")


def _is_fact(row: Row) -> bool:
    return row.info.facts and not row.original.score.startswith("gap")


def _pair_of_texts(item: Mapping[str, Any]) -> str:
    """Return the two texts of an item with what the classifier gave them; empty for an item without these."""
    given = item.get("probabilities", item.get("scores"))
    is_pair = isinstance(given, list | tuple) and len(given) == 2 and all(isinstance(p, int | float) for p in given)
    if not is_pair or "counterpart" not in item:
        return ""
    high, low = (numbers.number(value, 2) for value in given)
    return f" The largest difference: “{item.get('word', '')}” {high}, “{item['counterpart']}” {low}."


def _decisions(tests: SubjectTests) -> Iterable[Finding]:
    """Yield how often and how far the decisions of a classifier change with the group, with the worst pair of texts."""
    by_question: dict[str, list[Row]] = {}
    p_values = {test.row.label: test.p for test in tests.found}
    for row in tests.about:
        if row.info.facts and row.original.value is not None:
            by_question.setdefault(row.question.query, []).append(row)
    for asked in by_question.values():
        facts = [row for row in asked if _is_fact(row)]
        untested = [row for row in asked if not _is_fact(row) and row.label not in p_values]
        told = facts + sorted(untested, key=lambda row: -abs(row.original.value or 0.0))[:1]
        if not told:
            continue
        text = ". ".join(sentence(row.original.reading) for row in told) + "."
        text += next(filter(None, (_pair_of_texts(item) for row in facts for item in row.original.items)), "")
        first = told[0]
        yield Finding(
            "bias", text, tests.subject, tests.first, first.label, first.original.value, first.original.interval,
            p_values.get(first.label), first.info.reading,
            "; ".join(_numbers(row.original, row.label, p_values.get(row.label)) for row in asked)
            + f" ({first.original.n:,} texts, each in a version for every group)",
        )  # fmt: skip


def _bias_sentence(group: list[Tested], tests: SubjectTests) -> Finding:
    clearest = min(group, key=lambda test: (test.p, -test.strength))
    measurement, info = clearest.measurement, clearest.row.info
    text = sentence(measurement.reading if info.plain else f"{info.title}: {measurement.reading}")
    if info.view == "inference" and tests.kind == "vectors":
        text = f"In NLI models trained on these vectors, {text[:1].lower()}{text[1:]}"
    evidence = _numbers(measurement, clearest.row.label, clearest.p)
    if len(group) > 1:
        evidence += f"; {info.title}: {sum(test.sure for test in group)} of {len(group)} tests significant"
    return _finding("bias", f"{text}.", tests.subject, clearest, evidence)


def _finding(kind: FindingKind, text: str, subject: str, test: Tested, evidence: str) -> Finding:
    measurement = test.measurement
    return Finding(
        kind, text, subject, test.stage, test.row.label, measurement.value, measurement.interval, test.p,
        test.row.info.reading, evidence,
    )  # fmt: skip


def _numbers(measurement: Measurement, label: str, p: float | None) -> str:
    interval = numbers.interval(measurement)
    value = f"{label} {numbers.value(measurement)}" + (f" {interval}" if interval else "")
    return value + (f", {numbers.format_p(p)}" if p is not None else "")


def _changes(tests: SubjectTests) -> list[Finding]:
    """Return one sentence for each method that changes a score, most changes first, and one for all that do not."""
    stages = tests.audit.mitigated
    shown = {stage: [c for c in changes if c.sure or c.changes_sign] for stage, changes in tests.changes.items()}
    idle = [stage for stage, changes in tests.changes.items() if changes and not shown[stage]]
    active = [stage for stage in stages if stage in shown and stage not in idle]
    active.sort(key=lambda stage: -len(shown[stage]))
    sentences = [_change_sentence(tests, stage) for stage in active]
    if idle:
        total = counted(max(len(tests.changes[stage]) for stage in idle), "bias score")
        verb = "changes" if len(idle) == 1 else "change"
        text = f"{join(idle)} {verb} none of {total} significantly."
        sentences.append(Finding("change", text, tests.subject, idle[0]))
    return sentences


def _change_sentence(tests: SubjectTests, stage: str) -> Finding:
    changes = tests.changes.get(stage, [])
    if not changes:
        return Finding("change", f"No bias score can be compared before and after {stage}.", tests.subject, stage)

    def clearest(group: list[Changed]) -> Changed:
        return min(group, key=lambda change: (tests.place(change.row), -change.strength))

    turned = [change for change in changes if (change.row.label, stage) in tests.reversals and not change.sure]
    crossed = [change for change in changes if change.changes_sign and not change.sure and change not in turned]
    better = [change for change in changes if change.sure and change.closer]
    worse = [change for change in changes if change.sure and not change.closer]
    counts = [f"improves {len(better)} of {counted(len(changes), 'bias score')} significantly"]
    counts += [f"worsens {len(worse)}"] if worse else []
    counts += [f"changes the sign of {len(turned)}"] if turned else []
    unclear = len(changes) - len(better) - len(worse) - len(turned)
    shows = "shows" if unclear == 1 else "show"
    text = f"{stage} {join(counts)}" + (f"; {unclear} {shows} no significant change." if unclear else ".")
    evidence = []
    for title, group in (("Clearest change", better), ("Worse", worse), ("Other sign", turned)):
        if group:
            evidence.append(f"{title}: {from_to(clearest(group))}")
    if crossed:
        evidence.append(f"Past the ideal, without significant bias there: {from_to(clearest(crossed))}")
    if turned:
        text += f" {_explain_reversal(clearest(turned))}"
    main = clearest(better or worse or turned or crossed)
    return Finding(
        "change", text, tests.subject, stage, main.row.label, main.after.value, main.after.interval, main.p,
        main.row.info.reading, ". ".join(evidence),
    )  # fmt: skip


def _explain_reversal(change: Changed) -> str:
    """Return what a changed sign means: an effect size is relative, so it can change sign where little is left."""
    label, reading = change.row.label, change.after.reading.partition("; ")[0]
    before, after = (cell.details.get("statistic") for cell in (change.before, change.after))
    if isinstance(before, float) and isinstance(after, float) and abs(after) < abs(before):
        shrinks = f"from {numbers.number(abs(before))} to {numbers.number(abs(after))}"
        return (
            f"With the other sign, {reading} ({label}). That is not a bias of the same size: an effect size is "
            f"relative to its own spread, and the association itself shrinks {shrinks}."
        )
    return f"With the other sign, {reading} ({label}): the bias is not removed, it points the other way."


def join(parts: list[str]) -> str:
    """Return words as a list in a sentence.

    >>> join(["hard", "linear", "span"])
    'hard, linear and span'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def first_of(names: Iterable[str], most: int) -> str:
    """Return the first names as text, with the number of the others.

    >>> first_of(["weat", "rnd", "mac"], 2)
    'weat, rnd and 1 more'
    """
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def from_to(change: Changed) -> str:
    """Return a score before and after as text."""
    after = f"{numbers.value(change.after)} {numbers.interval(change.after)}"
    return f"{change.row.label} from {numbers.number(change.before.value)} to {after}"


def _left(tests: SubjectTests) -> list[Finding]:
    """Return one sentence for each method: how many scores still differ from no bias, and the clearest."""
    sentences = []
    for stage in tests.audit.mitigated:
        after = [test for test in tests.left if test.stage == stage]
        sure = [test for test in after if test.sure]
        if not after:
            continue
        total = counted(len(after), "test")
        if not sure:
            text = f"After {stage}, no score is significantly different from no bias."
            sentences.append(Finding("left", text, tests.subject, stage, evidence=total))
            continue
        clearest = min(sure, key=lambda test: (tests.place(test.row)[0], test.row.info.role != "left", -test.strength))
        text = f"After {stage}, bias is left: {clearest.measurement.reading.partition('; ')[0]}."
        evidence = (
            f"{_numbers(clearest.measurement, clearest.row.label, clearest.p)}; {len(sure)} of {total} significant"
        )
        sentences.append(_finding("left", text, tests.subject, clearest, evidence))
    return sentences


def _cost(tests: SubjectTests) -> list[Finding]:
    """Return what the methods cost, all in one sentence."""
    audit, subject = tests.audit, tests.subject
    if not audit.mitigated:
        return []
    note = cost_note([result for result in audit.results if result.subject == subject])
    if note:
        return [Finding("cost", f"{capital(note)}.", subject)]
    every = [row for row in rows(audit, subject) if row.info.family == "quality"]
    quality = [row for row in every if row.info.role == "cost"]
    moved = _moved([row for row in every if row.info.role == "moved"], audit.mitigated)
    if not quality:
        return [Finding("cost", f"Cost not measured: the audit has no measure of quality.{moved}", subject)]
    if not tests.lost:
        text = f"No significant loss of quality; small sets can miss a small cost.{moved}"
        evidence = ", ".join(row.label for row in quality)
        return [Finding("cost", text, subject, label=quality[0].label, evidence=evidence)]
    worst: dict[str, Changed] = {}
    for stage, change in tests.lost:
        if stage not in worst or change.strength > worst[stage].strength:
            worst[stage] = change
    stage, clearest = max(tests.lost, key=lambda pair: pair[1].strength)
    text = f"Quality falls significantly after {join(list(worst))}: {clearest.after.reading} after {stage}.{moved}"
    return [
        Finding(
            "cost", text, subject, stage, clearest.row.label, clearest.after.value, clearest.after.interval, clearest.p,
            clearest.row.info.reading, "; ".join(f"{stage}: {from_to(change)}" for stage, change in worst.items()),
        )
    ]  # fmt: skip


def _moved(kept: list[Row], stages: tuple[str, ...]) -> str:
    """Return how far each method moved the vectors, in the words of the measure; empty without such a measure."""
    parts = [
        f"after {stage}, {cell.reading}"
        for row in kept[:1]
        for stage in stages
        if (cell := row.cells.get(stage)) is not None and cell.value is not None and cell.reading
    ]
    return f" {capital('; '.join(parts))}." if parts else ""


def unmeasured_reasons(audit: Audit, subject: str) -> Mapping[str, dict[str, list[str]]]:
    """Return why values are missing or not interpretable: state, reason, and the cells as "label (stages)".

    Every reason is there, the commonest first.
    """
    states: dict[str, dict[str, list[str]]] = {}
    for state, reason_of in (("not computed", _undefined_reason), ("not interpretable", _failed_controls)):
        found: dict[str, dict[str, list[str]]] = {}
        for row in rows(audit, subject):
            for stage, cell in row.cells.items():
                if reason := reason_of(cell):
                    found.setdefault(reason.rstrip("."), {}).setdefault(row.label, []).append(stage)
        ordered = sorted(found.items(), key=lambda item: -sum(map(len, item[1].values())))
        if ordered:
            states[state] = {
                reason: [f"{label} ({', '.join(stages)})" for label, stages in cells.items()]
                for reason, cells in ordered
            }
    return states


def _unmeasured(audit: Audit, subject: str) -> list[Finding]:
    """Return how many values are missing or not interpretable, with the commonest reason."""
    cells = [cell for row in rows(audit, subject) for cell in row.cells.values()]
    counts = {"not computed": sum(map(bool, map(_undefined_reason, cells)))}
    counts["not interpretable"] = sum(map(bool, map(_failed_controls, cells)))
    sentences = []
    for state, reasons in unmeasured_reasons(audit, subject).items():
        some = f"{counts[state]} of {counted(len(cells), 'value')}"
        could = "could not be computed" if state == "not computed" else "cannot be interpreted"
        (reason, labels), *others = reasons.items()
        text = f"{some} {could}. {'Main reason' if others else 'Reason'}: {_shorten(reason)}"
        more = f"; {counted(len(others), 'other reason')}" if others else ""
        sentences.append(Finding("unmeasured", text, subject, evidence=f"{first_of(labels, 4)}{more}"))
    return sentences


def _undefined_reason(measurement: Measurement) -> str:
    return measurement.reason if measurement.value is None else ""


def _failed_controls(measurement: Measurement) -> str:
    return measurement.not_interpretable if measurement.value is not None else ""


def _shorten(reason: str, most: int = 160) -> str:
    """Return the beginning of a reason as the end of a sentence."""
    return f"{reason}." if len(reason) <= most else reason[:most].rsplit(" ", 1)[0] + " …"


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
    told = bias_findings(tests)[:1]  # decisions that differ come first, and need no test
    return any(test.sure for test in tests.found) or any(found.p_value is None and found.value for found in told)


def _significant(tests: SubjectTests) -> str:
    sure = sum(test.sure for test in tests.found)
    return f"{sure} of {counted(len(tests.found), 'test')}"


def _what(tests: SubjectTests) -> str:
    """Return what was found, how strong and how sure it is."""
    kind = kind_name(subject_record(tests.audit, tests.subject))
    subject = f"{tests.subject} ({kind})" if kind else tests.subject
    lead = next(iter(bias_findings(tests)), None)
    concept = _asked_about(tests, lead)
    if lead is None:
        return f"{subject} has no score of {concept} bias that can be tested"
    if not _is_biased(tests):
        return f"No significant {concept} bias was found in {subject} ({_significant(tests)} significant)"
    clause = lead.text.partition(". ")[0].rstrip(".")
    row = next(row for row in tests.about if row.label == lead.label)
    measured = row.cells.get(tests.first, row.original)
    value = f"{numbers.value(measured)} {numbers.interval(measured)}".rstrip()
    strength = f"{_size(measured.value or 0.0)} effect, d = {value}" if row.info.effect_size else value
    sure = [numbers.format_p(lead.p_value)] if lead.p_value is not None else []
    sure += [f"{_significant(tests)} significant"] if len(tests.found) > 1 else []
    return f"{subject} shows {concept} bias: {_lower(clause)} ({'; '.join([strength, *sure])})"


def _asked_about(tests: SubjectTests, lead: Finding | None) -> str:
    """Return what the headline is about: the concept, or the groups of labelled texts where it tells of these."""
    led = [row for row in tests.about if lead and row.label == lead.label] or [test.row for test in tests.found]
    named = dict.fromkeys(row.question.query for row in led if row.info.family == "outcomes")
    foreign = named and len(led) == sum(row.info.family == "outcomes" for row in led)
    concept = tests.audit.concept
    return ", ".join(named) if foreign and not set(named) & set(concept.split(", ")) else concept


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
    return join([*parts, _cost_clause(tests)])


def _some(some: list[str], stages: tuple[str, ...]) -> str:
    if len(some) < len(stages) or len(stages) == 1:
        return join(some) if len(some) <= NAMED else f"{len(some)} of them"
    return "both" if len(some) == NAMED else "all of them"


def _cost_clause(tests: SubjectTests) -> str:
    if not any(tests.quality_changes.values()):
        return "the cost was not measured"
    lost = list(dict.fromkeys(stage for stage, _ in tests.lost))
    return f"quality falls after {_some(lost, tests.later)}" if lost else "no significant loss of quality was found"
