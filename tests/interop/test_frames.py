"""Polars and pandas data frames are read where a file is: texts, rated pairs and vectors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import FormatError, UsageError


@pytest.fixture(params=["polars", "pandas"])
def library(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param)
    return import_module(request.param)


def test_the_texts_of_a_frame_are_scored_as_in_memory(library: Any) -> None:
    texts = ["she is a nurse", "he is a doctor", "she is a doctor"]
    wanted = eh.corpus.bias(eh.corpus.Texts(texts), {"female": ["she"], "male": ["he"]}, smoothing=1)
    for field, reading in (("text", {}), ("body", {"field": "body"})):
        found = eh.corpus.bias(
            library.DataFrame({field: texts}), {"female": ["she"], "male": ["he"]}, smoothing=1, **reading
        )
        assert found.scores == wanted.scores


def test_a_frame_without_texts_says_which_columns_it_has(library: Any) -> None:
    with pytest.raises(UsageError, match="no column 'text'") as caught:
        eh.corpus.bias(library.DataFrame({"body": ["a"]}))
    assert "body" in str(caught.value.hint)
    with pytest.raises(UsageError, match="row 1 of the column 'text' is 3"):
        eh.corpus.bias(
            library.DataFrame(
                {"text": ["a", 3]},
                **({"strict": False, "schema": {"text": object}} if library.__name__ == "polars" else {}),
            )
        )


def test_rated_pairs_and_vectors_of_a_frame(library: Any) -> None:
    words = ["cat", "dog", "car", "bus"]
    matrix = np.array([[1.0, 0.1], [0.9, 0.2], [0.1, 1.0], [0.2, 0.8]], dtype=np.float32)
    table = library.DataFrame({"word": words, "x": matrix[:, 0], "y": matrix[:, 1]})
    vectors = eh.Vectors.load(table)
    assert vectors.words == tuple(words)
    np.testing.assert_array_equal(vectors.matrix, matrix)
    assert len(eh.Vectors.load(table, limit=2)) == 2
    rows = {"one": ["cat", "cat", "car", "dog"], "other": ["dog", "car", "bus", "bus"], "rating": [9.0, 1.0, 8.0, 2.0]}
    assert eh.measures.similarity(vectors, library.DataFrame(rows)).value == pytest.approx(0.8, abs=0.21)
    with pytest.raises(FormatError, match="has no vectors"):
        eh.Vectors.load(library.DataFrame({"word": words, "x": words}))
    with pytest.raises(UsageError, match="not word, word, number"):
        eh.measures.similarity(vectors, library.DataFrame({"one": words, "other": words}))
