"""The record of a corpus's bias: scores, and everything that moved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from evenhand.arrays import Matrix64, Vector64
from evenhand.corpus.scores.beta import ENOUGH, Beta, shared, too_few
from evenhand.errors import DegenerateError, UsageError, counted
from evenhand.words.wordset import FrozenMap


@dataclass(frozen=True)
class Baseline:
    """Mean |bias| with shuffled labels: what sampling noise alone would show."""

    mu: float
    interval: tuple[float, float]
    p_value: float
    permutations: int


@dataclass(frozen=True, eq=False)
class CorpusBias:
    """Which words of a text keep company with which group (Bordia & Bowman 2019).

    `values` are natural-log ratios for `words`: above 0 with the group `positive`, below 0 with the other group, or
    with all others together where there are more than two. `company` has, for each group, the (weighted) count beside
    each word. What it does not tell you: why. A score is company in this text, not a property of the word; it is noisy
    for rare words, and `mu` grows with that noise: look at `occurrences`, at intervals, and at the shuffled baseline.
    """

    words: tuple[str, ...]
    values: Vector64
    positive: str
    groups: Mapping[str, tuple[str, ...]]
    company: Matrix64
    occurrences: Vector64
    hits: Mapping[str, int]
    missing: Mapping[str, tuple[str, ...]]
    lost: Mapping[str, int]
    tokens: int
    documents: int
    empty_documents: int
    vocabulary: int
    params: Mapping[str, Any] = field(default_factory=dict)
    account: Mapping[str, Any] = field(default_factory=dict)
    intervals: Matrix64 | None = None
    baseline: Baseline | None = None
    against: Mapping[str, CorpusBias] = field(default_factory=dict, repr=False)
    seed: int = 0

    @cached_property
    def scores(self) -> Mapping[str, float]:
        """Word to score, in the order of first appearance."""
        return FrozenMap(dict(zip(self.words, self.values.tolist(), strict=True)))

    @property
    def mu(self) -> float:
        """Mean |bias| over the scored words."""
        return float(np.abs(self._some(1)).mean())

    @property
    def sigma(self) -> float:
        """Standard deviation (n - 1) of the scores."""
        return float(self._some(2).std(ddof=1))

    @property
    def n(self) -> int:
        """How many words are scored."""
        return len(self.words)

    def beta(self, other: CorpusBias, *, seed: int = 0) -> Beta:
        """Slope of this corpus's scores on those of `other` (the training text), over the words scored in both."""
        if set(self.groups) != set(other.groups) or self.positive != other.positive:
            raise UsageError(
                f"the corpora are scored for different groups: {self.positive} of {list(self.groups)} and "
                f"{other.positive} of {list(other.groups)}",
                hint="score both with the same groups",
            )
        words, y, x = shared(self.scores, other.scores)
        if len(words) < ENOUGH:
            raise too_few(len(words), max(int(text.params.get("min_count", 1)) for text in (self, other)))
        return Beta(x, y, seed=seed)

    def for_group(self, group: str) -> CorpusBias:
        """The scores of another group against the rest, from the same counts."""
        if group == self.positive:
            return self
        if group not in self.against:
            raise UsageError(f"no group {group!r}", hint=f"groups: {', '.join(self.groups)}")
        return self.against[group]

    def with_company(self, least: float) -> CorpusBias:
        """Only the words whose company with every group weighs at least this much; the rest counts as lost.

        With decay nearly every word has some company, so that mu and sigma hang on where one stops to believe in it.
        """
        kept = np.asarray((self.company >= least).all(axis=0))
        return replace(
            self,
            words=tuple(word for word, stays in zip(self.words, kept, strict=True) if stays),
            values=self.values[kept],
            company=self.company[:, kept],
            occurrences=self.occurrences[kept],
            intervals=None if self.intervals is None else self.intervals[:, kept],
            lost=FrozenMap({**self.lost, "little_company": int((~kept).sum())}),
            params=FrozenMap({**self.params, "least_company": least}),
            baseline=None,
            against=FrozenMap({name: other.with_company(least) for name, other in self.against.items()}),
        )

    def top(self, k: int = 10, *, least: int = 1) -> tuple[tuple[str, float], ...]:
        """The k words that lean most to the positive group (k < 0: away from it) of those that occur `least` times."""
        kept = np.flatnonzero(self.occurrences >= least)
        order = kept[np.argsort(-self.values[kept] if k >= 0 else self.values[kept], kind="stable")][: abs(k)]
        return tuple((self.words[i], float(self.values[i])) for i in order)

    def leaning(self, k: int = 10, *, least: int = 1) -> tuple[tuple[str, float], ...]:
        """As `top`, of the words that lean to that side at all: with few words `top` goes on to the other side."""
        return tuple((word, value) for word, value in self.top(k, least=least) if (value > 0) == (k > 0) and value)

    def interval(self, word: str) -> tuple[float, float] | None:
        """The 95 % interval of a word's score over documents, where there is one."""
        if self.intervals is None or word not in self.scores:
            return None
        low, high = self.intervals[:, self._place[word]]
        return (float(low), float(high)) if np.isfinite([low, high]).all() else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, in the order a person reads it."""
        return {
            "measure": "corpus-bias",
            "mu": self.mu if self.n else None,
            "sigma": self.sigma if self.n > 1 else None,
            "n": self.n,
            "positive": self.positive,
            "reading": f"above 0: with {self.positive}; below 0: with {_rest(self.groups, self.positive)}",
            "tokens": self.tokens,
            "documents": self.documents,
            "empty_documents": self.empty_documents,
            "vocabulary": self.vocabulary,
            "groups": {name: list(words) for name, words in self.groups.items()},
            "hits": dict(self.hits),
            "missing": {name: list(words) for name, words in self.missing.items()},
            "lost": dict(self.lost),
            "baseline": vars(self.baseline) if self.baseline else None,
            "params": dict(self.params),
            "seed": self.seed,
            **self.account,
            "items": [self._item(place) for place in range(self.n)],
        }

    def _item(self, place: int) -> dict[str, Any]:
        word = self.words[place]
        item = {"word": word, "bias": float(self.values[place]), "count": int(self.occurrences[place])}
        company = {name: float(self.company[row, place]) for row, name in enumerate(self.groups)}
        return {**item, "company": company} | ({"interval": self.interval(word)} if self.intervals is not None else {})

    def _some(self, least: int) -> Vector64:
        if self.n < least:
            raise DegenerateError(
                f"{counted(self.n, 'word')} {'is' if self.n == 1 else 'are'} scored, so that this is not defined",
                hint="use more text, a lower min_count or smoothing; `lost` says where words went",
            )
        return self.values

    @cached_property
    def _place(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}


def _rest(groups: Mapping[str, Any], positive: str) -> str:
    others = [name for name in groups if name != positive]
    return others[0] if len(others) == 1 else "the other groups"
