"""Span projection: remove the whole span of the differences of a list of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from evenhand.mitigations.maps import ExceptWords, SoftProjection, VectorMap
from evenhand.mitigations.method import Mitigation, require_pairs
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector, sparing
from evenhand.models.vectors import Vectors
from evenhand.subspaces import span
from evenhand.subspaces.subspace import RANK_RTOL

if TYPE_CHECKING:
    from evenhand.words import Concept


@MITIGATIONS.register("span")
@dataclass(frozen=True)
class Span(Mitigation):
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
