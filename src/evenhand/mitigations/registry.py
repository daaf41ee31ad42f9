"""The mitigation methods by id. A new method is one file with a registered class."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from evenhand.errors import EvenhandError, EvenhandWarning, UsageError
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.registry import Registry

FAMILIES = ("projection", "erasure", "alignment", "steering", "training", "text", "decoding", "outcomes")
MITIGATIONS: Registry[type[Mitigation]] = Registry(
    "mitigation",
    tuple(f"evenhand.mitigations.{family}" for family in FAMILIES),
    group="evenhand.mitigations",
    aliases={"dropout": "dropout-tuning"},
)


@dataclass(frozen=True)
class MethodSummary:
    """One line of the list of methods."""

    id: str
    title: str
    citation: str
    limits: str
    """What it cannot do."""


def get(id: str) -> type[Mitigation]:
    """Return the method with this id: `get("linear")().fit(vectors, concept)`."""
    method = MITIGATIONS.get(id)
    if not (isinstance(method, type) and issubclass(method, Mitigation)):
        raise UsageError(f"{method!r} is not a Mitigation", hint="derive it from evenhand.mitigations.Mitigation")
    return method


def get_vector_method(id: str) -> type[VectorMethod]:
    """Return the method with this id, which must be one that fits a map of vectors."""
    method = get(id)
    if not issubclass(method, VectorMethod):
        raise UsageError(f"{id} does not fit a map of word vectors", hint=f"use one of {', '.join(ids('vectors'))}")
    return method


def ids(part: str | None = None) -> list[str]:
    """Return every method id, or those of the methods that change a part of a subject: `ids("vectors")`."""
    return [id for id in MITIGATIONS.ids() if part is None or _changes(get(id), part)]


def listing(part: str | None = None) -> tuple[MethodSummary, ...]:
    """Return all methods, or those that change a part, sorted by id; warn of one of another package that fails."""
    summaries = []
    for id in sorted(ids()):
        try:
            method = get(id)
        except EvenhandError as error:
            warnings.warn(error.message, EvenhandWarning, stacklevel=2)
            continue
        if part is not None and not _changes(method, part):
            continue
        summaries.append(MethodSummary(method.id, method.title, method.citation, method.limits))
    return tuple(summaries)


def _changes(method: type[Mitigation], part: str) -> bool:
    return any(target.part == part for target in method.works_on)
