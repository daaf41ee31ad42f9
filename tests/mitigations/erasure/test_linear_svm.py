from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from evenhand.mitigations.erasure.linear_svm import train


def clouds(seed: int, classes: int, *, n: int = 120, dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.normal(size=(n, dim)) + 0.7 * rng.normal(size=(classes, dim))[y], y


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("classes", "C"), [(2, 1.0), (2, 0.01), (3, 1.0), (5, 10.0)])
def test_it_is_the_minimum_that_liblinear_looks_for(classes: int, C: float, intercept: bool) -> None:
    x, y = clouds(classes, classes)
    theirs = LinearSVC(C=C, fit_intercept=intercept, dual=False, tol=1e-10, max_iter=100_000).fit(x, y)
    ours = train(x, y, C=C, intercept=intercept)
    assert np.allclose(ours.directions, theirs.coef_, atol=1e-5)
    assert np.array_equal(ours.predict(x), theirs.predict(x))
    assert ours.accuracy(x, y) == pytest.approx(theirs.score(x, y))


def test_by_hand() -> None:
    # One row at 2, one at -2: w^2 / 2 + 2 (1 - 2 w)^2 is least at w = 8 / 17.
    learned = train(np.array([[2.0], [-2.0]]), np.array([1, 0]))
    assert learned.weights == pytest.approx(np.array([[8 / 17]]))
    assert learned.predict(np.array([[1.0], [-1.0], [0.0]])).tolist() == [1, 0, 0]


def test_separable_rows_outside_the_margin_do_not_count() -> None:
    near = train(np.array([[1.0], [-1.0]]), np.array([1, 0]), C=100.0)
    also_far = train(np.array([[1.0], [-1.0], [50.0]]), np.array([1, 0, 1]), C=100.0)
    assert also_far.weights == pytest.approx(near.weights)


def test_rows_without_information_give_zero() -> None:
    assert not train(np.zeros((4, 3)), np.array([0, 1, 0, 1])).weights.any()


def test_the_classes_keep_their_numbers() -> None:
    x, y = clouds(0, 3)
    assert set(train(x, y + 4).predict(x).tolist()) <= {4, 5, 6}
