"""Hard debiasing: neutralise words that should not carry a concept, equalise words that come as counterparts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from evenhand.arrays import Matrix64, row_norms, unit_rows
from evenhand.errors import DegenerateError, VocabularyError
from evenhand.mitigations.maps import Chain, ExceptWords, RowNormalise, SoftProjection, VectorMap, WordTable
from evenhand.mitigations.method import require_direction, require_groups
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.mitigations.selection import Selector
from evenhand.mitigations.vector_method import VectorMethod
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace, learn
from evenhand.subspaces.differences import SAME_WORD, listed, word_rows
from evenhand.subspaces.subspace import principal

if TYPE_CHECKING:
    from evenhand.words import Concept, Recipe

HardVariant = Literal["paper", "wefe"]
WordSets = tuple[tuple[str, ...], ...]
UNDECIDED = 1e-6  # of a unit vector: an offset inside the subspace below this is rounding of float32


@MITIGATIONS.register("hard")
@dataclass(frozen=True)
class HardDebias(VectorMethod):
    """Scale to unit length, remove the subspace from neutral words, make counterparts equidistant from all of them.

    Bolukbasi et al. (2016): the direction g is the first principal direction of the pairs (unit vectors). Every word
    except the concept's specific ones becomes x - <x, g> g at unit length. The two words of each equalising pair
    become y + z g and y - z g, where y is their mean outside g. A concept with more than two groups uses the
    multi-class form of Manzini et al. (2019), with several directions and sets instead of pairs.

    If both words of a pair were neutralised, rounding decides in the released code which word gets which side; here
    each keeps its original side. Sets are equalised in sorted order. A word unseen in fitting is treated as neutral.
    Without specific words the concept's groups and pairs are exempt; without equalising pairs its own pairs are
    equalised.

    `variant="wefe"` equalises the concept's pairs from their vectors before neutralising, as that library does.

    What it does not do: neighbourhoods stay, so clustering and classifiers still find the concept (Gonen & Goldberg
    2019: 92.5 % of the most biased words).

    Args:
        subspace: What to remove: a learned subspace, a recipe or the name of an estimator; None: as in the papers.
        k: Number of directions; None: 1, or one less than the number of groups where there are more than two.
        words: Which words are not neutralised; None: the concept's specific words.
        equalise: Whether counterparts are made equidistant from neutral words.
        variant: `paper`, or `wefe` for the behaviour of that library.
    """

    id: ClassVar[str] = "hard"
    title: ClassVar[str] = "Hard debiasing"
    formula: ClassVar[str] = "neutral words: (x - <x, g> g) / |x - <x, g> g|; counterparts: y + z g and y - z g"
    cites: ClassVar[tuple[str, ...]] = ("bolukbasi2016", "manzini2019")
    limits: ClassVar[str] = (
        "Hides bias along one direction; neighbours, clusters and classifiers still find it. Depends on a list of "
        "words that rightly carry the concept. All vectors are scaled to unit length."
    )

    subspace: Subspace | Recipe | str | None = None
    k: int | None = None
    words: Selector | None = None
    equalise: bool = True
    variant: HardVariant = "paper"

    def _check(self, concept: Concept) -> None:
        check_subspace(concept, "hard debiasing", self.subspace)

    def _fit(self, v: Vectors, concept: Concept) -> VectorMap:
        learned = unit_subspace(v, concept, self.subspace, k=self.k)
        exempt = exempt_words(v, concept, self.words)
        neutralise = ExceptWords(SoftProjection(learned.basis), sorted(exempt))
        table, summary = self._equalise(v, concept, learned.basis, exempt)
        steps = [RowNormalise(v.dim), neutralise, RowNormalise(v.dim), *([WordTable(table)] if table else [])]
        details = {
            "concept": concept.name,
            "subspace": learned.to_dict(basis=False),
            "words_neutralised": len(v) - len(exempt),
            "words_spared": len(exempt),
            **summary,
        }
        return self._reported(Chain(steps), v, learned.coverage, details)

    def _equalise(
        self, v: Vectors, concept: Concept, basis: Matrix64, exempt: frozenset[str]
    ) -> tuple[dict[str, Matrix64], dict[str, object]]:
        """Return new vectors for the words of the equalising sets, and a summary; sets are processed in order."""
        sets = spelt_sets(v, self._sets(concept)) if self.equalise else ()
        words = sorted({word for group in sets for word in group})
        original = unit_rows(v.matrix[[v.index[word] for word in words]]) if words else np.empty((0, v.dim))
        neutral = np.array([word not in exempt and self.variant == "paper" for word in words])[:, None]
        current = unit_rows(np.where(neutral, original - (original @ basis.T) @ basis, original)) if words else original
        row_of = {word: row for row, word in enumerate(words)}
        skipped = []
        for group in sets:
            rows = [row_of[word] for word in group]
            equalised = equidistant(current[rows], original[rows], basis)
            if equalised is None:
                skipped.append(list(group))
            else:
                current[rows] = equalised
        table = {word: current[row_of[word]] for group in sets if list(group) not in skipped for word in group}
        repeated = sorted({word for word in words if sum(word in group for group in sets) > 1})
        summary: dict[str, object] = {
            "sets_equalised": len(sets) - len(skipped),
            "sets_without_sides": skipped,
            "words_twice": repeated,
        }
        return table, summary

    def _sets(self, concept: Concept) -> WordSets:
        pairs = concept.equalize if len(concept.equalize) and self.variant == "paper" else concept.pairs
        return counterparts(pairs) if len(concept.groups) > 2 else tuple(pairs)


def check_subspace(concept: Concept, method: str, subspace: Subspace | Recipe | str | None) -> None:
    """Raise `UsageError` if `unit_subspace` cannot learn a subspace of this concept."""
    if isinstance(subspace, Subspace):
        return
    if subspace is not None:
        require_direction(concept, method, subspace)
    elif not len(concept.pairs):
        require_groups(concept, method)


def unit_subspace(
    v: Vectors, concept: Concept, subspace: Subspace | Recipe | str | None = None, *, k: int | None = None
) -> Subspace:
    """Return what hard and soft debiasing remove: the principal directions of pairs or sets of unit vectors."""
    if isinstance(subspace, Subspace):
        return subspace if k is None else subspace.first(k)
    if subspace is not None:
        return learn(v, concept, subspace, k=k, normalise=True)
    if len(concept.groups) > 2:
        return set_subspace(v, concept, k=k)
    return learn(v, concept, "pairs" if len(concept.pairs) else "two-means", k=k, normalise=True)


def exempt_words(v: Vectors, concept: Concept, selector: Selector | None = None) -> frozenset[str]:
    """Return the words that rightly carry the concept: by a rule, its specific words, or its groups and pairs."""
    if selector is not None:
        return selector(v, concept)
    if len(concept.specific):
        return v.matching(concept.specific)
    groups = [word for group in concept.groups.values() for word in group]
    rows, _ = v.locate([*groups, *(word for pair in concept.pairs for word in pair)])
    return frozenset(v.words[row] for row in rows.tolist())


def counterparts(pairs: Iterable[tuple[str, str]]) -> WordSets:
    """Join pairs that share words into sets: (jew, christian) and (jew, muslim) make one set of three."""
    sets: list[list[str]] = []
    for pair in pairs:
        touched = [group for group in sets if set(group) & set(pair)]
        joined = list(dict.fromkeys([word for group in touched for word in group] + list(pair)))
        index = sets.index(touched[0]) if touched else len(sets)
        sets = [group for group in sets if group not in touched]
        sets.insert(index, joined)
    return tuple(tuple(group) for group in sets)


def set_subspace(v: Vectors, concept: Concept, *, k: int | None = None, normalise: bool = True) -> Subspace:
    """Return the first k principal directions of the defining sets, each centred on its own mean.

    The sets are the concept's counterparts; without pairs, one set of the means of its groups. The default k is the
    number of groups less one, the dimension of the differences of that many points (the released code uses 1), or
    the rank where that is smaller.
    """
    rows, coverage = (_centred_sets if len(concept.pairs) else _centred_means)(v, concept, normalise)
    rank = min(len(concept.groups) - 1, int(np.linalg.matrix_rank(rows, rtol=SAME_WORD))) if k is None else k
    if rank == 0:
        raise DegenerateError(f"concept {concept.name!r}: the words of each set have the same vectors")
    source = "pairs" if len(concept.pairs) else "group means"
    params = {"concept": concept.name, "normalise": normalise, "sets": source}
    return principal(rows, k=rank, how="sets", params=params, coverage=coverage)


def _centred_sets(v: Vectors, concept: Concept, normalise: bool) -> tuple[Matrix64, Coverage]:
    sets = counterparts(concept.pairs)
    words = [word for group in sets for word in group]
    rows, coverage = word_rows(v, words, what=concept.name, normalise=normalise)
    row_of = {word: row for row, word in enumerate(coverage.found)}
    groups = [rows[[row_of[word] for word in group if word in row_of]] for group in sets]
    centred = [group - group.mean(axis=0) for group in groups if len(group) > 1]
    if not centred:
        raise VocabularyError(
            f"{v.name} has no two counterparts of {concept.name!r}", hint=f"missing: {listed(coverage.missing)}"
        )
    return np.vstack(centred), coverage


def _centred_means(v: Vectors, concept: Concept, normalise: bool) -> tuple[Matrix64, Coverage]:
    coverage, means = Coverage(()), []
    for name, words in concept.groups.items():
        rows, group_coverage = word_rows(v, words, what=f"group {name!r}", normalise=normalise)
        means.append(rows.mean(axis=0))
        coverage = coverage + group_coverage
    return np.array(means) - np.mean(means, axis=0), coverage


def spelt_sets(v: Vectors, sets: Iterable[Sequence[str]]) -> WordSets:
    """Return the sets in original, lower, title and upper case, where the vocabulary has all words; sorted.

    The released code keeps them in an unordered set, so its result changes between runs when a word occurs twice.
    """
    cases = (str, str.lower, str.title, str.upper)
    spellings = {tuple(case(word) for word in group) for group in sets for case in cases}
    return tuple(sorted(group for group in spellings if all(word in v.index for word in group)))


def equidistant(rows: Matrix64, original: Matrix64, basis: Matrix64) -> Matrix64 | None:
    """Return unit vectors of one set that are equal outside the subspace and equally far from its middle inside.

    nu + sqrt(1 - |nu|^2) (w_B - mu_B) / |w_B - mu_B|, with mu the mean and nu = mu - mu_B. A member at mu_B has no
    side (in the released code rounding decides); then all members take the sides they have in `original`. Returns
    None if they have no sides there either.
    """
    for candidates in (rows, original):
        inside = candidates @ basis.T
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
