"""Mitigations as scikit-learn transformers, for pipelines and grid searches."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from evenhand import mitigations
from evenhand.errors import UsageError, shown
from evenhand.mitigations import VectorMethod
from evenhand.models.vectors import Vectors
from evenhand.words import Concept


class NotFittedYetError(UsageError, NotFittedError):  # type: ignore[misc]
    """`transform` was called before `fit`; an error of both evenhand and scikit-learn."""


class Debias(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a map on vectors with their words, and apply it to any rows of the same dimension.

    A mitigation is fitted on words, which the rows in a pipeline do not have: pass the vectors to the constructor, or
    fit on `Vectors` or on `(words, matrix)`.

    Args:
        method: the id of a mitigation, a `Mitigation` with its parameters, or the class of one.
        concept: the id of a concept, or a `Concept`; None for a method that has its own subspace.
        vectors: vectors to fit on in a pipeline; clones of the estimator share them.

    Attributes:
        map_: the fitted `VectorMap`.
        n_features_in_: number of coordinates of the rows.
    """

    def __init__(
        self,
        method: str | VectorMethod | type[VectorMethod] = "linear",
        concept: str | Concept | None = "gender",
        vectors: Vectors | None = None,
    ) -> None:
        self.method = method
        self.concept = concept
        self.vectors = vectors

    def fit(self, X: Any = None, y: object = None) -> Self:
        """Fit the map on X if it has words, on the constructor's vectors otherwise."""
        vectors = self._training_vectors(X)
        self.map_ = self._method().fit(vectors, self.concept)  # type: ignore[arg-type]
        self.n_features_in_ = vectors.dim
        self._n_features_out = self.map_.out_dim_of(vectors.dim)  # for `get_feature_names_out` and `set_output`
        return self

    def transform(self, X: Any) -> Any:
        """Return `Vectors` for `Vectors`, otherwise an array. Maps that need words take `(words, matrix)`."""
        if not hasattr(self, "map_"):
            raise NotFittedYetError("this Debias is not fitted yet", hint="call fit first")
        if _has_words(X):
            return self.map_(np.asarray(X[1]), list(X[0]))
        return self.map_(X)

    def _training_vectors(self, X: Any) -> Vectors:
        if isinstance(X, Vectors):
            return X
        if _has_words(X):
            return Vectors(X[0], X[1])
        if not isinstance(self.vectors, Vectors):
            raise UsageError(
                f"Debias cannot be fitted on rows without words, and vectors={shown(self.vectors)} has none",
                hint="Debias(method, concept, vectors=v), or fit on Vectors or on (words, matrix)",
            )
        shape = np.shape(X)
        if X is not None and shape[-1:] != (self.vectors.dim,):
            raise UsageError(f"{self.vectors.name} has {self.vectors.dim} coordinates, the rows have shape {shape}")
        return self.vectors

    def _method(self) -> VectorMethod:
        method = mitigations.get_vector_method(self.method) if isinstance(self.method, str) else self.method
        return method() if isinstance(method, type) else method

    def __sklearn_clone__(self) -> Self:
        # scikit-learn would copy the vectors for each fold; they may be large, and are immutable, so they are shared.
        return type(self)(**self.get_params(deep=False))


def _has_words(X: object) -> bool:
    return isinstance(X, tuple) and len(X) == 2 and not np.isscalar(X[0]) and all(isinstance(w, str) for w in X[0])
