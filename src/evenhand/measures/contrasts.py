"""Contrasts between the groups of a concept: two groups make one, more groups one each against the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Matrix64, Rows
from evenhand.stats.permutation import relabelling_p
from evenhand.stats.units import mean_units, null_p

WORD = re.compile(r"\w+")
ARTICLES = frozenset({"a", "an"})  # they follow the word behind them


@dataclass(frozen=True)
class Contrast:
    """A group against others, by their numbers.

    Attributes:
        group: name of the group.
        score: suffix of the name of a score; empty for the only contrast of two groups.
        first: number of the group.
        others: numbers of the groups that it is compared with.
        against: the others in words.
    """

    group: str
    score: str
    first: int
    others: tuple[int, ...]
    against: str

    def name(self, score: str) -> str:
        """Return the name of a score of this contrast."""
        return ":".join(filter(None, (score, self.score)))


def contrasts(groups: Sequence[str]) -> tuple[Contrast, ...]:
    """Return the contrasts of groups.

    >>> [contrast.score for contrast in contrasts(["female", "male"])]
    ['']
    >>> [(contrast.score, contrast.others) for contrast in contrasts(["a", "b", "c"])]
    [('a', (1, 2)), ('b', (0, 2)), ('c', (0, 1))]
    """
    if len(groups) == 2:
        return (Contrast(groups[0], "", 0, (1,), groups[1]),)
    every = range(len(groups))
    return tuple(
        Contrast(name, name, number, tuple(other for other in every if other != number), "the other groups")
        for number, name in enumerate(groups)
    )


def against_others(values: Matrix64) -> Matrix64:
    """Return the value of each group minus the mean of the other groups, (cases, groups)."""
    others = (values.sum(axis=1, keepdims=True) - values) / (values.shape[1] - 1)
    return np.asarray(values - others)


def group_word_p(
    texts: Sequence[Sequence[str]],
    values: Matrix64,
    contrast: Contrast,
    clusters: Sequence[Sequence[str]] = (),
) -> float:
    """Return the two-sided p-value of the mean of a contrast over cases, each a text in a version for each group.

    Many cases share few group words. A model that knows nothing of groups may still prefer one word to another, and
    does so in all cases with these words, so that cases are not independent. Therefore group words are exchanged: all
    cases whose versions differ in the same words get another first group together. With few different words, no
    p-value is small.

    Args:
        texts: the version of each group, for each case.
        values: what a case adds if a group is taken as the first one, (cases, groups), such as `against_others`.
        contrast: which group is the first one.
        clusters: further labels of the cases, such as templates; the largest p-value counts.
    """
    codes = same_words(texts)
    sums = np.zeros((int(codes.max()) + 1, values.shape[1]))
    np.add.at(sums, codes, values)
    others = [null_p(mean_units("", labels, values[:, contrast.first])) for labels in clusters]
    return max([relabelling_p(sums, contrast.first), *(p for p in others if p is not None)])


def same_words(texts: Sequence[Sequence[str]]) -> Rows:
    """Number cases so that those whose versions differ in a common word have the same number.

    >>> same_words([["the old man", "the young man"], ["Agnes", "Kristy"], ["an old dog", "a young dog"]]).tolist()
    [0, 1, 0]
    """
    linked: dict[str, str] = {}

    def root(word: str) -> str:
        while linked.setdefault(word, word) != word:
            word = linked[word]
        return word

    firsts: list[str] = []
    for number, versions in enumerate(texts):
        words = [set(WORD.findall(text.lower())) - ARTICLES for text in versions]
        own = sorted(set.union(*words) - set.intersection(*words)) or [f"case {number}"]
        for word in own[1:]:
            linked[root(word)] = root(own[0])
        firsts.append(own[0])
    distinct: dict[str, int] = {}
    return np.array([distinct.setdefault(root(word), len(distinct)) for word in firsts], dtype=np.int64)
