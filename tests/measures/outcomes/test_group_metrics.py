"""Rates of groups, against numbers computed by hand, Fairlearn's, and what must not change them."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.measures import Measurement
from evenhand.models.outcomes import Outcomes

SCORES = {
    "demographic-parity-difference": "demographic_parity_difference",
    "demographic-parity-ratio": "demographic_parity_ratio",
    "equal-opportunity-difference": "equal_opportunity_difference",
    "equal-opportunity-ratio": "equal_opportunity_ratio",
    "equalised-odds-difference": "equalized_odds_difference",
    "equalised-odds-ratio": "equalized_odds_ratio",
}


def outcomes(group: Any, label: Any = None, prediction: Any = None, score: Any = None, **options: Any) -> Outcomes:
    columns = {"group": group, "label": label, "prediction": prediction, "score": score}
    frame = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
    view: Outcomes = eh.open(frame, **options).view("outcomes")
    return view


def by_score(view: Outcomes, grouping: str = "", **options: Any) -> dict[str, Measurement]:
    return {m.score: m for m in eh.measures.group_metrics(view, grouping, **options)}


def drawn(seed: int, rows: int = 400, groups: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    group = rng.choice([f"g{k}" for k in range(groups)], rows)
    label = rng.random(rows) < 0.4
    score = np.clip(0.6 * label + 0.5 * rng.random(rows) + 0.05 * (group == "g0"), 0, 1)
    return {"group": group, "label": label.astype(int), "prediction": (score >= 0.5).astype(int), "score": score}


def test_scores_that_are_off_by_the_same_everywhere_show_no_difference_between_groups() -> None:
    view = outcomes(["a"] * 6 + ["b"] * 6, label=[1] * 12, score=[0.75] * 12)
    found = by_score(view)["calibration-in-the-large-difference"]
    assert (found.value, found.p_value) == (0, 1)


def test_a_table_counted_by_hand() -> None:
    # a: 4 rows, 2 selected; positives 2, of which 2 selected; negatives 2, none selected.
    # b: 5 rows, 1 selected; positives 3, of which 1 selected; negatives 2, none selected.
    view = outcomes(list("aaaabbbbb"), [1, 1, 0, 0, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 0, 0, 0, 0])
    found = by_score(view)
    assert found["demographic-parity-difference"].value == pytest.approx(2 / 4 - 1 / 5)
    assert found["demographic-parity-ratio"].value == pytest.approx((1 / 5) / (2 / 4))
    assert found["equal-opportunity-difference"].value == pytest.approx(1 - 1 / 3)
    assert found["equal-opportunity-ratio"].value == pytest.approx(1 / 3)
    assert found["false-positive-rate-difference"].value == 0
    assert found["equalised-odds-difference"].value == pytest.approx(2 / 3)
    assert found["equalised-odds-ratio"].status == "undefined"
    assert "false positive rate is 0 for every group" in found["equalised-odds-ratio"].reason
    assert found["predictive-parity-difference"].value == 0
    assert found["accuracy-difference"].value == pytest.approx(1 - 3 / 5)
    assert found["worst-group-accuracy"].value == pytest.approx(3 / 5)
    assert "calibration-error-difference" not in found
    assert "fewer than 30 cases" in found["demographic-parity-difference"].note
    assert [item["word"] for item in found["demographic-parity-difference"].items] == ["b", "a"]
    assert "lower for b (0.200) than for a (0.500)" in found["demographic-parity-difference"].reading


def test_calibration_counted_by_hand() -> None:
    # a: scores .1 .1 .9, labels 0 1 1. Bins 1 and 9: |1 - .2| + |1 - .9| = .9 over 3 rows. Mean score 1.1/3, positives 2/3.
    # b: scores .5 .5, labels 0 1: calibrated.
    view = outcomes(list("aaabb"), [0, 1, 1, 0, 1], score=[0.1, 0.1, 0.9, 0.5, 0.5])
    found = by_score(view)
    error = found["calibration-error-difference"]
    assert {item["word"]: pytest.approx(item["value"]) for item in error.items} == {"a": 0.9 / 3, "b": 0.0}
    assert error.value == pytest.approx(0.3)
    large = found["calibration-in-the-large-difference"]
    assert large.value == pytest.approx(2 / 3 - 1.1 / 3)
    assert large.positive == "b"
    assert error.interval is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("groups", [2, 4])
def test_the_values_are_those_of_fairlearn(seed: int, groups: int) -> None:
    fairlearn = pytest.importorskip("fairlearn.metrics")
    table = drawn(seed, groups=groups)
    found = by_score(outcomes(**table))
    y, d, g = table["label"], table["prediction"], table["group"]
    for score, theirs in SCORES.items():
        expected = getattr(fairlearn, theirs)(y, d, sensitive_features=g)
        assert found[score].value == pytest.approx(expected, abs=1e-12)
    frame = fairlearn.MetricFrame(
        metrics={
            "fpr": fairlearn.false_positive_rate,
            "precision": _precision,
            "accuracy": _accuracy,
            "selection": fairlearn.selection_rate,
        },
        y_true=y, y_pred=d, sensitive_features=g,
    )  # fmt: skip
    gaps = frame.difference(method="between_groups")
    assert found["false-positive-rate-difference"].value == pytest.approx(gaps["fpr"], abs=1e-12)
    assert found["predictive-parity-difference"].value == pytest.approx(gaps["precision"], abs=1e-12)
    assert found["accuracy-difference"].value == pytest.approx(gaps["accuracy"], abs=1e-12)
    assert found["worst-group-accuracy"].value == pytest.approx(frame.group_min()["accuracy"], abs=1e-12)
    for item in found["demographic-parity-difference"].items:
        assert item["value"] == pytest.approx(frame.by_group["selection"][item["word"]], abs=1e-12)


def _precision(y: Any, d: Any) -> float:
    return float(np.asarray(y)[np.asarray(d) == 1].mean())


def _accuracy(y: Any, d: Any) -> float:
    return float((np.asarray(y) == np.asarray(d)).mean())


def test_crossed_columns_are_the_combinations_that_occur(tmp_path: Path) -> None:
    fairlearn = pytest.importorskip("fairlearn.metrics")
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["f", "m"], 300), rng.choice(["a", "b", "c"], 300)
    label, decided = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    file = tmp_path / "people.csv"
    pl.DataFrame({"sex": sex, "race": race, "y": label, "yhat": decided}).write_csv(file)
    view = eh.open(f"table:{file}", group="sex;sex,race").view("outcomes")
    assert list(view.groupings) == ["sex", "sex x race"]
    assert view.grouping("sex x race").groups == tuple(f"{s} x {r}" for s in "fm" for r in "abc")
    crossed = [f"{s}{r}" for s, r in zip(sex, race, strict=True)]
    expected = fairlearn.equalized_odds_difference(label, decided, sensitive_features=crossed)
    assert by_score(view, "sex x race")["equalised-odds-difference"].value == pytest.approx(expected, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_names_and_order_of_groups_and_rows_change_nothing(seed: int) -> None:
    table = drawn(seed, rows=60)
    rng = np.random.default_rng(seed)
    order = rng.permutation(60)
    renamed = {"g0": "z", "g1": "a", "g2": "m"}
    first = by_score(outcomes(**table))
    shuffled = {name: np.asarray(values)[order] for name, values in table.items()}
    second = by_score(outcomes(**{**shuffled, "group": [renamed[g] for g in shuffled["group"]]}))
    for score, measurement in first.items():
        if measurement.value is None:
            assert second[score].value is None
            continue
        assert second[score].value == pytest.approx(measurement.value, abs=1e-12)
        if score not in ("calibration-error-difference",):
            assert second[score].interval == pytest.approx(measurement.interval, abs=0.02)
    for measurement in first.values():
        if measurement.interval:
            assert measurement.interval[0] - 1e-12 <= measurement.value <= measurement.interval[1] + 1e-12


def test_positive_and_negative_exchanged_exchange_the_rates() -> None:
    table = drawn(3)
    first = by_score(outcomes(table["group"], table["label"], table["prediction"]))
    second = by_score(outcomes(table["group"], 1 - table["label"], 1 - table["prediction"]))
    assert second["demographic-parity-difference"].value == pytest.approx(first["demographic-parity-difference"].value)
    assert second["equal-opportunity-difference"].value == pytest.approx(first["false-positive-rate-difference"].value)
    assert second["equalised-odds-difference"].value == pytest.approx(first["equalised-odds-difference"].value)


def test_groups_that_are_treated_differently_are_found_and_others_not() -> None:
    rng = np.random.default_rng(1)
    group = np.repeat(["a", "b"], 500)
    fair = by_score(outcomes(group, rng.integers(0, 2, 1000), rng.integers(0, 2, 1000)))
    assert fair["demographic-parity-difference"].p_value > 0.05
    unfair = by_score(
        outcomes(group, rng.integers(0, 2, 1000), (rng.random(1000) < np.where(group == "a", 0.3, 0.6)) * 1)
    )
    assert unfair["demographic-parity-difference"].p_value < 0.001
    assert unfair["demographic-parity-difference"].interval[0] > 0.2
    assert unfair["demographic-parity-ratio"].interval[1] < 0.7


def test_one_row_per_group_and_groups_without_positives() -> None:
    found = by_score(outcomes(["a", "b"], [1, 0], [1, 0]))
    assert found["equal-opportunity-difference"].status == "undefined"
    assert found["equal-opportunity-difference"].reason == "only a has rows that the true positive rate is a share of"
    assert found["equalised-odds-difference"].status == "undefined"
    assert found["demographic-parity-difference"].value == 1
    assert found["demographic-parity-difference"].interval[0] == 0
    third = by_score(outcomes(["a", "a", "b", "b", "c"], [1, 0, 1, 0, 0], [1, 0, 1, 0, 0]))
    assert "c has no case" in third["equal-opportunity-difference"].note


def test_small_groups_can_be_left_out_and_are_named() -> None:
    view = outcomes(["a"] * 30 + ["b"] * 30 + ["c"], [1, 0] * 30 + [1], [1, 0] * 30 + [0])
    found = by_score(view, smallest=10)["demographic-parity-difference"]
    assert found.value == 0
    assert found.details["left_out"] == {"c": 1}
    undefined = by_score(view, smallest=40)["demographic-parity-difference"]
    assert undefined.reason == "fewer than two groups of group have 40 rows or more"


def test_decision_accuracy_counts_what_is_right() -> None:
    view = outcomes(list("aabb"), [1, 1, 1, 0], [1, 0, 1, 0])
    plain, balanced = eh.measures.decision_accuracy(view)
    assert plain.value == 0.75
    assert balanced.value == pytest.approx((2 / 3 + 1) / 2)
    assert plain.units[0].value == pytest.approx(0.75)
    assert balanced.units[0].value == pytest.approx(balanced.value)


def test_units_have_the_value_of_the_score() -> None:
    found = by_score(outcomes(**drawn(5)))
    for score, measurement in found.items():
        if score == "calibration-error-difference":
            continue
        assert measurement.units[0].value == pytest.approx(measurement.value, abs=1e-9), score


def test_a_million_rows() -> None:
    rng = np.random.default_rng(0)
    label = rng.random(1_000_000) < 0.3
    score = np.clip(rng.random(1_000_000) * 0.7 + 0.3 * label, 0, 1)
    found = by_score(outcomes(rng.choice(["a", "b", "c"], 1_000_000), label.astype(int), score=score))
    assert found["demographic-parity-difference"].n == 1_000_000
    assert found["calibration-in-the-large-difference"].p_value is not None
