"""Hard debiasing: neutralise the words that should not carry a concept, equalise those that come in counterparts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from evenhand.arrays import Matrix64, row_norms, unit_rows
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.mitigations.maps import Chain, ExceptWords, RowNormalise, SoftProjection, VectorMap, WordTable
from evenhand.mitigations.method import Mitigation
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.requirements import require_direction, require_groups
from evenhand.mitigations.selection import Selector
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace, learn
from evenhand.subspaces.lookup import SAME_WORD, listed, word_rows
from evenhand.subspaces.principal import principal

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe


Variant = Literal["paper", "wefe"]


@MITIGATIONS.register("hard")
@dataclass(frozen=True)
class HardDebias(Mitigation):
    """Unit vectors; neutral words lose the subspace and are scaled back to length 1; counterparts become equidistant.

    Bolukbasi et al. 2016: the direction g is the first principal direction of the pairs (unit words); every word of
    the vocabulary but the concept's specific ones becomes (x - <x, g> g) at unit length; the two words of each
    equalising pair become y + z g and y - z g, y what they have in common outside g. A concept with more than two
    groups takes the multi-class form of Manzini et al. 2019 (several directions, sets instead of pairs).

    Where both words of a pair were neutralised, rounding decides in the released code which of them gets which side;
    here each keeps the side it had before. Sets are equalised in sorted order. A word that the fit did not see is
    treated as neutral. A concept without specific words spares the words of its groups and pairs, one without
    equalising pairs equalises its own pairs.

    `variant="wefe"`: equalises the concept's pairs, from their vectors before neutralising, as that library does.

    What it does not do: neighbourhoods stay, so that clusters and classifiers still find the concept (Gonen &
    Goldberg 2019: 92.5 % of the most biased words after it).
    """

    id: ClassVar[str] = "hard"
    title: ClassVar[str] = "Hard debiasing"
    citation: ClassVar[str] = "Bolukbasi et al. 2016, NeurIPS; Manzini et al. 2019, NAACL"
    limits: ClassVar[str] = (
        "Hides bias along one direction; neighbours, clusters and classifiers still find it. Depends on a list of "
        "words that rightly carry the concept. All vectors are scaled to length 1."
    )

    subspace: Subspace | Recipe | str | None = None
    """What to remove: a learned subspace, a recipe, or the name of an estimator; None: as in the papers."""
    k: int | None = None
    """Number of directions; None: 1, for a concept with more than two groups the number of groups less 1."""
    words: Selector | None = None
    """Which words stay as they are (see `selection`); None: the concept's specific ones."""
    equalise: bool = True
    variant: Variant = "paper"

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        """Learn the subspace, neutralise, and compute the equalised vectors."""
        learned = unit_subspace(v, concept, self.subspace, k=self.k)
        spared = spared_words(v, concept, self.words)
        neutralise = ExceptWords(SoftProjection(learned.basis), sorted(spared))
        table, account = self._equalised(v, concept, learned.basis, spared)
        steps = [RowNormalise(v.dim), neutralise, RowNormalise(v.dim), *([WordTable(table)] if table else [])]
        details = {
            "concept": concept.name,
            "subspace": learned.to_dict(basis=False),
            "words_neutralised": len(v) - len(spared),
            "words_spared": len(spared),
            **account,
        }
        return self._reported(Chain(steps), v, learned.coverage, details)

    def _check(self, concept: Concept) -> None:
        if self.variant not in get_args(Variant):
            raise UsageError(f"unknown variant {self.variant!r}", hint=f"use one of {', '.join(get_args(Variant))}")
        check_subspace(concept, "hard debiasing", self.subspace)

    def _equalised(
        self, v: Vectors, concept: Concept, basis: Matrix64, spared: frozenset[str]
    ) -> tuple[dict[str, Matrix64], dict[str, Any]]:
        """New vectors for the words of the equalising sets, one set after the other, and the account of it."""
        sets = spelt_sets(v, self._sets(concept)) if self.equalise else ()
        words = sorted({word for one in sets for word in one})
        before = unit_rows(v.matrix[[v.index[word] for word in words]]) if words else np.empty((0, v.dim))
        neutral = np.array([word not in spared and self.variant == "paper" for word in words])[:, None]
        now = unit_rows(np.where(neutral, before - (before @ basis.T) @ basis, before)) if words else before
        place = {word: row for row, word in enumerate(words)}
        skipped = []
        for one in sets:
            rows = [place[word] for word in one]
            made = equidistant(now[rows], before[rows], basis)
            if made is None:
                skipped.append(list(one))
            else:
                now[rows] = made
        done = {word: now[place[word]] for one in sets if list(one) not in skipped for word in one}
        twice = sorted({word for word in words if sum(word in one for one in sets) > 1})
        return done, {"sets_equalised": len(sets) - len(skipped), "sets_without_sides": skipped, "words_twice": twice}

    def _sets(self, concept: Concept) -> WordSets:
        pairs = concept.equalize if len(concept.equalize) and self.variant == "paper" else concept.pairs
        return counterparts(pairs) if len(concept.groups) > 2 else tuple(pairs)


def unit_subspace(
    v: Vectors, concept: Concept, given: Subspace | Recipe | str | None = None, *, k: int | None = None
) -> Subspace:
    """What hard and soft debiasing remove: the principal directions of the pairs or sets, words at unit length."""
    if isinstance(given, Subspace):
        return given if k is None else given.first(k)
    if given is not None:
        return learn(v, concept, given, k=k, normalise=True)
    if len(concept.groups) > 2:
        return set_subspace(v, concept, k=k)
    return learn(v, concept, "pairs" if len(concept.pairs) else "two-means", k=k, normalise=True)


def check_subspace(concept: Concept, method: str, subspace: Subspace | Recipe | str | None) -> None:
    """Raise `UsageError` if `unit_subspace` cannot learn a subspace of this concept."""
    if isinstance(subspace, Subspace):
        return
    if subspace is not None:
        require_direction(concept, method, subspace)
    elif not len(concept.pairs):
        require_groups(concept, method)


def spared_words(v: Vectors, concept: Concept, selector: Selector | None = None) -> frozenset[str]:
    """The words that rightly carry the concept: by a rule, or its specific ones, or where it has none its own."""
    if selector is not None:
        return selector(v, concept)
    own = [word for group in concept.groups.values() for word in group] + [
        word for two in concept.pairs for word in two
    ]
    spelt = (v.find(word) for word in (concept.specific if len(concept.specific) else own))
    return frozenset(word for word in spelt if word is not None)


WordSets = tuple[tuple[str, ...], ...]
UNDECIDED = 1e-6  # of a unit vector: an offset inside the subspace below this is rounding of float32


def counterparts(pairs: Iterable[tuple[str, str]]) -> WordSets:
    """Words joined by pairs, directly or through others: (jew, christian), (jew, muslim) are one set of three."""
    sets: list[list[str]] = []
    for two in pairs:
        touched = [one for one in sets if set(one) & set(two)]
        joined = list(dict.fromkeys([word for one in touched for word in one] + list(two)))
        place = sets.index(touched[0]) if touched else len(sets)
        sets = [one for one in sets if one not in touched]
        sets.insert(place, joined)
    return tuple(tuple(one) for one in sets)


def set_subspace(v: Vectors, concept: Concept, *, k: int | None = None, normalise: bool = True) -> Subspace:
    """Return the first k principal directions of the defining sets, each centred on its own mean.

    The sets are the concept's counterparts; where it has no pairs, one set of the means of its groups. k is by default
    the number of groups less one, which is what so many points differ in (the released code takes 1), or the rank
    where that is less.
    """
    rows, coverage = (_centred_sets if len(concept.pairs) else _centred_means)(v, concept, normalise)
    most = min(len(concept.groups) - 1, int(np.linalg.matrix_rank(rows, rtol=SAME_WORD))) if k is None else k
    if most == 0:
        raise DegenerateError(f"concept {concept.name!r}: the words of each set have the same vectors")
    params = {"concept": concept.name, "normalise": normalise, "sets": "pairs" if len(concept.pairs) else "group means"}
    return principal(rows, k=most, how="sets", params=params, coverage=coverage)


def _centred_sets(v: Vectors, concept: Concept, normalise: bool) -> tuple[Matrix64, Coverage]:
    sets = counterparts(concept.pairs)
    rows, coverage = word_rows(v, [word for one in sets for word in one], what=concept.name, normalise=normalise)
    place = {word: row for row, word in enumerate(coverage.found)}
    found = [rows[[place[word] for word in one if word in place]] for one in sets]
    complete = [one - one.mean(axis=0) for one in found if len(one) > 1]
    if not complete:
        raise VocabularyError(
            f"{v.name} has no two counterparts of {concept.name!r}", hint=f"missing: {listed(coverage.missing)}"
        )
    return np.vstack(complete), coverage


def _centred_means(v: Vectors, concept: Concept, normalise: bool) -> tuple[Matrix64, Coverage]:
    coverage, means = Coverage(()), []
    for name, group in concept.groups.items():
        rows, found = word_rows(v, group, what=f"group {name!r}", normalise=normalise)
        means.append(rows.mean(axis=0))
        coverage = coverage + found
    centred = np.array(means) - np.mean(means, axis=0)
    return centred, coverage


def spelt_sets(v: Vectors, sets: Iterable[Sequence[str]]) -> WordSets:
    """The sets as written, lower, title and upper case, as far as the vocabulary has all their words; sorted.

    Released hard debiasing keeps these in a set, so that their order, which matters when a word occurs twice, changes
    from run to run.
    """
    cases = (str, str.lower, str.title, str.upper)
    spelt = {tuple(case(word) for word in one) for one in sets for case in cases}
    return tuple(sorted(one for one in spelt if all(word in v.index for word in one)))


def equidistant(rows: Matrix64, before: Matrix64, basis: Matrix64) -> Matrix64 | None:
    """The unit vectors of one set, equal outside the subspace and equally far from its middle inside.

    nu + sqrt(1 - |nu|^2) (w_B - mu_B) / |w_B - mu_B|, with mu the mean and nu = mu - mu_B. A member on mu_B has no
    side (released code: rounding decides); then all take the sides they had in `before`, and with none there
    either the answer is None.
    """
    for sides in (rows, before):
        inside = sides @ basis.T
        offsets = inside - inside.mean(axis=0)
        lengths = row_norms(offsets)[:, None]
        if lengths.min() > UNDECIDED:
            break
    else:
        return None
    mean = rows.mean(axis=0)
    common = mean - (mean @ basis.T) @ basis
    height = np.sqrt(max(0.0, 1.0 - float(common @ common)))
    return np.asarray(common + height * (offsets / lengths) @ basis, dtype=np.float64)
