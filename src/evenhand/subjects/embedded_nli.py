"""The embedded NLI models, each over the vectors it was trained on, and which of them can read given vectors."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal, get_args

import numpy as np

from evenhand.errors import unknown_name
from evenhand.models.nli import NLIEnsemble
from evenhand.models.nli.over_vectors import ModelOverVectors, load
from evenhand.models.nli.over_vectors import read_model_file as read_file
from evenhand.models.vectors import Vectors
from evenhand.subspaces import learn
from evenhand.words import concept

Condition = Literal["original", "projected"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
SEEDS = (0, 1, 2)
CARD = "model-card.md"
TRAINED_ON: dict[Condition, str] = {
    "original": "the embedded vectors",
    "projected": "the embedded vectors without the he-she direction",
}
AT_TEST_TIME = "applied at test time; the model was not retrained"
RETRAINED = "the model was retrained on these vectors"
ROUNDING = 1e-5  # of single precision, in coordinates of size 1


def read(condition: Condition, vectors: Vectors, *, device: str = "auto") -> tuple[ModelOverVectors, ...]:
    """Load the models of a condition, one for each training seed, over the given vectors.

    The vectors must fit the condition: models trained on projected vectors give meaningless answers over others.
    `embedded` uses the right ones.
    """
    return tuple(_model(condition, seed, vectors, device) for seed in SEEDS)


def settings(condition: Condition) -> tuple[dict[str, object], ...]:
    """Return the settings stored in each file: seed, training vectors, accuracy."""
    configs = []
    for seed in SEEDS:
        with resources.as_file(_file(condition, seed)) as path:
            configs.append(read_file(path).config)
    return tuple(configs)


def card() -> str:
    """Return the model card: training data and its licence, accuracy, limits."""
    return (_folder() / CARD).read_text(encoding="utf-8")


def _model(condition: Condition, seed: int, vectors: Vectors, device: str) -> ModelOverVectors:
    with resources.as_file(_file(condition, seed)) as path:
        return load(path, vectors, device=device, name=f"{condition}-{seed}")


def _file(condition: str, seed: int) -> Traversable:
    if condition not in CONDITIONS:
        raise unknown_name("embedded NLI model", condition, CONDITIONS)
    return _folder() / f"{condition}-{seed}.safetensors"


def _folder() -> Traversable:
    return resources.files("evenhand.data") / "embedded" / "nli"


def projected(vectors: Vectors) -> Vectors:
    """Remove the direction she/|she| - he/|he| from every vector, as Dev et al. 2020 do before training.

    The embedded models of the condition `projected` were trained on these vectors; the method `linear` makes the same
    for the concept `gender`.
    """
    direction = learn(vectors, concept("gender"))
    step = {"method": "linear", "concept": "gender", "subspace": direction.how}
    return vectors.with_matrix(direction.reject(vectors.matrix).astype(np.float32), step=step)


def embedded(
    condition: Condition = "original", *, vectors: Vectors | None = None, device: str = "auto"
) -> tuple[ModelOverVectors, ...]:
    """Load the three training seeds of a condition: `original`, or `projected` (trained without the he-she direction).

    `vectors` replaces the embedded vectors; the models were not trained on any others.
    """
    base = vectors if vectors is not None else Vectors.default()
    return read(condition, projected(base) if condition == "projected" else base, device=device)


@dataclass(frozen=True)
class EmbeddedModels:
    """Which embedded models can read given vectors, and what a reader of their scores must know."""

    condition: Condition
    note: str

    def ensemble(self, vectors: Vectors) -> NLIEnsemble:
        """Return the models over these vectors. They run on numpy: an audit gives the same with and without a GPU."""
        return NLIEnsemble(read(self.condition, vectors, device="numpy"), self.note)


def find_models(vectors: Vectors) -> EmbeddedModels | None:
    """Return the models for the embedded vectors or a mitigated version of them; None for other vectors.

    A model reads coordinates. Only the embedded vectors, and what a method made of them, have coordinates that the
    embedded models were trained on; only the he-she projection has models that were trained after it.
    """
    own = Vectors.default()
    if vectors.dim != own.dim or vectors.words != own.words:
        return None
    if _same(vectors, own):
        return EmbeddedModels("original", "")
    if _same(vectors, projected(own)):
        return EmbeddedModels("projected", RETRAINED)
    return EmbeddedModels("original", AT_TEST_TIME) if vectors.history else None


def _same(one: Vectors, other: Vectors) -> bool:
    return one is other or bool(np.abs(one.matrix - other.matrix).max() <= ROUNDING)
