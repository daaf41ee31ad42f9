from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import UsageError, VocabularyError
from evenhand.mitigations import MISP, VectorMap
from evenhand.mitigations.projection.misp import between_groups, weight_permutations
from evenhand.mitigations.selection import ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

# Covariances diag(0, 2.25, 0) and diag(0, 0, 1), difference of the means (2, 0, 0).
V = Vectors(
    ["Ada", "Eve", "Tom", "Bob", "nurse"],
    [[1, 1.5, 0], [1, -1.5, 0], [-1, 0, 1], [-1, 0, -1], [4, 4, 4]],
    name="toy",
)
CONCEPT = Concept("gender", {"f": ["she"], "m": ["he"]}, names={"f": ["Ada", "Eve"], "m": ["Tom", "Bob"]})


def names(seed: int, *, n: int = 12, dim: int = 6) -> tuple[Vectors, Concept]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2 * n + 5, dim)) * np.linspace(2, 1, dim)
    rows[:n] += rng.normal(size=dim)
    words = [f"w{i}" for i in range(len(rows))]
    lists = {"f": words[:n], "m": words[n : 2 * n]}
    return Vectors(words, rows), Concept("gender", lists, names=lists)


def test_uncentred_by_hand() -> None:
    vm = MISP(k=3, centre=False).fit(V, CONCEPT)
    shares = np.array([4, 2.25, 1]) / 7.25
    assert np.allclose(vm.weights, shares)
    assert np.allclose(vm(np.array([4.0, 4.0, 4.0])), 4 * (1 - shares))
    assert vm.report["weights"] == pytest.approx(shares.tolist())
    assert vm.rank_removed == 0


def test_centred_by_hand_keeps_the_mean_difference() -> None:
    vm = MISP(k=2).fit(V, CONCEPT)
    shares = np.array([2.25, 1]) / 3.25
    assert np.allclose(vm(np.array([4.0, 4.0, 4.0])), [4, *(4 * (1 - shares))])
    told = vm.report["cos_mean_difference"]
    assert told["centred"] == pytest.approx([0, 0])
    assert told["uncentred"] == pytest.approx([1, 0])


def test_weights_of_one_are_the_hard_projection_and_of_zero_nothing() -> None:
    v, concept = names(0)
    hard = MISP(weights=1.0).fit(v, concept)
    matrix, _ = hard.to_matrix()
    assert hard.rank_removed == 4
    assert np.allclose(matrix @ matrix, matrix)
    basis = MISP().fit(v, concept).basis
    assert np.allclose(matrix, np.eye(6) - basis.T @ basis)
    assert np.array_equal(MISP(weights=0.0).fit(v, concept)(v).matrix, v.matrix)


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(deadline=None, max_examples=30)
def test_it_shrinks_the_components_of_all_differences(seed: int, centre: bool) -> None:
    v, concept = names(seed)
    vm = MISP(centre=centre).fit(v, concept)
    f, m = (v.matrix[some].astype(np.float64) for some in (slice(0, 12), slice(12, 24)))
    differences = np.array([a - b for a, b in product(f, m)])
    if centre:
        differences -= differences.mean(axis=0)
    values = np.linalg.svd(differences, compute_uv=False) ** 2
    assert np.allclose(vm.weights, values[:4] / values.sum())
    assert (np.linalg.norm(vm(v).matrix, axis=1) <= np.linalg.norm(v.matrix, axis=1) * (1 + 1e-6)).all()
    matrix, _ = vm.to_matrix()
    assert np.allclose(matrix, matrix.T)
    assert np.array_equal(vm(v.matrix), vm(v).matrix)


def test_the_23_permutations_of_the_appendix() -> None:
    v, concept = names(1)
    right = MISP().fit(v, concept)
    every = dict(weight_permutations(MISP(), v, concept))
    assert len(every) == 23
    assert "1234" not in every
    assert list(every)[:3] == ["1243", "1324", "1342"]
    a = np.asarray(right.weights)
    # "a_1 is applied to g_1, a_2 to g_2, a_4 to g_3, and a_3 to g_4"
    assert np.array_equal(every["1243"].weights, a[[0, 1, 3, 2]])
    assert np.array_equal(every["2341"].weights, a[[1, 2, 3, 0]])
    assert all(np.array_equal(vm.basis, right.basis) for vm in every.values())
    assert every["4321"].report["permutation"] == "4321"
    assert len({vm.digest for vm in every.values()} | {right.digest}) == 24
    assert MISP(weights=tuple(a[[0, 1, 3, 2]])).fit(v, concept) == every["1243"]


def test_permutations_are_generated_lazily() -> None:
    v, concept = names(1)
    name, vm = next(iter(weight_permutations(MISP(k=2), v, concept)))
    assert name == "21"
    assert json.loads(json.dumps(vm.report))["params"]["weights"] == vm.report["weights"]


def test_more_groups_are_all_pairs_of_groups() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 5)) * [3, 2, 1.5, 1, 0.5]
    words = [f"w{i}" for i in range(9)]
    lists = {"a": words[:2], "b": words[2:5], "c": words[5:]}
    v = Vectors(words, rows)
    groups = [v.matrix[[v.index[word] for word in some]].astype(np.float64) for some in lists.values()]
    for centre in (True, False):
        total = np.zeros((5, 5))
        for one, other in ((0, 1), (0, 2), (1, 2)):
            differences = np.array([a - b for a, b in product(groups[one], groups[other])])
            if centre:
                differences -= differences.mean(axis=0)
            total += differences.T @ differences / len(differences)
        values = np.linalg.eigvalsh(total)[::-1]
        learned = between_groups(v, lists, 3, centre=centre)
        assert np.allclose(learned.explained, values[:3] / values.sum())
        assert np.allclose(total @ learned.basis[0], values[0] * learned.basis[0])
        assert np.allclose(MISP(k=3, centre=centre).fit(v, Concept("c", lists)).basis, learned.basis)


def test_two_groups_are_the_same_either_way() -> None:
    v, concept = names(2)
    learned = between_groups(v, concept.groups, 3, centre=False)
    assert np.allclose(learned.explained, MISP(k=3, centre=False).fit(v, concept).weights)


def test_report_save_and_seedlessness(tmp_path: Path) -> None:
    v, concept = names(3)
    vm = MISP().fit(v, concept)
    assert vm == MISP().fit(v, concept)
    assert VectorMap.load(vm.save(tmp_path / "m")) == vm
    report = json.loads(json.dumps(vm.report))
    assert report["lists"] == ["f", "m"]
    assert report["words_changed"] == len(v)
    assert 0 < report["variance_kept"] < 1
    spared = MISP(words=ExceptListed(["w0"])).fit(v, concept)(v).matrix
    assert np.array_equal(spared[0], v.matrix[0])
    assert not np.array_equal(spared[1], v.matrix[1])


def test_names_come_before_groups() -> None:
    groups = Concept("g", {"f": ["Ada", "Eve"], "m": ["Tom", "Bob"]})
    assert MISP(k=2).fit(V, groups) == MISP(k=2).fit(V, CONCEPT) == MISP(k=2, lists="groups").fit(V, groups)
    with pytest.raises(UsageError, match="has 0 under 'names'"):
        MISP(lists="names").fit(V, groups)


def test_errors() -> None:
    with pytest.raises(VocabularyError, match=r"only 1/3 words of the list 'm' of 'g'; missing: Jim, Ken[\s\S]*names"):
        MISP().fit(V, Concept("g", {"f": ["Ada", "Eve"], "m": ["Tom", "Jim", "Ken"]}))
    with pytest.raises(UsageError, match="k=4, but the words found span only 2"):
        MISP().fit(V, CONCEPT)
    with pytest.raises(UsageError, match="has 1 under 'groups'"):
        MISP().fit(V, Concept("g", {"f": ["Ada"]}))
    with pytest.raises(UsageError, match="unknown weights 'equal'"):
        MISP(k=2, weights="equal").fit(V, CONCEPT)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="directions and weights differ: 2 and 3"):
        MISP(k=2, weights=[0.1, 0.2, 0.3]).fit(V, CONCEPT)
    with pytest.raises(UsageError, match="between 0"):
        MISP(k=2, weights=1.5).fit(V, CONCEPT)
    with pytest.raises(UsageError, match="unknown lists 'all'"):
        MISP(lists="all").fit(V, CONCEPT)  # type: ignore[arg-type]


def test_on_real_vectors_only_the_uncentred_one_is_about_gender() -> None:
    told = MISP().fit(eh.Vectors.default(), "gender").report["cos_mean_difference"]
    assert told["uncentred"][0] > 0.9
    assert told["centred"][0] < 0.7
