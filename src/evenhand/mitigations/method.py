"""`Mitigation`: what every method has in common, and the account that each leaves in its map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from evenhand.mitigations.map_report import effects
from evenhand.mitigations.maps import VectorMap
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace

if TYPE_CHECKING:
    from evenhand.words import Concept

M = TypeVar("M", bound=VectorMap)


@dataclass(frozen=True)
class Mitigation(ABC):
    """A method with its parameters, not yet fitted. `fit` learns from vectors and returns a frozen map.

    A method is a frozen dataclass: its fields are its parameters, and nothing in it changes when it is fitted.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    citation: ClassVar[str]
    limits: ClassVar[str]
    """What it cannot do, in a sentence or two."""

    @abstractmethod
    def fit(self, v: Vectors, concept: Concept | str) -> VectorMap:
        """Learn the map for this concept from these vectors; neither is changed."""

    def params(self) -> dict[str, Any]:
        """The parameters as plain data."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if given.get("words", "") is None:
            del given["words"]  # no word was exempt, as ever: an entry is only for those who asked
        return {name: _plain(value) for name, value in given.items()}

    def _reported(self, vm: M, v: Vectors, coverage: Coverage, details: Mapping[str, Any] | None = None) -> M:
        """The map with the account of what was fitted, what was lost, and what it does to these vectors."""
        return vm.with_report(
            method=self.id,
            params=self.params(),
            vectors=v.name,
            rank_removed=vm.rank_removed,
            words_missing=list(coverage.missing),
            coverage=coverage.to_dict(),
            **effects(vm, v),
            **(details or {}),
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Subspace):
        return value.to_dict(basis=False)
    if isinstance(value, Selector):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
