"""`Mitigation`: the base class of every method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from evenhand.data.citations import bibtex, short_citation
from evenhand.errors import UsageError
from evenhand.mitigations.map_report import map_report
from evenhand.mitigations.maps import VectorMap
from evenhand.mitigations.parameters import Parameter, parameters_of, parse_parameters
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace
from evenhand.words import as_concept

if TYPE_CHECKING:
    from evenhand.words import Concept

M = TypeVar("M", bound=VectorMap)


class _Citation:
    """Authors and years of the papers that a class cites."""

    def __get__(self, method: Mitigation | None, owner: type[Mitigation]) -> str:
        return "; ".join(short_citation(key) for key in owner.cites)


@dataclass(frozen=True)
class Mitigation(ABC):
    """A method with its parameters, not yet fitted. `fit` learns from vectors and returns a frozen map.

    A method is a frozen dataclass: its fields are its parameters, and fitting changes nothing in it. A subclass
    implements `_fit`, and `_check` where it cannot work with every concept. A method with random steps has a
    field `seed`.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str] = ""
    """The map, or what it minimises, in one line."""
    cites: ClassVar[tuple[str, ...]] = ()
    """Keys of `data/references.bib`."""
    limits: ClassVar[str]
    """What the method cannot do, in a sentence or two."""
    citation = _Citation()
    definition: ClassVar[int] = 1
    """Number of the definition; increased when the same parameters give another map."""
    view: ClassVar[str] = "vectors"
    """The view of a subject that `fit` takes."""

    def fit(self, view: Vectors, concept: Concept | str, *, seed: int | None = None) -> VectorMap:
        """Fit the method and return the map; neither the vectors nor the concept are changed.

        Args:
            view: the vectors to learn from.
            concept: the concept to remove, or its id or file.
            seed: the seed of the random steps, instead of the field `seed`; ignored by methods without random steps.
        """
        about = as_concept(concept)
        method = self.with_seed(seed)
        method.check_concept(about)
        return method._fit(view, about)

    @abstractmethod
    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Fit the method to a concept that `check_concept` accepted."""

    def check_concept(self, concept: Concept | str) -> None:
        """Raise `UsageError` if the method cannot work with this concept or has invalid parameters; fits nothing."""
        about = as_concept(concept)
        self._check(about)
        selector = getattr(self, "words", None)
        if isinstance(selector, Selector):
            selector.check_concept(about)

    def _check(self, concept: Concept) -> None:  # noqa: B027 (most concepts suit most methods)
        """Check the parameters, and that the concept has the words the method needs."""

    @classmethod
    def is_seeded(cls) -> bool:
        """Return whether the method has random steps."""
        return any(field.name == "seed" for field in fields(cls))

    def with_seed(self, seed: int | None) -> Self:
        """Return the method with another seed; the method itself if it has no random steps or the seed is None."""
        if seed is None:
            return self
        if seed < 0:
            raise UsageError(f"the seed must be 0 or more, got {seed}")
        changes: dict[str, Any] = {"seed": seed} if self.is_seeded() else {}
        return replace(self, **changes)

    @classmethod
    def bibtex(cls) -> str:
        """Return the BibTeX entries of the papers that define the method."""
        return "\n\n".join(bibtex(key) for key in cls.cites)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return name, type, default and description of every parameter."""
        return parameters_of(cls)

    @classmethod
    def with_params(cls, values: Mapping[str, object]) -> Self:
        """Return the method with these parameters; text is parsed by the type of the parameter.

        Lists are written `a,b,c` and pairs `a:b,c:d`; `none` is None.
        """
        return cls(**parse_parameters(cls, values))

    def params(self) -> dict[str, object]:
        """Return the parameters as plain data."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if values.get("words", "") is None:
            del values["words"]  # recorded only when words are exempt
        return {name: _plain(value) for name, value in values.items()}

    def _reported(self, vm: M, v: Vectors, coverage: Coverage, details: Mapping[str, object] | None = None) -> M:
        """Return the map with a report: what was fitted, which words were missing, how the map changes the vectors."""
        seed = {"seed": getattr(self, "seed")} if self.is_seeded() else {}  # noqa: B009 (a field of subclasses)
        return vm.with_report(
            method=self.id,
            definition=self.definition,
            params=self.params(),
            **seed,
            vectors=v.name,
            rank_removed=vm.rank_removed,
            words_missing=list(coverage.missing),
            coverage=coverage.to_dict(),
            **map_report(vm, v),
            **(details or {}),
        )


def _plain(value: object) -> object:
    if isinstance(value, Subspace):
        return value.to_dict(basis=False)
    if isinstance(value, Selector):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
