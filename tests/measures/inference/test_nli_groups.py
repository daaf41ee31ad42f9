"""Groups of a probe under a model whose answers are written by hand."""

import itertools

import pytest

import evenhand as eh
from evenhand.models.nli import LABELS, CallableModel
from evenhand.words import Template
from evenhand.words.probes import Probe
from evenhand.words.probes.probe import Filler

ENTAILED = {"a1": 0.5, "a2": 0.7, "b1": 0.2, "b2": 0.2, "c1": 0.1, "c2": 0.3, "d1": 0.9}


def answer(premises: list[str], hypotheses: list[str]) -> list[list[float]]:
    p = [next(value for word, value in ENTAILED.items() if f" {word} " in text) for text in hypotheses]
    return [[x, 0.95 - x, 0.05] for x in p]


MODEL = CallableModel(answer, LABELS, "table")


def probe(groups: str = "abc") -> Probe:
    fillers = tuple(Filler(word, group=word[0]) for group in groups for word in ENTAILED if word[0] == group)
    sides = {"premise": (Filler("cook"), Filler("driver"), Filler("judge")), "hypothesis": fillers}
    return Probe("own", (Template("t", "The {subject} slept."), Template("u", "The {subject} ate.")), **sides)


def measured(groups: str = "abc") -> dict[str, eh.Measurement]:
    return {m.score: m for m in eh.measures.nli_groups(MODEL, probe(groups), sample=None)}


def test_differences_by_hand() -> None:
    found = measured()
    assert list(found) == [f"{label}:{how}" for label in ("entailment", "contradiction") for how in HOWS]
    rest = {item["first"]: item["value"] for item in found["entailment:one-against-rest"].items}
    # means 0.6, 0.2, 0.2; the others of a are 0.2, those of b and c 0.4
    assert rest == pytest.approx({"a": 0.4, "b": -0.2, "c": -0.2})
    pairs = {item["word"]: item["value"] for item in found["entailment:pairwise"].items}
    assert pairs == pytest.approx({"a – b": 0.4, "a – c": 0.4, "b – c": 0.0})
    # of the 6 ways to choose 2 of 4 words, 2 are as far apart: p = 1/3, times 3 for the smallest
    assert found["entailment:pairwise"].p_value == pytest.approx(1.0)
    # of the 15 ways to choose 2 of 6 words, 1 is as far: 1/15 times 3
    assert found["entailment:one-against-rest"].p_value == pytest.approx(3 / 15)
    assert found["contradiction:pairwise"].value == pytest.approx(0.0, abs=1e-12)


HOWS = ("pairwise", "one-against-rest")


@pytest.mark.parametrize("order", ["".join(order) for order in itertools.permutations("abc")])
def test_permuted_groups_permute_the_differences(order: str) -> None:
    plain, turned = measured(), measured(order)
    for score, m in plain.items():
        assert turned[score].value == pytest.approx(m.value, abs=1e-12)
        values = [{item["word"]: item["value"] for item in one.items} for one in (m, turned[score])]
        assert values[1] == pytest.approx(values[0], abs=1e-12)


def test_a_group_of_one_word_is_left_out_and_named() -> None:
    m = measured("abcd")["entailment:pairwise"]
    assert m.details["left_out"] == ["d"]
    assert "with fewer than 2 known words: d" in m.note
    assert len(m.items) == 3
    alone = measured("ad")["entailment:pairwise"]
    assert alone.status == "undefined"
    assert "fewer than two groups" in alone.reason
