"""Estimates, the rule of agreement and claims, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from evenhand.reproduce.comparison import (
    Estimate,
    PaperComparison,
    Series,
    agreement,
    claim,
    estimates,
    student,
    summary,
)
from evenhand.reproduce.published import PaperItem

ITEM = PaperItem(
    id="paper/table-1",
    shows="scores",
    source="table 1",
    claim="The second is higher.",
    how="recorded",
    columns=("NN",),
    rows={"first": (0.30,), "second": (0.50,)},
    changes=(("second", "first"),),
    expect=(("second - first", "NN", ">", 0.0),),
    places=2,
    tolerance=0.05,
)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 8, 15, 40])
def test_the_quantile_of_student(degrees: int) -> None:
    assert student(degrees) == pytest.approx(
        float(stdtrit(degrees, 0.975)), rel=1e-9
    )  # scipy before 1.15 is no more exact


def test_an_estimate_by_hand() -> None:
    one = Estimate.of([0.2, 0.3, 0.4])  # mean .3, sd .1, t = 4.3027 at two degrees of freedom
    assert (one.value, one.sd, one.n) == (pytest.approx(0.3), pytest.approx(0.1), 3)
    assert one.interval == pytest.approx((0.3 - 0.24842, 0.3 + 0.24842), abs=1e-4)
    assert one.runs == pytest.approx((0.3 - 0.49683, 0.3 + 0.49683), abs=1e-4)
    assert Estimate(0.3).interval is None
    assert Estimate(0.3, given=(0.2, 0.4)).interval == (0.2, 0.4)
    assert Estimate.of([0.3]).single
    assert not Estimate(0.3).single


def test_the_rule_of_agreement() -> None:
    seeds = Estimate(0.30, 0.021, 5)  # interval .274 to .326, single runs .236 to .364
    assert agreement(0.32, seeds, ITEM) == "yes"
    assert agreement(0.35, seeds, ITEM) == "unclear"
    assert agreement(0.37, seeds, ITEM) == "no"
    assert agreement(0.33, seeds, ITEM) == "yes"  # .325 and more is printed as .33
    assert agreement(None, seeds, ITEM) is None
    assert agreement(0.35, Estimate(0.30), ITEM) == "yes"  # within the tolerance
    assert agreement(0.36, Estimate(0.30), ITEM) == "no"
    assert agreement(0.36, Estimate(0.30, n=1), ITEM) == "unclear"  # one run alone never says no
    assert agreement(0.36, Estimate(0.30, given=(0.2, 0.31)), ITEM) == "no"


def test_differences_are_paired_by_seed_and_variant() -> None:
    runs = {
        ("first", "NN"): {"0": 0.30, "1": 0.40, "2": 0.90},
        ("second", "NN"): {"0/a": 0.35, "0/b": 0.45, "1/a": 0.50},
    }
    found = estimates(ITEM, runs)
    assert found["second - first", "NN"].value == pytest.approx((0.05 + 0.15 + 0.10) / 3)
    assert found["second - first", "NN"].n == 3
    assert found["first", "NN"].n == 3
    assert ("second - first", "NN") not in estimates(ITEM, {("first", "NN"): {"0": 0.3}})


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (Estimate(0.2, 0.01, 5), "yes"),
        (Estimate(-0.2, 0.01, 5), "no"),
        (Estimate(0.2, 0.5, 5), "unclear"),
        (Estimate(0.2), "yes"),
        (Estimate(0.2, n=1), "unclear"),
    ],
)
def test_a_claim_holds_if_the_interval_is_on_its_side(ours: Estimate, verdict: str) -> None:
    assert claim(ITEM, Series("a", {("second - first", "NN"): ours})) == verdict


def test_a_claim_without_numbers_is_not_tested() -> None:
    assert claim(ITEM, Series("a", {("first", "NN"): Estimate(0.3)})) is None
    within = PaperItem(**{**vars(ITEM), "expect": (("first", "NN", "within", 0.1),)})
    assert claim(within, Series("a", {("first", "NN"): Estimate(0.05, 0.01, 5)})) == "yes"
    assert claim(within, Series("a", {("first", "NN"): Estimate(0.09, 0.05, 5)})) == "unclear"
    assert claim(within, Series("a", {("first", "NN"): Estimate(-0.5, 0.05, 5)})) == "no"


def test_a_comparison_counts_and_says_what_is_missing() -> None:
    one = Series("a", {("second", "NN"): Estimate(0.48), ("other", "NN"): Estimate(0.1)})
    two = Series("b", {("second", "NN"): Estimate(0.60)})
    found = PaperComparison(ITEM, (one, two))
    assert found.counts == {"yes": 1, "unclear": 0, "no": 1}
    assert found.uncovered == ("first",)
    assert [n.row for n in found.numbers] == ["second", "second", "other"]
    assert found.numbers[0].difference == pytest.approx(-0.02)
    assert found.numbers[2].difference is None
    assert found.verdict == ""
    assert found.to_dict()["holds"] is None


def test_the_summary_of_verdicts() -> None:
    assert summary([]) == ""
    assert summary(["yes", "yes"]) == "yes"
    assert summary(["yes", "no"]) == "partly"
    assert summary(["unclear", "yes"]) == "partly"
    assert summary(["unclear", "no"]) == "no"
    assert summary(["unclear", "unclear"]) == "unclear"


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.floats(-1, 1), st.floats(-3, 3))
def test_agreement_does_not_depend_on_the_origin(values: list[float], published: float, shift: float) -> None:
    ours, moved = Estimate.of(values), Estimate.of([value + shift for value in values])
    if ours.sd is None or ours.sd < 1e-6:
        return
    bounds = [*(ours.interval or ()), *(ours.runs or ())]
    if any(math.isclose(abs(published - bound), 0.005, abs_tol=1e-6) for bound in bounds):
        return
    assert agreement(published, ours, ITEM) == agreement(published + shift, moved, ITEM)
