"""Convert the vectors of spaCy to `Vectors` and back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import EvenhandWarning, FormatError, require
from evenhand.models.vectors import Case, Vectors

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.vectors import Vectors as SpacyVectors
    from spacy.vocab import Vocab


def from_spacy(source: Language | Vocab, *, name: str = "", case: Case = "auto") -> Vectors:
    """Return the vectors of a spaCy pipeline (`nlp`) or of its `Vocab`, in the order of spaCy's rows.

    Words that share a row in a pruned table each get a copy of it.

    Args:
        source: a pipeline or a `Vocab`.
        name: name of the vectors in reports.
        case: how words are looked up.
    """
    vocab = getattr(source, "vocab", source)
    table = getattr(vocab, "vectors", None)
    if table is None:
        raise FormatError(f"a {type(source).__name__} has no vectors", hint="pass the nlp object or its vocab")
    if str(getattr(table, "mode", "default")).lower().endswith("floret"):
        raise FormatError("a floret table has n-grams instead of words", hint="use a pipeline with word vectors")
    words, rows = _words(vocab, table)
    if not words:
        raise FormatError(
            "the spaCy vocabulary has no word vectors",
            hint="small pipelines have none: use one that ends in _md or _lg",
        )
    title = name or str(getattr(table, "name", "") or "spaCy")
    about = {"library": "spaCy", "words_that_share_a_row": len(rows) - len(set(rows))}
    return Vectors(tuple(words), _on_cpu(table.data)[rows], name=title, source=about, case=case)


def _words(vocab: Vocab, table: SpacyVectors) -> tuple[list[str], list[int]]:
    words, rows, lost = [], [], 0
    for key, row in sorted(table.key2row.items(), key=lambda item: int(item[1])):
        try:
            words.append(str(vocab.strings[key]))
        except KeyError:
            lost += 1
        else:
            rows.append(int(row))
    if lost:
        warnings.warn(f"spaCy's string store lacks the spelling of {lost:,} vectors", EvenhandWarning, stacklevel=3)
    return words, rows


def _on_cpu(data: object) -> Matrix:
    return np.asarray(data.get() if hasattr(data, "get") else data)  # cupy arrays have get(), numpy arrays do not


def to_spacy(vectors: Vectors, vocab: Vocab | None = None) -> Vocab:
    """Return a spaCy `Vocab` with these vectors; in a given vocabulary, the table is replaced in place."""
    spacy = require("spacy", extra="spacy")
    target = spacy.vocab.Vocab() if vocab is None else vocab
    keys = [target.strings.add(word) for word in vectors.words]
    data = np.array(vectors.matrix, np.float32)  # a copy, because spaCy writes into its table
    target.vectors = spacy.vectors.Vectors(strings=target.strings, data=data, keys=keys, name=vectors.name)
    return target
