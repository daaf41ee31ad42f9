from __future__ import annotations

import numpy as np
import pytest

from evenhand.errors import UnknownNameError, UsageError
from evenhand.measures import get
from evenhand.measures.geometry.recoverability import SETTINGS

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


def test_undefined_results_and_invalid_arguments(planted) -> None:
    v = planted()
    assert recoverability(v, ["fqaa", "mqaa"]).status == "undefined"
    assert recoverability(v.restrict([*v.words[2:]])).status == "undefined"  # she and he are not there
    with pytest.raises(UnknownNameError, match="forest"):
        recoverability(v, classifier="forest")
    with pytest.raises(UsageError, match="train must be"):
        recoverability(v, train=1.0)
    with pytest.raises(UsageError, match="repeats"):
        recoverability(v, repeats=0)
