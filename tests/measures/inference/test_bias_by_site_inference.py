"""Bias by site of inference models: pairs of a probe, the value from predictions, the test, what has no value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh
from evenhand.audit import Audit, Plan
from evenhand.measures.inference.bias_by_site_inference import bias_by_site_inference, probe_pairs, words_p
from evenhand.models.attribution.pairs import explain_pair
from evenhand.report.charts import figures
from evenhand.words.probes import probe

Folder = Callable[..., Path]
NLI = {"num_labels": 3, "id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}


@pytest.fixture
def subject(tiny_folder: Folder) -> eh.Subject:
    return eh.open(f"hf:{tiny_folder('BertForSequenceClassification', **NLI)}", device="cpu")


def test_pairs_differ_in_one_word_of_the_groups_and_cover_both_sides_evenly() -> None:
    asked = probe("gender-occupation")
    pairs = probe_pairs(asked, "female", "male", 90, 0)
    assert len(pairs.inputs) == 90
    assert {pairs.words.count(word) for word in set(pairs.words)} == {30}
    assert len(set(pairs.fillers)) == 90
    for ((premise, hypothesis), (again, other)), words in zip(pairs.inputs, pairs.words, strict=True):
        assert premise == again
        first, second = words.split(" / ")
        assert hypothesis.replace(first, second) == other
    small = asked.restrict(premise=["nurse", "doctor"])
    few = probe_pairs(small.part(0, 2), "female", "male", None, 0)
    assert len(few.inputs) == len(set(few.inputs)) == 2 * 2 * 3
    assert probe_pairs(asked, "female", "male", 90, 0) == pairs


def test_the_value_is_that_of_the_predictions_and_everything_patched_gives_the_other_score(subject: eh.Subject) -> None:
    view = subject.view("inference")
    found = bias_by_site_inference(view, sample=12)
    inputs = probe_pairs(probe("gender-occupation"), "female", "male", 12, 0).inputs
    model, odds = view.members[0], []
    for side in (0, 1):
        p = model.predict(*zip(*(pair[side] for pair in inputs), strict=True)).matrix[:, 0]
        odds.append(np.log(p / (1 - p)))
    assert found.n == 12
    assert found.value == pytest.approx((odds[0] - odds[1]).mean(), abs=1e-5)
    assert (found.positive, found.params["label"]) == ("female", "entailment")
    shares = {item["word"]: item["value"] for item in found.items}
    moved = 0.0
    for number, (first, second) in enumerate(inputs):
        one = explain_pair(model, first, second)
        assert one.whole == pytest.approx(np.full(4, one.difference), abs=1e-5)
        assert abs(one.nothing) < 1e-5
        assert one.difference == pytest.approx(odds[0][number] - odds[1][number], abs=1e-5)
        moved += np.sign(one.difference) * one.carried[1]
    assert shares["layer:1"] == pytest.approx(moved / np.abs(odds[0] - odds[1]).sum(), abs=1e-4)
    assert shares["layer:3"] == pytest.approx(0, abs=1e-5)  # the decision is read from the first token


def test_few_words_are_tested_by_their_means() -> None:
    rng = np.random.default_rng(0)
    words = ["a", "b", "c"] * 8
    fillers = [str(number // 3) for number in range(24)]
    differences = 1 + np.tile([0.0, 0.5, 2.0], 8) + 0.1 * rng.normal(size=24)  # of the words, more than of the fillers
    means = [differences[i::3].mean() for i in range(3)]
    assert words_p(words, fillers, differences) == pytest.approx(ttest_1samp(means, 0).pvalue)
    mixed = np.where(np.arange(24) // 3 % 2, 1.0, -1.0) + 0.01 * np.tile([0.0, 1.0, 2.0], 8)
    assert words_p(words, fillers, mixed) > 0.5  # the fillers do not agree
    assert words_p(["a"] * 24, fillers, differences) is None


def test_an_audit_asks_it_by_name_and_draws_it(subject: eh.Subject) -> None:
    assert "bias-by-site-inference" not in {q.measure for q in Plan.default([subject], methods=()).questions}
    plan = Plan.default([subject], methods=(), only=["bias-by-site-inference"], limit=6)
    audit = Audit.run(subject, plan=plan)
    (figure,) = figures(audit, audit.subjects[0], ["bias-by-site"])
    assert len(figure.table) == 9
    assert audit.results[0].measurement.n == 6


def test_what_has_no_value_says_why(subject: eh.Subject) -> None:
    view = subject.view("inference")
    assert "no two groups" in bias_by_site_inference(view, "nationality-polarity").reason
    assert "has no label 'toxic'" in bias_by_site_inference(view, label="toxic", sample=2).reason
    embedded = eh.open("embedded").view("inference")
    assert "training seeds" in bias_by_site_inference(embedded, sample=2).reason
