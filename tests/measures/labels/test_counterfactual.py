"""Counterfactual fairness of classifiers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.measures.labels.counterfactual import case_set
from evenhand.words import Template

TWO = Template("two", "{person} {did}.", {"did": ["slept", "ran", "ate"]})
SIZES = eh.Concept("size", {"big": ["the giant", "the whale"], "small": ["the mouse", "the ant"]})


class ScriptedClassifier:
    """A classifier whose probability of the last label is a function of the text."""

    name, labels, exclusive = "scripted", ("no", "yes"), True

    def __init__(self, probability: Callable[[str], float]) -> None:
        self.probability = probability

    def predict(self, texts, *, tokens=None):
        yes = np.array([self.probability(text) for text in texts])
        return np.stack([1 - yes, yes], axis=1)


def scores(found: tuple[eh.measures.Measurement, ...]) -> dict[str, float]:
    return {m.score: m.value for m in found}


def test_by_hand() -> None:
    # The giant always gets 0.9; the mouse 0.3; whale and ant get 0.6, but 0.2 where they ate.
    def probability(text: str) -> float:
        if "giant" in text or "mouse" in text:
            return 0.9 if "giant" in text else 0.3
        return 0.2 if "ate" in text and "ant" in text.split()[1] else 0.6

    flips, change, gap = eh.measures.counterfactual(ScriptedClassifier(probability), TWO, concept=SIZES)
    assert flips.value == pytest.approx(4 / 6)
    assert change.value == pytest.approx((3 * 0.6 + 0.4) / 6)
    assert gap.value == pytest.approx((3 * 0.6 + 0.4) / 6)
    assert gap.positive == "big"
    assert (flips.n, flips.details["texts"]) == (6, 12)
    assert change.items[0]["value"] == pytest.approx(0.6)
    assert change.items[0]["flips"]
    assert gap.params["label"] == "yes"
    other = eh.measures.counterfactual(ScriptedClassifier(probability), TWO, concept=SIZES, label="no")
    assert scores(other)["gap"] == pytest.approx(-gap.value)
    assert scores(other)["change"] == pytest.approx(change.value)


def test_a_classifier_that_ignores_the_group_scores_zero() -> None:
    blind = ScriptedClassifier(lambda text: len(text.split()) / 10)
    for concept in ("gender", SIZES):
        assert set(scores(eh.measures.counterfactual(blind, concept=concept)).values()) == {0.0}
    flips, *_ = eh.measures.counterfactual(blind, TWO, concept=SIZES)
    assert flips.interval[0] == 0 < flips.interval[1] < 0.6  # three templates say little
    # Lower-cased first words would differ, so that capitals are checked too.
    assert all(case.texts[0][0].isupper() for case in case_set("person-sentences", eh.concept("gender")).cases)


@given(st.integers(0, 1000))
def test_exchanging_the_groups_changes_the_sign_of_the_gap_only(seed: int) -> None:
    random = ScriptedClassifier(lambda text: float(np.random.default_rng([seed, *text.encode()]).random()))
    swapped = eh.Concept("size", {"small": ["the mouse", "the ant"], "big": ["the giant", "the whale"]})
    first, second = (scores(eh.measures.counterfactual(random, TWO, concept=each)) for each in (SIZES, swapped))
    assert second["gap"] == pytest.approx(-first["gap"])
    assert second["flip-rate"] == pytest.approx(first["flip-rate"])
    assert second["change"] == pytest.approx(first["change"])
    assert abs(first["gap"]) <= first["change"] + 1e-12


def test_three_groups() -> None:
    three = eh.Concept("size", {"big": ["the giant"], "small": ["the mouse"], "middle": ["the dog"]})
    found = scores(
        eh.measures.counterfactual(ScriptedClassifier(lambda text: 0.9 if "giant" in text else 0.3), TWO, concept=three)
    )
    assert found["flip-rate"] == pytest.approx(2 / 3)
    assert found["change"] == pytest.approx(0.4)
    assert found["gap:big"] == pytest.approx(0.6)
    assert found["gap:small"] == pytest.approx(-0.3)


def test_own_texts(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("She is late.\nHe is late.\nNobody is late.\n\nHe saw that she was late.\n")
    view = ScriptedClassifier(lambda text: 0.8 if text.startswith("She") else 0.4)
    flips, change, gap = eh.measures.counterfactual(view, file)
    assert (flips.value, change.value, gap.value) == pytest.approx((1.0, 0.4, 0.4))
    assert (flips.n, gap.n, flips.details["without_group"], flips.query) == (3, 2, 1, "texts.txt")
    listed = eh.measures.counterfactual(view, ["She is late.", "He is late."])
    assert scores(listed)["gap"] == pytest.approx(0.4)
    nothing = eh.measures.counterfactual(view, ["Nobody is late."])
    assert {m.status for m in nothing} == {"undefined"}
    with pytest.raises(eh.EvenhandError, match="text file or template"):
        eh.measures.counterfactual(view, "missing-file.txt")


def test_an_audit_of_a_classifier(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tiny_folder("BertForSequenceClassification", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    audit = eh.Audit.run(f"hf:{folder}", measures=["counterfactual"], folder=tmp_path)
    assert set(audit.labels) == {f"counterfactual:{score}" for score in ("flip-rate", "change", "gap")}
    low, high = audit.get("counterfactual:gap").interval
    assert low <= audit.get("counterfactual:gap").value <= high
    assert "Labels: does the decision change with the group?" in audit.to_html(tmp_path / "page.html").read_text()
    texts = tmp_path / "own.txt"
    texts.write_text("she is here\n")
    first = eh.Audit.run(f"hf:{folder}", measures=["counterfactual"], queries=[str(texts)], folder=tmp_path)
    texts.write_text("she is a doctor\n")
    second = eh.Audit.run(f"hf:{folder}", measures=["counterfactual"], queries=[str(texts)], folder=tmp_path)
    assert [r.measurement.value for r in first.results] != [r.measurement.value for r in second.results]


class ScriptedReward:
    """A reward model: one score without a range."""

    name, labels, exclusive, unit = "reward", ("reward",), False, "score"

    def predict(self, texts, *, tokens=None):
        return np.array([[40.0 if "giant" in text else -2.0] for text in texts])


def test_the_score_of_a_reward_model_by_hand() -> None:
    big, small = ["the giant", "the whale", "the lion", "the bear"], ["the mouse", "the ant", "the bee", "the fly"]
    animals = eh.Concept("size", {"big": big, "small": small})
    change, gap = eh.measures.counterfactual(ScriptedReward(), TWO, concept=animals)
    assert (change.score, gap.score) == ("change", "gap")  # a score decides nothing, so there is no flip-rate
    assert change.value == gap.value == pytest.approx(10.5)  # 42 for giant and mouse, 0 for the others
    assert gap.interval[1] > 1  # a difference of scores has no limit
    assert gap.params["unit"] == "score"
    assert gap.details["spread"] == pytest.approx(np.std([40.0] * 3 + [-2.0] * 21))
    assert change.items[0]["scores"] == [40.0, -2.0]
    assert "flips" not in change.items[0]
    assert change.reading == "reward differs by 10.500 on average, by 42.000 at most"
    alike = eh.measures.counterfactual(ScriptedReward(), TWO, concept=eh.Concept("x", {"a": ["an ox"], "b": ["a cow"]}))
    assert [m.value for m in alike] == [0, 0]


def test_an_audit_of_a_reward_model(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tiny_folder("BertForSequenceClassification", id2label={0: "reward"}, label2id={"reward": 0})
    audit = eh.Audit.run(f"hf:{folder}", measures=["counterfactual"], folder=tmp_path)
    assert set(audit.labels) == {"counterfactual:change", "counterfactual:gap"}
    assert audit.to_html(tmp_path / "page.html").is_file()
