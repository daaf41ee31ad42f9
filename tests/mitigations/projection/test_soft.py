from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import evenhand as eh
from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations import HardDebias, SoftDebias
from evenhand.mitigations.projection import soft
from evenhand.mitigations.projection.soft import solve
from evenhand.mitigations.selection import EveryWord, ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

RNG = np.random.default_rng(5)
WORDS = ["she", "he", "woman", "man", *(f"w{number}" for number in range(20))]
V = Vectors(WORDS, RNG.normal(size=(24, 4), loc=0.3), name="toy")
GENDER = Concept("gender", {"female": ["she"], "male": ["he"]}, [("she", "he"), ("woman", "man")])


def objective(t: np.ndarray, every: np.ndarray, neutral: np.ndarray, basis: np.ndarray, weight: float) -> float:
    """As the paper writes it, words as columns of W and N, B'T'TN for the projections."""
    kept = (every @ t.T) @ (every @ t.T).T - every @ every.T
    return float(np.sum(kept**2) + weight * np.sum(((neutral @ t.T) @ (basis @ t.T).T) ** 2))


@given(st.integers(0, 1000), st.floats(0.01, 100))
@settings(max_examples=15, deadline=None)
def test_it_is_what_an_independent_optimiser_finds(seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    every = rng.normal(size=(8, 3))
    neutral, basis = every[:5], np.linalg.qr(rng.normal(size=(3, 1)))[0].T
    found = solve(every.T @ every, neutral.T @ neutral, basis, weight)

    def value(flat: np.ndarray) -> float:
        return objective(flat.reshape(3, 3), every, neutral, basis, weight)

    other = minimize(value, np.eye(3).ravel(), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    t = other.x.reshape(3, 3)
    assert found.after == pytest.approx(other.fun, rel=1e-6)
    assert np.allclose(found.x, t.T @ t, atol=1e-3)
    assert found.before == pytest.approx(value(np.eye(3).ravel()))
    assert found.after <= found.before


def test_in_two_dimensions_by_hand() -> None:
    # W = N = the two axes, B the first: min (x - 1)^2 + 2 c^2 + (y - 1)^2 + (x^2 + c^2) at weight 1, so x = 1/2.
    found = solve(np.eye(2), np.eye(2), np.array([[1.0, 0.0]]), 1.0)
    assert np.allclose(found.x, [[0.5, 0], [0, 1]])
    assert (found.before, found.after) == (pytest.approx(1), pytest.approx(0.5))


def test_words_that_do_not_span_the_space_leave_the_rest_alone() -> None:
    every = np.diag([1.0, 1.0, 0.0])
    found = solve(every, every, np.array([[1.0, 0.0, 0.0]]), 1.0)
    assert np.allclose(found.x, np.diag([0.5, 1, 1]))


def test_the_cone_of_positive_matrices_is_kept() -> None:
    # an indefinite candidate is projected on the cone, a definite one returned as it is
    assert np.allclose(soft._positive(np.diag([2.0, -1.0])), np.diag([2.0, 0.0]))
    y = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert soft._positive(y) is y


def test_the_map_is_the_root_between_two_normalisations() -> None:
    vm = SoftDebias(penalty=3.0).fit(V, GENDER)
    unit = V.matrix / np.linalg.norm(V.matrix, axis=1)[:, None]
    basis = HardDebias().fit(V, GENDER).parts[1].map.basis  # type: ignore[attr-defined]
    spared = [V.index[word] for word in ("she", "he", "woman", "man")]
    neutral = np.delete(unit, spared, axis=0).astype(np.float64)
    every = unit.astype(np.float64)
    x = solve(every.T @ every, neutral.T @ neutral, basis, 3.0).x
    t = vm.parts[1].matrix  # type: ignore[attr-defined]
    assert np.allclose(t @ t, x, atol=1e-6)
    rows = every @ t
    assert np.allclose(vm(V).matrix, rows / np.linalg.norm(rows, axis=1)[:, None], atol=1e-6)
    report = vm.report
    assert report["objective_after"] < report["objective_before"]
    before, after = np.sum((neutral @ basis.T) ** 2), np.sum((neutral @ x @ basis.T) ** 2)
    assert report["share_left"] == pytest.approx(after / before, rel=1e-5)


def test_no_penalty_changes_directions_of_no_word_and_a_large_one_is_nearly_hard() -> None:
    none = SoftDebias(penalty=0).fit(V, GENDER)
    assert none.report["words_changed"] == 0
    assert none.report["share_left"] == pytest.approx(1)
    large = SoftDebias(penalty=1e5).fit(V, GENDER)
    assert large.report["share_left"] < 1e-3


def test_a_penalty_per_word_does_not_depend_on_how_many_there_are() -> None:
    words = [*WORDS, *(f"{word}-again" for word in WORDS)]
    double = Vectors(words, np.vstack([V.matrix, V.matrix]))
    only = ExceptListed(["nobody"])
    one, two = (SoftDebias(1.0, per_word=True, words=only).fit(v, GENDER) for v in (V, double))
    assert one.report["share_left"] == pytest.approx(two.report["share_left"], rel=1e-5)
    sums = [SoftDebias(1.0, words=only).fit(v, GENDER).report["share_left"] for v in (V, double)]
    assert sums[1] > sums[0] + 0.01


def test_the_published_penalty_hardly_moves_a_large_vocabulary() -> None:
    assert SoftDebias().fit(eh.Vectors.default(), "gender").report["share_left"] > 0.99


def test_invalid_arguments_are_named() -> None:
    for wrong in (-1.0, float("nan")):
        with pytest.raises(UsageError, match="penalty"):
            SoftDebias(wrong).fit(V, GENDER)
    with pytest.raises(UsageError, match="no word is neutral"):
        SoftDebias(words=ExceptListed(WORDS)).fit(V, GENDER)
    with pytest.raises(VocabularyError, match="gal/guy"):
        SoftDebias().fit(V, Concept("g", pairs=[("gal", "guy")]))
    assert SoftDebias(words=EveryWord()).fit(V, GENDER).report["words_neutral"] == len(V)
