"""Multi-dimensional information-weighted soft projection: shrink the directions in which first names differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations.maps import SoftProjection, VectorMap
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace, names
from evenhand.subspaces.differences import listed, word_rows
from evenhand.subspaces.subspace import principal
from evenhand.words import as_concept

if TYPE_CHECKING:
    from evenhand.words import Concept

# Below this share the words present do not represent the list: lower-cased vectors without names still have "grace".
MIN_COVERAGE = 0.5


@MITIGATIONS.register("misp")
@dataclass(frozen=True)
class MISP(VectorMethod):
    """Shrink the principal components of all differences f - m of names by the share of variance each explains.

    Dawkins (2021, equation 4): 100 names on each side, four components, a_i the proportion of variance explained.
    Every word is mapped once, without normalising. Directions are shrunk, not removed. `weights=1.0` is the paper's
    MHD, which removes the four directions; `weights=0.0` changes nothing.

    Concepts of more than two groups use the differences between the words of every two groups, equally weighted;
    concepts without names use the words of their groups.

    What it does not do: with `centre=True`, the PCA that the paper's numbers point to, the mean difference of the two
    lists is subtracted first, so the components are directions in which names of one gender differ among themselves
    (age, origin). `centre=False` keeps it. The report has `cos_mean_difference` of both. The first weight is about
    0.2 at most, so clustering and classifiers find the concept as before.

    Args:
        k: Number of components.
        centre: Whether the differences are centred before the components are computed, as in the paper.
        weights: `explained` for shares of variance, one number for all directions (1.0 is MHD), or one for each.
        lists: Which lists of the concept to use; `auto`: its names, or its groups where it has no names.
        normalise: Whether the vectors of the lists are scaled to unit length before the components are computed.
        words: Which words stay unchanged; None: every word is mapped.
    """

    id: ClassVar[str] = "misp"
    title: ClassVar[str] = "Information-weighted soft projection (MISP)"
    formula: ClassVar[str] = (
        "x - sum_i a_i <x, g_i> g_i, g_i principal components of the name differences, a_i their shares"
    )
    cites: ClassVar[tuple[str, ...]] = ("dawkins2021",)
    limits: ClassVar[str] = (
        "Shrinks only slightly: clustering, classifiers and analogies hardly change. Centred, as published, it leaves "
        "most of the mean difference between the groups. Needs names or group words in the vocabulary."
    )

    k: int = 4
    centre: bool = True
    weights: Literal["explained"] | float | Sequence[float] = "explained"
    lists: Literal["auto", "names", "groups"] = "auto"
    normalise: bool = False
    words: Selector | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str | float | int):
            object.__setattr__(self, "weights", tuple(float(a) for a in self.weights))

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        learned, details = self._learn(v, concept)
        weights = self._weights(learned)
        vm = sparing(SoftProjection(learned.basis, weights), self.words, v, concept)
        return self._reported(vm, v, learned.coverage, {**details, "weights": weights.tolist()})

    def _check(self, concept: Concept) -> None:
        if isinstance(self.weights, str) and self.weights != "explained":
            raise UsageError(f"unknown weights {self.weights!r}", hint="use 'explained', a number, or k numbers")
        self._lists(concept)

    def _weights(self, learned: Subspace) -> Vector64:
        if isinstance(self.weights, str):
            return np.asarray(learned.explained)
        weights = np.asarray(self.weights, dtype=np.float64)
        return np.full(learned.k, float(weights)) if weights.ndim == 0 else weights

    def _learn(self, v: Vectors, concept: Concept) -> tuple[Subspace, dict[str, object]]:
        lists = self._lists(concept)
        for name, words in lists.items():
            _require_coverage(v.locate(words, own_case=True)[1], f"{name!r} of {concept.name!r}", v)
        learned = self._subspace(v, lists, self.centre)
        details: dict[str, object] = {
            "concept": concept.name,
            "subspace": learned.to_dict(basis=False),
            "lists": list(lists),
            "cos_mean_difference": {
                "centred" if centre else "uncentred": self._cosines(v, lists, centre) for centre in (True, False)
            },
        }
        return learned, details

    def _cosines(self, v: Vectors, lists: Mapping[str, tuple[str, ...]], centre: bool) -> list[float]:
        """Return the cosine of each direction with the mean difference; empty where this PCA has too few directions."""
        try:
            return list(self._subspace(v, lists, centre).params["cos_mean_difference"])
        except (DegenerateError, UsageError):
            return []

    def _lists(self, concept: Concept) -> dict[str, tuple[str, ...]]:
        chosen = ("names" if len(concept.names) >= 2 else "groups") if self.lists == "auto" else self.lists
        lists = {name: tuple(words) for name, words in getattr(concept, chosen).items()}
        if len(lists) < 2:
            raise UsageError(
                f"MISP needs two lists of words; concept {concept.name!r} has {len(lists)} under {chosen!r}",
                hint='give it groups={"a": [...], "b": [...]} or names={...}',
            )
        first = concept.positive if concept.positive in lists else next(iter(lists))
        return {first: lists[first], **lists}

    def _subspace(self, v: Vectors, lists: Mapping[str, tuple[str, ...]], centre: bool) -> Subspace:
        if len(lists) == 2:
            first, second = lists.values()
            return names(v, first, second, self.k, centre=centre, normalise=self.normalise)
        return between_groups(v, lists, self.k, centre=centre, normalise=self.normalise)


def weight_permutations(method: MISP, v: Vectors, concept: Concept | str) -> Iterator[tuple[str, VectorMap]]:
    """Yield the k! - 1 maps with permuted weights (23 for k = 4), each with its name in the paper.

    Dawkins (2021, appendix C): in 1243 weight a_1 goes to g_1, a_2 to g_2, a_4 to g_3 and a_3 to g_4. The directions
    are learned once.
    """
    about = as_concept(concept)
    method.check_concept(about)
    learned, details = method._learn(v, about)
    weights = method._weights(learned)
    identity = tuple(range(learned.k))
    for order in permutations(identity):
        if order == identity:
            continue
        name = "".join(str(number + 1) for number in order)
        permuted = replace(method, weights=tuple(weights[list(order)].tolist()))
        vm = sparing(SoftProjection(learned.basis, weights[list(order)]), method.words, v, about)
        report = {**details, "weights": weights[list(order)].tolist(), "permutation": name}
        yield name, permuted._reported(vm, v, learned.coverage, report)


def between_groups(
    v: Vectors, lists: Mapping[str, Sequence[str]], k: int, *, centre: bool, normalise: bool = False
) -> Subspace:
    """Return the principal components of all differences between words of different groups, pairs of groups equal.

    These diagonalise the mean over pairs of groups of Cov(i) + Cov(j) [+ d d', d the difference of their means], as
    `names` does for two groups. Centring is within each pair of groups, since the order of a pair is arbitrary.
    """
    located = [
        word_rows(v, words, what=f"the list {name!r}", normalise=normalise, own_case=True)
        for name, words in lists.items()
    ]
    rows = [group for group, _ in located]
    means = [group.mean(axis=0) for group in rows]
    within = [(group - mean) * np.sqrt(2 / (len(rows) * len(group))) for group, mean in zip(rows, means, strict=True)]
    apart = np.array([a - b for a, b in combinations(means, 2)])
    stacked = within if centre else [*within, apart / np.sqrt(len(apart))]
    coverage = sum((each for _, each in located), Coverage(()))
    learned = principal(np.vstack(stacked), k=k, how="names", coverage=coverage)
    cosines = _share_of_means(learned.basis, apart)
    params = {"centre": centre, "normalise": normalise, "n": [len(group) for group in rows]}
    return replace(learned, params={**params, "cos_mean_difference": cosines})


def _share_of_means(basis: Matrix64, apart: Matrix64) -> list[float]:
    """Return |cos| of each direction with its projection on the span of the differences of the means."""
    _, strength, axes = np.linalg.svd(apart, full_matrices=False)
    span = axes[strength > 1e-9 * max(float(strength[0]), np.finfo(np.float64).tiny)]
    return [float(length) for length in np.linalg.norm(basis @ span.T, axis=1)]


def _require_coverage(coverage: Coverage, what: str, v: Vectors) -> None:
    if coverage.share < MIN_COVERAGE:
        raise VocabularyError(
            f"{v.name} has only {coverage} words of the list {what}; missing: {listed(coverage.missing)}",
            hint="MISP needs most of the names: use vectors that have them, or lists='groups'",
        )
