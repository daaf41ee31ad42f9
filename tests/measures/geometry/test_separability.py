"""Clustering and recoverability of biased words."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import v_measure_score
from sklearn.svm import SVC

from evenhand.errors import UnknownNameError, UsageError
from evenhand.measures import get
from evenhand.measures.geometry.separability import SETTINGS, accuracy, predict, tables, v_measure
from evenhand.models.vectors import Vectors

clustering = partial(get("clustering"), runs=2, starts=3)


def test_counts_and_agreements_by_hand() -> None:
    counts = tables(np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 0, 0, 0, 0]))
    assert counts.tolist() == [[1, 2], [3, 0]]
    assert accuracy(counts) == pytest.approx(5 / 6)  # cluster 1 is side 0
    assert accuracy(np.array([[2.0, 2.0], [2.0, 2.0]])) == 0.5
    assert v_measure(np.array([[4.0, 0.0], [0.0, 4.0]])) == pytest.approx(1)
    assert v_measure(np.array([[2.0, 2.0], [2.0, 2.0]])) == pytest.approx(0, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40))
def test_the_v_measure_is_that_of_an_independent_implementation(pairs: list[tuple[int, int]]) -> None:
    labels, clusters = (np.array(side) for side in zip(*pairs, strict=True))
    assert float(v_measure(tables(labels, clusters))) == pytest.approx(v_measure_score(labels, clusters), abs=1e-9)


def test_noise_has_no_significant_clusters(planted) -> None:
    """The better of two matchings is above one half by construction; the p-value knows that."""
    strong = planted()
    p_values = [
        clustering(
            strong.with_matrix(np.random.default_rng(n).normal(size=strong.matrix.shape)), per_side=20, reference=strong
        ).p_value
        for n in range(60)
    ]
    assert sum(p <= 0.05 for p in p_values) <= 9  # 3 expected
    assert clustering(strong, per_side=20).p_value == pytest.approx(1 / 1000)


def test_planted_sides_are_found_and_noise_is_not(planted) -> None:
    m = clustering(planted(), per_side=20)
    assert (m.value, m.n, m.details["v-measure"]["mean"]) == (1.0, 40, pytest.approx(1))
    assert m.interval == (1.0, 1.0)
    strong = planted()
    noise = strong.with_matrix(np.random.default_rng(1).normal(size=strong.matrix.shape))
    after = clustering(noise, per_side=20, reference=strong)
    assert after.value < 0.75
    assert after.details["before"]["accuracy"]["mean"] == 1


def test_the_words_are_chosen_in_the_reference(planted) -> None:
    v = planted(second=0.0)
    mixed = v.with_matrix(np.roll(v.matrix, 1, axis=1))
    m = clustering(mixed, per_side=5, reference=v)
    chosen = clustering(v, per_side=5)
    assert [item["word"] for item in m.items] == [item["word"] for item in chosen.items]
    assert all(item["word"].startswith("f" if item["value"] > 0 else "m") for item in m.items)


def test_what_no_pair_shows_still_clusters_after_the_projection(planted) -> None:
    v = planted()
    flat = v.with_matrix(v.matrix * np.array([0, *np.ones(v.dim - 1)]))
    assert clustering(flat, per_side=20, reference=v).value == 1  # coordinate 1 keeps the sides apart
    gone = v.with_matrix(v.matrix * np.array([0, 0, *np.ones(v.dim - 2)]))
    assert clustering(gone, per_side=20, reference=v).value < 0.8


def test_the_value_may_be_the_v_measure_and_words_of_unit_length(planted) -> None:
    v = planted()
    m = clustering(v, per_side=20, value="v-measure", normalise=True, score="projection", runs=2)
    assert m.value == pytest.approx(1)
    assert (m.params["value"], m.params["normalise"], m.params["score"], m.params["runs"]) == (
        "v-measure",
        True,
        "projection",
        2,
    )


def test_a_side_has_at_most_half_of_the_words(planted) -> None:
    m = clustering(planted(n=6), per_side=500)
    assert m.details["per_side"] == 6
    assert m.params["per_side"] == 500
    assert m.details["least_biased"][0] > 0 > m.details["least_biased"][1]


@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_the_range_over_the_runs_holds_the_mean(planted, seed: int) -> None:
    v = planted(seed, second=0.0, first=0.4)
    details = clustering(v, per_side=15, seed=seed, runs=3, starts=1).details
    for name in ("accuracy", "v-measure"):
        assert details[name]["least"] <= details[name]["mean"] + 1e-12 <= details[name]["most"] + 2e-12
    assert details["accuracy"]["least"] >= 0.5


def test_the_seed_decides(planted) -> None:
    v = planted(second=0.0, first=0.3)
    assert clustering(v, per_side=20, seed=3) == clustering(v, per_side=20, seed=3)


def test_undefined_results_and_invalid_arguments(planted) -> None:
    v = planted()
    equal = v.with_matrix(np.ones_like(v.matrix))
    m = clustering(equal, per_side=20, reference=v)
    assert (m.status, m.value) == ("undefined", None)
    assert "same vector" in m.reason
    assert "she/he" in clustering(equal, per_side=20).reason
    assert "not enough" in clustering(v, ["fqaa", "mqaa"]).reason
    assert clustering(Vectors(["fqaa", "fqab"], np.eye(2))).status == "undefined"
    for wrong in ({"value": "purity"}, {"runs": 0}, {"per_side": 0}, {"score": "angle"}):
        with pytest.raises(UsageError):
            clustering(v, **wrong)


@pytest.mark.data
def test_the_published_accuracy_on_googlenews(googlenews: Vectors) -> None:
    """Gonen & Goldberg 2019: 99.9 % before mitigation."""
    assert clustering(googlenews).value == pytest.approx(0.999, abs=0.003)


def test_items_are_the_most_biased_of_both_sides_on_a_plane(planted) -> None:
    m = clustering(planted(), per_side=20)
    sides = [item["value"] > 0 for item in m.items]
    assert sides.count(True) == sides.count(False) == 20
    right = [item["x"] for item in m.items if item["value"] > 0]
    left = [item["x"] for item in m.items if item["value"] < 0]
    assert min(right) > max(left)  # the planted sides are the first component
    assert max(abs(item[axis]) for item in m.items for axis in ("x", "y")) == 1


recoverability = get("recoverability")


def test_every_classifier_finds_planted_sides(planted) -> None:
    m = recoverability(planted(n=40), per_side=40)
    assert m.value == 1
    assert {name: result["mean"] for name, result in m.details["by_classifier"].items()} == dict.fromkeys(SETTINGS, 1.0)
    assert (m.details["trained_on"], m.details["tested_on"]) == (16, 64)


def test_noise_is_at_chance_and_what_the_projection_left_is_found(planted) -> None:
    v = planted(n=100)
    noise = v.with_matrix(np.random.default_rng(4).normal(size=v.matrix.shape))
    assert recoverability(noise, per_side=100, reference=v, classifiers=()).value == pytest.approx(0.5, abs=0.12)
    flat = v.with_matrix(v.matrix * np.array([0, *np.ones(v.dim - 1)]))
    assert recoverability(flat, per_side=100, reference=v, classifiers=()).value > 0.95


def test_only_nonlinear_classifiers_separate_two_rings(planted) -> None:
    v = planted(n=150, second=0.0)
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, size=len(v))
    radius = np.where([word.startswith("f") for word in v.words], 1.0, 3.0)
    rings = np.zeros_like(v.matrix)
    rings[:, 0], rings[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    m = recoverability(v.with_matrix(rings), per_side=150, reference=v, classifiers=("linear-svm", "rbf-svm"))
    result = {name: answer["mean"] for name, answer in m.details["by_classifier"].items()}
    assert result["rbf-svm"] > 0.95
    assert max(result["logistic"], result["linear-svm"]) < 0.75


def test_settings_are_recorded_and_can_be_changed(planted) -> None:
    m = recoverability(planted(), per_side=20, classifiers=["rbf-svm"], options={"rbf-svm": {"gamma": "auto"}})
    assert m.params["settings"] == {
        "logistic": {"C": 1.0, "max_iter": 2_000},
        "rbf-svm": {"C": 1.0, "gamma": "auto"},
    }
    assert (m.params["train"], m.params["repeats"], m.params["classifier"]) == (0.2, 3, "logistic")


def test_a_training_that_did_not_converge_is_recorded_without_a_warning(planted) -> None:
    m = recoverability(planted(), per_side=20, classifier="mlp", classifiers=(), options={"mlp": {"max_iter": 2}})
    assert m.details["by_classifier"]["mlp"]["converged"] == 0


def test_splits_are_balanced_seeded_and_never_test_what_they_train(planted) -> None:
    v = planted(n=25, first=0.6, second=0.0)
    a, b = (recoverability(v, per_side=25, classifiers=(), seed=7) for _ in range(2))
    assert a == b
    assert a.details["trained_on"] + a.details["tested_on"] == a.n == 50
    assert a.details["trained_on"] == 10
    least = recoverability(v, per_side=2, classifiers=())
    assert (least.details["trained_on"], least.details["tested_on"]) == (2, 2)


def test_recoverability_undefined_results_and_invalid_arguments(planted) -> None:
    v = planted()
    assert recoverability(v, ["fqaa", "mqaa"]).status == "undefined"
    assert recoverability(v.restrict([*v.words[2:]])).status == "undefined"  # she and he are not there
    with pytest.raises(UnknownNameError, match="forest"):
        recoverability(v, classifier="forest")
    with pytest.raises(UsageError, match="train must be"):
        recoverability(v, train=1.0)
    with pytest.raises(UsageError, match="repeats"):
        recoverability(v, repeats=0)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.7])
def test_the_rbf_classifier_is_that_of_scikit_learn(gamma: float | str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(1, 2, size=(120, 3))
    labels = (np.linalg.norm(rows, axis=1) > 3.5).astype(np.int64)
    train, test = slice(0, 80), slice(80, None)
    answers, _ = predict("rbf-svm", {"C": 2.0, "gamma": gamma}, (rows[train], labels[train]), rows[test], seed=0)
    expected = SVC(C=2.0, gamma=gamma).fit(rows[train], labels[train])
    assert answers.tolist() == expected.predict(rows[test]).tolist()
    alike, _ = predict("rbf-svm", {"C": 1.0, "gamma": gamma}, (np.ones((4, 3)), labels[:4]), rows[test], seed=0)
    assert len(set(alike.tolist())) == 1  # equal rows have no variance, and leave nothing to learn
