"""The four classifiers that recoverability asks, with every setting that moves their accuracy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from evenhand.arrays import Matrix64, Rows
from evenhand.errors import unknown_name

# scikit-learn's defaults of today, written out because they have changed before (gamma was "auto" until 0.22).
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "logistic": {"C": 1.0, "max_iter": 2_000},
    "linear-svm": {"C": 1.0},
    "rbf-svm": {"C": 1.0, "gamma": "scale"},
    "mlp": {"hidden_layer_sizes": (100,), "alpha": 1e-4, "learning_rate_init": 1e-3, "max_iter": 200},
}


def settings(names: tuple[str, ...], overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings of each classifier asked for; an unknown one is an error."""
    for name in (*names, *overrides):
        if name not in SETTINGS:
            raise unknown_name("classifier", name, SETTINGS)
    return {name: {**SETTINGS[name], **overrides.get(name, {})} for name in names}


def predicted(
    name: str, options: Mapping[str, Any], train: tuple[Matrix64, Rows], test: Matrix64, *, seed: int
) -> tuple[Rows, bool]:
    """The labels that the trained classifier gives to the test rows, and whether its training converged."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        fitted = _made(name, options, seed).fit(*train)
    stopped_early = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return fitted.predict(test), not stopped_early


def _made(name: str, options: Mapping[str, Any], seed: int) -> Any:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(**options)
    if name == "mlp":
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(**options, random_state=seed)
    from sklearn.svm import SVC

    return SVC(kernel="linear" if name == "linear-svm" else "rbf", **options)
