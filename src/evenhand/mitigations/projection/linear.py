"""Projections that remove directions from every vector: those of a concept, the span of its pairs, and random ones."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, overload

from evenhand.errors import EvenhandWarning, UsageError
from evenhand.mitigations.maps import ExceptWords, SoftProjection, VectorMap
from evenhand.mitigations.method import require_direction, require_pairs
from evenhand.mitigations.projection.hard import set_subspace
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Vectors
from evenhand.subjects import Subject
from evenhand.subspaces import Subspace, gaussian, learn, random_words, span
from evenhand.subspaces.subspace import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.words import Concept, Recipe


@MITIGATIONS.register("linear")
@dataclass(frozen=True)
class LinearProjection(VectorMethod):
    """Remove the concept's directions from every word, including the concept's own; nothing is normalised.

    Dev & Phillips (2019) and Dev et al. (2020) use she - he for gender, the first principal component of eight
    demonyms for nationality and the first two of eight adherents for religion. These are the concepts' published
    directions and the default. The directions are orthonormal, so they are removed jointly.

    A concept without a published direction uses its pairs (first principal direction), or the difference of its two
    group means. With more than two groups it loses all principal components of the differences between the groups
    (one less than there are groups), with a warning: no single direction separates them.

    What it does not do: words keep their neighbours, so clustering and classifiers still find the concept (Gonen &
    Goldberg 2019), and words that rightly carry the concept (mother, king) lose it too.

    Args:
        subspace: What to remove: a learned subspace, a recipe or the name of an estimator; None: as published.
        k: Number of directions; None: as the recipe says.
        centre: Whether words are centred before principal components are computed; None: as the recipe says.
        normalise: Whether words are scaled to unit length before the directions are learned; None: as the recipe says.
        words: Which words stay unchanged; None: every word is projected.
    """

    id: ClassVar[str] = "linear"
    title: ClassVar[str] = "Linear projection"
    formula: ClassVar[str] = "x - sum_i <x, b_i> b_i, b_i the orthonormal directions of the concept"
    cites: ClassVar[tuple[str, ...]] = ("dev2019attenuating", "dev2019")
    limits: ClassVar[str] = (
        "Removes one direction or a few; bias in other directions stays and can be recovered by clustering or a "
        "classifier. Words that rightly carry the concept lose it too."
    )

    subspace: Subspace | Recipe | str | None = None
    k: int | None = None
    centre: bool | None = None
    normalise: bool | None = None
    words: Selector | None = None

    @overload
    def fit(self, subject: Vectors, concept: Concept | str | None = None, *, seed: int | None = None) -> VectorMap: ...
    @overload
    def fit(
        self, subject: Subject, concept: Concept | str | None = None, *, seed: int | None = None
    ) -> VectorMap | SiteChange: ...
    def fit(
        self, subject: Vectors | Subject, concept: Concept | str | None = None, *, seed: int | None = None
    ) -> VectorMap | SiteChange:
        """Learn the subspace, unless one was given, and return the projection that removes it."""
        if concept is not None:
            return super().fit(subject, concept, seed=seed)
        if not isinstance(self.subspace, Subspace):
            raise UsageError(
                "linear projection needs a concept or a subspace",
                hint="fit(vectors, concept), or LinearProjection(subspace).fit(vectors)",
            )
        self.check_subject(subject)
        if isinstance(subject, Vectors):
            return self._fit(subject, None)
        if subject.network is None:
            return self._fit(subject.view("vectors"), None)
        return self._fit_words(subject.network, (), lambda v: self._fit(v, None))

    def _check(self, concept: Concept) -> None:
        if not isinstance(self.subspace, Subspace):
            require_direction(concept, "linear projection", self.subspace)

    def _fit(self, v: Vectors, concept: Concept | None) -> VectorMap:
        learned = self._learn(v, concept)
        vm = sparing(SoftProjection(learned.basis), self.words, v, concept)
        details = {"concept": learned.params.get("concept", ""), "subspace": learned.to_dict(basis=False)}
        return self._reported(vm, v, learned.coverage, details)

    def _learn(self, v: Vectors, concept: Concept | None) -> Subspace:
        if isinstance(self.subspace, Subspace):
            if self.centre is not None or self.normalise is not None:
                raise UsageError(
                    "centre and normalise apply to learning a subspace, but a learned one was given",
                    hint="leave them out",
                )
            return self.subspace if self.k is None else self.subspace.first(self.k)
        if concept is None:
            raise UsageError("linear projection needs a concept or a subspace")
        if self.subspace is None and concept.direction is None and len(concept.groups) > 2:
            return self._learn_groups(v, concept)
        return learn(v, concept, self.subspace, k=self.k, centre=self.centre, normalise=self.normalise)

    def _learn_groups(self, v: Vectors, concept: Concept) -> Subspace:
        """Learn the principal components of the differences between more than two groups."""
        if self.centre is False:
            raise UsageError("the differences of more than two groups are always centred", hint="leave centre out")
        learned = set_subspace(v, concept, k=self.k, normalise=bool(self.normalise))
        warnings.warn(
            f"linear: concept {concept.name!r} has {len(concept.groups)} groups and no published direction; removing "
            f"the {learned.k} principal components of the differences between its groups",
            EvenhandWarning,
            stacklevel=5,
        )
        return learned


@MITIGATIONS.register("span")
@dataclass(frozen=True)
class Span(VectorMethod):
    """Remove the span of the differences of the concept's pairs, on vectors that are not normalised.

    The Debiasing Theorem (Ethayarajh, Duvenaud & Hirst 2019, section 3): if the model factorises its word-context
    matrix exactly, then after this projection every word outside the pairs has the same entry for both words of each
    pair, as if trained on a corpus that is unbiased with respect to them. The theorem needs the whole span, not only
    the first principal component, and vectors that were not normalised.

    The theorem is about words outside the pairs and leaves the pairs' own words unchanged. By default these are
    projected too: the statement about all other words still holds, and the map is linear, so it also applies to bare
    arrays and to the layers of a model. The two words of each pair (he and she too) then become nearly equal, and
    measures along their difference are undefined. `keep_pairs=True` follows the paper to the letter.

    What it does not do: make any statement about pairs outside the list or about a model with reconstruction error.
    Words that rightly carry the concept lose it too; `words` exempts them.

    Args:
        keep_pairs: Whether the words of the pairs stay unchanged.
        rtol: Directions weaker than this share of the strongest are treated as rounding errors and stay.
        words: Which words stay unchanged; None: none, except the pairs with `keep_pairs`.
    """

    id: ClassVar[str] = "span"
    title: ClassVar[str] = "Span projection"
    formula: ClassVar[str] = "x - proj_B x, B = span{a - b : (a, b) in the concept's pairs}"
    cites: ClassVar[tuple[str, ...]] = ("ethayarajh2019",)
    limits: ClassVar[str] = (
        "Guaranteed only for the pairs given, for words outside them and for an exact factorisation. Without "
        "keep_pairs the two words of each pair become nearly equal."
    )

    keep_pairs: bool = False
    rtol: float = RANK_RTOL
    words: Selector | None = None

    def _check(self, concept: Concept) -> None:
        require_pairs(concept, "span projection")

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        learned = span(v, concept.pairs, rtol=self.rtol)
        vm: VectorMap = SoftProjection(learned.basis)
        if self.keep_pairs:
            spellings = (v.find(word) for pair in concept.pairs for word in pair)
            vm = ExceptWords(vm, [word for word in spellings if word is not None])
        vm = sparing(vm, self.words, v, concept)
        details = {"concept": concept.name, "subspace": learned.to_dict(basis=False)}
        return self._reported(vm, v, learned.coverage, details)


@MITIGATIONS.register("random")
@dataclass(frozen=True)
class RandomProjection(VectorMethod):
    """Remove random directions, which have nothing to do with the concept: a control, not a remedy.

    A method that removes k directions changes a model whatever they mean. What remains of its effect beside this
    control with the same k is due to the concept. Dev et al. (2020) average over eight random directions: repeat it
    with several seeds.

    What it does not do: remove the concept.

    Args:
        k: Number of directions; set it to the rank that the method under test removes.
        kind: `words`: principal components of random words, which follow the distribution of the vectors; `gaussian`:
            uniform on the sphere, which in a space with a few strong directions removes almost nothing.
        sample: Random words for `words`; at least 20, and more for larger k.
        seed: Seed of the directions.
    """

    id: ClassVar[str] = "random"
    title: ClassVar[str] = "Random projection (control)"
    formula: ClassVar[str] = "x - sum_i <x, r_i> r_i, r_i orthonormal random directions"
    cites: ClassVar[tuple[str, ...]] = ("dev2019",)
    limits: ClassVar[str] = "Removes nothing of the concept on purpose: it shows what removing any k directions does."

    k: int = 1
    kind: Literal["words", "gaussian"] = "words"
    sample: int | None = None
    seed: int = 0

    def _check(self, concept: Concept) -> None:
        if self.k < 1:
            raise UsageError(f"k must be at least 1, got {self.k}")

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        if self.kind == "gaussian":
            subspace = gaussian(v.dim, self.seed, k=self.k)
        else:
            subspace = random_words(v, self.seed, n=min(len(v), self.sample or max(20, 2 * self.k)), k=self.k)
        details = {"concept": concept.name, "subspace": subspace.to_dict(basis=False)}
        return self._reported(SoftProjection(subspace.basis), v, subspace.coverage, details)
