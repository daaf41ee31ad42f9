"""What models over frozen word vectors have in common: looking words up, and answering in batches of equal lengths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from evenhand.arrays import Matrix
from evenhand.errors import UsageError
from evenhand.models.nli.backend import Array, Backend
from evenhand.models.nli.protocol import LABELS, Probabilities, require_equal_lengths
from evenhand.models.nli.tokens import Lookup, table, tokens
from evenhand.models.vectors import Vectors


class ModelOverVectors:
    """The vectors, the stand-ins for words they lack, and how words are looked up.

    `lower` looks words up in lower case, as Dev et al. 2020 do; `normalise` scales vectors to length one first, as the
    ancestors of the code of Dawkins 2021 do. A subclass says what it makes of a batch (`_probabilities`).
    """

    def __init__(
        self, oov: Matrix, vectors: Vectors, *, lower: bool, normalise: bool, backend: Backend, name: str
    ) -> None:
        if oov.shape[1] != vectors.dim:
            raise UsageError(
                f"the model was made for vectors of dimension {oov.shape[1]}, {vectors.name} has {vectors.dim}",
                hint="give the vectors it was trained on, or a mitigated version of them",
            )
        self.oov, self.vectors, self.name = oov, vectors, name
        self.lower, self.normalise, self.backend = lower, normalise, backend
        self.lookup = Lookup(vectors, len(oov), lower)

    def __getstate__(self) -> dict[str, object]:
        # What was put on a device stays there; a copy in another process puts its own.
        return {name: value for name, value in vars(self).items() if name != "placed"}

    def table(self, rows: Sequence[int]) -> Matrix:
        """The vectors of some rows, those beyond the vocabulary being the stand-ins for lost words."""
        return table(self.vectors, np.asarray(rows, dtype=np.int64), self.oov, normalise=self.normalise)

    def out_of_vocabulary(self, words: Iterable[str]) -> tuple[str, ...]:
        """Words, or phrases with a word, that the vectors do not have."""
        return tuple(word for word in words if not all(map(self.lookup.known, tokens(word))))

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str], *, batch: int = 512) -> Probabilities:
        """Pair by pair, in batches of equal lengths so that nothing is padded."""
        require_equal_lengths(premises, hypotheses)
        rows = [[self.lookup.sentence(text) for text in texts] for texts in (premises, hypotheses)]
        buckets: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, (p, h) in enumerate(zip(*rows, strict=True)):
            if not p or not h:
                raise UsageError(f"pair {place} has an empty sentence: {premises[place]!r}, {hypotheses[place]!r}")
            buckets[len(p), len(h)].append(place)
        answers = np.empty((len(premises), len(LABELS)), np.float32)
        with self.backend.worker():
            for places in buckets.values():
                for start in range(0, len(places), batch):
                    some = places[start : start + batch]
                    answers[some] = self._batch([rows[0][i] for i in some], [rows[1][i] for i in some])
        return Probabilities(answers)

    def _batch(self, premise: list[tuple[int, ...]], hypothesis: list[tuple[int, ...]]) -> Matrix:
        vectors = (
            self.table(np.array(side).ravel()).reshape(len(side), -1, self.vectors.dim)  # type: ignore[arg-type]
            for side in (premise, hypothesis)
        )
        return self.backend.get(self._probabilities(*map(self.backend.put, vectors)))

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        """(pairs, 3) from vectors of the tokens: (pairs, premise length, dim) and (pairs, hypothesis length, dim)."""
        raise NotImplementedError
