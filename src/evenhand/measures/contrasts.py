"""Contrasts between the groups of a concept: two groups make one, more groups one each against the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
