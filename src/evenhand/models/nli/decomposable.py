"""Decomposable attention (Parikh et al. 2016) over any word vectors, without torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from evenhand.models.nli import decomposable_network as files
from evenhand.models.nli.backend import Array, backend
from evenhand.models.nli.decomposable_network import Placed, Weights, probabilities
from evenhand.models.nli.model_file import flags, naming
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.nli.protocol import Grid, pairwise_grids
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Probe


class DecomposableAttention(ModelOverVectors):
    """Attend, compare, aggregate. The order of words matters only where the weights have intra-sentence attention.

    `backend_name` is numpy, torch or torch:cuda: the same formulas on either. For `lower` and `normalise` see the base.
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
        super().__init__(
            weights.oov,
            vectors,
            lower=lower,
            normalise=normalise,
            backend=backend(backend_name, workers=workers),
            name=name,
        )
        self.weights = weights

    def __repr__(self) -> str:
        return f"DecomposableAttention({self.name!r}, hidden {self.weights.hidden}, over {self.vectors!r})"

    @cached_property
    def placed(self) -> Placed:
        """The weights on the backend."""
        return Placed(self.weights, self.backend)

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        return probabilities(self.placed, premise, hypothesis)

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """The whole probe by exact factorised evaluation; see `models.nli.factorised`.

        With intra-sentence attention every token depends on the subject: nothing factorises, pairs are asked plainly.
        """
        from evenhand.models.nli.factorised import evaluate

        return pairwise_grids(self, probe) if self.weights.intra else evaluate(self, probe)

    def save(self, path: str | os.PathLike[str], *, dtype: str = "float32", **about: Any) -> Path:
        """Write weights and settings as safetensors; `about` is kept in the metadata, the vectors are not."""
        config = {"lower": self.lower, "normalise": self.normalise, "name": self.name, "vectors": self.vectors.name}
        return files.save(self.weights, Path(path), config={**config, **about}, dtype=dtype)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], vectors: Vectors, **options: Any) -> DecomposableAttention:
        """A model from arrays named as in its file; options as for the class."""
        return cls(Weights.from_arrays(arrays), vectors, **options)

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
        with naming(Path(path)):
            settings = flags(config)
        return cls(
            weights,
            vectors,
            **settings,
            backend_name=backend_name,
            workers=workers,
            name=str(config.get("name") or Path(path).stem),
        )
