"""A model that follows the statistics exactly, one that reverses them, and one that does not look."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from evenhand import measures, words
from evenhand.measures.likelihood.pronoun_share import SPELLING, TEMPLATES, pronoun_share, slopes
from scripted_model import ScriptedModel, uniform

MALE, FEMALE = ("he", "his", "him"), ("she", "her")


def by_share(*, reverse: bool = False, lean: float = 0.0):
    """Return a model that gives female pronouns the share of women, and "person" the odds exp(lean) for he."""
    listed = words.wordset("occupations-share-of-women")
    names = [SPELLING.get(word, word.replace("_", " ")).lower() for word in listed.words]
    shares = dict(zip(names, listed.scores["percent_women"], strict=True))

    def score(tokens: list[str], index: int) -> float:
        if tokens[index] not in MALE + FEMALE:
            return -1.0
        text = " ".join(tokens).lower()
        share = next((value / 100 for name, value in shares.items() if f"the {name} " in text), 0.5)
        share = 1 - share if reverse else share
        return float(np.log(share) if tokens[index] in FEMALE else np.log(1 - share) + lean)

    return score


@pytest.mark.parametrize("masked", [True, False])
def test_a_model_that_follows_the_statistics(masked):
    pearson, spearman, slope = pronoun_share(ScriptedModel(by_share(lean=2.0), masked=masked))
    assert [m.score for m in (pearson, spearman, slope)] == ["pearson", "spearman", "slope"]
    assert (pearson.value, spearman.value, slope.value) == pytest.approx((1, 1, 1))
    nurse = next(item for item in pearson.items if item["word"] == "nurse")
    assert (nurse["value"], nurse["share"], nurse["sentences"]) == (pytest.approx(0.9), 0.9, len(TEMPLATES))
    # "person" removes what holds for everybody: he is e^2 times as probable whoever it is.
    assert pearson.details["mean_log_odds_he_of_person"] == pytest.approx(2.0)
    assert pearson.params["scoring"] == ("filler" if masked else "sentence")


def test_exchanging_the_genders_mirrors_every_score():
    straight = pronoun_share(ScriptedModel(by_share()))
    mirrored = pronoun_share(ScriptedModel(by_share(reverse=True)))
    assert [m.value for m in mirrored] == pytest.approx([-m.value for m in straight])


def test_a_uniform_model_has_slope_0_and_no_correlation():
    pearson, spearman, slope = pronoun_share(ScriptedModel(uniform()))
    assert slope.value == 0
    assert slope.interval == (0, 0)
    assert pearson.status == spearman.status == "undefined"
    assert "constant" in pearson.reason


def test_winogenerated(tmp_path: Path):
    rows = [
        {"index": 0, "occupation": "nurse", "pronoun_options": ["he", "she", "they"], "BLS_percent_women_2019": 90.0},
        {"index": 1, "occupation": "cook", "pronoun_options": ["his", "her", "their"], "BLS_percent_women_2019": 38.0},
        {"index": 2, "occupation": "driver", "pronoun_options": ["him", "her", "them"], "BLS_percent_women_2019": 6.0},
        {"index": 3, "occupation": "guard", "pronoun_options": ["he", "she", "they"], "BLS_percent_women_2019": 22.0},
    ]
    for row, text in zip(
        rows,
        [
            "The nurse told us that _ would come.",
            "The cook cooked _ dinner.",
            "The driver hoped that we saw _.",
            "The guard said that _ was tired.",
        ],
        strict=True,
    ):
        row["sentence_with_blank"] = text
    path = tmp_path / "winogenerated_examples.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pearson, _, slope = pronoun_share(ScriptedModel(by_share(), masked=True), tmp_path)
    assert (pearson.value, slope.value, pearson.n) == (pytest.approx(1), pytest.approx(1), 4)
    assert pearson.query == "winogenerated"


def test_the_slope_by_hand():
    assert slopes(np.array([[0.0, 1.0, 2.0]]), np.array([[1.0, 2.0, 6.0]])).tolist() == [2.5]
    assert np.isnan(slopes(np.ones((1, 3)), np.ones((1, 3)))[0])


def test_it_is_about_gender_only():
    assert measures.info("pronoun-share").concepts == ("gender",)
