"""The words a measure works on, with their rows both in the measured vectors and in the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Rows, as_float64
from evenhand.errors import UsageError
from evenhand.measures.asking import asked_words
from evenhand.measures.geometry.vocabulary import VOCABULARY, Restriction, restricted
from evenhand.models.vectors import Coverage, Vectors
from evenhand.words import Concept, WordSet


@dataclass(frozen=True, eq=False)
class Pool:
    """Words that both tables have. `rows` are of the measured vectors, `reference_rows` of those before mitigation."""

    name: str
    words: tuple[str, ...]
    rows: Rows
    reference_rows: Rows
    coverage: Coverage
    sizes: Mapping[str, int] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    """How the vocabulary was restricted; empty for a list."""

    def __len__(self) -> int:
        return len(self.words)

    def sample(self, n: int | None, *, seed: int) -> Pool:
        """A seeded draw of n words in their own order, or all; the account of what was asked stays."""
        if n is None or n >= len(self):
            return self
        if n < 1:
            raise UsageError(f"a sample has at least one word, got {n}")
        return self.pick(np.sort(np.random.default_rng(seed).choice(len(self), size=n, replace=False)))

    def pick(self, chosen: Rows) -> Pool:
        """Only the chosen words, in that order."""
        words = tuple(self.words[row] for row in chosen)
        return replace(self, words=words, rows=self.rows[chosen], reference_rows=self.reference_rows[chosen])

    def matrix(self, vectors: Vectors) -> Matrix64:
        """Their rows of the measured vectors, in double precision."""
        return as_float64(vectors.matrix[self.rows])


def pool(
    vectors: Vectors,
    words: WordSet | str | Iterable[str] = VOCABULARY,
    *,
    concept: Concept,
    restriction: Restriction,
    reference: Vectors | None = None,
) -> Pool:
    """The words of a list, or the restricted vocabulary; a word that the reference lacks counts as missing."""
    before = reference or vectors
    if isinstance(words, str) and words == VOCABULARY:
        kept = restricted(vectors, concept, restriction)
        name, sizes, rules = VOCABULARY, kept.sizes, restriction.to_dict(concept)
        rows, coverage = vectors.locate(kept.words, case="exact")
        reference_rows, both = before.locate(kept.words, case="exact")
    else:
        asked = asked_words(words)
        name, sizes, rules = asked.name, {"asked": len(asked)}, {}
        rows, coverage = vectors.locate(asked)
        reference_rows, both = before.locate(coverage.found)
    there = np.isin(coverage.found, both.found) if both.missing else np.ones(len(rows), dtype=bool)
    account = Coverage(both.found, coverage.missing + both.missing, {**coverage.respelt, **both.respelt})
    return Pool(name, both.found, rows[there], reference_rows, account, {**sizes, "used": len(both.found)}, rules)
