"""A linear support vector machine with squared hinge loss, one against the rest.

It solves the problem of `LinearSVC` exactly. Iterative projection fits up to a hundred of these, most of them on
classes that are no longer separable. Then nearly every row lies inside the margin, and a Newton step needs only the
Gram matrix, which is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64, as_float64

TOLERANCE = 1e-8  # of the gradient at zero; liblinear stops at 1e-4 of the same problem
STEPS = 100
ARMIJO = 1e-4  # the share of the predicted decrease that a step must achieve


@dataclass(frozen=True)
class LinearClassifier:
    """One row of weights for each class (a single row for two classes), the intercept last where there is one."""

    weights: Matrix64
    classes: Rows
    intercept: bool = False

    @property
    def directions(self) -> Matrix64:
        """Return the weights without the intercept."""
        return self.weights[:, :-1] if self.intercept else self.weights

    def scores(self, x: Matrix64) -> Matrix64:
        """Return decision values, one column per row of weights; the margin is at 1."""
        shift = self.weights[:, -1] if self.intercept else 0.0
        return np.asarray(x @ self.directions.T + shift, dtype=np.float64)

    def predict(self, x: Matrix64) -> Rows:
        """Return the class of each row."""
        scores = self.scores(x)
        best = (scores[:, 0] > 0).astype(np.int64) if len(self.weights) == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes[best], dtype=np.int64)

    def accuracy(self, x: Matrix64, y: Rows) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return float(np.mean(self.predict(x) == y))


def train(x: Matrix64, y: Rows, *, C: float = 1.0, intercept: bool = False) -> LinearClassifier:
    """Minimise |w|^2 / 2 + C sum_i max(0, 1 - t_i <w, x_i>)^2, t = +1 for the class and -1 for the rest.

    The intercept is an additional coordinate of value 1 and is regularised like the others, as in liblinear.
    """
    rows = np.hstack([x, np.ones((len(x), 1))]) if intercept else x
    classes = np.unique(y)
    gram = rows.T @ rows
    positive = classes[1:] if len(classes) == 2 else classes
    weights = [_newton(rows, np.where(y == one, 1.0, -1.0), gram, C) for one in positive]
    return LinearClassifier(np.array(weights), classes, intercept)


def _newton(x: Matrix64, t: Vector64, gram: Matrix64, C: float) -> Vector64:
    """Minimise by Newton's method; the Hessian is piecewise constant, so a few steps suffice."""
    w, scores, eye = np.zeros(x.shape[1]), np.zeros(len(x)), np.eye(x.shape[1])
    tolerance = TOLERANCE * float(np.linalg.norm(2 * C * x.T @ t))
    for _ in range(STEPS):
        inside = t * scores < 1
        gradient = w - 2 * C * x.T @ np.where(inside, t - scores, 0.0)
        if np.linalg.norm(gradient) <= tolerance:
            break
        step = as_float64(-np.linalg.solve(eye + 2 * C * _gram_of(x, inside, gram), gradient))
        along = x @ step
        length = _line_search(w, scores, step, along, t, C, float(gradient @ step))
        if length == 0:
            break  # no further decrease in double precision: this is the minimum
        w, scores = w + length * step, scores + length * along
    return w


def _gram_of(x: Matrix64, inside: NDArray[np.bool_], gram: Matrix64) -> Matrix64:
    """Return X_A'X_A, computed from the smaller of A and its complement."""
    if 2 * np.count_nonzero(inside) <= len(x):
        rows = x[inside]
        return np.asarray(rows.T @ rows, dtype=np.float64)
    rows = x[~inside]
    return np.asarray(gram - rows.T @ rows, dtype=np.float64)


def _line_search(
    w: Vector64, scores: Vector64, step: Vector64, along: Vector64, t: Vector64, C: float, slope: float
) -> float:
    loss, length = _loss(w, scores, t, C), 1.0
    while length > 1e-8:
        if _loss(w + length * step, scores + length * along, t, C) <= loss + ARMIJO * length * slope:
            return length
        length /= 2
    return 0.0


def _loss(w: Vector64, scores: Vector64, t: Vector64, C: float) -> float:
    hinge = np.maximum(0.0, 1 - t * scores)
    return float(w @ w / 2 + C * hinge @ hinge)
