"""`Mitigation`: the base class of every method, and what it reports about the map that it fitted."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.data.citations import bibtex, short_citation
from evenhand.errors import EvenhandWarning, UsageError, counted, unknown_name
from evenhand.mitigations.maps import Chain, RowNormalise, VectorMap
from evenhand.mitigations.maps.application import BLOCK_VALUES, check_dim
from evenhand.mitigations.maps.vectormap import NUMPY
from evenhand.mitigations.parameters import Parameter, parameters_of, parse_parameters
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subjects import Subject
from evenhand.subjects.transformer_subject import TransformerSubject
from evenhand.subspaces import Subspace
from evenhand.subspaces.learning import ESTIMATORS
from evenhand.words import as_concept

if TYPE_CHECKING:
    from evenhand.mitigations.site_change import SiteChange
    from evenhand.words import Concept, Recipe


M = TypeVar("M", bound=VectorMap)
ANY_NUMBER = "use inlp, leace, hard or linear, which take any number of groups, or make a concept of two of the groups"
SAMPLE = 50_000  # words; measuring a larger table in full would take as long as applying the map
UNCHANGED = 1e-6  # of a row's length: the error of rounding to float32
# Share of the variance below which little of the original vectors is left. With default parameters the methods of this
# package keep between .31 (half-sibling regression) and 1 of the variance of the embedded vectors.
MIN_VARIANCE_KEPT = 0.1


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

    Args:
        site: Where in a transformer the map acts: embeddings, layer:N, attention:N, mlp:N or pooled; None: embeddings.
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
    default_site: ClassVar[str] = "embeddings"
    """Where the map acts in a transformer unless `site` says otherwise."""

    site: str | None = field(default=None, kw_only=True)

    @overload
    def fit(self, view: Vectors, concept: Concept | str, *, seed: int | None = None) -> VectorMap: ...
    @overload
    def fit(self, view: TransformerSubject, concept: Concept | str, *, seed: int | None = None) -> SiteChange: ...
    @overload
    def fit(self, view: Subject, concept: Concept | str, *, seed: int | None = None) -> VectorMap | SiteChange: ...
    def fit(
        self, view: Vectors | Subject, concept: Concept | str, *, seed: int | None = None
    ) -> VectorMap | SiteChange:
        """Fit the method and return the map; neither the vectors nor the concept are changed.

        Args:
            view: the vectors to learn from; or a subject. In a transformer the method learns at its `site`, and a
                `SiteChange` is returned.
            concept: the concept to remove, or its id or file.
            seed: the seed of the random steps, instead of the field `seed`; ignored by methods without random steps.
        """
        about = as_concept(concept)
        method = self.with_seed(seed)
        method.check_concept(about)
        return method._fit_subject(view, about) if isinstance(view, Subject) else method._fit_vectors(view, about)

    def _fit_vectors(self, v: Vectors, concept: Concept | None) -> VectorMap:
        if self.site is not None:
            raise UsageError(
                f"site={self.site!r} is a place inside a transformer, and {v.name} is a table of word vectors",
                hint="leave site out, or open a model: eh.open('hf:FOLDER')",
            )
        v = v if concept is None else v.in_language(concept.language)
        return self._fit(v, concept)  # type: ignore[arg-type]  # only methods that accept None are called with it

    def _fit_subject(self, subject: Subject, concept: Concept | None) -> VectorMap | SiteChange:
        """Fit the method to a subject: at a site of a transformer, else to its vectors."""
        from evenhand.mitigations.site_examples import words_at
        from evenhand.models.encoders.sites import resolve

        if not (isinstance(subject, TransformerSubject) and subject.can_change):
            return self._fit_vectors(subject.view(self.view), concept)
        site = resolve(subject.transformer.model, self.site or self.default_site)
        examples = words_at(subject.transformer, subject.view("vectors"), site, concept)
        vm = self._fit(examples.vectors, concept)  # type: ignore[arg-type]
        return self._at_site(subject, str(site), vm, {"examples": examples.report()})

    def _at_site(
        self, subject: TransformerSubject, site: str, vm: VectorMap, details: Mapping[str, object]
    ) -> SiteChange:
        """Return the change of a map at a site, with its report; raise if the map does not fit the site.

        Tokens with massive activations keep their vectors: see `ExceptLongVectors`.
        """
        from evenhand.mitigations.maps.long_vectors import ExceptLongVectors
        from evenhand.mitigations.site_change import SiteChange
        from evenhand.mitigations.site_examples import massive_activations
        from evenhand.models.encoders.hooks import check_fits
        from evenhand.models.encoders.sites import Site, locate

        check_fits(vm, site, locate(subject.transformer.model, Site.parse(site)))
        limit, found = massive_activations(subject.transformer, Site.parse(site))
        if limit is not None:
            vm = ExceptLongVectors(vm, limit, report=vm.report)
        return SiteChange.at(site, vm.with_report(**details, **found))

    @abstractmethod
    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Fit the method to a concept that `check_concept` accepted."""

    def check_concept(self, concept: Concept | str) -> None:
        """Raise `UsageError` if the method cannot work with this concept or has invalid parameters; fits nothing."""
        about = as_concept(concept)
        if self.site is not None:
            from evenhand.models.encoders.sites import Site

            Site.parse(self.site)
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
        for name in ("words", "site"):
            if values.get(name, "") is None:
                del values[name]  # recorded only when words are exempt, or a site was named
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


def require_pairs(concept: Concept, method: str, *, hint: str = "add pairs=[(a, b), ...] to the concept") -> None:
    """Raise `UsageError` if the concept has no pairs."""
    if not len(concept.pairs):
        raise UsageError(f"{method} needs pairs of counterparts; concept {concept.name!r} has none", hint=hint)


def require_two_groups(concept: Concept, method: str, *, hint: str = ANY_NUMBER) -> None:
    """Raise `UsageError` unless the concept has exactly two groups."""
    if len(concept.groups) != 2:
        groups = counted(len(concept.groups), "group")
        raise UsageError(f"{method} needs exactly two groups; concept {concept.name!r} has {groups}", hint=hint)


def require_groups(concept: Concept, method: str) -> None:
    """Raise `UsageError` if the concept has fewer than two groups."""
    if len(concept.groups) < 2:
        raise UsageError(
            f"{method} compares groups; concept {concept.name!r} has one group only",
            hint='add a second one: groups={"a": [...], "b": [...]}',
        )


def require_names(concept: Concept, method: str) -> None:
    """Raise `UsageError` if the concept has no first names for two groups."""
    if len(concept.names) < 2:
        raise UsageError(
            f"{method} needs first names of two groups; concept {concept.name!r} has names for {len(concept.names)}",
            hint='add names={"a": [...], "b": [...]}, or use the words of the groups',
        )


def require_direction(concept: Concept, method: str, recipe: Recipe | str | None = None) -> None:
    """Raise `UsageError` if the concept lacks the words from which `subspaces.learn` estimates its direction."""
    chosen = recipe or concept.direction
    if chosen is None:
        if not len(concept.pairs):
            require_groups(concept, method)
        return
    how, words = (chosen, ()) if isinstance(chosen, str) else (chosen.how, chosen.words)
    if how not in ESTIMATORS:
        raise unknown_name("way to learn a direction", how, ESTIMATORS)
    if how in ("pairs", "span") or (how == "pair" and not words):
        require_pairs(concept, f"{method} by {how!r}")
    elif how in ("two-means", "group-means", "classifier"):
        require_groups(concept, f"{method} by {how!r}")
    elif how == "names":
        require_names(concept, f"{method} by {how!r}")


def require_single_direction(concept: Concept, method: str, recipe: Recipe | str | None = None) -> None:
    """Raise `UsageError` if the concept has no direction, or has more than two groups and no way to choose one."""
    require_direction(concept, method, recipe)
    if recipe is None and concept.direction is None and not len(concept.pairs):
        require_two_groups(concept, method)


def map_report(vm: VectorMap, v: Vectors) -> dict[str, object]:
    """Return the number of words that the map changes and the share of the vocabulary's variance it keeps.

    A table larger than `SAMPLE` words is measured on blocks spread evenly over it, and `measured_on` is the number of
    words measured. The variance is around the mean of each side, so a shift keeps all of it; a map that makes vectors
    longer may give more than 1. A map that begins by scaling to unit length is compared with the vectors at unit
    length: lengths carry no information about the concept. Warns if less than `MIN_VARIANCE_KEPT` is kept.
    """
    check_dim(vm, v.dim)
    first, rest = _split_scaling(vm)
    before, after, changed = _Moments(v.dim), _Moments(vm.out_dim_of(v.dim) or 0), 0
    size = max(1, BLOCK_VALUES // v.dim)
    for start in range(0, len(v), size * max(1, len(v) // SAMPLE)):
        words = v.words[start : start + size]
        original = v.matrix[start : start + size].astype(np.float64)
        original = original if first is None else first.transform(original, NUMPY, words)
        mapped = rest.transform(original, NUMPY, words)
        changed += _count_changed(original, mapped, before.add(original), after.add(mapped))
    total = before.variance()
    kept = after.variance() / total if total else 1.0
    if kept < MIN_VARIANCE_KEPT:
        _warn_variance(kept, vm, v)
    report: dict[str, object] = {
        "words_changed": round(changed / max(before.n, 1) * len(v)),
        "variance_kept": kept,
    }
    return report if before.n == len(v) else {**report, "measured_on": before.n}


def _warn_variance(kept: float, vm: VectorMap, v: Vectors) -> None:
    warnings.warn(
        f"the map keeps only {100 * kept:.1f} % of the variance of {v.name} ({vm.rank_removed} of {v.dim} dimensions "
        f"removed; below {100 * MIN_VARIANCE_KEPT:.0f} % the vectors have lost most of their content, and measures on "
        "them say little): use a weaker setting or another method",
        EvenhandWarning,
        stacklevel=5,
    )


def _split_scaling(vm: VectorMap) -> tuple[VectorMap | None, VectorMap]:
    """Return the scaling to unit length that a map begins with, or None, and the rest of the map."""
    if isinstance(vm, Chain) and len(vm.parts) > 1 and isinstance(vm.parts[0], RowNormalise):
        return vm.parts[0], Chain(vm.parts[1:])
    return None, vm


def _count_changed(before: Matrix64, after: Matrix64, before_squares: Vector64, after_squares: Vector64) -> int:
    if before.shape != after.shape:
        return len(before)
    # |a - b|^2 without forming a - b; in double precision this resolves 1e-8 of a length, well below UNCHANGED.
    squares = before_squares + after_squares - 2 * np.einsum("ij,ij->i", before, after)
    return int(np.count_nonzero(squares > UNCHANGED**2 * before_squares))


class _Moments:
    """Sums over rows that arrive in blocks."""

    def __init__(self, dim: int) -> None:
        self.n, self.total, self.squares = 0, np.zeros(dim), 0.0

    def add(self, block: Matrix64) -> Vector64:
        """Add the rows and return their squared lengths."""
        squares = np.einsum("ij,ij->i", block, block)
        self.n += len(block)
        self.total += np.ones(len(block)) @ block
        self.squares += float(squares.sum())
        return np.asarray(squares, dtype=np.float64)

    def variance(self) -> float:
        return max(0.0, self.squares - float(self.total @ self.total) / max(self.n, 1))
