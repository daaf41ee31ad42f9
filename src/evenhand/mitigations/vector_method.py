"""`VectorMethod`: the base class of methods that fit a map to vectors, and what it reports about the map."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar, overload

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import EvenhandWarning, UsageError
from evenhand.mitigations.maps import Chain, RowNormalise, VectorMap
from evenhand.mitigations.maps.application import BLOCK_VALUES, check_dim
from evenhand.mitigations.maps.vectormap import NUMPY
from evenhand.mitigations.method import TRANSFORMER, VECTORS, Mitigation, Target
from evenhand.models.vectors import Coverage, Vectors
from evenhand.words import as_concept

if TYPE_CHECKING:
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.models.encoders.sites import Site
    from evenhand.subjects import Subject
    from evenhand.subjects.transformer_subjects import TransformerPart
    from evenhand.words import Concept

M = TypeVar("M", bound=VectorMap)
SAMPLE = 50_000  # words; measuring a larger table in full would take as long as applying the map
UNCHANGED = 1e-6  # of a row's length: the error of rounding to float32
# Share of the variance below which little of the original vectors is left. With default parameters the methods of this
# package keep between .31 (half-sibling regression) and 1 of the variance of the embedded vectors.
MIN_VARIANCE_KEPT = 0.1


@dataclass(frozen=True)
class SiteMethod(Mitigation):
    """A method that fits a map for a site of a transformer.

    Args:
        site: Where in a transformer the map acts: embeddings, layer:N, attention:N, mlp:N or pooled; None: embeddings.
    """

    works_on: ClassVar[tuple[Target, ...]] = (TRANSFORMER,)
    default_site: ClassVar[str] = "embeddings"
    """Where the map acts in a transformer unless `site` says otherwise."""

    site: str | None = field(default=None, kw_only=True)

    def _site_in(self, network: TransformerPart) -> Site:
        """Return the site, with its number counted from the first layer."""
        from evenhand.models.encoders.sites import resolve

        return resolve(network.transformer.model, self.site or self.default_site)

    def _at_site(
        self, network: TransformerPart, site: Site, vm: VectorMap, details: Mapping[str, object]
    ) -> SiteChange:
        """Return the change of a map at a site, with its report; raise if the map does not fit the site.

        Tokens with massive activations keep their vectors: see `ExceptLongVectors`.
        """
        from evenhand.mitigations.maps import ExceptLongVectors
        from evenhand.mitigations.maps.site_change import SiteChange
        from evenhand.mitigations.site_examples import massive_activations
        from evenhand.models.encoders.hooks import check_fits
        from evenhand.models.encoders.sites import locate

        check_fits(vm, str(site), locate(network.transformer.model, site))
        limit, found = massive_activations(network.transformer, site)
        if limit is not None:
            vm = ExceptLongVectors(vm, limit, report=vm.report)
        return SiteChange.at(str(site), vm.with_report(**details, **found))

    def check_concept(self, concept: Concept | str) -> None:
        """Raise `UsageError` if the method cannot work with this concept or has invalid parameters; fits nothing."""
        if self.site is not None:
            from evenhand.models.encoders.sites import Site

            Site.parse(self.site)
        super().check_concept(concept)

    @property
    def sites(self) -> tuple[str, ...]:
        """The site."""
        return (self.site or self.default_site,)

    def _reported(self, vm: M, v: Vectors, coverage: Coverage, details: Mapping[str, object] | None = None) -> M:
        """Return the map with a report: what was fitted, which words were missing, how the map changes the vectors."""
        return vm.with_report(
            **self._about(),
            vectors=v.name,
            rank_removed=vm.rank_removed,
            words_missing=list(coverage.missing),
            coverage=coverage.to_dict(),
            **map_report(vm, v),
            **(details or {}),
        )


@dataclass(frozen=True)
class VectorMethod(SiteMethod):
    """A method that fits a `VectorMap` to word vectors, or to vectors at a site of a transformer.

    A subclass implements `_fit`, which never sees a subject: only vectors and a concept.
    """

    works_on: ClassVar[tuple[Target, ...]] = (VECTORS, TRANSFORMER)

    @overload
    def fit(self, subject: Vectors, concept: Concept | str, *, seed: int | None = None) -> VectorMap: ...
    @overload
    def fit(self, subject: Subject, concept: Concept | str, *, seed: int | None = None) -> VectorMap | SiteChange: ...
    def fit(
        self, subject: Vectors | Subject, concept: Concept | str, *, seed: int | None = None
    ) -> VectorMap | SiteChange:
        """Fit the method and return the map; neither the vectors nor the concept are changed.

        Args:
            subject: the vectors to learn from; or a subject. In a transformer the method learns at its `site`, and a
                `SiteChange` is returned.
            concept: the concept to remove, or its id or file.
            seed: the seed of the random steps, instead of the field `seed`; ignored by methods without random steps.
        """
        about, method = as_concept(concept), self.with_seed(seed)
        method.check_concept(about)
        method.check_subject(subject)
        return (
            method._fit_vectors(subject, about) if isinstance(subject, Vectors) else method._fit_subject(subject, about)
        )

    @abstractmethod
    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Fit the method to a concept that `check_concept` accepted."""

    def _fit_vectors(self, v: Vectors, concept: Concept) -> VectorMap:
        return self._fit(v.in_language(concept.language), concept)

    def _fit_subject(self, subject: Subject, concept: Concept) -> VectorMap | SiteChange:
        """Fit the method at a site of a transformer, else to the vectors of the subject."""
        from evenhand.mitigations.site_examples import concept_words

        if subject.network is None:
            return self._fit_vectors(subject.view("vectors"), concept)
        return self._fit_words(subject.network, concept_words(concept), lambda v: self._fit(v, concept))

    def _fit_words(
        self, network: TransformerPart, words: Sequence[str], fit: Callable[[Vectors], VectorMap]
    ) -> SiteChange:
        """Fit a map to the vectors of words at the site."""
        from evenhand.mitigations.site_examples import words_at

        site = self._site_in(network)
        examples = words_at(network.transformer, network.table, site, words)
        return self._at_site(network, site, fit(examples.vectors), {"examples": examples.report()})

    def check_subject(self, subject: Vectors | Subject) -> None:
        """Raise `UsageError` if the method does not work on this kind of subject, or has a site and it has none."""
        super().check_subject(subject)
        if self.site is not None and getattr(subject, "network", None) is None:
            title = getattr(subject, "title", "word vectors")
            raise UsageError(
                f"site={self.site!r} is a place inside a transformer, and {subject.name} is {title}",
                hint="leave site out, or open a model: eh.open('hf:FOLDER')",
            )


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
