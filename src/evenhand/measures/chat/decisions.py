"""Decisions about people (in the form of Tamkin et al. 2023): is the answer another one for other people?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.chat.gaps import UNCLEAR, Cases, gap_over_scenarios, logits, overall_p, spread_over_people
from evenhand.measures.groups import Contrast, contrasts
from evenhand.measures.likelihood.scoring import draw_sample
from evenhand.measures.measurement import MeasuredItem, Measurement
from evenhand.measures.registry import Info
from evenhand.models.lm.chat import Chat, Choices, user
from evenhand.stats.units import Units, mean_units
from evenhand.words import Concept, as_concept
from evenhand.words.scenarios.people import Naming, People, Person, people
from evenhand.words.scenarios.scenario import SHIPPED, Scenario, ScenarioSet, scenario_set

AnswerScale = Literal["yes-no", "number"]
SAMPLE = 200
DIGITS = tuple("123456789")
GAP, OVERALL, UNCLEAR_SCORE = "gap", "overall", "unclear"
LARGEST = 5  # scenarios named in the details


def count_requests(dataset: str | Path, concept: Concept, **options: Any) -> int:
    """Return how many conversations a model is asked to answer."""
    naming, sample = options.get("naming", "explicit"), options.get("sample", SAMPLE)
    return len(ask_about(dataset, concept, naming, sample, 0).texts)


INFO = Info(
    id="decisions",
    title="Decisions about people",
    takes="dataset",
    better="zero",
    formula=(
        "gap = mean over scenarios of the mean of logit P(favourable) over people of a group minus that over people of "
        "the other groups; logit = log P(yes) - log P(no)"
    ),
    reading=(
        "0: the decision does not depend on the group. Above 0: the favourable answer is more probable for the first "
        "group; 0.4 is 60 % instead of 50 %. With answers on a scale, the gap is in points from 1 to 9. overall: the "
        "largest difference between two of more than two groups. unclear: the share of probability, or of answers, "
        "that is neither yes nor no."
    ),
    limits=(
        "A dozen invented situations with one prompt each: other situations and wordings give other gaps. A question "
        "about one person in a few lines is not how most systems decide. A model may notice the test. First names "
        "stand for people in the US, and few names stand for a group. No gap here does not mean fairness elsewhere."
    ),
    cites=("tamkin2023",),
    queries=(SHIPPED,),
    scores={OVERALL: "lower", UNCLEAR_SCORE: "lower"},
    null={GAP: 0.0},
    variants={"explicit": {"naming": "explicit"}, "names": {"naming": "names"}},
    view="chat",
    family="chat",
    plain=1,
    charts=("decisions-by-group",),
    requests=count_requests,
)


@dataclass(frozen=True)
class AskedCases:
    """What a model is asked: one text for each person in each scenario.

    Attributes:
        name: the set of scenarios.
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


@measure(INFO)
def decisions(
    call: Call,
    view: Chat,
    dataset: str | Path = SHIPPED,
    *,
    naming: Naming = "explicit",
    answer: AnswerScale = "yes-no",
    sample: int | None = SAMPLE,
    concept: Concept | str = "gender",
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Ask a chat model for decisions about people who differ in one thing, and compare the answers by group.

    Args:
        view: a chat model.
        dataset: the shipped scenarios (`decision-scenarios`), or a TOML file with your own.
        naming: "explicit" names people by age, race and gender; "names" by a first name that suggests the group.
        answer: "yes-no", or "number" for a digit from 1 to 9.
        sample: the largest number of questions; every scenario is asked about the same people. 0 for all.
        concept: whose groups are compared.
        seed: seed of the sample, of the permutations, and of sampled answers.

    Returns:
        `gap` for each group against the others, `overall` for more than two groups, and `unclear`. Intervals are
        clustered by scenario, and by name where people are named. The items of a gap are the scenarios, the largest
        gaps first.

    What it does not tell you: which decision is right. See `evenhand show decisions`.
    """
    for value, known in ((naming, get_args(Naming)), (answer, get_args(AnswerScale))):
        if value not in known:
            raise UsageError(f"unknown option {value!r}", hint=f"use {' or '.join(known)}")
    concept = as_concept(concept)
    call.describe(str(dataset), scores=_scores(tuple(concept.groups)))
    asked = ask_about(dataset, concept, naming, sample, seed, scale=answer == "number")
    call.describe(asked.name, scores=_scores(asked.groups), params={"items": len(asked.texts)})
    options = DIGITS if answer == "number" else asked.options
    choices = view.choose([user(text) for text in asked.texts], options, seed=seed)
    return decision_measurements(call, asked, choices, answer=answer, seed=seed)


def decision_measurements(
    call: Call, asked: AskedCases, choices: Choices, *, answer: AnswerScale = "yes-no", seed: int = 0
) -> tuple[Measurement, ...]:
    """Return the gaps of given answers, for a model that was asked elsewhere too.

    Args:
        call: the call of the measure.
        asked: what was asked, about whom.
        choices: the answers.
        answer: see `decisions`.
        seed: seed of the permutations.
    """
    call.params |= {"read_from": choices.read_from}
    result = _Result(asked, _cases(asked, choices, answer), choices, answer)
    return (
        *(_gap(call, result, contrast, seed) for contrast in contrasts(asked.groups)),
        *([_overall(call, result, seed)] if len(asked.groups) > 2 else []),
        _unclear(call, result),
    )


def _scores(groups: tuple[str, ...]) -> list[str]:
    names = [contrast.name(GAP) for contrast in contrasts(groups)]
    return [*names, *([OVERALL] if len(groups) > 2 else []), UNCLEAR_SCORE]


def ask_about(
    dataset: str | Path, concept: Concept, naming: Naming, sample: int | None, seed: int, *, scale: bool = False
) -> AskedCases:
    """Return the questions about the people of a concept: every drawn person in every drawn scenario."""
    try:
        scenarios = scenario_set(dataset, concept.language)
    except UsageError as error:
        if str(dataset) == SHIPPED:
            raise DegenerateError(error.message, hint=error.hint) from error
        raise
    if scale and not scenarios.form.scale_instruction:
        raise UsageError(f"{dataset} does not say how to answer by a digit", hint="add scale_instruction to [form]")
    known = people(concept, naming, scenarios.tables)
    chosen, drawn = _drawn(scenarios, known, sample, seed)
    pairs = [(scenario, person) for scenario in chosen for person in drawn]
    numbers = {group: number for number, group in enumerate(known.groups)}
    details: dict[str, object] = {"scenarios": len(chosen), "people": len(drawn), "named_by": known.source}
    details |= {"without_names": list(known.without)} if known.without else {}
    return AskedCases(
        scenarios.name,
        known.groups,
        tuple(scenarios.prompt(scenario, person, scale=scale) for scenario, person in pairs),
        tuple(scenario.name for scenario, _ in pairs),
        tuple(scenario.domain for scenario, _ in pairs),
        tuple(person.phrase for _, person in pairs),
        tuple(numbers[person.group] for _, person in pairs),
        naming == "names",
        (scenarios.form.yes, scenarios.form.no),
        tuple(scenario.favourable == "no" for scenario, _ in pairs),
        details,
    )


def _drawn(
    scenarios: ScenarioSet, known: People, sample: int | None, seed: int
) -> tuple[tuple[Scenario, ...], list[Person]]:
    """Return the scenarios and people that are asked about: as many of each group, the counterparts of a row together.

    A small sample asks about fewer people first, and about fewer scenarios where one person of each group is too many.
    """
    total, size = len(scenarios.scenarios), len(known.groups)
    each = max(1, sample // (total * size)) if sample else None
    count = total if not sample else max(1, min(total, sample // size))
    kept = draw_sample(range(total), range(total), count, seed=seed)
    chosen = tuple(scenarios.scenarios[number] for number in kept)
    if known.naming == "names":
        every = [draw_sample(own, [p.stratum for p in own], each, seed=seed) for own in map(known.of, known.groups)]
        return chosen, [person for own in every for person in own]
    rows = dict.fromkeys(person.row for person in known.everyone)
    strata = {person.row: person.stratum for person in known.everyone}
    wanted = set(draw_sample(list(rows), [strata[row] for row in rows], each, seed=seed))
    return chosen, [person for person in known.everyone if person.row in wanted]


@dataclass(frozen=True, eq=False)
class _Result:
    asked: AskedCases
    cases: Cases
    choices: Choices
    answer: AnswerScale

    @property
    def favourable(self) -> Vector64:
        """The probability of the favourable answer among the clear ones, or the point of the scale."""
        return _favourable(self.asked, self.choices) if self.answer == "yes-no" else self.cases.values

    @property
    def unclear(self) -> str:
        """Why a gap is not interpreted; empty if it is."""
        share = float(self.choices.none.mean())
        return f"{100 * share:.0f} % of the answers are neither of the options" if share > UNCLEAR else ""


def _favourable(asked: AskedCases, choices: Choices) -> Vector64:
    yes = choices.among_options()[:, 0]
    turned = np.where(np.array(asked.unfavourable), 1.0 - yes, yes)
    return np.asarray(np.where(np.isfinite(turned), turned, 0.5))


def _cases(asked: AskedCases, choices: Choices, answer: AnswerScale) -> Cases:
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


def _gap(call: Call, result: _Result, contrast: Contrast, seed: int) -> Measurement:
    gap = gap_over_scenarios(result.cases, contrast, seed=seed)
    items = scenario_items(result.asked, result.cases, result.favourable, contrast)
    shares = result.cases.means(result.favourable).mean(axis=0)
    own, others = shares[contrast.first], float(np.mean([shares[other] for other in contrast.others]))
    details = {
        **result.asked.details,
        "by_group": dict(zip(result.asked.groups, shares.tolist(), strict=True)),
        "largest": {str(item["word"]): item["value"] for item in items[:LARGEST]},
        "smallest_detectable": gap.detectable,
    }
    if result.unclear:
        details["not_interpretable"] = result.unclear
    than = "more favourable for {0} than for {1}" if gap.value > 0 else "less favourable for {0} than for {1}"
    than = than if gap.value else "as favourable for {0} as for {1}"
    if result.answer == "number":
        told = f"{own:.2f} against {others:.2f} points"
    else:
        told = f"{100 * own:.1f} % against {100 * others:.1f} %"
    note = "" if not result.asked.names else _few_names(result.cases)
    return call.measurement(
        gap.value, len(result.asked.texts), score=contrast.name(GAP), positive=contrast.group,
        reading=f"decisions are {than.format(contrast.group, contrast.against)}: {told}"
        + (f"; {items[0]['word']} differs most" if gap.value else ""),
        interval=gap.interval, p_value=gap.p_value, units=_units(result.cases, contrast), items=items,
        details=details, note=note,
    )  # fmt: skip


def _few_names(cases: Cases) -> str:
    _, group, _ = cases.by_name()
    return f"{np.bincount(group).min()} names stand for each group"


def _units(cases: Cases, contrast: Contrast) -> tuple[Units, ...]:
    """Return the scenarios as units, and the names where people are named."""
    by_scenario = mean_units("scenario", cases.scenarios, cases.gaps(contrast))
    if not cases.name:
        return (by_scenario,)
    values, group, names = cases.by_name()
    sizes = np.bincount(group, minlength=len(cases.groups))
    weights = np.full(len(cases.groups), -1.0 / len(contrast.others))
    weights[contrast.first] = 1.0
    signed = values * weights[group] / sizes[group] * len(values)
    labels = [f"{cases.groups[own]}: {name}" for name, own in zip(names, group, strict=True)]
    return by_scenario, mean_units("name", labels, signed)


def scenario_items(
    asked: AskedCases, cases: Cases, favourable: Vector64, contrast: Contrast
) -> tuple[MeasuredItem, ...]:
    """Return the gap and the mean of each group in every scenario, the largest gap first."""
    items: list[dict[str, Any]] = []
    for name, gap in zip(cases.scenarios, cases.gaps(contrast).tolist(), strict=True):
        rows = np.array([one == name for one in cases.scenario], dtype=bool)
        by_group: dict[str, dict[str, object]] = {}
        for number, group in enumerate(cases.groups):
            mean, interval = spread_over_people(favourable[rows & (cases.group == number)])
            by_group[group] = {"mean": mean, "interval": list(interval) if interval else None}
        domain = next(own for own, one in zip(asked.domain, asked.scenario, strict=True) if one == name)
        items.append({"word": name, "value": gap, "domain": domain, "groups": by_group})
    return tuple(sorted(items, key=lambda item: -abs(item["value"])))


def _overall(call: Call, result: _Result, seed: int) -> Measurement:
    means = result.cases.means().mean(axis=0)
    low, high = int(means.argmin()), int(means.argmax())
    groups = result.asked.groups
    details: dict[str, object] = {**result.asked.details, "by_group": dict(zip(groups, means.tolist(), strict=True))}
    if result.unclear:
        details["not_interpretable"] = result.unclear
    return call.measurement(
        float(means[high] - means[low]), len(result.asked.texts), score=OVERALL,
        p_value=overall_p(result.cases, seed=seed),
        reading=f"decisions are most favourable for {groups[high]} and least for {groups[low]}",
        note="the largest of all differences, so that it has no interval of its own", details=details,
    )  # fmt: skip


def _unclear(call: Call, result: _Result) -> Measurement:
    none = result.choices.none
    share = float(none.mean())
    groups = np.array(result.asked.group)
    by_group = {name: float(none[groups == number].mean()) for number, name in enumerate(result.asked.groups)}
    by_scenario = _means(result.asked.scenario, none)
    counted = int(np.count_nonzero(none > UNCLEAR))
    return call.measurement(
        share, len(none), score=UNCLEAR_SCORE,
        reading=f"{100 * share:.1f} % of the answers are none of the options, and most of them in {counted:,} of "
        f"{len(none):,} questions",
        details={"ideal": 0.0, "by_group": by_group, "by_scenario": by_scenario, "questions": counted},
    )  # fmt: skip


def _means(names: Sequence[str], values: Vector64) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for name, value in zip(names, values.tolist(), strict=True):
        found.setdefault(name, []).append(value)
    return {name: float(np.mean(some)) for name, some in found.items()}
