"""The embedded NLI models, each over the vectors it was trained on, and which of them some vectors call for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.models.nli.embedded import Condition, read
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.vectors import Vectors
from evenhand.subspaces import learn
from evenhand.words import concept

TRAINED_ON: dict[Condition, str] = {
    "original": "the embedded vectors",
    "projected": "the embedded vectors without the he-she direction",
}
AT_TEST_TIME = "applied at test time; the model was not retrained"
RETRAINED = "the model was retrained on these vectors"
ROUNDING = 1e-5  # of single precision, in coordinates of size 1


def projected(vectors: Vectors) -> Vectors:
    """Every vector without its part along she/|she| - he/|he|, as Dev et al. 2020 train their models.

    These are the vectors that the embedded models of the condition `projected` were trained on, and those that the
    method `linear` makes for the concept `gender`.
    """
    direction = learn(vectors, concept("gender"))
    step = {"method": "linear", "concept": "gender", "subspace": direction.how}
    return vectors.with_matrix(direction.reject(vectors.matrix).astype(np.float32), step=step)


def embedded(
    condition: Condition = "original", *, vectors: Vectors | None = None, device: str = "auto"
) -> tuple[ModelOverVectors, ...]:
    """Three training seeds of a condition: `original`, or `projected` (trained and read without the he-she direction).

    `vectors` are others to read instead of the embedded ones, of which the models know nothing.
    """
    base = vectors if vectors is not None else Vectors.default()
    return read(condition, projected(base) if condition == "projected" else base, device=device)


@dataclass(frozen=True)
class Fit:
    """Which embedded models can read some vectors, and what a reader of their answers must know."""

    condition: Condition
    note: str

    def models(self, vectors: Vectors) -> tuple[ModelOverVectors, ...]:
        """The models, over these very vectors, by numpy: an audit says the same with a GPU as without."""
        return read(self.condition, vectors, device="numpy")


def fit(vectors: Vectors) -> Fit | str:
    """The models for the embedded vectors or a mitigated version of them; for other vectors, why there are none.

    A model reads coordinates. Only the embedded vectors, and what a method made of them, have coordinates that ours
    were trained on; only the he-she projection has models that were trained after it.
    """
    own = Vectors.default()
    if vectors.dim != own.dim or vectors.words != own.words:
        return f"the embedded NLI models read the embedded vectors or a mitigated version of them, not {vectors.name}"
    if _same(vectors, own):
        return Fit("original", "")
    if _same(vectors, projected(own)):
        return Fit("projected", RETRAINED)
    if not vectors.history:
        return f"{vectors.name} has the words of the embedded vectors but other coordinates, and no history"
    return Fit("original", AT_TEST_TIME)


def _same(one: Vectors, other: Vectors) -> bool:
    return one is other or bool(np.abs(one.matrix - other.matrix).max() <= ROUNDING)
