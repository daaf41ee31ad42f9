"""Thresholds by group: rates that are equal, the accuracy that is possible, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app
from evenhand.errors import FormatError, UsageError
from evenhand.mitigations.outcomes.equalised_odds import (
    EqualisedOdds,
    GroupRule,
    GroupThresholds,
    Hull,
    best_point,
    roc_hull,
    rule_at,
    scores_of,
)
from evenhand.models.outcomes import Grouping, Outcomes


def drawn(seed: int, rows: int = 3_000, groups: int = 2) -> Outcomes:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, groups, rows)
    label = rng.random(rows) < 0.3 + 0.2 * (codes == 0)
    score = np.clip(rng.normal(0.4 + 0.2 * label + 0.15 * (codes == 0) * label, 0.2, rows), 0, 1)
    names = tuple(f"g{number}" for number in range(groups))
    return Outcomes("t", {"g": Grouping("g", names, codes)}, score >= 0.5, label, score)


def rates(outcomes: Outcomes, label: bool) -> list[float]:
    codes = outcomes.groupings["g"].codes
    return [float(outcomes.prediction[(codes == g) & (outcomes.label == label)].mean()) for g in range(codes.max() + 1)]


def expected_rates(change: GroupThresholds, outcomes: Outcomes) -> np.ndarray:
    """The probabilities of selection by group and label, without drawing."""
    grouping = outcomes.groupings["g"]
    found = []
    for number, group in enumerate(grouping.groups):
        rows = grouping.codes == number
        p = change.rules[group].probabilities(outcomes.score[rows])
        found.append([p[outcomes.label[rows]].mean(), p[~outcomes.label[rows]].mean()])
    return np.array(found)


def frame(outcomes: Outcomes) -> pl.DataFrame:
    names = np.array(outcomes.groupings["g"].groups)[outcomes.groupings["g"].codes]
    return pl.DataFrame({"group": names, "label": outcomes.label.astype(int), "score": outcomes.score})


def test_a_hull_by_hand() -> None:
    # sorted by score: + - + -: (0, .5), (.5, .5), (.5, 1), (1, 1); the hull leaves out (.5, .5)
    hull = roc_hull(np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False]))
    assert hull.false_positives.tolist() == [0, 0, 0.5, 1]
    assert hull.true_positives.tolist() == [0, 0.5, 1, 1]
    assert hull.thresholds.tolist() == [np.inf, 0.9, 0.7, 0.1]


def test_the_point_where_two_hulls_cross() -> None:
    labels = np.array([True] * 4 + [False] * 4)
    # first: half of the positives before any negative, the others last
    first = roc_hull(np.array([0.9, 0.9, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5]), labels)
    # second: all positives behind half of the negatives
    second = roc_hull(np.array([0.5, 0.5, 0.5, 0.5, 0.9, 0.9, 0.1, 0.1]), labels)
    x, y = best_point([first, second], 0.5)
    # hulls: (0,0)(0,.5)(1,1) and (0,0)(.5,1)(1,1): y = .5 + x/2 and y = 2x cross at x = 1/3, y = 2/3
    assert (x, y) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    for hull in (first, second):
        rule = rule_at(hull, x, y)
        assert rule.ignored == pytest.approx(0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_expected_rates_are_equal_for_all_groups(seed: int, groups: int) -> None:
    outcomes = drawn(seed, rows=300, groups=groups)
    subject = eh.open(frame(outcomes))
    change = EqualisedOdds().fit(subject, "gender")
    found = expected_rates(change, outcomes)
    assert np.ptp(found, axis=0).max() < 1e-9
    assert found[0].tolist() == pytest.approx(
        [change.report["true_positive_rate"], change.report["false_positive_rate"]]
    )


@pytest.mark.parametrize("seed", range(3))
def test_no_worse_than_fairlearn(seed: int) -> None:
    postprocessing = pytest.importorskip("fairlearn.postprocessing")
    outcomes = drawn(seed)

    class Scores(BaseEstimator):
        def fit(self, *_: Any) -> "Scores":
            return self

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, scores: Any) -> Any:
            return np.asarray(scores)[:, 0]

    theirs = postprocessing.ThresholdOptimizer(
        estimator=Scores(), constraints="equalized_odds", objective="accuracy_score", prefit=True, predict_method="predict",
        grid_size=4000,
    )  # fmt: skip
    column, codes = outcomes.score[:, None], outcomes.groupings["g"].codes
    theirs.fit(column, outcomes.label.astype(int), sensitive_features=codes)
    p = theirs._pmf_predict(column, sensitive_features=codes)[:, 1]
    accuracy = float(np.where(outcomes.label, p, 1 - p).mean())
    change = EqualisedOdds().fit(eh.open(frame(outcomes)), "gender")
    ours = expected_rates(change, outcomes)[0]
    positives = outcomes.label.mean()
    assert positives * ours[0] + (1 - positives) * (1 - ours[1]) >= accuracy - 1e-9
    assert positives * ours[0] + (1 - positives) * (1 - ours[1]) == pytest.approx(accuracy, abs=1e-3)


def test_an_audit_shows_effect_and_cost(tmp_path: Path) -> None:
    outcomes = drawn(0)
    file = tmp_path / "t.csv"
    frame(outcomes).write_csv(file)
    audit = eh.Audit.run(f"table:{file}", methods=["equalised-odds"])
    before = audit.get("group-metrics:group:equalised-odds-difference")
    after = audit.get("group-metrics:group:equalised-odds-difference", "equalised-odds")
    assert before.p_value < 0.01
    assert after.value < before.value
    text = json.dumps(audit.to_dict()["findings"])
    assert "equalised-odds improves" in text
    assert audit.get("decision-accuracy:accuracy", "equalised-odds").value < 1


def test_debias_writes_the_table_and_the_rules(tmp_path: Path) -> None:
    source, out, rules = tmp_path / "t.csv", tmp_path / "out.csv", tmp_path / "rules.json"
    frame(drawn(1)).write_csv(source)
    result = CliRunner().invoke(
        app,
        ["debias", f"table:{source}", "--method", "equalised-odds", "-o", str(out), "--save-map", str(rules), "--group", "group"],
        env={"COLUMNS": "100"},
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "true positive rate" in result.stdout
    written = pl.read_csv(out)
    assert written.columns == ["group", "label", "score", "prediction"]
    change = GroupThresholds.load(rules)
    assert change == EqualisedOdds().fit(eh.open(f"table:{source}"), "gender")
    assert (
        change(eh.open(f"table:{source}")).view("outcomes").prediction.astype(int).tolist()
        == written["prediction"].to_list()
    )
    rules.write_text(rules.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(FormatError, match="checksum"):
        GroupThresholds.load(rules)


def test_debias_reads_every_column_option(tmp_path: Path) -> None:
    outcomes, source = drawn(3), tmp_path / "t.csv"
    named = np.where(outcomes.label, "good", "bad")
    decided = np.where(outcomes.prediction, "good", "bad")
    frame(outcomes).with_columns(truth=named, said=decided).drop("label").write_csv(source)
    base = ["debias", f"table:{source}", "-m", "equalised-odds", "--label", "truth", "--positive", "good"]
    for options, out in (
        (["--prediction", "said"], "a.csv"),
        (["--score", "score", "--threshold", "0.6"], "b.csv"),
    ):
        result = CliRunner().invoke(
            app, ["debias", *base[1:], *options, "-o", str(tmp_path / out)], env={"COLUMNS": "100"}
        )
        assert result.exit_code == 0, result.output
    assert set(pl.read_csv(tmp_path / "a.csv")["said"].unique()) == {0, 1}
    assert set(pl.read_csv(tmp_path / "b.csv")["prediction"].unique()) == {0, 1}


def test_predictions_without_scores_are_mixed_at_random() -> None:
    outcomes = drawn(2)
    table = frame(outcomes).drop("score").with_columns(prediction=pl.Series(outcomes.prediction.astype(int)))
    subject = eh.open(table)
    after = EqualisedOdds().fit(subject, "gender")(subject).view("outcomes")
    names = {name: index for index, name in enumerate(after.groupings["group"].groups)}
    assert set(names) == {"g0", "g1"}
    codes = after.groupings["group"].codes
    for label in (True, False):
        some = [after.prediction[(codes == g) & (after.label == label)].mean() for g in (0, 1)]
        assert abs(some[0] - some[1]) < 0.08


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(UsageError, match="needs labels"):
        EqualisedOdds().fit(eh.open(pl.DataFrame({"sex": ["f", "m"], "score": [0.1, 0.9]})), "gender")
    table = pl.DataFrame({"sex": ["f", "m", "m"], "label": [1, 1, 0], "score": [0.1, 0.9, 0.2]})
    with pytest.raises(UsageError, match="every label of sex f is positive"):
        EqualisedOdds().fit(eh.open(table), "gender")
    with pytest.raises(UsageError, match="equalised-odds works on tables of predictions"):
        eh.Audit.run("glove-embedded", methods=["equalised-odds"])
    with pytest.raises(eh.EvenhandError, match="grouping of data frame"):
        EqualisedOdds(group="race").fit(eh.open(frame(drawn(0))), "gender")


def test_the_probabilities_of_a_rule_by_hand() -> None:
    rule = GroupRule(0.2, 0.5, 1.0, 2.0, 0.75)
    assert rule.probabilities(np.array([0.5, 1.0, 1.5, 2.0])).tolist() == pytest.approx([0.1, 0.7, 0.7, 0.9])


def test_decisions_follow_the_rules_row_by_row() -> None:
    codes = np.array([0, 1, 2, -1, 0, 1])
    score = np.array([0.9, 0.9, 0.1, 0.1, 0.1, 0.2])
    before = np.array([False, False, True, True, True, True])
    outcomes = Outcomes("t", {"g": Grouping("g", ("a", "b", "c"), codes)}, before, None, score)
    rules = {"a": GroupRule(0.0, 0.0, 0.5, 0.5, 1.0), "b": GroupRule(1.0, 0.6, 0.0, 0.0, 1.0)}
    for seed in (0, 1, 2):
        drawn = np.random.default_rng(seed).random(6)
        after = GroupThresholds("g", rules, seed).decide(outcomes).prediction
        assert after.tolist() == [True, bool(drawn[1] < 0.6), True, True, False, bool(drawn[5] < 0.6)]
    assert outcomes.prediction.tolist() == before.tolist()
    assert scores_of(outcomes) is score
    bare = Outcomes("t", outcomes.groupings, before, None, None)
    assert scores_of(bare).tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_ties_and_points_on_a_line_are_no_corners() -> None:
    hull = roc_hull(np.array([0.9, 0.9, 0.5, 0.5, 0.1, 0.1]), np.array([True, False, True, False, True, False]))
    assert (hull.false_positives.tolist(), hull.true_positives.tolist()) == ([0, 1], [0, 1])
    assert hull.thresholds.tolist() == [np.inf, 0.1]
    steep = roc_hull(np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, False]))
    assert (steep.false_positives.tolist(), steep.true_positives.tolist()) == ([0, 0, 1], [0, 1, 1])
    assert steep.thresholds.tolist() == [np.inf, 0.8, 0.6]
    assert hull.at(np.array([0.25])).tolist() == [0.25]


def naive_best(hulls: list[Hull], positives: float) -> float:
    """The highest accuracy on a fine grid of false positive rates."""
    grid = np.linspace(0, 1, 20_001)
    lowest = np.min([hull.at(grid) for hull in hulls], axis=0)
    return float((positives * lowest + (1 - positives) * (1 - grid)).max())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_the_best_point_is_that_of_a_fine_grid(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    hulls = []
    for _ in range(groups):
        labels = rng.random(40) < 0.4
        hulls.append(roc_hull(rng.normal(size=40) + 0.8 * labels, labels))
    positives = rng.uniform(0.2, 0.8)
    x, y = best_point(hulls, positives)
    assert y == pytest.approx(min(float(hull.at(np.array([x]))[0]) for hull in hulls))
    assert positives * y + (1 - positives) * (1 - x) == pytest.approx(naive_best(hulls, positives), abs=1e-4)
    assert positives * y + (1 - positives) * (1 - x) >= naive_best(hulls, positives) - 1e-12
    for hull in hulls:  # the rule reaches the point: between the two corners, mixed with chance
        rule = rule_at(hull, x, y)
        assert 0 <= rule.ignored <= 1
        corners = [np.flatnonzero(hull.thresholds == threshold) for threshold in (rule.low, rule.high)]
        low, high = (corner[0] if len(corner) else 0 for corner in corners)
        for axis, wanted in ((hull.false_positives, x), (hull.true_positives, y)):
            mixed = rule.weight * axis[low] + (1 - rule.weight) * axis[high]
            assert rule.ignored * rule.rate + (1 - rule.ignored) * mixed == pytest.approx(wanted)


def test_a_rule_at_a_corner_on_an_edge_and_below_the_hull() -> None:
    hull = Hull(np.array([0.0, 0.0, 0.5, 1.0]), np.array([0.0, 0.5, 0.9, 1.0]), np.array([np.inf, 0.8, 0.4, 0.1]))
    assert rule_at(hull, 0.5, 0.9) == GroupRule(0.0, 0.5, 0.4, 0.4, 1.0)
    assert rule_at(hull, 0.0, 0.5) == GroupRule(0.0, 0.0, 0.8, 0.8, 1.0)
    assert rule_at(hull, 0.0, 0.25) == GroupRule(0.5, 0.0, 0.8, 0.8, 1.0)
    assert rule_at(hull, 0.25, 0.7) == GroupRule(pytest.approx(0.0), 0.25, 0.4, 0.8, 0.5)
    assert rule_at(hull, 0.5, 0.7) == GroupRule(pytest.approx(0.5), 0.5, 0.4, 0.4, 1.0)
    assert rule_at(hull, 0.5, 0.4).ignored == 1.0
    assert rule_at(hull, 0.5, 0.95).ignored == 0.0
    assert rule_at(hull, 1.0, 1.0) == GroupRule(0.0, 1.0, 0.1, 0.1, 1.0)
    vertical = Hull(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([np.inf, 0.1]))
    assert rule_at(vertical, 0.0, 0.0) == GroupRule(0.0, 0.0, np.finfo(np.float64).max, np.finfo(np.float64).max, 1.0)


def test_the_report_in_full() -> None:
    table = pl.DataFrame(
        {"sex": list("ffffmmmm"), "label": [1, 0, 1, 0, 1, 0, 1, 0], "score": [0.9, 0.1, 0.8, 0.2, 0.9, 0.6, 0.4, 0.1]}
    )
    subject = eh.open(table)
    change = EqualisedOdds(seed=3).fit(subject, "gender")
    before, after = subject.view("outcomes"), change(subject).view("outcomes")
    report = dict(change.report)
    assert (report["false_positive_rate"], report["true_positive_rate"]) == (0.0, 0.5)
    assert (
        report["rules"]
        == change.state()["rules"]
        == {
            "f": {"ignored": 0.5, "rate": 0.0, "low": 0.8, "high": 0.8, "weight": 1.0},
            "m": {"ignored": 0.0, "rate": 0.0, "low": 0.9, "high": 0.9, "weight": 1.0},
        }
    )
    accuracy = [float((one.prediction == before.label).mean()) for one in (before, after)]
    assert report["accuracy"] == dict(zip(("before", "after"), accuracy, strict=True))
    assert report["decisions_changed"] == int((before.prediction != after.prediction).sum())
    assert {name: report[name] for name in ("method", "concept", "rows")} == {
        "method": "equalised-odds", "concept": "sex", "rows": 8
    }  # fmt: skip
    assert report["params"] == {"group": "", "seed": 3}
    assert (change.seed, EqualisedOdds().fit(subject, "gender", seed=5).seed) == (3, 5)
