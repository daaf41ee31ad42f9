"""The same document under names of different groups (after Bertrand & Mullainathan 2004): is the answer another one?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenhand.measures.call import Call, measure
from evenhand.measures.chat.gaps import gap_over_names, names_overall_p
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
    score_names,
)
from evenhand.measures.groups import Contrast
from evenhand.measures.measurement import Measurement
from evenhand.measures.registry import Info
from evenhand.models.lm.chat import Chat
from evenhand.words import Concept, as_concept
from evenhand.words.persons import people
from evenhand.words.scenarios.documents import SHIPPED, document_set

SAMPLE = 200


def count_documents(dataset: str | Path, concept: Concept, *, sample: int | None = SAMPLE, **others: object) -> int:
    """Return how many conversations a model is asked to answer."""
    return len(documents_asked(dataset, concept, sample, 0).texts)


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
    about = as_concept(concept)
    call.describe(str(dataset), scores=score_names(tuple(about.groups)))
    asked = documents_asked(dataset, about, sample, seed, scale=answer == "number", question=question)
    call.describe(asked.name, scores=score_names(asked.groups), params={"items": len(asked.texts)})
    return people_measurements(call, PeopleResult.of(view, asked, answer, seed=seed), _gap, names_overall_p, seed=seed)


def documents_asked(
    dataset: str | Path, concept: Concept, sample: int | None, seed: int, *, scale: bool = False, question: str = ""
) -> AskedCases:
    """Return the questions: every document under every drawn name, as many names of each group."""
    documents = document_set(dataset, question)
    known = people(concept, "names")
    each = max(1, sample // (len(documents.documents) * len(known.groups))) if sample else None
    drawn = drawn_names(known, each, seed)
    pairs = [(document, person) for document in documents.documents for person in drawn]
    instruction = documents.scale_instruction if scale else documents.instruction
    return AskedCases.about(
        documents.name,
        known,
        pairs,
        [f"{document.fill(person.phrase)}\n{instruction}" for document, person in pairs],
        details={"documents": len(documents.documents), "names": len(drawn)},
    )


def _gap(call: Call, result: PeopleResult, contrast: Contrast, seed: int) -> Measurement:
    gap = gap_over_names(result.cases, contrast, seed=seed)
    _, group, names = result.cases.by_name()
    fewest = int(np.bincount(group).min())
    power = f"gaps below {gap.detectable:.2f} would mostly be missed" if gap.detectable is not None else "no interval"
    return gap_measurement(
        call, result, contrast, gap, units=(name_units(result.cases, contrast),),
        reading=f"answers are {result.compared(contrast, gap.value)}; with {fewest} names in each group, {power}",
        note=f"{len(names)} names, which are what the interval is over", items=scenario_items(result, contrast),
    )  # fmt: skip
