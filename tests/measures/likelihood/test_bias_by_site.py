"""Bias by site: the sums by hand, units and intervals, pairs of every source, undefined cases, the chart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh
from evenhand.measures.likelihood.bias_by_site import bias_by_site, pair_set
from evenhand.measures.likelihood.stereotype_pairs import StereotypePair
from evenhand.models.attribution.pairs import site_effects
from evenhand.report.charts import figures

Folder = Callable[..., Path]
PAIRS = [
    StereotypePair("0", "the man is a nurse and he likes art", "the woman is a nurse and she likes art", "gender"),
    StereotypePair("1", "the king likes the door and the art", "the queen likes the door and the art", "gender"),
    StereotypePair("2", "the boy was here and said this", "the girl was here and said this", "gender"),
    StereotypePair("3", "the secretary zzq is nice and good", "the man is nice and good", "other"),
    StereotypePair("4", "the man", "the woman", "other"),
]


@pytest.fixture
def view(tiny_folder: Folder) -> object:
    return eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}").view("likelihood")


def test_value_and_shares_are_sums_over_pairs(view: object) -> None:
    found = bias_by_site(view, PAIRS)
    effects = site_effects(view, [(pair.more, pair.less) for pair in PAIRS])
    assert found.n == 4  # nothing follows the difference of the last pair
    assert found.details["left_out"] == 1
    assert found.value == pytest.approx(effects.differences.mean())
    first = found.items[0]
    signs = np.sign(effects.differences)
    assert first["word"] == "layer:1"
    assert first["value"] == pytest.approx((signs * effects.effects[:, 0]).sum() / np.abs(effects.differences).sum())
    attention = next(item for item in found.items if item["word"] == "attention:1")
    assert (first["pairs"], attention["pairs"]) == (4, 3)
    low, high = first["interval"]
    assert low < first["value"] < high
    assert found.units[0].value == pytest.approx(found.value)
    assert len(found.items) == 9
    assert len(bias_by_site(view, PAIRS, parts="layers").items) == 3


def test_exchanged_sentences_have_the_opposite_value(view: object) -> None:
    back = [StereotypePair(pair.id, pair.less, pair.more, pair.category) for pair in PAIRS]
    assert bias_by_site(view, back).value == pytest.approx(-bias_by_site(view, PAIRS).value, abs=1e-4)


def test_pairs_of_a_template_are_clustered_by_phrase(view: object) -> None:
    asked, frames = pair_set("person-sentences", eh.concept("gender"))
    assert set(frames) == {pair.id for pair in asked.pairs}
    found = bias_by_site(view, sample=6, parts="layers")
    assert found.n == 6
    assert [each.unit for each in found.units] == ["phrase", "sentence"]
    assert found.interval is not None


def test_what_has_no_value_says_why(view: object, tiny_folder: Folder) -> None:
    assert "no token that both texts have" in bias_by_site(view, PAIRS[-1:]).reason

    class Unigrams:
        name = "unigrams"

        def log_probabilities(self, texts: list[str]) -> None: ...

    assert "needs a transformer" in bias_by_site(Unigrams(), PAIRS).reason


def test_audits_ask_it_only_by_name_and_draw_it(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    from evenhand.audit import Audit, Plan

    plan = Plan.default([subject], methods=())
    assert "bias-by-site" not in {question.measure for question in plan.questions}
    named = Plan.default([subject], methods=["steering"], only=["bias-by-site"], limit=4, queries=["person-sentences"])
    audit = Audit.run(subject, plan=named)
    (figure,) = figures(audit, audit.subjects[0], ["bias-by-site"])
    assert len(figure.table) == 2 * 9
    assert figure.caption.endswith("n = 4 pairs, seed 0.")
