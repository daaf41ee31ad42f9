"""`Debias` as scikit-learn expects a transformer to be."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from evenhand import mitigations
from evenhand.errors import EvenhandError, UsageError
from evenhand.interop.sklearn import Debias
from evenhand.mitigations import LinearProjection
from evenhand.models.vectors import Vectors
from evenhand.words import Concept

WORDS = ["she", "he", "nurse", "doctor"]
MATRIX = np.array([[1.0, 0.0, 0.5], [-1.0, 0.0, 0.5], [0.3, 1.0, 0.0], [-0.2, 0.0, 1.0]], np.float32)
VECTORS = Vectors(WORDS, MATRIX)
GENDER = Concept(name="gender", groups={"female": ["she"], "male": ["he"]}, pairs=[("she", "he")])
WITHOUT_FIRST = MATRIX * [0.0, 1.0, 1.0]  # she - he is the first axis


@pytest.mark.parametrize("given", [VECTORS, (WORDS, MATRIX)])
def test_fitted_on_what_has_words(given: object) -> None:
    debias = Debias("linear", GENDER).fit(given)
    np.testing.assert_allclose(debias.transform(MATRIX), WITHOUT_FIRST, atol=1e-6)
    assert debias.n_features_in_ == 3


def test_fitted_on_the_vectors_of_the_constructor() -> None:
    debias = Debias("linear", GENDER, vectors=VECTORS)
    np.testing.assert_allclose(debias.fit_transform(MATRIX[2:]), WITHOUT_FIRST[2:], atol=1e-6)
    np.testing.assert_allclose(debias.fit().transform(MATRIX.tolist()), WITHOUT_FIRST, atol=1e-6)


def test_the_result_equals_that_of_the_method() -> None:
    expected = mitigations.get("linear")().fit(VECTORS, GENDER)
    for method in ("linear", LinearProjection, LinearProjection()):
        assert Debias(method, GENDER).fit(VECTORS).map_ == expected
    assert Debias("linear", GENDER).fit(VECTORS).transform(VECTORS) == expected(VECTORS)
    np.testing.assert_array_equal(
        Debias("linear", GENDER).fit(VECTORS).transform((WORDS, MATRIX)), expected(MATRIX, WORDS)
    )


def test_parameters_and_clones() -> None:
    debias = Debias("linear", GENDER, VECTORS).fit()
    assert debias.get_params() == {"method": "linear", "concept": GENDER, "vectors": VECTORS}
    copy = clone(debias)
    assert copy.vectors is VECTORS
    assert not hasattr(copy, "map_")
    assert copy.set_params(method="span").method == "span"
    assert debias.method == "linear"


def test_in_a_pipeline_and_a_grid_search() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 3))
    labels = rows[:, 0] > 0
    pipeline = make_pipeline(Debias("linear", GENDER, VECTORS), LogisticRegression())
    assert pipeline.fit(rows, labels).score(rows, labels) < 0.8  # the axis that decides is gone
    assert LogisticRegression().fit(rows, labels).score(rows, labels) > 0.95
    search = GridSearchCV(pipeline, {"debias__method": ["linear", LinearProjection(k=1)]}, cv=2).fit(rows, labels)
    assert search.best_estimator_[0].vectors is VECTORS


def test_the_columns_of_a_data_frame_have_names() -> None:
    pytest.importorskip("pandas")
    debias = Debias("linear", GENDER, VECTORS).fit()
    assert list(debias.get_feature_names_out()) == ["debias0", "debias1", "debias2"]
    frame = debias.set_output(transform="pandas").transform(MATRIX)
    assert list(frame.columns) == ["debias0", "debias1", "debias2"]
    np.testing.assert_allclose(frame.to_numpy(), WITHOUT_FIRST, atol=1e-6)
    pipeline = make_pipeline(Debias("linear", GENDER, VECTORS), LogisticRegression()).set_output(transform="polars")
    assert pipeline.fit(MATRIX, [1, 0, 1, 0]).predict(MATRIX).shape == (4,)


def test_a_pickled_pipeline_predicts_the_same() -> None:
    pipeline = make_pipeline(Debias("linear", GENDER, VECTORS), LogisticRegression()).fit(MATRIX, [1, 0, 1, 0])
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict_proba(MATRIX), pipeline.predict_proba(MATRIX))


def test_before_fit_the_error_is_of_both_libraries() -> None:
    for kind in (EvenhandError, NotFittedError):
        with pytest.raises(kind, match="not fitted yet"):
            Debias().transform(MATRIX)


def test_rows_without_words_are_refused() -> None:
    with pytest.raises(UsageError, match=r"rows without words.*\n.*vectors=v"):
        Debias("linear", GENDER).fit(MATRIX)
    with pytest.raises(UsageError, match=r"vectors='my.vec' has none"):
        Debias("linear", GENDER, vectors="my.vec").fit(MATRIX)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"has 3 coordinates, the rows have shape \(2, 5\)"):
        Debias("linear", GENDER, VECTORS).fit(np.ones((2, 5)))
    with pytest.raises(UsageError, match="3 coordinates, got 5"):
        Debias("linear", GENDER).fit(VECTORS).transform(np.ones((2, 5)))
