"""The NLI models shipped with the package: three training seeds on each of two kinds of vectors."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal, get_args

from evenhand.errors import unknown_name
from evenhand.models.nli.loading import load
from evenhand.models.nli.model_file import read as read_file
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.vectors import Vectors

Condition = Literal["original", "projected"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
SEEDS = (0, 1, 2)
CARD = "model-card.md"
TRAINED_ON: dict[str, str] = {
    "original": "the embedded vectors",
    "projected": "the embedded vectors without the he-she direction",
}


def read(condition: Condition, vectors: Vectors, *, device: str = "auto") -> tuple[ModelOverVectors, ...]:
    """Load the models of a condition, one for each training seed, over the given vectors.

    The vectors must fit the condition: models trained on projected vectors give meaningless answers over others.
    `subjects.embedded_nli.embedded` uses the right ones.
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
