"""Decomposable attention (Parikh et al. 2016) over any word vectors, without torch."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.arrays import Matrix, unit_rows
from evenhand.errors import FormatError, UsageError
from evenhand.models.nli import weights as files
from evenhand.models.nli.backend import Backend, backend
from evenhand.models.nli.forward import Placed, probabilities
from evenhand.models.nli.function import refuse_misfit
from evenhand.models.nli.probabilities import LABELS, Probabilities
from evenhand.models.nli.protocol import Grid
from evenhand.models.nli.tokens import Lookup, tokens
from evenhand.models.nli.weights import Weights
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Probe


class DecomposableAttention:
    """Attend, compare, aggregate; no intra-sentence attention, so that the order of words does not matter.

    `lower` looks words up in lower case, as Dev et al. 2020 do; `normalise` scales vectors to length one first, as the
    ancestors of the code of Dawkins 2021 do. `backend` is numpy, torch or torch:cuda: the same formulas on either.
    """

    def __init__(
        self,
        weights: Weights,
        vectors: Vectors,
        *,
        lower: bool = True,
        normalise: bool = False,
        backend_name: str = "numpy",
        workers: int | None = None,
        name: str = "decomposable-attention",
    ) -> None:
        if weights.dim != vectors.dim:
            raise UsageError(
                f"the model was made for vectors of dimension {weights.dim}, {vectors.name} has {vectors.dim}",
                hint="give the vectors it was trained on, or a mitigated version of them",
            )
        self.weights, self.vectors, self.name = weights, vectors, name
        self.lower, self.normalise = lower, normalise
        self.lookup = Lookup(vectors, len(weights.oov), lower)
        self.backend: Backend = backend(backend_name, workers=workers)

    def __repr__(self) -> str:
        return f"DecomposableAttention({self.name!r}, hidden {self.weights.hidden}, over {self.vectors!r})"

    @cached_property
    def placed(self) -> Placed:
        """The weights on the backend."""
        return Placed(self.weights, self.backend)

    def table(self, rows: Sequence[int]) -> Matrix:
        """The vectors of some rows, those beyond the vocabulary being the stand-ins for lost words."""
        asked = np.asarray(rows, dtype=np.int64)
        known = asked < len(self.vectors)
        found = np.empty((len(asked), self.weights.dim), np.float32)
        found[known] = self.vectors.matrix[asked[known]]
        found[~known] = self.weights.oov[asked[~known] - len(self.vectors)]
        return unit_rows(found).astype(np.float32) if self.normalise else found

    def lost(self, words: Iterable[str]) -> tuple[str, ...]:
        """Words, or phrases with a word, that the vectors do not have."""
        return tuple(word for word in words if not all(map(self.lookup.known, tokens(word))))

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str], *, batch: int = 512) -> Probabilities:
        """Pair by pair, in batches of equal lengths so that nothing is padded."""
        refuse_misfit(premises, hypotheses)
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
            self.table(np.array(side).ravel()).reshape(len(side), -1, self.weights.dim)  # type: ignore[arg-type]
            for side in (premise, hypothesis)
        )
        return self.backend.get(probabilities(self.placed, *map(self.backend.put, vectors)))

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """The whole probe by exact factorised evaluation; see `models.nli.factorised`."""
        from evenhand.models.nli.factorised import evaluate

        return evaluate(self, probe)

    def save(self, path: str | os.PathLike[str], *, dtype: str = "float32", **about: Any) -> Path:
        """Write weights and settings as safetensors; `about` is kept in the metadata, the vectors are not."""
        config = {"lower": self.lower, "normalise": self.normalise, "name": self.name, "vectors": self.vectors.name}
        return files.save(self.weights, Path(path), config={**config, **about}, dtype=dtype)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        vectors: Vectors,
        *,
        backend_name: str = "numpy",
        workers: int | None = None,
    ) -> DecomposableAttention:
        """Read a model back, over the vectors it was trained on or others of the same dimension."""
        weights, config = files.load(Path(path))
        try:
            settings = {"lower": bool(config["lower"]), "normalise": bool(config["normalise"])}
        except KeyError as error:
            raise FormatError(f"{path}: its config lacks {error.args[0]!r}") from error
        return cls(
            weights,
            vectors,
            **settings,
            backend_name=backend_name,
            workers=workers,
            name=str(config.get("name") or Path(path).stem),
        )
