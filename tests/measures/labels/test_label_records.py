"""Whole records of counterfactual fairness on small inputs that reach every branch: numbers, texts, units, order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


class Same(Judging):
    """Gives every text the same answer."""

    def predict(self, texts: Any, *, tokens: int | None = None) -> Any:
        return super().predict(["same"] * len(texts))


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
