"""gensim's own files (`KeyedVectors.save`, `Word2Vec.save`): Python pickles, opened only when the user trusts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import FormatError, UsageError, VocabularyError, require
from evenhand.files import compression_of, existing
from evenhand.models.vectors.formats.format import Parsed, ReadOptions


@dataclass(frozen=True)
class GensimComposer:
    """Vectors for unseen words, as a gensim `FastTextKeyedVectors` makes them."""

    keyed_vectors: Any = field(repr=False)

    def __call__(self, words: Sequence[str]) -> Matrix:
        """One row a word; a word too short to have an n-gram is an error."""
        rows = np.array([self.keyed_vectors.get_vector(word) for word in words], np.float32)
        known = rows.reshape(len(words), -1).any(axis=1)  # gensim answers with a zero vector, and only logs it
        if not known.all():
            raise VocabularyError(
                f"the gensim model cannot compose {words[int(known.argmin())]!r}: it has no n-gram of the right length",
                hint="leave the word out",
            )
        return rows


def read(path: Path, options: ReadOptions) -> Parsed:
    """Open a pickle of `KeyedVectors`, or of a model that has them. Opening it may run any code that it holds."""
    if not options.allow_pickle:
        raise UsageError(
            f"{path}: a Python pickle, which may run any code when it is opened",
            hint="if you trust where it comes from: allow_pickle=True (command line: --allow-pickle)",
        )
    existing(path, what="vector file")
    saved = require("gensim.utils", extra="gensim").SaveLoad
    try:
        model = saved.load(str(path), mmap=None if compression_of(path) else "r")
    except Exception as error:  # a pickle can raise anything while it is opened
        raise FormatError(
            f"{path}: gensim cannot open it ({type(error).__name__}: {error})",
            hint="were its .npy files copied with it? otherwise export it with save_word2vec_format where it was made",
        ) from error
    return content(model, name=str(path), limit=options.limit)


def content(model: Any, *, name: str, limit: int | None = None) -> Parsed:
    """Words, matrix and composer of gensim `KeyedVectors`, or of a model whose `wv` they are."""
    keyed = getattr(model, "wv", model)
    words, matrix = getattr(keyed, "index_to_key", None), getattr(keyed, "vectors", None)
    if words is None or matrix is None:
        raise FormatError(f"{name}: a {type(model).__name__}, not gensim (4 or later) vectors", hint="hand in model.wv")
    # gensim allocates rows before it has keys for them; a row without a key is no vector yet.
    rows = [row for row, word in enumerate(words) if word is not None][:limit]
    kept = [words[row] for row in rows]
    strange = next((word for word in kept if not isinstance(word, str)), None)
    if strange is not None:
        raise FormatError(f"{name}: the key {strange!r} is no word but a {type(strange).__name__}")
    whole = rows == list(range(len(rows)))
    compose = GensimComposer(keyed) if getattr(keyed, "bucket", 0) else None
    source = {"gensim": type(keyed).__name__}
    return Parsed(kept, matrix[: len(rows)] if whole else matrix[rows], source=source, compose=compose)
