"""The BiLSTM of Dev et al. 2020 over any word vectors; needs torch, which is imported when a model is made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from evenhand.models.nli import model_file
from evenhand.models.nli.backend import Array, backend
from evenhand.models.nli.bilstm_network import Arrays, PlacedBiLSTM, checked, probabilities
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.nli.protocol import Grid
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Probe

KIND = "bilstm"


class BiLSTM(ModelOverVectors):
    """Decomposable attention whose tokens are the states of a bidirectional LSTM, so that word order matters.

    With h the states of both directions: a premise token attends to the hypothesis by softmax(h_p . h_h), no network in
    between, and the other way round; compare reads [h; attended], its rows are summed over the tokens, aggregate reads
    both sums. As in the authors' code a null token stands in front of every sentence. Its vector is fixed, not learned:
    there all vectors are frozen, and this one is a random draw like those of lost words.

    References:
        Dev, Li, Phillips & Srikumar (2020), On Measuring and Mitigating Biased Inferences of Word Embeddings, AAAI.
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        vectors: Vectors,
        *,
        lower: bool = True,
        normalise: bool = False,
        device: str = "cpu",
        workers: int | None = None,
        name: str = KIND,
    ) -> None:
        self.arrays: Arrays = checked(arrays)
        super().__init__(
            self.arrays["oov"],
            vectors,
            lower=lower,
            normalise=normalise,
            backend=backend(f"torch:{device}", workers=workers),
            name=name,
        )

    def __repr__(self) -> str:
        return f"BiLSTM({self.name!r}, hidden {self.hidden}, over {self.vectors!r})"

    @property
    def hidden(self) -> int:
        """Width of every hidden layer: the units of both directions together."""
        return 2 * int(self.arrays["lstm.recurrent"].shape[2])

    @cached_property
    def placed(self) -> PlacedBiLSTM:
        """The weights on the device."""
        return PlacedBiLSTM(self.arrays, self.backend)

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        return probabilities(self.placed, premise, hypothesis)

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """The whole probe, every distinct sentence encoded once; see `models.nli.factorised.recurrent`."""
        from evenhand.models.nli.factorised.bilstm import evaluate

        return evaluate(self, probe)

    def save(self, path: str | os.PathLike[str], *, dtype: str = "float32", **about: Any) -> Path:
        """Write weights and settings as safetensors; `about` is kept in the metadata, the vectors are not."""
        config = {"lower": self.lower, "normalise": self.normalise, "name": self.name, "vectors": self.vectors.name}
        return model_file.write(Path(path), kind=KIND, arrays=self.arrays, config={**config, **about}, dtype=dtype)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vectors: Vectors, *, device: str = "cpu", workers: int | None = None
    ) -> BiLSTM:
        """Read a model back, over the vectors it was trained on or others of the same dimension."""
        found = model_file.read(Path(path), kind=KIND)
        with model_file.naming(Path(path)):
            name = str(found.config.get("name") or Path(path).stem)
            options = model_file.flags(found.config)
            return cls(found.arrays, vectors, **options, device=device, workers=workers, name=name)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], vectors: Vectors, **options: Any) -> BiLSTM:
        """A model from arrays named as in its file; options as for the class."""
        return cls(arrays, vectors, **options)
