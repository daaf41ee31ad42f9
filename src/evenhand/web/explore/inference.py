"""A sentence pair in which one word changes: what an inference model concludes for every filler."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.errors import UsageError
from evenhand.models.nli import NLIEnsemble, NLIModel
from evenhand.models.nli.protocol import LABELS, FixedVocabulary
from evenhand.web.explore.vector_form import vector_example
from evenhand.web.fields import FormFields
from evenhand.web.offered import NO_METHOD, OfferedSubjects, concept_choices, method_choices
from evenhand.words.grammar import with_articles

BLANK = "{}"
MOST_HYPOTHESES = 4


def example(offered: OfferedSubjects, fields: FormFields) -> dict[str, str]:
    """Return occupations with a woman and a man in the hypothesis; the embedded vectors have "the" and lack "a"."""
    return vector_example(offered, "inference") | {
        "premise": "The {} bought the coat.",
        "hypotheses": "The woman bought the coat.\nThe man bought the coat.",
        "fillers": "nurse, teacher, doctor, accountant, engineer, mechanic",
    }


def answer(offered: OfferedSubjects, fields: FormFields) -> dict[str, object]:
    """Return the three probabilities of each filler and hypothesis, before and after a method."""
    subject = fields.choice("subject", offered.offering("inference"), "")
    concept = fields.choice("concept", concept_choices(), "gender")
    method = fields.choice("method", method_choices(), NO_METHOD)
    if "vectors" not in offered.subject(subject).offers:
        method = NO_METHOD  # a model is changed by a method only through its word vectors
    premise, fillers = fields.sentence("premise"), fields.phrases("fillers")
    hypotheses = fields.sentences("hypotheses")
    _check(premise, hypotheses, fillers, fields.limits.sentences)
    pairs = [(_fill(premise, filler), _fill(text, filler)) for text in hypotheses for filler in fillers]
    shape = (len(hypotheses), len(fillers), len(LABELS))
    before = offered.models(subject, concept, NO_METHOD)
    stages = {"original": before}
    if method != NO_METHOD:
        stages[method] = offered.models(subject, concept, method)
    with offered.in_use(subject):
        results = {name: probabilities(models, pairs).reshape(shape) for name, models in stages.items()}
    return {
        "labels": LABELS,
        "hypotheses": [
            {
                "text": text,
                "rows": [
                    (filler, {name: result[number, place].tolist() for name, result in results.items()})
                    for place, filler in enumerate(fillers)
                ],
            }
            for number, text in enumerate(hypotheses)
        ],
        "stages": list(stages),
        "notes": list(dict.fromkeys(f"{name}: {models.note}" for name, models in stages.items() if models.note)),
        "members": len(before),
        "missing": _out_of_vocabulary(before, pairs),
    }


def _check(premise: str, hypotheses: list[str], fillers: list[str], most: int) -> None:
    if premise.count(BLANK) != 1:
        raise UsageError(f"the premise has {premise.count(BLANK)} blanks", hint="write {} once, where the word changes")
    if not hypotheses or len(hypotheses) > MOST_HYPOTHESES:
        raise UsageError(
            f"{len(hypotheses)} hypotheses were given", hint=f"give 1 to {MOST_HYPOTHESES}, one in each line"
        )
    if any(text.count(BLANK) > 1 for text in hypotheses):
        raise UsageError("a hypothesis has several blanks", hint="write {} once, or not at all")
    if not fillers or len(fillers) * len(hypotheses) > most:
        raise UsageError(
            f"{len(fillers)} fillers with {len(hypotheses)} hypotheses", hint=f"ask for 1 to {most} sentence pairs"
        )


def _fill(text: str, filler: str) -> str:
    return with_articles(text.replace(BLANK, filler))


def probabilities(models: NLIEnsemble, pairs: list[tuple[str, str]]) -> Matrix64:
    """Return the mean probabilities over the training seeds, (pairs, labels)."""
    members = [member for member in models.members if isinstance(member, NLIModel)]
    if not members:
        raise UsageError(f"{models.name} are predictions made elsewhere", hint="choose a model, which reads sentences")
    premises, hypotheses = [premise for premise, _ in pairs], [hypothesis for _, hypothesis in pairs]
    return np.asarray(
        np.mean([member.predict(premises, hypotheses).matrix for member in members], axis=0), dtype=np.float64
    )


def _out_of_vocabulary(models: NLIEnsemble, pairs: list[tuple[str, str]]) -> list[str]:
    from evenhand.models.nli.over_vectors import tokens

    model = models.members[0]
    if not isinstance(model, FixedVocabulary):
        return []
    used = dict.fromkeys(word for pair in pairs for text in pair for word in tokens(text))
    return list(model.out_of_vocabulary(used))
