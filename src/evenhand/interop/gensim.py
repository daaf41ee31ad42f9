"""gensim `KeyedVectors` to `Vectors` and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.errors import require
from evenhand.models.vectors import Case, Vectors
from evenhand.models.vectors.formats.gensim_kv import content


def from_gensim(keyed_vectors: Any, *, name: str = "gensim", copy: bool = True, case: Case = "auto") -> Vectors:
    """The vectors of a gensim `KeyedVectors`, or of a trained model that has them as `wv`.

    fastText vectors go on composing unseen words: gensim does it, with the model as it then is.

    Args:
        keyed_vectors: what gensim loaded or trained.
        name: what reports call the vectors.
        copy: take a copy, so that training on does not change the result; False shares gensim's memory.
        case: how a word of a list is looked up.
    """
    parsed = content(keyed_vectors, name=name)
    matrix = np.array(parsed.matrix, np.float32, copy=True if copy else None)
    return Vectors(tuple(parsed.words), matrix, name=name, source=parsed.source, case=case, compose=parsed.compose)


def to_gensim(vectors: Vectors) -> Any:
    """A gensim `KeyedVectors` with a copy of the words and the matrix; history and sub-words stay behind."""
    keyed_vectors = require("gensim.models", extra="gensim").KeyedVectors(vectors.dim, dtype=np.float32)
    keyed_vectors.add_vectors(list(vectors.words), np.asarray(vectors.matrix))
    return keyed_vectors
