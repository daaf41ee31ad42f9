"""Findings: what an audit shows, in at most ten sentences.

Wording depends on the tests of `audit.significance`, never on point values. Scores that a method lowers by construction
count for what is left only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evenhand.audit import ORIGINAL, Audit
from evenhand.audit.rows import Row, rows
from evenhand.audit.significance import (
    MOVED,
    ONLY_LEFT,
    Changed,
    Tested,
    is_changeable,
    run_change_tests,
    run_tests,
)
from evenhand.audit.tradeoff import cost_note, is_about_concept
from evenhand.errors import counted
from evenhand.measures import Measurement
from evenhand.report import numbers

Kind = Literal["bias", "change", "left", "cost", "unmeasured"]
ORDER: tuple[Kind, ...] = ("bias", "change", "left", "cost", "unmeasured")
HEADINGS: dict[Kind, str] = {
    "bias": "Bias found",
    "change": "What the methods changed",
    "left": "What is left",
    "cost": "What it cost",
    "unmeasured": "What could not be measured",
}
MOST = 10
# Kinds in the order in which their sentences give way, and how many stay.
SHORTENED: tuple[tuple[Kind, int], ...] = (
    *(("unmeasured", 1), ("left", 1), ("bias", 2), ("change", 1), ("bias", 1), ("cost", 1)),
)
MOST_BIAS = 4  # sentences on bias found; the others are kept for what was done about it
CORRECTION = "p-values in the findings are corrected by Holm's method over the questions put to one stage of a subject"


@dataclass(frozen=True)
class Finding:
    """One sentence, with the number it rests on and the row where it stands."""

    kind: Kind
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
    every = [finding for subject in audit.subjects for finding in _of_subject(audit, subject, share)]
    return every[:most]


def _of_subject(audit: Audit, subject: str, most: int) -> list[Finding]:
    about = [row for row in rows(audit, subject) if row.info.family != "quality" and _asks_about_concept(row, audit)]
    parts: dict[Kind, list[Finding]] = {
        "bias": _bias(about, subject, _is_inference_model(audit, subject))[: MOST_BIAS if audit.mitigated else MOST],
        "change": _changes(about, subject, audit.mitigated),
        "left": _left(about, subject, audit.mitigated),
        "cost": _cost(audit, subject),
        "unmeasured": _unmeasured(audit, subject),
    }
    # With many methods, their sentences give way; what was found, what it cost and what is missing stay.
    for kind, least in SHORTENED:
        excess = sum(map(len, parts.values())) - most
        part = parts[kind]
        parts[kind] = part[: max(min(least, len(part)), len(part) - max(0, excess))]
    return [finding for kind in ORDER for finding in parts[kind]][:most]


def _asks_about_concept(row: Row, audit: Audit) -> bool:
    return is_about_concept(row.question, audit.concept)


def _is_inference_model(audit: Audit, subject: str) -> bool:
    """Return whether the subject draws conclusions itself; word vectors do so through models trained on them."""
    kinds = {entry["name"]: entry.get("kind", "") for entry in audit.manifest["subjects"]}
    return bool(kinds.get(subject) != "vectors")


def _bias(about: list[Row], subject: str, is_model: bool) -> list[Finding]:
    """Return one sentence for each measure that finds bias, surest first, the best of each view before the rest."""
    tested = run_tests([row for row in about if row.question.measure not in ONLY_LEFT], [ORIGINAL])
    if not tested:
        return []
    by_measure: dict[str, list[Tested]] = {}
    for test in tested:
        by_measure.setdefault(test.row.question.measure, []).append(test)
    found = [group for group in by_measure.values() if any(test.sure for test in group)]
    if not found:
        measures = ", ".join(by_measure)
        return [
            Finding(
                "bias",
                f"No bias beyond chance: none of {counted(len(tested), 'test')} differs from no bias ({measures}). "
                "This does not show that there is none.",
                subject,
                ORIGINAL,
            )
        ]
    found.sort(key=lambda group: (min(test.p for test in group), -max(test.strength for test in group)))
    seen: set[str] = set()
    first: list[list[Tested]] = []
    rest: list[list[Tested]] = []
    for group in found:
        view = group[0].row.info.view
        (rest if view in seen else first).append(group)
        seen.add(view)
    return [_bias_sentence(group, subject, is_model) for group in (*first, *rest)]


def _bias_sentence(group: list[Tested], subject: str, is_model: bool) -> Finding:
    clearest = min(group, key=lambda test: (test.p, -test.strength))
    measurement, info = clearest.measurement, clearest.row.info
    reading = measurement.reading
    if info.view == "inference" and not is_model:
        reading = f"NLI models trained on these vectors: {reading}"
    text = f"{_capital(reading)}: {clearest.row.label} {_evidence(measurement, clearest.p)}."
    if len(group) > 1:
        text += f" {info.title}: {sum(test.sure for test in group)} of {len(group)} tests find bias."
    return _finding("bias", text, subject, clearest)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _finding(kind: Kind, text: str, subject: str, test: Tested) -> Finding:
    measurement = test.measurement
    return Finding(
        kind, text, subject, test.stage, test.row.label, measurement.value, measurement.interval, test.p,
        test.row.info.reading,
    )  # fmt: skip


def _evidence(measurement: Measurement, p: float) -> str:
    interval = numbers.interval(measurement)
    parts = [numbers.number(measurement.value) + (f" {interval}" if interval else ""), numbers.format_p(p)]
    return ", ".join(parts)


def _changes(about: list[Row], subject: str, stages: tuple[str, ...]) -> list[Finding]:
    """Return one sentence for each method that changes a score, most changes first, and one for all that do not."""
    scored = [row for row in about if is_changeable(row)]
    by_stage = run_change_tests(scored, stages)
    shown = {stage: [c for c in changes if c.sure or c.changes_sign] for stage, changes in by_stage.items()}
    idle = [stage for stage, changes in by_stage.items() if changes and not shown[stage]]
    active = [stage for stage in stages if stage not in idle]
    active.sort(key=lambda stage: -len(shown[stage]))
    sentences = [_change_sentence(by_stage[stage], stage, subject) for stage in active]
    if idle:
        total = counted(max(len(by_stage[stage]) for stage in idle), "bias score")
        verb = "changes" if len(idle) == 1 else "change"
        sentences.append(Finding("change", f"{_join(idle)} {verb} none of {total} significantly.", subject, idle[0]))
    return sentences


def _change_sentence(changes: list[Changed], stage: str, subject: str) -> Finding:
    if not changes:
        return Finding("change", f"No bias score can be compared before and after {stage}.", subject, stage)
    sure = [change for change in changes if change.sure]
    total = counted(len(changes), "bias score")
    better = [change for change in sure if change.closer]
    worse = [change for change in sure if not change.closer]
    turned = [change for change in changes if change.changes_sign]
    counts = [f"improves {len(better)} of {total} significantly"]
    counts += [f"worsens {len(worse)}"] if worse else []
    counts += [f"changes the sign of {len(turned)}"] if turned else []
    unclear = len(changes) - len(sure) - len(turned)
    text = f"{stage} {_join(counts)}" + (f"; {unclear} show no significant change." if unclear else ".")
    clearest = max(better or worse or turned, key=lambda change: change.strength)
    text += f" Clearest change: {_from_to(clearest)}."
    if worse and clearest not in worse:
        text += f" Worse: {_from_to(max(worse, key=lambda change: change.strength))}."
    if turned and clearest not in turned:
        text += f" Other sign: {_from_to(max(turned, key=lambda change: change.strength))}."
    return Finding(
        "change", text, subject, stage, clearest.row.label, clearest.after.value, clearest.after.interval, clearest.p,
        clearest.row.info.reading,
    )  # fmt: skip


def _join(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _from_to(change: Changed) -> str:
    after = numbers.number(change.after.value) + f" {numbers.interval(change.after)}"
    return f"{change.row.label} from {numbers.number(change.before.value)} to {after}"


def _left(about: list[Row], subject: str, stages: tuple[str, ...]) -> list[Finding]:
    """Return one sentence for each method: how many scores still differ from no bias, and the clearest."""
    tested = run_tests(about, stages)
    sentences = []
    for stage in stages:
        after = [test for test in tested if test.stage == stage]
        sure = [test for test in after if test.sure]
        if not after:
            continue
        if not sure:
            text = f"After {stage}, none of {counted(len(after), 'test')} differs from no bias beyond chance."
            sentences.append(Finding("left", text, subject, stage))
            continue
        clearest = max(sure, key=lambda test: test.strength)
        text = (
            f"After {stage}, {len(sure)} of {counted(len(after), 'test')} still "
            f"{'differs' if len(sure) == 1 else 'differ'} from no bias: {clearest.measurement.reading}, "
            f"{clearest.row.label} {_evidence(clearest.measurement, clearest.p)}."
        )
        sentences.append(_finding("left", text, subject, clearest))
    return sentences


def _cost(audit: Audit, subject: str) -> list[Finding]:
    """Return what the methods cost, all in one sentence."""
    if not audit.mitigated:
        return []
    results = [result for result in audit.results if result.subject == subject]
    note = cost_note(results)
    if note:
        return [Finding("cost", f"{_capital(note)}.", subject)]
    every = [row for row in rows(audit, subject) if row.info.family == "quality"]
    quality = [row for row in every if row.question.measure not in MOVED]
    moved = _moved([row for row in every if row.question.measure in MOVED], audit.mitigated)
    if not quality:
        return [Finding("cost", f"Cost not measured: the audit has no measure of quality.{moved}", subject)]
    lost = [
        (stage, change)
        for stage, changes in run_change_tests(quality, audit.mitigated).items()
        for change in changes
        if change.sure and not change.closer
    ]
    if not lost:
        names = ", ".join(row.label for row in quality)
        text = f"No significant loss of quality ({names}); small sets can miss a small cost.{moved}"
        return [Finding("cost", text, subject, label=quality[0].label)]
    worst: dict[str, Changed] = {}
    for stage, change in lost:
        if stage not in worst or change.strength > worst[stage].strength:
            worst[stage] = change
    shown = _quality_change if len(worst) < 3 else _from_to
    parts = [f"{stage} lowers {shown(change)}" for stage, change in worst.items()]
    stage, clearest = max(lost, key=lambda pair: pair[1].strength)
    return [
        Finding(
            "cost", f"Quality falls: {'; '.join(parts)}.{moved}", subject, stage, clearest.row.label,
            clearest.after.value, clearest.after.interval, clearest.p, clearest.row.info.reading,
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
    return f" {_capital('; '.join(parts))}." if parts else ""


def _quality_change(change: Changed) -> str:
    reading = f": {change.after.reading}" if change.after.reading else ""
    return f"{_from_to(change)}{reading}"


def _unmeasured(audit: Audit, subject: str) -> list[Finding]:
    """Return which cells have no number, and which have one that is not a score of bias, with the commonest reason."""
    every = [(row, stage, cell) for row in rows(audit, subject) for stage, cell in row.cells.items()]
    sentences = []
    for reason_of, state in ((_undefined_reason, "without a number"), (_failed_controls, "not interpretable")):
        cells = [(row, stage, reason_of(cell)) for row, stage, cell in every if reason_of(cell)]
        if not cells:
            continue
        labels = list(dict.fromkeys(row.label for row, *_ in cells))
        stages = list(dict.fromkeys(stage for _, stage, _ in cells))
        (reason, _), *others = Counter(reason for *_, reason in cells).most_common()
        more = f"; {counted(len(others), 'other reason')}" if others else ""
        listed = ", ".join(labels[:4]) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")
        text = (
            f"{len(cells)} of {counted(len(every), 'cell')} {'is' if len(cells) == 1 else 'are'} {state}: {listed} "
            f"({', '.join(stages)}). Reason: {_shorten(reason)}{more}."
        )
        sentences.append(Finding("unmeasured", text, subject))
    return sentences


def _undefined_reason(measurement: Measurement) -> str:
    return measurement.reason if measurement.value is None else ""


def _failed_controls(measurement: Measurement) -> str:
    return measurement.not_interpretable if measurement.value is not None else ""


def _shorten(reason: str, most: int = 160) -> str:
    reason = reason.rstrip(".")
    return reason if len(reason) <= most else reason[:most].rsplit(" ", 1)[0] + " …"
