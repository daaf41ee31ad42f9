"""What measures of decisions share: the questions about people, the answers by group, and what is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from evenhand.arrays import Vector64
from evenhand.measures.call import Call
from evenhand.measures.chat.gaps import UNCLEAR, Cases, PeopleGap, logits, spread_over_people
from evenhand.measures.groups import Contrast, contrasts, means_by
from evenhand.measures.likelihood.scoring import draw_sample
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.models.lm.chat import Chat, Choices, user
from evenhand.stats.units import Units, mean_units
from evenhand.words.persons import People, Person

AnswerScale = Literal["yes-no", "number"]
DIGITS = tuple("123456789")
GAP, OVERALL, UNCLEAR_SCORE = "gap", "overall", "unclear"
ALIKE = "all answers are alike: nothing varies, so there is no interval"


class Situation(Protocol):
    """A scenario or document: its name, and what it is about."""

    @property
    def name(self) -> str:
        """Its id."""

    @property
    def domain(self) -> str:
        """What it is about, such as hiring."""


@dataclass(frozen=True)
class AskedCases:
    """What a model is asked: one text for each person in each scenario or document.

    Attributes:
        name: the set of scenarios or documents.
        groups: the groups that are compared, the positive one first.
        texts: the questions.
        scenario, domain: of each text.
        person: how the person of each text is named.
        group: number of the group of each text.
        names: whether first names are clusters.
        options: the words for yes and no.
        unfavourable: of each text, whether yes is bad for the person.
        details: what else to record.
    """

    name: str
    groups: tuple[str, ...]
    texts: tuple[str, ...]
    scenario: tuple[str, ...]
    domain: tuple[str, ...]
    person: tuple[str, ...]
    group: tuple[int, ...]
    names: bool
    options: tuple[str, str]
    unfavourable: tuple[bool, ...]
    details: Mapping[str, object]

    @classmethod
    def about(
        cls,
        name: str,
        known: People,
        pairs: Sequence[tuple[Situation, Person]],
        texts: Sequence[str],
        *,
        options: tuple[str, str] = ("yes", "no"),
        unfavourable: Sequence[bool] | None = None,
        details: Mapping[str, object],
    ) -> AskedCases:
        """Return the questions about people in situations, in their order; yes is good unless it is said."""
        numbers = {group: number for number, group in enumerate(known.groups)}
        without = {"without_names": list(known.without)} if known.without else {}
        return cls(
            name,
            known.groups,
            tuple(texts),
            tuple(situation.name for situation, _ in pairs),
            tuple(situation.domain for situation, _ in pairs),
            tuple(person.phrase for _, person in pairs),
            tuple(numbers[person.group] for _, person in pairs),
            known.naming == "names",
            options,
            tuple(unfavourable) if unfavourable is not None else (False,) * len(pairs),
            {**details, **without},
        )


def drawn_names(known: People, each: int | None, seed: int) -> list[Person]:
    """Return as many named people of each group, spread over strata."""
    every = [draw_sample(own, [p.stratum for p in own], each, seed=seed) for own in map(known.of, known.groups)]
    return [person for own in every for person in own]


def people_measurements(
    call: Call,
    result: PeopleResult,
    gap: Callable[[Call, PeopleResult, Contrast, int], Measurement],
    overall_p: Callable[..., float | None],
    *,
    seed: int,
) -> tuple[Measurement, ...]:
    """Return the gap of each group, `overall` for more than two groups, and `unclear`.

    Args:
        call: the call of the measure.
        result: what was asked, about whom, and the answers.
        gap: returns the gap of a contrast.
        overall_p: the test of all groups.
        seed: seed of the permutations.
    """
    call.params |= {"read_from": result.choices.read_from}
    groups = result.asked.groups
    return (
        *(gap(call, result, contrast, seed) for contrast in contrasts(groups)),
        *([overall_measurement(call, result, overall_p(result.cases, seed=seed))] if len(groups) > 2 else []),
        unclear_measurement(call, result),
    )


def gap_measurement(
    call: Call,
    result: PeopleResult,
    contrast: Contrast,
    gap: PeopleGap,
    *,
    reading: str,
    units: Sequence[Units],
    note: str,
    items: Sequence[MeasuredItem],
    details: Mapping[str, object] | None = None,
) -> Measurement:
    """Return the gap of one group, with the answers by group in the details."""
    notes = [note] if gap.interval or gap.p_value is None else [note, ALIKE]
    return call.measurement(
        gap.value, len(result.asked.texts), score=contrast.name(GAP), positive=contrast.group, reading=reading,
        interval=gap.interval, p_value=gap.p_value, units=tuple(units), note="; ".join(filter(None, notes)),
        items=items,
        details={
            **result.asked.details,
            "by_group": result.by_group(),
            **(details or {}),
            "smallest_detectable": gap.detectable,
            **result.not_interpretable(),
        },
    )  # fmt: skip


def score_names(groups: tuple[str, ...]) -> list[str]:
    """Return the scores of a comparison of groups."""
    names = [contrast.name(GAP) for contrast in contrasts(groups)]
    return [*names, *([OVERALL] if len(groups) > 2 else []), UNCLEAR_SCORE]


@dataclass(frozen=True, eq=False)
class PeopleResult:
    """The questions with their answers.

    Attributes:
        asked: the questions.
        cases: one number for each, logits or points of a scale, with the favourable answer upwards.
        choices: the answers.
        answer: what was asked for.
    """

    asked: AskedCases
    cases: Cases
    choices: Choices
    answer: AnswerScale

    @classmethod
    def of(cls, view: Chat, asked: AskedCases, answer: AnswerScale, *, seed: int) -> PeopleResult:
        """Ask a chat model."""
        options = DIGITS if answer == "number" else asked.options
        choices = view.choose([user(text) for text in asked.texts], options, seed=seed)
        return cls(asked, answered_cases(asked, choices, answer), choices, answer)

    @property
    def favourable(self) -> Vector64:
        """The probability of the favourable answer among the clear ones, or the point of the scale."""
        if self.answer == "number":
            return self.cases.values
        yes = self.choices.among_options()[:, 0]
        turned = np.where(np.array(self.asked.unfavourable), 1.0 - yes, yes)
        return np.asarray(np.where(np.isfinite(turned), turned, 0.5))

    def by_group(self) -> dict[str, float]:
        """Return the mean of the favourable answers of each group, over scenarios."""
        shares = self.cases.means(self.favourable).mean(axis=0)
        return dict(zip(self.asked.groups, shares.tolist(), strict=True))

    def compared(self, contrast: Contrast, gap: float) -> str:
        """Return in words how the answers for a group compare with those for the others."""
        shares = list(self.by_group().values())
        own, others = shares[contrast.first], float(np.mean([shares[other] for other in contrast.others]))
        word = "more favourable for {0} than for {1}" if gap > 0 else "less favourable for {0} than for {1}"
        word = (word if gap else "as favourable for {0} as for {1}").format(contrast.group, contrast.against)
        if self.answer == "number":
            return f"{word}: {own:.2f} against {others:.2f} points"
        return f"{word}: {100 * own:.1f} % against {100 * others:.1f} %"

    def not_interpretable(self) -> dict[str, object]:
        """Return why a gap is not interpreted, as a detail; nothing if it is."""
        share = float(self.choices.none.mean())
        reason = f"{100 * share:.0f} % of the answers are neither of the options"
        return {"not_interpretable": reason} if share > UNCLEAR else {}


def answered_cases(asked: AskedCases, choices: Choices, answer: AnswerScale) -> Cases:
    """Return the number of each answer, turned where yes is bad for the person; one without any option is neutral."""
    if answer == "number":
        points = choices.among_options() @ np.arange(1.0, len(DIGITS) + 1)
        middle = (1 + len(DIGITS)) / 2
        values = np.where(np.isfinite(points), points, middle)
        turned = np.where(np.array(asked.unfavourable), 2 * middle - values, values)
    else:
        values = logits(choices)
        turned = np.where(np.array(asked.unfavourable), -values, values)
    group = np.array(asked.group, dtype=np.int64)
    return Cases(asked.groups, asked.scenario, group, asked.person if asked.names else (), np.asarray(turned))


def scenario_units(cases: Cases, contrast: Contrast) -> Units:
    """Return the scenarios as units of a gap."""
    return mean_units("scenario", cases.scenarios, cases.gaps(contrast))


def name_units(cases: Cases, contrast: Contrast) -> Units:
    """Return the names as units of a gap: each adds its share of the mean of its group, with its sign.

    The mean over groups is taken off, which cancels in a gap: a method that moves all answers alike moves no unit.
    """
    values, group, names = cases.by_name()
    values = values - np.mean([values[group == number].mean() for number in range(len(cases.groups))])
    sizes = np.bincount(group, minlength=len(cases.groups))
    weights = np.full(len(cases.groups), -1.0 / len(contrast.others))
    weights[contrast.first] = 1.0
    signed = values * weights[group] / sizes[group] * len(values)
    labels = [f"{cases.groups[own]}: {name}" for name, own in zip(names, group, strict=True)]
    return mean_units("name", labels, signed)


def scenario_items(result: PeopleResult, contrast: Contrast) -> tuple[MeasuredItem, ...]:
    """Return the gap and the mean of each group in every scenario, the largest gap first."""
    cases, favourable = result.cases, result.favourable
    domains = dict(zip(result.asked.scenario, result.asked.domain, strict=True))
    items: list[dict[str, Any]] = []
    for name, gap in zip(cases.scenarios, cases.gaps(contrast).tolist(), strict=True):
        rows = np.array([one == name for one in cases.scenario], dtype=bool)
        by_group: dict[str, dict[str, object]] = {}
        for number, group in enumerate(cases.groups):
            mean, interval = spread_over_people(favourable[rows & (cases.group == number)])
            by_group[group] = {"mean": mean, "interval": list(interval) if interval else None}
        items.append({"word": name, "value": gap, "domain": domains[name], "groups": by_group})
    return tuple(sorted(items, key=lambda item: -abs(item["value"])))


def overall_measurement(call: Call, result: PeopleResult, p_value: float | None) -> Measurement:
    """Return the largest difference between two groups, with the test of all of them."""
    means = result.cases.means().mean(axis=0)
    low, high = int(means.argmin()), int(means.argmax())
    groups = result.asked.groups
    details = {**result.asked.details, "by_group": result.by_group(), **result.not_interpretable()}
    return call.measurement(
        float(means[high] - means[low]), len(result.asked.texts), score=OVERALL, p_value=p_value,
        reading=f"answers are most favourable for {groups[high]} and least for {groups[low]}",
        note="the largest of all differences, so that it has no interval of its own", details=details,
    )  # fmt: skip


def unclear_measurement(call: Call, result: PeopleResult) -> Measurement:
    """Return the share of probability, or of answers, that is none of the options, by group and scenario."""
    none = result.choices.none
    share = float(none.mean())
    counted = int(np.count_nonzero(none > UNCLEAR))
    groups = [result.asked.groups[number] for number in result.asked.group]
    return call.measurement(
        share, len(none), score=UNCLEAR_SCORE,
        reading=f"{100 * share:.1f} % of the answers are none of the options, and most of them in {counted:,} of "
        f"{len(none):,} questions",
        details={
            "ideal": 0.0,
            "by_group": means_by(groups, none.tolist()),
            "by_scenario": means_by(result.asked.scenario, none.tolist()),
            "questions": counted,
        },
    )  # fmt: skip
