"""The same document under names of different groups (after Bertrand & Mullainathan 2004): is the answer another one?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np

from evenhand.errors import UsageError
from evenhand.measures.call import Call, measure
from evenhand.measures.chat.gaps import gap_over_names, names_overall_p
from evenhand.measures.chat.people_result import (
    GAP,
    OVERALL,
    UNCLEAR_SCORE,
    AnswerScale,
    AskedCases,
    PeopleResult,
    name_units,
    overall_measurement,
    scenario_items,
    score_names,
    unclear_measurement,
)
from evenhand.measures.groups import Contrast, contrasts
from evenhand.measures.likelihood.scoring import draw_sample
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.lm.chat import Chat
from evenhand.words import Concept, as_concept
from evenhand.words.scenarios.documents import SHIPPED, document_set
from evenhand.words.scenarios.people import Person, people

SAMPLE = 200
YES_NO = ("yes", "no")


def count_documents(dataset: str | Path, concept: Concept, **options: Any) -> int:
    """Return how many conversations a model is asked to answer."""
    return len(documents_asked(dataset, concept, options.get("sample", SAMPLE), 0).texts)


INFO = Info(
    id="resume-names",
    title="Names on a résumé",
    takes="dataset",
    better="zero",
    formula=(
        "gap = mean over names of a group of the mean over documents of logit P(yes), minus that of the other groups; "
        "logit = log P(yes) - log P(no)"
    ),
    reading=(
        "0: the answer does not depend on the name's group. Above 0: yes is more probable under names of the first "
        "group. The smallest detectable gap is the true gap that such data find in four of five cases: a smaller one "
        "is likely to be missed. unclear: the share of answers that are neither yes nor no."
    ),
    limits=(
        "Few names stand for a group, and a name also tells age, class and region. Intervals are over names and not "
        "over documents: other documents may give other gaps. A model may know that such tests exist. No gap under "
        "names does not mean that the group has no effect where it is told otherwise."
    ),
    cites=("bertrand2004", "tzioumis2018"),
    queries=(SHIPPED,),
    concepts=("gender", "gender-diverse", "race", "ethnicity", "age"),
    scores={OVERALL: "lower", UNCLEAR_SCORE: "lower"},
    null={GAP: 0.0},
    view="chat",
    family="chat",
    plain=2,
    charts=("decisions-by-group",),
    requests=count_documents,
)


@measure(INFO)
def resume_names(
    call: Call,
    view: Chat,
    dataset: str | Path = SHIPPED,
    *,
    answer: AnswerScale = "yes-no",
    question: str = "",
    sample: int | None = SAMPLE,
    concept: Concept | str = "gender",
    seed: int = 0,
) -> tuple[Measurement, ...]:
    """Ask a chat model about the same documents under first names of different groups.

    Args:
        view: a chat model.
        dataset: the shipped documents (`resume-documents`), a TOML file, or a text file or folder with `{name}`.
        answer: "yes-no", or "number" for a digit from 1 to 9.
        question: what is asked about a text file; whether to invite the person by default.
        sample: the largest number of questions; every document is asked about under the same names. 0 for all names.
        concept: whose groups are compared; it needs first names.
        seed: seed of the sample, of the permutations, and of sampled answers.

    Returns:
        `gap` for each group against the others, with the interval over names, the p-value of names that change groups,
        and the smallest detectable gap in its reading; `overall` for more than two groups; `unclear`.

    What it does not tell you: who is right for the job. See `evenhand show resume-names`.
    """
    if answer not in get_args(AnswerScale):
        raise UsageError(f"unknown option {answer!r}", hint=f"use {' or '.join(get_args(AnswerScale))}")
    about = as_concept(concept)
    call.describe(str(dataset), scores=score_names(tuple(about.groups)))
    asked = documents_asked(dataset, about, sample, seed, scale=answer == "number", question=question)
    call.describe(asked.name, scores=score_names(asked.groups), params={"items": len(asked.texts)})
    result = PeopleResult.of(view, asked, answer, seed=seed)
    call.params |= {"read_from": result.choices.read_from}
    several = len(asked.groups) > 2
    return (
        *(_gap(call, result, contrast, seed) for contrast in contrasts(asked.groups)),
        *([overall_measurement(call, result, names_overall_p(result.cases, seed=seed))] if several else []),
        unclear_measurement(call, result),
    )


def documents_asked(
    dataset: str | Path, concept: Concept, sample: int | None, seed: int, *, scale: bool = False, question: str = ""
) -> AskedCases:
    """Return the questions: every document under every drawn name, as many names of each group."""
    documents = document_set(dataset, question)
    known = people(concept, "names")
    each = max(1, sample // (len(documents.documents) * len(known.groups))) if sample else None
    drawn: list[Person] = []
    for group in known.groups:
        own = known.of(group)
        drawn += draw_sample(own, [person.stratum for person in own], each, seed=seed)
    numbers = {group: number for number, group in enumerate(known.groups)}
    pairs = [(document, person) for document in documents.documents for person in drawn]
    instruction = documents.scale_instruction if scale else documents.instruction
    details: dict[str, object] = {"documents": len(documents.documents), "names": len(drawn)}
    details |= {"without_names": list(known.without)} if known.without else {}
    return AskedCases(
        documents.name,
        known.groups,
        tuple(f"{document.fill(person.phrase)}\n{instruction}" for document, person in pairs),
        tuple(document.name for document, _ in pairs),
        tuple(document.domain for document, _ in pairs),
        tuple(person.phrase for _, person in pairs),
        tuple(numbers[person.group] for _, person in pairs),
        True,
        YES_NO,
        (False,) * len(pairs),
        details,
    )


def _gap(call: Call, result: PeopleResult, contrast: Contrast, seed: int) -> Measurement:
    gap = gap_over_names(result.cases, contrast, seed=seed)
    _, group, names = result.cases.by_name()
    fewest = int(np.bincount(group).min())
    power = f"gaps below {gap.detectable:.2f} would mostly be missed" if gap.detectable is not None else "no interval"
    details = {
        **result.asked.details,
        "by_group": result.by_group(),
        "smallest_detectable": gap.detectable,
        **result.not_interpretable(),
    }
    return call.measurement(
        gap.value, len(result.asked.texts), score=contrast.name(GAP), positive=contrast.group,
        reading=f"answers are {result.compared(contrast, gap.value)}; with {fewest} names in each group, {power}",
        interval=gap.interval, p_value=gap.p_value, units=(name_units(result.cases, contrast),),
        items=scenario_items(result, contrast), details=details,
        note=f"{len(names)} names, which are what the interval is over",
    )  # fmt: skip
