"""Convert gensim `KeyedVectors` to `Vectors` and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenhand.errors import require
from evenhand.models.vectors import Case, Vectors
from evenhand.models.vectors.formats.word2vec import gensim_content

if TYPE_CHECKING:
    from gensim.models import KeyedVectors


def from_gensim(
    keyed_vectors: KeyedVectors, *, name: str = "gensim", copy: bool = True, case: Case = "auto"
) -> Vectors:
    """Return the vectors of a gensim `KeyedVectors`, or of a trained model with an attribute `wv`.

    fastText vectors still compose unseen words; gensim does this with the current state of the model.

    Args:
        keyed_vectors: loaded or trained by gensim.
        name: name of the vectors in reports.
        copy: copy the matrix, so that further training does not change the result; False shares gensim's memory.
        case: how words are looked up.
    """
    parsed = gensim_content(keyed_vectors, name=name)
    matrix = np.array(parsed.matrix, np.float32, copy=True if copy else None)
    return Vectors(tuple(parsed.words), matrix, name=name, source=parsed.source, case=case, compose=parsed.compose)


def to_gensim(vectors: Vectors) -> KeyedVectors:
    """Return a gensim `KeyedVectors` with a copy of words and matrix; history and subwords are not included."""
    keyed_vectors = require("gensim.models", extra="gensim").KeyedVectors(vectors.dim, dtype=np.float32)
    keyed_vectors.add_vectors(list(vectors.words), np.asarray(vectors.matrix))
    return keyed_vectors
