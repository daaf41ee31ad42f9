"""A query with the vectors of its words, set by set: which words are missing, repeated or shared between sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64, row_norms, unit_rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.measures.call import ListCoverage
from evenhand.measures.measurement import MeasuredItem
from evenhand.models.vectors import Coverage, Vectors
from evenhand.subspaces.differences import SAME_WORD
from evenhand.words import Query, WordSet
from evenhand.words import query as find_query

# Vectors are stored in single precision: cosines that differ by less than this differ by rounding alone.
ROUNDING = 1e-7


@dataclass(frozen=True, eq=False)
class LocatedSet:
    """One set of words: those in the vocabulary, each row once, in the order of the list.

    Two spellings of a list may be one word of the vocabulary (Bill and bill in GloVe): the first is used and the others
    are `repeated`, because a word that counts twice is not a second observation.
    """

    name: str
    words: tuple[str, ...]
    ids: Rows
    rows: Matrix64
    coverage: Coverage
    repeated: tuple[str, ...]

    @property
    def zero_vectors(self) -> tuple[str, ...]:
        """Words whose vector has length 0, so that their cosine with anything counts as 0."""
        return tuple(self.words[row] for row in np.flatnonzero(row_norms(self.rows) == 0))

    def as_list(self) -> ListCoverage:
        """Return the set as a list under the coverage rule."""
        return ListCoverage.of_words(self.name, self.coverage)


@dataclass(frozen=True, eq=False)
class LocatedQuery:
    """A query with its vectors."""

    query: Query
    targets: tuple[LocatedSet, ...]
    attributes: tuple[LocatedSet, ...]
    coverage: Coverage

    @property
    def sets(self) -> tuple[LocatedSet, ...]:
        """All sets, targets first."""
        return self.targets + self.attributes

    def lists(self) -> tuple[ListCoverage, ...]:
        """Return the sets as lists under the coverage rule."""
        return tuple(group.as_list() for group in self.sets)

    def require_distinct_means(self) -> None:
        """Raise `DegenerateError` if all target sets, or all attribute sets, have the same mean vector."""
        for sets in (self.targets, self.attributes):
            if len(sets) > 1:
                names, rows = [group.name for group in sets], [unit_rows(group.rows) for group in sets]
                require_distinct_means(names, rows)

    def details(self) -> dict[str, object]:
        """Return the sizes without missing words, and repeated, shared and zero words where there are any."""
        counts = Counter(int(row) for group in self.sets for row in group.ids)
        spelling = {int(row): word for group in self.sets for row, word in zip(group.ids, group.words, strict=True)}
        notable = {
            "repeated": [word for group in self.sets for word in group.repeated],
            "in_several_sets": [spelling[row] for row, count in counts.items() if count > 1],
            "zero_vectors": sorted({word for group in self.sets for word in group.zero_vectors}),
        }
        sizes = [len(group.words) for group in self.sets]
        return {"sizes": sizes, **{key: words for key, words in notable.items() if words}}

    def target_items(self, values: Vector64) -> tuple[MeasuredItem, ...]:
        """Return one item for each target word, given the values of all target words in order."""
        words = [(group.name, word) for group in self.targets for word in group.words]
        return tuple(
            {"word": word, "set": name, "value": float(value)}
            for (name, word), value in zip(words, values, strict=True)
        )

    def target_names(self) -> list[str]:
        """Return a name for each target word; a word of two sets has two."""
        return [f"{number}:{word}" for number, group in enumerate(self.targets) for word in group.words]

    def target_spans(self) -> Iterator[tuple[LocatedSet, slice]]:
        """Yield each target set with the slice of its words among all target words."""
        start = 0
        for group in self.targets:
            yield group, slice(start, start + len(group.words))
            start += len(group.words)


def locate_set(vectors: Vectors, words: WordSet, language: str = "") -> LocatedSet:
    """Return the vectors of one set; `language` is that of the words, by default that of the vectors."""
    ids, coverage = vectors.locate(words, language=language)
    first_of_row = np.sort(np.unique(ids, return_index=True)[1])
    spellings = coverage.found
    repeated = np.setdiff1d(np.arange(len(spellings)), first_of_row)
    return LocatedSet(
        words.name,
        tuple(spellings[index] for index in first_of_row),
        ids[first_of_row],
        vectors.matrix[ids[first_of_row]].astype(np.float64),
        coverage,
        tuple(spellings[index] for index in repeated),
    )


def locate_query(vectors: Vectors, query: Query | str, *, targets: int | None, attributes: int | None) -> LocatedQuery:
    """Return the vectors of all sets.

    Args:
        vectors: the vectors to search.
        query: a query, its id or its file.
        targets: number of target sets that the measure needs; None for any number.
        attributes: number of attribute sets that the measure needs; None for any number.
    """
    resolved = find_query(query)
    for needed, sets, role in ((targets, resolved.targets, "target"), (attributes, resolved.attributes, "attribute")):
        if needed is not None and len(sets) != needed:
            several = role == "target" and needed == 2 and len(sets) > 2
            given = f"give a query with {role}s={'(words, other_words)' if needed == 2 else '(words,)'}"
            raise UsageError(
                f"this measure needs {needed} {role} set{'s' * (needed > 1)}, {resolved.name!r} has {len(sets)}",
                hint="compare every two of them: measures.pairwise(vectors, measure, query)" if several else given,
            )
    language = resolved.language if resolved.language != "en" else ""  # "en" is what a query without a language has
    first, second = (
        tuple(locate_set(vectors, words, language) for words in sets)
        for sets in (resolved.targets, resolved.attributes)
    )
    coverage = sum((group.coverage for group in first + second), Coverage(()))
    return LocatedQuery(resolved, first, second, coverage)


def require_distinct_means(names: Sequence[str], rows: Sequence[Matrix64]) -> None:
    """Raise `DegenerateError` if all of these sets have the same mean vector, so nothing tells them apart.

    A comparison of such sets is 0, or 1, by construction: it says that they collapsed, not that bias is gone.
    """
    first, *others = (matrix.mean(axis=0) for matrix in rows)
    if all(same_direction(first, other) for other in others):
        raise DegenerateError(
            f"{', '.join(names[:-1])} and {names[-1]} have the same mean vector, so that nothing tells them apart"
        )


def same_direction(first: Vector64, second: Vector64) -> bool:
    """Return True when two means are nearer to each other than noise, as he and she are after some mitigations."""
    longer = max(float(np.linalg.norm(first)), float(np.linalg.norm(second)))
    return float(np.linalg.norm(first - second)) <= SAME_WORD * longer
