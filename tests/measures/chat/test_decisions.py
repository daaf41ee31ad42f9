"""Decisions about people: hand-computed gaps, tests that hold their level, and bad input."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scripted_chat import TextChat, sigmoid

import evenhand as eh
from evenhand import words
from evenhand.errors import EvenhandError
from evenhand.measures.chat.decisions import ask_about, count_requests, decisions
from evenhand.measures.chat.gaps import logits
from evenhand.models.lm.chat import Choices

TWO = """
[scenario.one]
text = "{Person} asks for one."
question = "Give it?"
[scenario.two]
text = "{Person} asks for two."
question = "Refuse it?"
favourable = "no"
[scenario.three]
text = "{Person} asks for three."
question = "Give it?"
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.toml"
    file.write_text(TWO, encoding="utf-8")
    return file


def by_score(measured: tuple[eh.Measurement, ...]) -> dict[str, eh.Measurement]:
    return {each.score: each for each in measured}


def test_the_gap_by_hand(own: Path) -> None:
    """Women get a logit of 1 in scenario one, -2 for the unfavourable answer in two, 0.5 in three; men get 0."""

    def decide(text: str, options: object) -> list[float]:
        if " man " in text:
            return sigmoid(0.0, 0.8)
        return sigmoid(1.0 if "one" in text else -2.0 if "two" in text else 0.5, 0.8)

    found = by_score(decisions(TextChat(decide), own, sample=0))
    assert found["gap"].value == pytest.approx((1 + 2 + 0.5) / 3)
    assert found["gap"].n == 3 * 90
    assert found["gap"].positive == "female"
    assert found["unclear"].value == pytest.approx(0.2)
    assert found["gap"].p_value == pytest.approx(2 / 8)  # of eight changes of sign, two are as far from 0
    items = {item["word"]: item["value"] for item in found["gap"].items}
    assert items == {"two": pytest.approx(2.0), "one": pytest.approx(1.0), "three": pytest.approx(0.5)}
    assert next(iter(items)) == "two"
    own_shares = found["gap"].details["by_group"]
    assert own_shares["male"] == pytest.approx(0.5)
    expected = np.mean([1 / (1 + math.exp(-z)) for z in (1.0, 2.0, 0.5)])
    assert own_shares["female"] == pytest.approx(expected)
    low, high = found["gap"].interval
    assert low < found["gap"].value < high


def oracle(texts: tuple[str, ...], groups: np.ndarray, scenarios: tuple[str, ...], yes: np.ndarray, no: np.ndarray):
    """The gap written from the definition: ratios of probabilities, sums over people, then over scenarios."""
    total = 0.0
    for scenario in sorted(set(scenarios)):
        sums = {0: [], 1: []}
        for at in range(len(texts)):
            if scenarios[at] == scenario:
                share = yes[at] / (yes[at] + no[at])
                sums[int(groups[at])].append(math.log(share / (1 - share)))
        total += sum(sums[0]) / len(sums[0]) - sum(sums[1]) / len(sums[1])
    return total / len(set(scenarios))


@pytest.mark.parametrize("naming", ["explicit", "names"])
def test_the_gap_is_that_of_an_independent_oracle(naming: str) -> None:
    rng = np.random.default_rng(3)
    shares = {}

    def decide(text: str, options: object) -> list[float]:
        yes = float(rng.uniform(0.05, 0.5))
        shares[text] = (yes, float(rng.uniform(0.05, 0.45)))
        return list(shares[text])

    found = by_score(decisions(TextChat(decide), naming=naming, concept="race"))
    asked = ask_about("decision-scenarios", words.concept("race"), naming, 200, 0)
    yes, no = (np.array([shares[text][at] for text in asked.texts]) for at in (0, 1))
    expected = oracle(asked.texts, np.array(asked.group), asked.scenario, yes, no)
    assert found["gap"].value == pytest.approx(expected, abs=1e-12)


def test_a_model_that_ignores_the_person_has_no_gap_and_no_width() -> None:
    found = by_score(decisions(TextChat(lambda text, options: sigmoid(0.3, 0.9))))
    assert found["gap"].value == pytest.approx(0, abs=1e-12)
    assert found["gap"].p_value == 1.0
    assert "as favourable" in found["gap"].reading or abs(found["gap"].value) < 1e-12


def test_exchanging_the_groups_changes_the_sign() -> None:
    def decide(text: str, options: object) -> list[float]:
        return sigmoid(0.7 * (" woman" in text) + len(text) % 5 / 10)

    female = words.concept("gender")
    male = words.Concept("gender", female.groups, positive="male", names=female.names, adjectives=female.adjectives)
    first, second = (by_score(decisions(TextChat(decide), concept=c))["gap"] for c in (female, male))
    assert first.value == pytest.approx(-second.value)
    assert first.p_value == pytest.approx(second.p_value)
    assert first.interval == pytest.approx((-second.interval[1], -second.interval[0]))


def test_more_than_two_groups_have_an_overall_test() -> None:
    def decide(text: str, options: object) -> list[float]:
        return sigmoid(-1.0 * ("Muslim" in text) + (len(text) % 7) / 20)

    found = by_score(decisions(TextChat(decide), concept="religion"))
    assert set(found) == {"gap:judaism", "gap:christianity", "gap:islam", "overall", "unclear"}
    assert found["gap:islam"].value == pytest.approx(-1.0, abs=0.1)
    assert found["overall"].p_value < 0.01
    assert sum(found[f"gap:{name}"].value for name in ("judaism", "christianity", "islam")) == pytest.approx(
        0, abs=1e-9
    )


def test_answers_on_a_scale(own: Path) -> None:
    def decide(text: str, options: object) -> list[float]:
        shares = np.zeros(9)
        shares[7 if (" woman" in text) != ("two" in text) else 4] = 0.9  # 8, turned to 2 where 9 is bad
        shares[1] += 0.05 if "two" in text and " woman" in text else 0.0
        return list(shares)

    found = by_score(decisions(TextChat(decide), own, answer="number", sample=0))
    # Women: 8, then 10 - (0.9 * 5 + 0.05 * 2) / 0.95, then 8; men: 5, then 10 - 8, then 5.
    expected = ((8 - 5) + (10 - (0.9 * 5 + 0.05 * 2) / 0.95 - 2) + (8 - 5)) / 3
    nonbinary_free = found["gap"]
    assert nonbinary_free.value == pytest.approx(expected)


def test_unclear_answers_are_counted_and_a_gap_of_few_clear_ones_is_not_interpreted() -> None:
    found = by_score(decisions(TextChat(lambda text, options: sigmoid(0.1, 0.2))))
    assert found["unclear"].value == pytest.approx(0.8)
    assert "80 %" in found["gap"].not_interpretable
    never = by_score(decisions(TextChat(lambda text, options: [0.0, 0.0])))
    assert never["unclear"].value == 1.0
    assert never["gap"].value == 0.0
    assert never["gap"].not_interpretable


def test_logits_of_counted_answers_are_finite() -> None:
    counted = Choices(np.array([[1.0, 0.0], [0.25, 0.75]]), np.zeros(2), "sampled answers", 4)
    assert logits(counted).tolist() == pytest.approx([math.log(4.5 / 0.5), math.log(1.5 / 3.5)])
    listed = Choices(np.array([[0.9, 0.0]]), np.array([0.1]), "log-probabilities")
    assert logits(listed).tolist() == pytest.approx([math.log(0.9 / 1e-6)])


def test_the_cost_is_known_before_and_a_sample_is_balanced() -> None:
    concept = words.concept("religion")
    for sample in (None, 12, 100, 200):
        asked = ask_about("decision-scenarios", concept, "explicit", sample, 0)
        assert len(asked.texts) == count_requests("decision-scenarios", concept, sample=sample)
        assert len(asked.texts) <= (sample or 10**9)
        counts = dict.fromkeys(zip(asked.scenario, asked.group, strict=True), 0)
        for key in zip(asked.scenario, asked.group, strict=True):
            counts[key] += 1
        assert len(set(counts.values())) == 1
        assert len(counts) == 3 * len(set(asked.scenario))


def test_names_that_differ_are_no_gap_between_groups() -> None:
    """Each name has its own effect, the same in every scenario: over scenarios it looks like a gap, over names not."""
    effect: dict[str, float] = {}
    rng = np.random.default_rng(5)
    asked = ask_about("decision-scenarios", words.concept("gender"), "names", 200, 0)
    for name in dict.fromkeys(asked.person):
        effect[name] = float(rng.normal())

    def decide(text: str, options: object) -> list[float]:
        return sigmoid(next(value for name, value in effect.items() if name in text))

    found = by_score(decisions(TextChat(decide), naming="names"))
    own = [np.mean([effect[n] for n, g in zip(asked.person, asked.group, strict=True) if g == k]) for k in (0, 1)]
    assert found["gap"].value == pytest.approx(own[0] - own[1])
    assert found["gap"].p_value > 0.05
    low, high = found["gap"].interval
    assert high - low > 1  # 16 names of spread 1


def test_a_concept_without_names_is_undefined_with_the_reason() -> None:
    found = by_score(decisions(TextChat(lambda text, options: sigmoid(0)), naming="names", concept="religion"))
    assert found["gap:islam"].status == "undefined"
    assert "first names" in found["gap:islam"].reason
    german = by_score(decisions(TextChat(lambda text, options: sigmoid(0)), concept="gender-ja"))
    assert "no scenarios in Japanese" in german["gap"].reason


def test_bad_options_are_sentences(own: Path) -> None:
    chat = TextChat(lambda text, options: sigmoid(0))
    with pytest.raises(EvenhandError, match="naming must be explicit or names, got 'implicit'"):
        decisions(chat, naming="implicit")  # type: ignore[arg-type]
    with pytest.raises(EvenhandError, match="no concept"):
        decisions(chat, concept="gendre")
    with pytest.raises(EvenhandError, match=r"does not exist|no such|not found"):
        decisions(chat, own.parent / "missing.toml")


def test_a_language_is_asked_about_in_its_words() -> None:
    asked: list[tuple[str, object]] = []

    def decide(text: str, options: object) -> list[float]:
        asked.append((text, tuple(options)))
        return sigmoid(0.5 if " femme " in text else 0.0, 0.9)

    found = by_score(decisions(TextChat(decide), language="fr"))
    assert found["gap"].value == pytest.approx(0.5)
    assert found["gap"].query == "decision-scenarios-fr"
    assert (found["gap"].params["language"], found["gap"].positive) == ("fr", "female")
    assert {options for _, options in asked} == {("oui", "non")}
    assert any(text.startswith("Un homme de vingt ans") for text, _ in asked)
    assert len(asked) == count_requests("decision-scenarios", words.concept("gender"), language="fr")
    same = by_score(decisions(TextChat(decide), "decision-scenarios-fr", naming="names"))  # the set names it as well
    assert same["gap"].value == 0
    assert by_score(decisions(TextChat(decide), concept="gender-fr"))["gap"].value == pytest.approx(0.5)
    with pytest.raises(EvenhandError, match="no concept 'race' in German"):
        decisions(TextChat(decide), concept="race", language="de")


def test_the_units_give_the_value() -> None:
    for naming in ("explicit", "names"):
        gap = by_score(decisions(TextChat(lambda t, o: sigmoid(len(t) % 11 / 5 - (" she " in t))), naming=naming))[
            "gap"
        ]
        for units in gap.units:
            assert units.value == pytest.approx(gap.value)
