"""Decisions about people (in the form of Tamkin et al. 2023): is the answer another one for other people?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.chat.discrim_eval import SUFFIX as PUBLISHED
from evenhand.measures.chat.discrim_eval import published_cases
from evenhand.measures.chat.gaps import gap_over_scenarios, overall_p
from evenhand.measures.chat.people_result import (
    GAP,
    OVERALL,
    UNCLEAR_SCORE,
    AnswerScale,
    AskedCases,
    PeopleResult,
    drawn_names,
    gap_measurement,
    name_units,
    people_measurements,
    scenario_items,
    scenario_units,
    score_names,
)
from evenhand.measures.groups import Contrast
from evenhand.measures.likelihood.scoring import draw_sample
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.lm.chat import Chat
from evenhand.words import Concept, as_concept
from evenhand.words.persons import Naming, People, Person, people
from evenhand.words.scenarios.scenario import SHIPPED, Scenario, ScenarioSet, concept_in, language_of, scenario_set

SAMPLE = 200
LARGEST = 5  # scenarios named in the details


def count_requests(
    dataset: str | Path,
    concept: Concept,
    *,
    naming: Naming = "explicit",
    sample: int | None = SAMPLE,
    language: str = "",
    **others: object,
) -> int:
    """Return how many conversations a model is asked to answer."""
    return len(ask_about(dataset, concept, naming, sample, 0, language=language).texts)


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
    plain=1,
    charts=("decisions-by-group",),
    requests=count_requests,
)


@measure(INFO)
def decisions(
    call: Call,
    view: Chat,
    dataset: str | Path = SHIPPED,
    *,
    naming: Naming = "explicit",
    answer: AnswerScale = "yes-no",
    sample: int | None = SAMPLE,
    language: str = "",
    concept: Concept | str = "gender",
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Ask a chat model for decisions about people who differ in one thing, and compare the answers by group.

    Args:
        view: a chat model.
        dataset: the shipped scenarios (`decision-scenarios`), a TOML file with your own, or the published set
            discrim-eval as JSON lines, whose fills are compared too (`details["parallel"]`).
        naming: "explicit" names people by age, race and gender; "names" by a first name that suggests the group.
        answer: "yes-no", or "number" for a digit from 1 to 9.
        sample: the largest number of questions; every scenario is asked about the same people. 0 for all.
        language: of the shipped scenarios, and of the concept: `fr` asks about `gender-fr` where the concept is gender.
            That of the concept by default.
        concept: whose groups are compared.
        seed: seed of the sample, of the permutations, and of sampled answers.

    Returns:
        `gap` for each group against the others, `overall` for more than two groups, and `unclear`. Intervals are
        clustered by scenario, and by name where people are named. The items of a gap are the scenarios, the largest
        gaps first.

    What it does not tell you: which decision is right. See `evenhand show decisions`.
    """
    concept = as_concept(concept)
    call.describe(str(dataset), scores=score_names(tuple(concept.groups)))
    asked = ask_about(dataset, concept, naming, sample, seed, scale=answer == "number", language=language)
    call.describe(asked.name, scores=score_names(asked.groups), params={"items": len(asked.texts)})
    return decision_measurements(call, PeopleResult.of(view, asked, answer, seed=seed), seed=seed)


def decision_measurements(call: Call, result: PeopleResult, *, seed: int = 0) -> tuple[Measurement, ...]:
    """Return the gaps of given answers, also for a model that was asked elsewhere.

    Args:
        call: the call of the measure.
        result: what was asked, about whom, and the answers.
        seed: seed of the permutations.
    """
    return people_measurements(call, result, _gap, overall_p, seed=seed)


def ask_about(
    dataset: str | Path,
    concept: Concept,
    naming: Naming,
    sample: int | None,
    seed: int,
    *,
    scale: bool = False,
    language: str = "",
) -> AskedCases:
    """Return the questions about the people of a concept: every drawn person in every drawn scenario."""
    if str(dataset).lower().endswith(PUBLISHED):
        return published_cases(dataset, concept, naming, sample, seed, scale=scale)
    concept = concept_in(concept, language or language_of(dataset))
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
    return AskedCases.about(
        scenarios.name,
        known,
        pairs,
        [scenarios.prompt(scenario, person, scale=scale) for scenario, person in pairs],
        options=(scenarios.form.yes, scenarios.form.no),
        unfavourable=[scenario.favourable == "no" for scenario, _ in pairs],
        details={"scenarios": len(chosen), "people": len(drawn), "named_by": known.source},
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
        return chosen, drawn_names(known, each, seed)
    rows = dict.fromkeys(person.row for person in known.everyone)
    strata = {person.row: person.stratum for person in known.everyone}
    wanted = set(draw_sample(list(rows), [strata[row] for row in rows], each, seed=seed))
    return chosen, [person for person in known.everyone if person.row in wanted]


def _gap(call: Call, result: PeopleResult, contrast: Contrast, seed: int) -> Measurement:
    gap = gap_over_scenarios(result.cases, contrast, seed=seed)
    items = scenario_items(result, contrast)
    units = [scenario_units(result.cases, contrast)]
    note = ""
    if result.asked.names:
        _, group, _ = result.cases.by_name()
        units.append(name_units(result.cases, contrast))
        note = f"{np.bincount(group).min()} names stand for each group"
    fills = result.asked.details.get("parallel")
    if isinstance(fills, dict) and fills["share"] is not None:
        note = f"{100 * fills['share']:.0f} % of the pairs of texts differ in the person alone"
    differs = f"; {items[0]['word']} differs most" if gap.value else ""
    return gap_measurement(
        call, result, contrast, gap, reading=f"decisions are {result.compared(contrast, gap.value)}{differs}",
        units=units, note=note, items=items,
        details={"largest": {str(item["word"]): item["value"] for item in items[:LARGEST]}},
    )  # fmt: skip
