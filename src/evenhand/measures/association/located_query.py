"""The vectors behind a query, set by set, with the account of what a set lost and of words that count twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, row_norms
from evenhand.errors import UsageError
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.lookup import SAME_WORD
from evenhand.words import Query, WordSet
from evenhand.words import query as find_query

# A set that lost most of its words no longer asks what its author asked: the GoogleNews cut of 26,423 words has one of
# the eight female names of WEAT 6. Half is our choice; WEFE wants 0.8, other codes use whatever is there.
MIN_SHARE = 0.5
# Vectors are stored in single precision: cosines that differ by less than this differ by rounding alone.
ROUNDING = 1e-7


@dataclass(frozen=True, eq=False)
class Group:
    """One set of words: those found, each row once, in the order asked.

    Two spellings of a list may be one word of the vocabulary (Bill and bill in GloVe): the first is kept and the others
    are `repeated`, because a word that counts twice is no second observation.
    """

    name: str
    words: tuple[str, ...]
    ids: Rows
    rows: Matrix64
    coverage: Coverage
    repeated: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Gathered:
    """A query with its vectors."""

    query: Query
    targets: tuple[Group, ...]
    attributes: tuple[Group, ...]
    coverage: Coverage
    problem: str
    """Why nothing can be measured; empty when all is well."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """All sets, targets first."""
        return self.targets + self.attributes

    def details(self) -> dict[str, Any]:
        """Sizes after losses, and what a reader would not expect of the sets, where there is any."""
        counts = Counter(int(row) for group in self.groups for row in group.ids)
        spelt = {int(row): word for group in self.groups for row, word in zip(group.ids, group.words, strict=True)}
        odd = {
            "repeated": [word for group in self.groups for word in group.repeated],
            "in_several_sets": [spelt[row] for row, count in counts.items() if count > 1],
            "zero_vectors": sorted({word for group in self.groups for word in zero_vectors(group)}),
        }
        return {"sizes": [len(group.words) for group in self.groups]} | {key: here for key, here in odd.items() if here}

    def common(self, vectors: Vectors, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """The fields that every measurement of this query has."""
        return {
            "query": self.query.name,
            "model": vectors.name,
            "params": {**params, "case": vectors.case},
            "seed": seed,
        }


def gather(vectors: Vectors, words: WordSet) -> Group:
    """The vectors of one set."""
    ids, coverage = vectors.locate(words)
    kept = np.sort(np.unique(ids, return_index=True)[1])
    found = coverage.found
    repeated = tuple(found[place] for place in range(len(found)) if place not in set(kept.tolist()))
    rows = vectors.matrix[ids[kept]].astype(np.float64)
    return Group(words.name, tuple(found[place] for place in kept), ids[kept], rows, coverage, repeated)


def gather_query(
    vectors: Vectors, query: Query | str, *, targets: int | None, attributes: int | None, min_share: float = MIN_SHARE
) -> Gathered:
    """The vectors of all sets; `targets` and `attributes` say how many sets the measure needs, None for any number."""
    if not 0 <= min_share <= 1:
        raise UsageError(f"min_share lies between 0 and 1, got {min_share}", hint="use 0.5 to want half of each set")
    asked = find_query(query)
    for needed, given, role in ((targets, asked.targets, "target"), (attributes, asked.attributes, "attribute")):
        if needed is not None and len(given) != needed:
            raise UsageError(
                f"this measure needs {needed} {role} set{'s' * (needed > 1)}, {asked.name!r} has {len(given)}",
                hint=f"give a query with {role}s={'(words, other_words)' if needed == 2 else '(words,)'}",
            )
    first, second = (tuple(gather(vectors, group) for group in sets) for sets in (asked.targets, asked.attributes))
    coverage = sum((group.coverage for group in first + second), Coverage(()))
    return Gathered(asked, first, second, coverage, problem(first + second, min_share))


def problem(groups: Iterable[Group], min_share: float = 0.0) -> str:
    """Why these sets cannot be measured: one of them has no word left, or too few of those asked."""
    sets = tuple(groups)
    if empty := [group.name for group in sets if not len(group.rows)]:
        return f"no word of {', '.join(empty)} is in the vocabulary"
    few = [group for group in sets if group.coverage.share < min_share]
    kept = ", ".join(f"{group.name} {len(group.coverage.found)} of {group.coverage.asked}" for group in few)
    return f"too few words are in the vocabulary: {kept} (min_share={min_share:g})" if few else ""


def same_direction(first: Vector64, second: Vector64) -> bool:
    """Whether two means are nearer to each other than noise, as he and she are after some mitigations."""
    longer = max(float(np.linalg.norm(first)), float(np.linalg.norm(second)))
    return float(np.linalg.norm(first - second)) <= SAME_WORD * longer


def zero_vectors(group: Group) -> tuple[str, ...]:
    """Words whose vector has no length, so that their cosine with anything counts as 0."""
    return tuple(group.words[place] for place in np.flatnonzero(row_norms(group.rows) == 0))
