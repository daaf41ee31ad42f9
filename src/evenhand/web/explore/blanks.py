"""A sentence with a blank: how probable a language model finds each filler."""

from __future__ import annotations

import numpy as np

from evenhand.arrays import Vector64
from evenhand.errors import UsageError
from evenhand.models.lm.likelihood import Likelihood, MaskedLikelihood, TokenLikelihood, filler_tokens, score_fillers
from evenhand.web.fields import FormFields
from evenhand.web.offered import OfferedSubjects

BLANK = "{}"
TOP = 10  # the model's own fillers


def example(offered: OfferedSubjects, fields: FormFields) -> dict[str, str]:
    """Return pronouns of an occupation."""
    return {
        "subject": next(iter(offered.offering("likelihood")), ""),
        "sentence": "The nurse said that {} was tired.",
        "fillers": "she, he, they",
    }


def answer(offered: OfferedSubjects, fields: FormFields) -> dict[str, object]:
    """Return log-probability, share among the fillers and number of tokens of each filler."""
    chosen = fields.choice("subject", offered.offering("likelihood"), "")
    sentence, fillers = fields.sentence("sentence"), fields.phrases("fillers")
    if sentence.count(BLANK) != 1:
        raise UsageError(f"the sentence has {sentence.count(BLANK)} blanks", hint="write {} once, for the blank")
    if not 1 <= len(fillers) <= fields.limits.sentences:
        raise UsageError("there are no fillers", hint="write words separated by commas")
    with offered.in_use(chosen) as subject:
        view: Likelihood = subject.view("likelihood")
        logs, tokens = _scores(view, sentence, fillers)
        top = view.top_fillers([sentence], TOP)[0] if isinstance(view, MaskedLikelihood) else []
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    order = np.argsort(-logs, kind="stable").tolist()
    return {
        "model": subject.name,
        "masked": isinstance(view, MaskedLikelihood),
        "rows": [(fillers[place], float(logs[place]), float(shares[place]), tokens[place]) for place in order],
        "several": len(set(tokens)) > 1,
        "top": top,
    }


def _scores(view: Likelihood, sentence: str, fillers: list[str]) -> tuple[Vector64, list[int | None]]:
    """Return the log-probability of each filler and the number of its tokens, which not every model tells."""
    if isinstance(view, TokenLikelihood):
        logs = view.filler_log_probabilities([sentence], fillers)
        return np.asarray(logs)[0], filler_tokens(view, [sentence], fillers)[0].tolist()
    return np.asarray(score_fillers(view, [sentence], fillers, None))[0], [None] * len(fillers)
