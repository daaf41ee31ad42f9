"""Whole records of counterfactual fairness on small inputs that reach every branch: numbers, texts, units, order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.measures.labels.counterfactual import case_set, swapped_cases, template_cases
from meaningless import Judging, plain
from recorded_numbers import check_whole

TEXTS = [
    "She is a nurse.", "The man is old.", "His wife met her brother.", "It rains.", "The boys left.", "My mother said so.",
    "She is a nurse.", "A king and a queen.", "He said that he left.", "The woman and her daughter ran.",
]  # fmt: skip


FEMALE = ("she", "woman", "wife", "girls", "mother", "her", "sister", "queen", "herself", "hers")
MALE = ("he", "man", "husband", "boys", "father", "him", "brother", "king", "his", "himself")


class Same(Judging):
    """Gives every text the same answer."""

    def predict(self, texts: Any, *, tokens: int | None = None) -> Any:
        return super().predict(["same"] * len(texts))


class Telling(Judging):
    """Says yes to texts about one group, surely or nearly so."""

    def __init__(self, words: tuple[str, ...], sure: float = 1.0) -> None:
        super().__init__("telling")
        self.words, self.sure = words, sure

    def predict(self, texts: Any, *, tokens: int | None = None) -> Any:
        told = [any(word in self.words for word in text.lower().replace(".", "").split()) for text in texts]
        yes = np.array([self.sure ** (len(text) % 3) * one for text, one in zip(texts, told, strict=True)])
        return np.stack([1 - yes, yes], axis=1)


def cases(tmp: Path) -> dict[str, Any]:
    file = tmp / "texts.txt"
    file.write_text("\n".join([*TEXTS, "", "  "]), encoding="utf-8")
    judge, score, coarse = Judging(), Judging(unit="score"), Judging("coarse", steps=3)
    ask = measures.counterfactual
    return {
        "template": ask(judge),
        "template, score": ask(score, concept="race"),
        "template, three groups": ask(coarse, concept="religion", label="no"),
        "template, names": ask(judge, concept="ethnicity"),
        "texts": ask(coarse, TEXTS),
        "file, score": ask(score, file),
        "file": ask(judge, str(file)),
        "three groups of texts": ask(coarse, ["The Muslim met a Jew.", "A Christian man.", "A Muslim woman."], concept="religion"),
        "one text": ask(judge, TEXTS[:1]),
        "several groups each": ask(judge, ["A king and a queen."]),
        "no group": ask(judge, ["It rains."]),
        "no group, score": ask(score, ["It rains."]),
        "women": ask(Telling(FEMALE), TEXTS[:6]),
        "men": ask(Telling(MALE), TEXTS[:6]),
        "women, nearly": ask(Telling(FEMALE, 0.9), TEXTS[:6]),
        "men, nearly": ask(Telling(MALE, 0.9), TEXTS[:6]),
        "same": ask(Same(), TEXTS),
        "same, template": ask(Same(), concept="race"),
        "cases": case_set(TEXTS, eh.concept("gender")),
        "cases of a file": case_set(file, eh.concept("gender")),
        "cases of a template": [template_cases(eh.words.template("person-sentences"), eh.concept(one)).of_rows(2)[:3] for one in ("age", "gender")],
        "cases of rows": [len(case_set("person-sentences", eh.concept("race")).of_rows(most)) for most in (0, 1, 3, None)],
        "cases of others": swapped_cases("x", TEXTS, eh.concept("religion")),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_whole_records_are_the_recorded_ones(tmp_path: Path) -> None:
    found = json.dumps({name: plain(value) for name, value in cases(tmp_path).items()})
    check_whole("cases of labels", json.loads(found.replace(str(tmp_path), "folder")))
