from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import evenhand as eh
from evenhand.errors import EvenhandWarning, UsageError
from evenhand.mitigations import INLP, VectorMap
from evenhand.mitigations.selection import ExceptListed
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

SQUARE = Vectors(["a", "b", "c", "d"], [[2, 1, 0], [2, -1, 0], [-2, 1, 0], [-2, -1, 0]], name="square")
SIDES = Concept("side", {"right": ["a", "b"], "left": ["c", "d"]})


def clouds(seed: int, classes: int, *, n: int = 80, dim: int = 12) -> tuple[Vectors, Concept]:
    """Some words of each class around a mean of its own, the first coordinates carrying most of it."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), n)
    rows = rng.normal(size=(len(y), dim)) + rng.normal(size=(classes, dim))[y] * np.linspace(2, 0, dim)
    words = [f"w{i}" for i in range(len(y))]
    groups = {f"g{c}": [words[i] for i in np.flatnonzero(y == c)] for c in range(classes)}
    return Vectors(words, rows, name="clouds"), Concept("kind", groups)


def test_by_hand_one_direction_is_removed_and_the_next_classifier_is_zero() -> None:
    vm = INLP(labels="groups").fit(SQUARE, SIDES)
    assert np.allclose(vm(SQUARE).matrix, [[0, 1, 0], [0, -1, 0], [0, 1, 0], [0, -1, 0]])
    assert vm.rank_removed == 1
    report = vm.report
    assert report["accuracies"] == [1.0]
    assert report["ranks"] == [1]
    assert report["stopped"] == "the classifier is zero: nothing linear is left"
    assert (report["accuracy_before"], report["accuracy_after"], report["majority"]) == (1.0, 0.5, 0.5)
    assert report["held_out"] is False


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_the_intersection_of_null_spaces_as_published(classes: int) -> None:
    """The published form: projections P_i onto row spaces, P = I - projection onto the range of their sum."""
    v, concept = clouds(1, classes)
    method = INLP(labels="groups", iterations=3, variant="released")
    labelled = method._labelled(v, concept)
    x, y, fit = labelled.matrix(v), labelled.y, labelled.parts[0]
    total, keep = np.zeros((v.dim, v.dim)), np.eye(v.dim)
    for _ in range(3):
        W = LinearSVC(fit_intercept=False, dual=False, tol=1e-12, max_iter=100_000).fit(x[fit] @ keep, y[fit]).coef_
        total += np.linalg.pinv(W) @ W
        values, axes = np.linalg.eigh(total)
        range_of = axes[:, values > 1e-6]
        keep = np.eye(v.dim) - range_of @ range_of.T
    assert np.allclose(method.fit(v, concept).to_matrix()[0], keep, atol=1e-4)


def test_three_classes_remove_three_dimensions_a_round() -> None:
    v, concept = clouds(2, 3, dim=20)
    vm = INLP(labels="groups", iterations=4, variant="released").fit(v, concept)
    assert vm.report["ranks"] == [3, 3, 3, 3]
    assert vm.report["rank_removed"] == vm.rank_removed == 12
    assert len(vm.report["accuracies"]) == vm.report["iterations_done"] == 4


def test_accuracy_falls_to_chance_and_the_report_is_plain_data() -> None:
    v, concept = clouds(3, 2, n=200, dim=30)
    report = json.loads(json.dumps(INLP(labels="groups", iterations=20, variant="released").fit(v, concept).report))
    assert report["accuracy_before"] > 0.95
    assert report["accuracy_after"] < 0.65
    assert report["accuracies"][0] > report["accuracies"][-1]
    assert report["labels"]["sizes"] == {"g0": 200, "g1": 200}
    assert 0 < report["variance_kept"] < 1
    assert report["method"] == "inlp"


def test_the_released_form_uses_up_low_dimensions_and_warns() -> None:
    v, concept = clouds(4, 3, dim=4)
    with pytest.warns(
        EvenhandWarning, match=r"keeps only 0\.0 % of the variance of clouds \(4 of 4 dimensions removed"
    ):
        vm = INLP(labels="groups", variant="released").fit(v, concept)
    assert vm.rank_removed == 4
    assert vm.report["stopped"] == "no dimension is left"
    assert np.allclose(vm(v).matrix, 0, atol=1e-6)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_a_margin_decides_what_chance_is(variant: Literal["paper", "released"]) -> None:
    v, concept = clouds(5, 2, n=200, dim=30)
    limits = {"max_rank": 1.0, "min_variance": 0.0}
    report = INLP(labels="groups", margin=0.1, variant=variant, **limits).fit(v, concept).report
    assert report["stopped"] == "the classifier is at chance"
    assert report["iterations_done"] < 35
    assert all(accuracy > 0.6 for accuracy in report["accuracies"])


def test_small_vectors_stop_at_chance_and_keep_most_of_their_variance() -> None:
    """All 50 dimensions of such vectors used to be removed, or all but a few."""
    embedded = eh.Vectors.default().head(8168)
    v = Vectors(embedded.words, embedded.matrix[:, :50].copy(), name="small")
    vm = INLP().fit(v, "gender")
    report = vm.report
    assert report["stopped"] == "the classifier is at chance"
    assert report["rank_removed"] < 25
    assert report["variance_kept"] > 0.6
    assert report["accuracy_before"] > 0.9
    assert report["accuracy_after"] < report["majority"] + 0.05
    assert vm(v).norms.min() > 0.1 * v.norms.min()


def test_random_labels_are_at_chance_from_the_start() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(1200)]
    v = Vectors(words, rng.normal(size=(1200, 10)), name="noise")
    vm = INLP(labels="groups").fit(v, Concept("none", {"a": words[::2], "b": words[1::2]}))
    assert vm.rank_removed == 0
    assert vm.report["stopped"] == "the classifier is at chance"


def test_a_classifier_with_intercept_must_be_at_chance_too() -> None:
    """Without intercept a classifier of unequal classes can be worse than the largest class and still be informed."""
    embedded = eh.Vectors.default().head(8168)
    v = Vectors(embedded.words, embedded.matrix[:, :50].copy(), name="small")
    report = INLP().fit(v, "gender").report
    assert min(report["accuracies"]) < report["majority"]  # one of the iterations would have ended it


@pytest.mark.parametrize(
    ("limit", "stopped"),
    [({"max_rank": 0.25}, "reached max_rank"), ({"min_variance": 0.95}, "reached min_variance")],
)
def test_a_limit_ends_the_iterations_with_a_warning(limit: dict[str, float], stopped: str) -> None:
    v, concept = clouds(2, 3, n=200, dim=20)
    ((name, value),) = limit.items()
    with pytest.warns(
        EvenhandWarning, match=rf"inlp stopped after \d iterations at {name}={value:g}: a linear classif"
    ):
        vm = INLP(labels="groups", **limit).fit(v, concept)
    assert vm.report["stopped"] == stopped
    assert vm.report["ranks"] == [3]


def test_the_first_iteration_ignores_the_limits() -> None:
    v, concept = clouds(2, 3, n=200, dim=20)
    with pytest.warns(EvenhandWarning, match="inlp stopped after 1 iterations"):
        assert INLP(labels="groups", max_rank=0.0).fit(v, concept).rank_removed == 3


@pytest.mark.parametrize("classes", [2, 3])
def test_information_weights_follow_the_accuracies(classes: int) -> None:
    v, concept = clouds(6, classes, dim=20)
    hard = INLP(labels="groups", iterations=4, variant="released").fit(v, concept)
    soft = INLP(labels="groups", iterations=4, weighting="information", variant="released").fit(v, concept)
    assert np.array_equal(soft.basis, hard.basis)
    above_chance = [max(0.0, (classes * acc - 1) / (classes - 1)) for acc in hard.report["accuracies"]]
    assert np.allclose(soft.weights, np.repeat(above_chance, hard.report["ranks"]))
    if classes == 2:
        assert above_chance[0] == pytest.approx(2 * hard.report["accuracies"][0] - 1)


def test_laws_of_a_projection() -> None:
    v, concept = clouds(7, 3, dim=20)
    vm = INLP(labels="groups", iterations=5, variant="released").fit(v, concept)
    matrix, bias = vm.to_matrix()
    assert np.allclose(matrix @ matrix, matrix, atol=1e-12)
    assert np.allclose(matrix, matrix.T, atol=1e-12)
    assert not bias.any()
    assert np.array_equal(vm(v.matrix), vm(v).matrix)


def test_same_bytes_every_time_and_the_input_stays(tmp_path: Path) -> None:
    v, concept = clouds(8, 2)
    before = v.matrix.copy()
    first, second = (INLP(labels="groups", iterations=3, seed=4).fit(v, concept) for _ in range(2))
    assert first.digest == second.digest
    assert np.array_equal(v.matrix, before)
    assert VectorMap.load(first.save(tmp_path / "m")) == first


def test_words_can_be_exempt() -> None:
    vm = INLP(labels="groups", words=ExceptListed(["a"])).fit(SQUARE, SIDES)
    assert np.allclose(vm(SQUARE).matrix[:2], [[2, 1, 0], [0, -1, 0]])


def test_misuse() -> None:
    with pytest.raises(UsageError, match="must be positive"):
        INLP(iterations=0).fit(SQUARE, SIDES)
    with pytest.raises(UsageError, match="unknown weighting 'accuracy'"):
        INLP(weighting="accuracy").fit(SQUARE, SIDES)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown variant 'best'"):
        INLP(variant="best").fit(SQUARE, SIDES)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_rank is a share between 0 and 1, got 30"):
        INLP(max_rank=30).fit(SQUARE, SIDES)


def test_on_real_vectors_gender_cannot_be_predicted_any_more() -> None:
    v = eh.Vectors.default().head(4000)
    method = eh.mitigations.get("inlp")(per_class=500, neutral=500, iterations=10, variant="released")
    report = method.fit(v, "gender").report
    assert report["accuracy_before"] > 0.85
    assert report["accuracy_after"] < 0.5
    assert report["rank_removed"] == 30
