"""Counterfactual fairness: does a classifier decide otherwise when only the group changes? (Garg et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from evenhand.arrays import Vector64, texts_of
from evenhand.errors import DegenerateError, UsageError
from evenhand.files import existing, read_utf8
from evenhand.measures.call import Call, measure
from evenhand.measures.groups import Contrast, against_others, contrasts, group_word_p, means_by
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.encoders.classifier import AnswerUnit, Classifier, decide, label_index, unit_of
from evenhand.stats import clustered_interval, crossed_share_note, wilson
from evenhand.stats.bootstrap import Interval
from evenhand.stats.means import Limits
from evenhand.stats.units import Units, mean_units
from evenhand.words import Concept, Template, as_concept
from evenhand.words import template as find_template
from evenhand.words.group_swap import GroupSwap
from evenhand.words.persons import is_template, person_sentences, persons

TEMPLATE = "person-sentences"
WORST = 50  # pairs kept in the items
INFO = Info(
    id="counterfactual",
    title="Counterfactual fairness of a classifier",
    takes="text",
    better="zero",
    formula="flip-rate = P(label(x_g) != label(x_h)); change = mean |p(x_g) - p(x_h)|; gap = mean p(x_g) - p(x_others)",
    reading=(
        "x_g and x_h are the same text about different groups, p the probability of one label. 0: the decision does "
        "not depend on the group. The gap has a sign: above 0, the label is more probable for the first group. For a "
        "regression head, such as a reward model, p is its score, and there is no flip-rate."
    ),
    limits=(
        "Some differences are right: a text about pregnancy is not the same about a man. Short sentences are not what "
        "a classifier reads in use; measure your own texts. Phrases also differ in frequency and number of tokens."
    ),
    cites=("garg2019",),
    queries=(TEMPLATE,),
    view="labels",
    null={"gap": 0.0},
    definition=5,
    plain=1,
    charts=("decision-changes",),
    ticked=("outcomes", "labels"),
    facts=True,
)


@dataclass(frozen=True)
class CounterfactualCase:
    """One text in a version for each group.

    Attributes:
        cluster: the template or text it comes from.
        row: the phrases that name the groups; empty for texts of a file.
        texts: the versions.
        groups: the number of the group of each version; -1 where a version names several.
    """

    cluster: str
    row: str
    texts: tuple[str, ...]
    groups: tuple[int, ...]


@dataclass(frozen=True)
class CaseSet:
    """Cases over the same groups, and the texts that make none."""

    name: str
    groups: tuple[str, ...]
    cases: tuple[CounterfactualCase, ...]
    without_group: int = 0
    left_out: tuple[str, ...] = ()

    def of_rows(self, most: int | None) -> list[CounterfactualCase]:
        """Return the cases with a version for each group, of some rows of phrases; None for all of them."""
        complete = [case for case in self.cases if set(case.groups) == set(range(len(self.groups)))]
        rows = list(dict.fromkeys(case.row for case in complete))[:most]
        return [case for case in complete if case.row in rows]


@measure(INFO)
def counterfactual(
    call: Call,
    view: Classifier,
    texts: str | Path | Template | Sequence[str] = TEMPLATE,
    *,
    concept: Concept | str = "gender",
    label: str | None = None,
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Measure how often the label flips, how far a probability moves, and which way, when the group changes.

    Args:
        view: a classifier, or the `labels` view of a subject; also of a regression head, whose score then takes the
            place of the probability.
        texts: a template with the free slot `{person}` (its id or word file), which is filled with the phrases of the
            concept; or a text file with one text per line, or a list of texts, whose group words are replaced.
        concept: whose groups are exchanged.
        label: the label whose probability is compared; the last label by default, which is the positive one of most
            classifiers.
        seed: recorded only; nothing is drawn at random.

    Returns:
        `flip-rate`, `change` and `gap` (one for each group against the others where there are more than two). Intervals
        resample templates and phrases, or texts. The p-value of `gap` exchanges the groups of the words in which the
        versions differ. `items` of `change` are the pairs that differ most. A score decides nothing, so a regression
        head has no `flip-rate`; the details give the spread of its scores.

    What it does not tell you: whether the classifier is right about anybody. See `evenhand show counterfactual`.
    """
    concept = as_concept(concept)
    column = label_index(view, label)
    cases = case_set(texts, concept)
    unit = unit_of(view)
    scores = ("flip-rate", "change", *(contrast.name("gap") for contrast in contrasts(cases.groups)))
    params = {"label": view.labels[column], "labels": list(view.labels)} | ({"unit": unit} if unit == "score" else {})
    call.describe(cases.name, scores=scores[1:] if unit == "score" else scores, params=params)
    if not cases.cases:
        raise DegenerateError(f"no text names a group of {concept.name} whose words have counterparts")
    everything = list(dict.fromkeys(text for case in cases.cases for text in case.texts))
    predicted = view.predict(everything)
    index = {text: row for row, text in enumerate(everything)}
    probabilities, decisions = predicted[:, column], decide(view, predicted)
    details: dict[str, object] = {
        "cases": len(cases.cases),
        "texts": len(everything),
        "without_group": cases.without_group,
    }
    details |= {"left_out": list(cases.left_out)} if cases.left_out else {}
    details |= {"spread": float(probabilities.std())} if unit == "score" else {}
    rows = [[index[text] for text in case.texts] for case in cases.cases]
    result = _Result(cases, rows, probabilities, decisions, unit, details)
    name = view.labels[column] if unit == "score" else f"P({view.labels[column]})"
    return (
        *(() if unit == "score" else (_flips(call, result),)),
        _changes(call, result, everything, name),
        *(_gap(call, result, contrast, name) for contrast in contrasts(cases.groups)),
    )


@dataclass(frozen=True, eq=False)
class _Result:
    """The cases with the rows of their texts, and what the classifier says of each text."""

    cases: CaseSet
    rows: list[list[int]]
    probabilities: Vector64
    decisions: np.ndarray
    unit: AnswerUnit
    details: Mapping[str, object]

    @property
    def largest(self) -> float:
        """The largest difference that is possible."""
        return float("inf") if self.unit == "score" else 1.0

    def clusters(self, kept: Sequence[int]) -> dict[str, list[str]]:
        """Return what some of the cases share: templates and phrases, or texts, with the label of each case."""
        chosen = [self.cases.cases[number] for number in kept]
        templates = [case.cluster for case in chosen]
        if not chosen or not chosen[0].row:
            return {"text": templates}
        return {"template": templates, "phrase": [case.row for case in chosen]}

    def units(self, values: Vector64, kept: Sequence[int]) -> tuple[Units, ...]:
        """Return the units of a mean over cases."""
        return tuple(mean_units(kind, labels, values) for kind, labels in self.clusters(kept).items())

    def interval(
        self, values: Vector64, kept: Sequence[int], *, limits: Limits = (-1.0, 1.0), share: bool = False
    ) -> Interval:
        """Return the interval of a mean over cases."""
        return clustered_interval(values, list(self.clusters(kept).values()), limits=limits, share=share)


def _flips(call: Call, result: _Result) -> Measurement:
    flips = np.array(
        [
            np.mean([result.decisions[a] != result.decisions[b] for a, b in combinations(rows, 2)])
            for rows in result.rows
        ]
    )
    value = float(flips.mean())
    return call.measurement(
        value, len(flips), score="flip-rate", details=result.details,
        interval=_rate_interval(result, flips), units=result.units(flips, range(len(flips))),
        note=crossed_share_note(value, list(result.clusters(range(len(flips))).values())),
        reading=f"the label changes with the group in {100 * value:.1f} % of the pairs",
    )  # fmt: skip


def _rate_interval(result: _Result, flips: Vector64) -> Interval:
    """Return the interval of the flip rate; where every case is alike, that of Wilson over templates or texts."""
    if 0 < flips.mean() < 1:
        return result.interval(flips, range(len(flips)), share=True)
    low, high = wilson(float(flips.mean()), len({case.cluster for case in result.cases.cases})).tolist()
    return low, high


def _changes(call: Call, result: _Result, texts: list[str], label: str) -> Measurement:
    p = result.probabilities
    changes = np.array([np.mean([abs(p[a] - p[b]) for a, b in combinations(rows, 2)]) for rows in result.rows])
    pairs = {(a, b) if p[a] >= p[b] else (b, a) for rows in result.rows for a, b in combinations(rows, 2)}
    worst = sorted(pairs, key=lambda pair: (p[pair[1]] - p[pair[0]], pair))[:WORST]
    items: list[dict[str, object]] = [
        {
            "word": texts[a],
            "counterpart": texts[b],
            "value": float(p[a] - p[b]),
            ("scores" if result.unit == "score" else "probabilities"): [float(p[a]), float(p[b])],
            **({} if result.unit == "score" else {"flips": bool(result.decisions[a] != result.decisions[b])}),
        }
        for a, b in worst
    ]
    value = float(changes.mean())
    return call.measurement(
        value, len(changes), score="change", details=result.details,
        interval=result.interval(changes, range(len(changes)), limits=(0.0, result.largest)),
        units=result.units(changes, range(len(changes))),
        reading=f"{label} differs by {value:.3f} on average, by {items[0]['value']:.3f} at most", items=items,
    )  # fmt: skip


def _gap(call: Call, result: _Result, contrast: Contrast, label: str) -> Measurement:
    everyone = range(len(result.cases.groups))
    kept = [number for number, case in enumerate(result.cases.cases) if set(case.groups) == set(everyone)]
    chosen = [result.cases.cases[number] for number in kept]
    score = contrast.name("gap")
    if not kept:
        reason = "every text names several groups"
        return call.undefined(reason, score=score, positive=contrast.group, details=result.details)
    order = [[case.groups.index(group) for group in everyone] for case in chosen]
    rows = np.array([[result.rows[number][at] for at in some] for number, some in zip(kept, order, strict=True)])
    texts = [[case.texts[at] for at in some] for case, some in zip(chosen, order, strict=True)]
    by_group = against_others(result.probabilities[rows])
    values = by_group[:, contrast.first]
    value = float(values.mean())
    by_row = means_by((case.row or case.cluster for case in chosen), values.tolist())
    means = sorted(by_row.items(), key=lambda item: -abs(item[1]))
    return call.measurement(
        value, len(kept), score=score, positive=contrast.group, details=result.details,
        interval=result.interval(values, kept, limits=(-result.largest, result.largest)),
        p_value=group_word_p(texts, by_group, contrast, [[case.cluster for case in chosen]]),
        units=result.units(values, kept),
        reading=f"{label} is {'higher' if value >= 0 else 'lower'} for {contrast.group} than for "
        f"{contrast.against} by {abs(value):.3f}",
        items=tuple({"word": row, "value": gap} for row, gap in means[:WORST]),
    )  # fmt: skip


def case_set(texts: str | Path | Template | Sequence[str], concept: Concept) -> CaseSet:
    """Return the cases of a template, of a text file, or of a list of texts."""
    if isinstance(texts, str | Path) and not is_template(str(texts)):
        path = existing(Path(texts), what="text file or template")
        lines = [line.strip() for line in read_utf8(path).splitlines() if line.strip()]
        return swapped_cases(path.name, lines, concept)
    if isinstance(texts, str | Path | Template):
        return template_cases(find_template(texts), concept)
    return swapped_cases("texts", texts_of(texts, "text") or list(texts), concept)


def template_cases(template: Template, concept: Concept) -> CaseSet:
    """Return every sentence of a template with every row of phrases of the concept."""
    people = persons(concept)
    numbers = tuple(range(len(people.groups)))

    def cases() -> Iterator[CounterfactualCase]:
        for row in people.rows:
            versions = zip(*(person_sentences(template, phrase) for phrase in row), strict=True)
            for frame, sentences in zip(person_sentences(template, "someone"), versions, strict=True):
                yield CounterfactualCase(frame, " / ".join(row), sentences, numbers)

    return CaseSet(template.name, people.groups, tuple(cases()), left_out=people.left_out)


def swapped_cases(name: str, texts: Sequence[str], concept: Concept) -> CaseSet:
    """Return each text that names a group, with the words of that group replaced."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise UsageError("texts must be a list of texts", hint="pass a list, a file or a template")
    swap = GroupSwap(concept)
    groups = tuple(sorted(concept.groups, key=lambda group: group != concept.positive))
    cases, without = [], 0
    for text in dict.fromkeys(texts):
        versions = swap.versions(text)
        if versions is None:
            without += 1
            continue
        numbers = [groups.index(group) if group else -1 for group, _ in ((versions.group, ""), *versions.others)]
        cases.append(CounterfactualCase(text, "", (text, *(other for _, other in versions.others)), tuple(numbers)))
    return CaseSet(name, groups, tuple(cases), without)
