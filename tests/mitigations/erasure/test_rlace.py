from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DegenerateError, UsageError
from evenhand.mitigations import LEACE, RLACE, VectorMap
from evenhand.mitigations.erasure.rlace import fantope
from evenhand.models.vectors import Vectors
from evenhand.words import Concept


def clouds(seed: int, classes: int, *, n: int = 200, dim: int = 10) -> tuple[Vectors, Concept]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), n)
    rows = rng.normal(size=(len(y), dim)) + 2 * rng.normal(size=(classes, dim))[y]
    words = [f"w{i}" for i in range(len(y))]
    groups = {f"g{c}": [words[i] for i in np.flatnonzero(y == c)] for c in range(classes)}
    return Vectors(words, rows, name="clouds"), Concept("kind", groups)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.01, 1.0, 30.0]))
@settings(deadline=None)
def test_the_fantope_projection_is_the_nearest_point(seed: int, rank: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    half = scale * rng.normal(size=(5, 5))
    given = half + half.T
    p, strongest = fantope(given, rank)
    values = np.linalg.eigvalsh(p)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9
    assert np.trace(p) == pytest.approx(rank, abs=1e-6)
    assert np.allclose(strongest @ strongest.T, np.eye(rank))
    # nearest: the way back makes an obtuse angle with the way to any other point of the set
    axes = np.linalg.qr(rng.normal(size=(5, rank)))[0]
    assert np.sum((given - p) * (axes @ axes.T - p)) < 1e-6 * scale


def test_fantope_by_hand() -> None:
    # 2 - s clipped to 1, 0.5 - s and 0 - s clipped to 0: the shift 0.5 gives the sum 1
    assert np.allclose(fantope(np.diag([2.0, 0.5, 0.0]), 1)[0], np.diag([1.0, 0.0, 0.0]))
    assert np.allclose(fantope(np.diag([0.6, 0.6, 0.0]), 1)[0], np.diag([0.5, 0.5, 0.0]))


@pytest.mark.parametrize("classes", [2, 3])
def test_it_finds_what_leace_finds_at_once(classes: int) -> None:
    v, concept = clouds(classes, classes)
    vm = RLACE(labels="groups", epsilon=-1.0, steps=400).fit(v, concept)
    known = LEACE(labels="groups", orth=True).fit(v, concept)
    assert vm.rank_removed == classes - 1
    # the game is played on half of the words, the closed form on all
    cosines = np.linalg.svd(vm.basis @ np.linalg.qr(known.left)[0], compute_uv=False)
    assert cosines.min() > 0.99
    assert vm.report["accuracy_before"] > 0.9
    assert vm.report["accuracy_after"] < 1 / classes + 0.12


def test_it_stops_at_chance_and_reports_it() -> None:
    v, concept = clouds(4, 2, n=500)
    report = json.loads(json.dumps(RLACE(labels="groups", epsilon=0.05).fit(v, concept).report))
    assert report["stopped"] == "the classifier is at chance"
    assert report["accuracies"][-1] <= 0.55
    assert report["steps_done"] == 25 * len(report["accuracies"]) < 500


def test_a_smaller_rank_hides_less() -> None:
    v, concept = clouds(5, 4)
    one, three = (RLACE(labels="groups", rank=rank, steps=150).fit(v, concept) for rank in (1, 3))
    assert (one.rank_removed, three.rank_removed) == (1, 3)
    assert one.report["accuracy_after"] > three.report["accuracy_after"]


def test_laws(tmp_path: Path) -> None:
    v, concept = clouds(6, 2)
    before = v.matrix.copy()
    vm, again = (RLACE(labels="groups", steps=50).fit(v, concept) for _ in range(2))
    matrix, _ = vm.to_matrix()
    assert np.allclose(matrix @ matrix, matrix, atol=1e-12)
    assert np.allclose(matrix, matrix.T)
    assert vm.digest == again.digest
    assert np.array_equal(v.matrix, before)
    assert np.array_equal(vm(v.matrix), vm(v).matrix)
    assert VectorMap.load(vm.save(tmp_path / "m")) == vm


def test_errors() -> None:
    v, concept = clouds(7, 2, n=30)
    with pytest.raises(UsageError, match="rank must be between 1 and 10, the number of dimensions; got 11"):
        RLACE(labels="groups", rank=11).fit(v, concept)
    with pytest.raises(UsageError, match="must be positive"):
        RLACE(steps=0).fit(v, concept)
    with pytest.raises(DegenerateError, match="same vector"):
        RLACE(labels="groups").fit(Vectors(["a", "b"], np.ones((2, 3))), Concept("c", {"a": ["a"], "b": ["b"]}))
    with pytest.raises(DegenerateError, match="a classifier needs two"):
        RLACE(labels="groups").fit(v, Concept("c", {"a": ["w0"], "b": ["gone"]}))


def test_a_fantope_of_full_rank_is_the_identity() -> None:
    m = np.diag([-3.0, 0.5, 4.0])
    projected, strongest = fantope(m, 3)
    assert projected == pytest.approx(np.eye(3), abs=1e-12)
    assert np.abs(strongest).tolist() == np.eye(3)[::-1].tolist()
