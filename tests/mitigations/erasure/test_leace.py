from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError
from evenhand.mitigations import LEACE, VectorMap
from evenhand.mitigations.erasure.leace import Statistics
from evenhand.mitigations.selection import ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

# Covariance [[1, .5], [.5, .5]]; covariance with the class (1, .5), which is the first unit vector after multiplying
# by the inverse: x' = x - x_1 (1, .5).
V = Vectors(["a", "b", "c", "d"], [[1, 1], [1, 0], [-1, 0], [-1, -1]], name="toy")
CONCEPT = Concept("side", {"right": ["a", "b"], "left": ["c", "d"]})
ERASED = [[0, 0.5], [0, -0.5], [0, 0.5], [0, -0.5]]


def random(seed: int, classes: int, *, n: int = 60, dim: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    return rng.normal(size=(n, dim)) @ rng.normal(size=(dim, dim)) + rng.normal(size=(classes, dim))[y], y


def crossed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    one_hot = np.eye(y.max() + 1)[y]
    return (x - x.mean(axis=0)).T @ (one_hot - one_hot.mean(axis=0)) / len(x)


def test_by_hand() -> None:
    vm = LEACE(labels="groups").fit(V, CONCEPT)
    assert np.allclose(vm(V).matrix, ERASED, atol=1e-6)
    assert vm.rank_removed == 1


def test_orthogonal_by_hand() -> None:
    # away from the difference of the means, (1, .5)
    vm = LEACE(labels="groups", orth=True).fit(V, CONCEPT)
    assert np.allclose(vm(V).matrix, V.matrix - (V.matrix @ [[1], [0.5]]) * [[0.8, 0.4]], atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.booleans(), st.booleans())
@settings(deadline=None)
def test_no_covariance_with_the_classes_is_left(seed: int, classes: int, shrinkage: bool, orth: bool) -> None:
    x, y = random(seed, classes)
    vm = Statistics(x.shape[1], classes).update(x, y).eraser(shrinkage=shrinkage, orth=orth)
    after = vm(x)
    assert np.abs(crossed(after, y)).max() < 1e-8 * max(1.0, np.abs(x).max())
    assert vm.rank_removed == classes - 1
    assert np.allclose(vm(after), after, atol=1e-7 * np.abs(x).max())
    assert np.allclose(after.mean(axis=0), x.mean(axis=0), atol=1e-8 * np.abs(x).max())


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
@settings(deadline=None)
def test_no_other_erasure_moves_the_vectors_less(seed: int, classes: int) -> None:
    x, y = random(seed, classes)
    found = Statistics(x.shape[1], classes).update(x, y)
    moved = [((found.eraser(orth=orth)(x) - x) ** 2).sum() for orth in (False, True)]
    assert moved[0] <= moved[1] * (1 + 1e-9)


def test_blocks_and_whole_agree() -> None:
    x, y = random(3, 3, n=500)
    whole = Statistics(7, 3).update(x + 1000, y)
    blocks = Statistics(7, 3)
    for start in range(0, 500, 37):
        blocks.update(x[start : start + 37] + 1000, y[start : start + 37])
    blocks.update(x[:0], y[:0])
    assert np.allclose(blocks.covariance(), np.cov(x.T, bias=True), rtol=1e-8)
    assert np.allclose(blocks.covariance(), whole.covariance(), rtol=1e-8)
    assert np.allclose(blocks.eraser().to_matrix()[0], whole.eraser().to_matrix()[0], atol=1e-8)


def test_a_rare_class_is_erased_as_well() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [5000, 5000, 3])
    x = rng.normal(size=(len(y), 5)) + 0.01 * np.eye(5)[y]
    after = Statistics(5, 3).update(x, y).eraser()(x)
    means = np.array([after[y == one].mean(axis=0) for one in range(3)])
    assert np.ptp(means, axis=0).max() < 1e-9


def test_directions_without_variance_do_no_harm() -> None:
    x, y = random(4, 2)
    flat = np.hstack([x, x[:, :2], np.ones((len(x), 1))])
    vm = Statistics(flat.shape[1], 2).update(flat, y).eraser()
    assert np.isfinite(vm(flat)).all()
    assert np.abs(crossed(vm(flat), y)).max() < 1e-8
    assert np.allclose(vm(flat)[:, -1], 1)


def test_fewer_rows_than_dimensions() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 40)), np.arange(10) % 2
    for shrinkage in (False, True):
        vm = Statistics(40, 2).update(x, y).eraser(shrinkage=shrinkage)
        assert np.abs(crossed(vm(x), y)).max() < 1e-8


def test_few_words_for_the_dimensions_are_warned_of() -> None:
    words = [f"w{i}" for i in range(12)]
    v = Vectors(words, np.random.default_rng(0).normal(size=(12, 7)), name="toy")
    concept = Concept("side", {"right": words[:6], "left": words[6:]})
    with pytest.warns(EvenhandWarning, match="12 words in 7 dimensions"):
        LEACE(labels="groups").fit(v, concept)
    LEACE(labels="groups", shrinkage=True).fit(v, concept)  # a warning would be an error here


def test_shrinkage_keeps_the_trace_and_vanishes_with_many_rows() -> None:
    x, y = random(5, 2, n=30)
    few = Statistics(7, 2).update(x, y)
    plain, shrunk = few.covariance(), few.covariance(shrinkage=True)
    assert np.trace(shrunk) == pytest.approx(np.trace(plain))
    assert np.linalg.cond(shrunk) < np.linalg.cond(plain)
    many = Statistics(7, 2)
    for _ in range(2000):
        many.update(x, y)
    assert np.allclose(many.covariance(shrinkage=True), plain, atol=1e-2 * np.abs(plain).max())


def test_equal_means_leave_nothing_to_erase() -> None:
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    vm = Statistics(2, 2).update(x, np.array([0, 0, 1, 1])).eraser()
    assert vm.rank_removed == 0
    assert np.array_equal(vm(x), x)


def test_errors() -> None:
    x, y = random(6, 2)
    with pytest.raises(DegenerateError, match="at least two classes, got 1"):
        Statistics(3, 1)
    with pytest.raises(DegenerateError, match="one class"):
        Statistics(7, 2).update(x, np.zeros(len(x), dtype=np.int64)).eraser()
    with pytest.raises(DegenerateError, match="NaN or infinity"):
        Statistics(7, 2).update(np.full_like(x, np.inf), y)
    with pytest.raises(UsageError, match="rows of 4 coordinates"):
        Statistics(4, 2).update(x, y)
    with pytest.raises(UsageError, match="from 0 to 1, got 0 to 2"):
        Statistics(7, 2).update(x, y + (np.arange(len(y)) == 0) * 2)


def test_saving_exempting_words_and_the_report(tmp_path: Path) -> None:
    vm = LEACE(labels="groups").fit(V, CONCEPT)
    assert VectorMap.load(vm.save(tmp_path / "m")) == vm
    assert vm.digest == LEACE(labels="groups").fit(V, CONCEPT).digest
    report = json.loads(json.dumps(vm.report))
    assert report["params"]["shrinkage"] is False
    assert (report["accuracy_before"], report["accuracy_after"]) == (1.0, 0.5)
    spared = LEACE(labels="groups", words=ExceptListed(["b"])).fit(V, CONCEPT)
    assert np.allclose(spared(V).matrix, [ERASED[0], [1, 0], *ERASED[2:]], atol=1e-6)


def test_religion_has_three_classes_and_rank_two() -> None:
    v = eh.Vectors.default()
    vm = eh.mitigations.LEACE(per_class=300, neutral=0, vocabulary=6000).fit(v, "religion")
    assert vm.rank_removed == 2
    assert list(vm.report["labels"]["sizes"]) == ["judaism", "christianity", "islam"]
    assert vm.report["accuracy_before"] > 0.9
    assert vm.report["accuracy_after"] < 0.5


def test_a_class_without_rows_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)), np.arange(40) % 2
    two, four = (Statistics(4, classes).update(x, y) for classes in (2, 4))
    assert four.cross()[:, 2:].tolist() == np.zeros((4, 2)).tolist()
    assert np.allclose(four.cross()[:, :2], two.cross())
    assert np.allclose(four.eraser()(x), two.eraser()(x))


def test_the_covariance_with_a_class_is_that_of_its_scaled_indicator() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    found = Statistics(3, 3).update(x, y).cross()
    for number in range(3):
        z = (y == number) / (y == number).std()
        wanted = [np.cov(column, z, bias=True)[0, 1] for column in x.T]
        assert found[:, number] == pytest.approx(wanted)


def test_the_shrunken_covariance_by_the_formula() -> None:
    rng = np.random.default_rng(2)
    for n, d in ((30, 6), (8, 6), (200, 3)):
        x = rng.normal(size=(n, d)) * np.arange(1, d + 1)
        s = np.cov(x, rowvar=False, bias=True)
        statistics = Statistics(d, 2).update(x, np.arange(n) % 2)
        # with the target I tr(S) / d, the weight of S is 1 - (tr S)^2 / n / (|S|^2 - (tr S)^2 / d)
        weight = min(1.0, max(0.0, 1 - np.trace(s) ** 2 / n / ((s**2).sum() - np.trace(s) ** 2 / d)))
        wanted = weight * s + (1 - weight) * np.trace(s) / d * np.eye(d)
        assert np.allclose(statistics.covariance(shrinkage=True), wanted)
        assert np.allclose(statistics.covariance(), s)
    same = Statistics(2, 2).update(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), np.arange(4) % 2)
    assert np.allclose(same.covariance(shrinkage=True), np.eye(2) / 2)


@pytest.mark.parametrize("orth", [False, True])
@pytest.mark.parametrize("n", [60, 6])
def test_the_total_variance_never_grows(n: int, orth: bool) -> None:
    for seed in range(12):
        x, y = random(seed, 3, n=n, dim=7)
        x = x**3
        erased = Statistics(7, 3).update(x, y).eraser(orth=orth)(x)
        assert np.var(erased, axis=0).sum() <= np.var(x, axis=0).sum() * (1 + 1e-9), seed


def test_rows_are_checked() -> None:
    statistics = Statistics(2, 3)
    for x, y in ((np.ones(2), [0]), (np.ones((2, 3)), [0, 1]), (np.ones((2, 2)), [0])):
        with pytest.raises(UsageError, match="expected rows of 2 coordinates"):
            statistics.update(x, np.array(y))
    for y in ([0, 3], [-1, 0]):
        with pytest.raises(UsageError, match=r"classes are numbered from 0 to 2"):
            statistics.update(np.ones((2, 2)), np.array(y))
    assert statistics.update(np.empty((0, 2)), np.empty(0, dtype=np.int64)).n == 0
    with pytest.raises(DegenerateError, match="at least two classes, got 1"):
        Statistics(2, 1)
    with pytest.raises(DegenerateError, match="all rows are of one class"):
        Statistics(2, 3).update(np.eye(2), np.array([2, 2])).eraser()
    with pytest.raises(DegenerateError, match="NaN or infinity"):
        Statistics(2, 2).update(np.array([[1.0, np.inf], [0.0, 1.0]]), np.array([0, 1]))
