"""Winogender on sentences of our own: accuracy, gotchas and the correlation by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.measures.likelihood.winogender import is_gotcha, read_winogender, winogender
from scripted_model import ScriptedModel, uniform

SHARES = {"nurse": 90.0, "guard": 20.0, "clerk": 70.0, "driver": 5.0}
MALE = ("he", "him", "his")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("winogender")
    lines = ["sentid\tsentence"]
    for name in SHARES:
        for other, them in (("visitor", "the visitor"), ("someone", "someone")):
            for answer, verb in (("0", "was on duty"), ("1", "was lost")):
                for gender, pronoun in (("male", "he"), ("female", "she"), ("neutral", "they")):
                    text = f"The {name} told {them} that {pronoun} {verb}."
                    text = text.replace("they was", "they were")
                    lines.append(f"{name}.{other}.{answer}.{gender}.txt\t{text}")
    (root / "all_sentences.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["occupation\tbergsma\tbls\tyear", *(f"{name}\t0\t{share}\t2015" for name, share in SHARES.items())]
    (root / "occupations-stats.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return root


def reader(resolves):
    """Return a model that prefers the occupation where `resolves(pronoun, occupation, text)` is above 0."""

    def score(tokens: list[str], index: int) -> float:
        if "refers" not in tokens or index <= tokens.index("refers") or tokens[index] not in SHARES:
            return -1.0
        pronoun = tokens[tokens.index("refers") - 2].lower()
        return (
            -1.0
            + resolves(pronoun, tokens[index], " ".join(tokens))
            + (tokens[index - 1] == "the" and "someone" in tokens)
        )

    return score  # fmt: skip


def by_majority(pronoun: str, occupation: str, text: str) -> float:
    lean = (SHARES[occupation] - 50) / 10
    return 0.0 if pronoun == "they" else -lean if pronoun in MALE else lean


@pytest.mark.parametrize("masked", [True, False])
def test_a_model_that_knows_the_answers(folder: Path, masked: bool):
    right = reader(lambda pronoun, occupation, text: 3.0 if "on duty" in text else -3.0)
    scores = {m.score: m for m in winogender(ScriptedModel(right, masked=masked), folder)}
    assert [scores[name].value for name in ("accuracy", "accuracy-male", "accuracy-neutral")] == [100, 100, 100]
    assert scores["gotcha-gap"].value == 0
    assert scores["share-correlation"].status == "undefined"  # no pronoun changes anything


def test_a_model_that_goes_by_the_majority(folder: Path):
    scores = {m.score: m for m in winogender(ScriptedModel(reader(by_majority)), folder)}
    # Every gotcha is wrong and every other sentence with he or she is right.
    assert scores["gotcha-gap"].value == 100
    assert scores["gotcha-gap"].details["accuracy"] == {"usual": 100, "gotcha": 0}
    assert scores["accuracy-male"].value == scores["accuracy-female"].value == 50
    assert scores["share-correlation"].value == pytest.approx(1)
    nurse = next(item for item in scores["share-correlation"].items if item["word"] == "nurse")
    assert nurse["value"] == pytest.approx(8.0)  # 4 for she, -4 for he


def test_exchanging_the_genders_mirrors(folder: Path):
    mirrored = reader(lambda pronoun, occupation, text: -by_majority(pronoun, occupation, text))
    scores = {m.score: m for m in winogender(ScriptedModel(mirrored), folder)}
    assert scores["gotcha-gap"].value == -100
    assert scores["share-correlation"].value == pytest.approx(-1)


def test_a_uniform_model_is_at_chance(folder: Path):
    scores = {m.score: m for m in winogender(ScriptedModel(uniform(), masked=True), folder)}
    assert scores["accuracy"].value == pytest.approx(50)
    assert scores["gotcha-gap"].value == 0


def test_gotchas_as_the_paper_defines_them(folder: Path):
    found = {s.id: (is_gotcha(s), is_gotcha(s, "occupation")) for s in read_winogender(folder)}
    assert found["nurse.visitor.0.male"] == (True, True)
    assert found["nurse.visitor.0.female"] == (False, False)
    assert found["nurse.visitor.1.female"] == (True, None)  # refers to the visitor although women are the majority
    assert found["guard.visitor.1.female"] == (False, None)
    assert found["nurse.visitor.0.neutral"] == (None, None)


def test_options(folder: Path):
    measured = winogender(ScriptedModel(reader(by_majority)), folder, gotcha="occupation", sample=4)
    assert measured[0].n == 12
    assert np.isfinite(measured[-2].value)
    with pytest.raises(UsageError, match="gotcha must be both or occupation, got 'all'"):
        winogender(ScriptedModel(uniform()), folder, gotcha="all")
