"""Sets of counterparts: the subspace in which their members differ, and how they are made equidistant.

Manzini et al. 2019 for any number of groups; with sets of two it is Bolukbasi et al. 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Matrix64, row_norms
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces import Subspace
from evenhand.subspaces.lookup import SAME_WORD, listed, word_rows
from evenhand.subspaces.principal import principal

if TYPE_CHECKING:
    from evenhand.words import Concept

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


def set_subspace(v: Vectors, concept: Concept, *, k: int | None = None) -> Subspace:
    """The first k principal directions of the defining sets, each centred on its own mean, words at unit length.

    The sets are the concept's counterparts; where it has no pairs, one set of the means of its groups. k is by default
    the number of groups less one, which is what so many points differ in (the released code takes 1), or the rank
    where that is less.
    """
    rows, coverage = _centred_sets(v, concept) if len(concept.pairs) else _centred_means(v, concept)
    most = min(len(concept.groups) - 1, int(np.linalg.matrix_rank(rows, rtol=SAME_WORD))) if k is None else k
    if most == 0:
        raise DegenerateError(f"concept {concept.name!r}: the words of each set have the same vectors")
    params = {"concept": concept.name, "normalise": True, "sets": "pairs" if len(concept.pairs) else "group means"}
    return principal(rows, k=most, how="sets", params=params, coverage=coverage)


def _centred_sets(v: Vectors, concept: Concept) -> tuple[Matrix64, Coverage]:
    sets = counterparts(concept.pairs)
    rows, coverage = word_rows(v, [word for one in sets for word in one], what=concept.name, normalise=True)
    place = {word: row for row, word in enumerate(coverage.found)}
    found = [rows[[place[word] for word in one if word in place]] for one in sets]
    complete = [one - one.mean(axis=0) for one in found if len(one) > 1]
    if not complete:
        raise VocabularyError(
            f"{v.name} has no two counterparts of {concept.name!r}", hint=f"missing: {listed(coverage.missing)}"
        )
    return np.vstack(complete), coverage


def _centred_means(v: Vectors, concept: Concept) -> tuple[Matrix64, Coverage]:
    if len(concept.groups) < 2:
        raise UsageError(f"concept {concept.name!r} has one group only: nothing to tell it from", hint="give it two")
    coverage, means = Coverage(()), []
    for name, group in concept.groups.items():
        rows, found = word_rows(v, group, what=f"group {name!r}", normalise=True)
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
