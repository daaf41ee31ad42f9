"""Span projection: remove everything that a list of pairs differs in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from evenhand.mitigations.maps import ExceptWords, SoftProjection, VectorMap
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.requirements import require_pairs
from evenhand.mitigations.selection import Selector, sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces import span
from evenhand.subspaces.principal import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept


@MITIGATIONS.register("span")
@dataclass(frozen=True)
class Span(Mitigation):
    """x - proj_B x with B = span{a - b : (a, b) in the concept's pairs}, on vectors that are not normalised.

    The Debiasing Theorem (Ethayarajh, Duvenaud & Hirst 2019, section 3): if the model factorises its word-context
    matrix exactly, then after this every word outside the pairs has the same entry for both words of each pair, as if
    trained on a corpus unbiased with respect to them. It takes the whole span (the first principal component is not
    enough), and fails for vectors normalised first.

    The theorem speaks of words outside the pairs, and leaves the pairs' own words as they are. By default they are
    projected too: its statement about all other words stays true, and the map stays linear, so that it also applies
    to bare arrays and to the layers of a model. But then the two words of each pair become nearly equal (he and she
    too), and what is measured along their difference afterwards is undefined. `keep_pairs=True` is the paper's letter.

    What it does not do: say anything about pairs outside the list, or about a model with reconstruction error. Words
    that rightly carry the concept lose it too; `words=` (see `selection`) spares them.
    """

    id: ClassVar[str] = "span"
    title: ClassVar[str] = "Span projection"
    citation: ClassVar[str] = "Ethayarajh, Duvenaud & Hirst 2019, ACL"
    limits: ClassVar[str] = (
        "Guaranteed only for the pairs given, for words outside them and for an exact factorisation. Without "
        "keep_pairs the two words of each pair become nearly equal."
    )

    keep_pairs: bool = False
    """Whether the words of the pairs stay as they are."""
    rtol: float = RANK_RTOL
    """Directions weaker than this share of the strongest one are rounding, and stay."""
    words: Selector | None = None
    """Which words stay as they are (see `selection`); None: none but the pairs, where these are kept."""

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Find the span of the concept's pairs and return the projection that removes it."""
        learned = span(v, concept.pairs, rtol=self.rtol)
        vm: VectorMap = SoftProjection(learned.basis)
        if self.keep_pairs:
            spelt = (v.find(word) for two in concept.pairs for word in two)
            vm = ExceptWords(vm, [word for word in spelt if word is not None])
        vm = sparing(vm, self.words, v, concept)
        details = {"concept": concept.name, "subspace": learned.to_dict(basis=False)}
        return self._reported(vm, v, learned.coverage, details)

    def _check(self, concept: Concept) -> None:
        require_pairs(concept, "span projection")
