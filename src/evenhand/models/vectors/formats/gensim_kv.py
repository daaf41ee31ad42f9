"""Read gensim files (`KeyedVectors.save`, `Word2Vec.save`): pickles, opened only with `allow_pickle`."""

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
    """Composes vectors of unseen words with a gensim `FastTextKeyedVectors`."""

    keyed_vectors: Any = field(repr=False)

    def __call__(self, words: Sequence[str]) -> Matrix:
        """Return one row per word; a word too short to have an n-gram raises `VocabularyError`."""
        rows = np.array([self.keyed_vectors.get_vector(word) for word in words], np.float32)
        composed = rows.reshape(len(words), -1).any(axis=1)  # gensim returns a zero vector and logs a warning
        if not composed.all():
            raise VocabularyError(
                f"the gensim model cannot compose {words[int(composed.argmin())]!r}: it has no n-gram of valid length",
                hint="leave the word out",
            )
        return rows


def read(path: Path, options: ReadOptions) -> Parsed:
    """Unpickle `KeyedVectors` or a model that has them. This can run arbitrary code."""
    if not options.allow_pickle:
        raise UsageError(
            f"{path}: a Python pickle, which can run arbitrary code when it is opened",
            hint="if you trust the file: `allow_pickle=True`",
        )
    existing(path, what="vector file")
    saved = require("gensim.utils", extra="gensim").SaveLoad
    try:
        model = saved.load(str(path), mmap=None if compression_of(path) else "r")
    except Exception as error:  # unpickling can raise any exception
        raise FormatError(
            f"{path}: gensim cannot open it ({type(error).__name__}: {error})",
            hint="keep its .npy files beside it, or export it with save_word2vec_format at its origin",
        ) from error
    return content(model, name=str(path), limit=options.limit)


def content(model: Any, *, name: str, limit: int | None = None) -> Parsed:
    """Return words, matrix and composer of gensim `KeyedVectors`, or of a model with a `wv` attribute."""
    keyed = getattr(model, "wv", model)
    words, matrix = getattr(keyed, "index_to_key", None), getattr(keyed, "vectors", None)
    if words is None or matrix is None:
        raise FormatError(f"{name}: a {type(model).__name__}, not gensim (4 or later) vectors", hint="pass model.wv")
    # gensim allocates rows before it assigns keys; rows without a key are skipped.
    rows = [row for row, word in enumerate(words) if word is not None][:limit]
    keys = [words[row] for row in rows]
    invalid = next((key for key in keys if not isinstance(key, str)), None)
    if invalid is not None:
        raise FormatError(f"{name}: the key {invalid!r} is a {type(invalid).__name__}, not a word")
    whole = rows == list(range(len(rows)))
    compose = GensimComposer(keyed) if getattr(keyed, "bucket", 0) else None
    source = {"gensim": type(keyed).__name__}
    return Parsed(keys, matrix[: len(rows)] if whole else matrix[rows], source=source, compose=compose)
