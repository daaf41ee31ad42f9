"""Bootstrap over the words of pairs while the answers stream by: no table of all pairs is ever held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import reduce

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows
from evenhand.stats import cluster_weights
from evenhand.words.probes import Points, Probe

CELLS_AT_ONCE = 4 << 20


class Resampled:
    """Means of every column in each group, for each of `draws` resamples of the words of pairs.

    The pigeonhole bootstrap (Owen 2007): the weight of a pair is the product of how often its two fillers and the
    words of its phrase were drawn. Fillers that belong to groups are drawn inside their group, so that groups keep
    their size. An axis, or a group, of fewer than 8 members is not drawn; `over` says what was. The sum over a block of
    pairs is a product of matrices, so that the cost is that of a few thousand multiplications for each pair.

    What it does not tell you: where words matter little beside the pair itself, products of weights make the interval
    wider than it need be, never narrower.
    """

    def __init__(self, probe: Probe, columns: int, draws: int, *, seed: int = 0) -> None:
        self.turned = probe.grouped == "premise"  # then the grouped axis comes first and is swapped to the end
        _, premises, hypotheses = probe.shape
        others, members = (hypotheses, premises) if self.turned else (premises, hypotheses)
        self.names = tuple(probe.groups)
        self.member = np.full(members, len(self.names))
        for number, places in enumerate(probe.groups.values()):
            self.member[list(places)] = number
        seeds = np.random.SeedSequence(seed).spawn(2 + len(self.names))
        self.phrase = PhraseWeights(probe, draws, seeds[0])
        self.other = _weights(others, draws, seeds[1])
        self.word = self._word_weights(members, draws, seeds[2:])
        self.sums = np.zeros((draws, len(self.names) + 1, columns + 1))
        sides = ("hypothesis fillers", "premise fillers")
        drawn = ((sides[0 if self.turned else 1], self.other), (sides[1 if self.turned else 0], self.word))
        self.over = (*self.phrase.over, *(label for label, weights in drawn if weights is not None))

    def _word_weights(self, members: int, draws: int, seeds: Sequence[np.random.SeedSequence]) -> Matrix | None:
        sizes = np.bincount(self.member, minlength=len(self.names) + 1)[:-1]
        if sizes.min() < ENOUGH:
            return None
        weights = np.ones((draws, members), np.float32)
        for number, seed in enumerate(seeds):
            drawn = _weights(int(sizes[number]), draws, seed)
            weights[:, self.member == number] = 1 if drawn is None else drawn
        return weights

    def blank(self) -> Resampled:
        """The same draws, nothing added up yet."""
        made = copy(self)
        made.sums = np.zeros_like(self.sums)
        return made

    @property
    def membership(self) -> Matrix:
        """(groups and the rest, members) of ones and zeros."""
        return np.asarray(np.arange(len(self.names) + 1)[:, None] == self.member, dtype=np.float32)

    def add_grid(self, phrases: Rows, values: Matrix) -> None:
        """Whole phrases: (phrases, premises, hypotheses, columns)."""
        counted = _with_ones(values.swapaxes(1, 2) if self.turned else values)
        if self.word is None:
            counted, members = self.membership @ counted, None
        else:
            members = self.word
        step = max(1, CELLS_AT_ONCE // int(np.prod(counted.shape[:1] + counted.shape[2:])))
        flat = counted.swapaxes(0, 1).reshape(counted.shape[1], -1)  # other fillers first
        for start in range(0, len(self.sums), step):
            some = slice(start, start + step)
            part = flat.sum(axis=0)[None] if self.other is None else self.other[some] @ flat
            part = part.reshape(len(part), len(phrases), *counted.shape[2:])
            if members is not None:
                part = self.membership @ (part * members[some, None, :, None])
            self._add_phrases(some, phrases, part)

    def _add_phrases(self, some: slice, phrases: Rows, part: Matrix) -> None:
        """part: (draws or 1, phrases, groups, columns)."""
        if not self.phrase:
            self.sums[some] += part.sum(axis=1)
            return
        weights = self.phrase.of(some, phrases)
        flat = part.reshape(len(part), len(phrases), -1)
        summed = weights @ flat[0] if len(flat) == 1 else np.matmul(weights[:, None], flat)[:, 0]
        self.sums[some] += summed.reshape(len(summed), *part.shape[2:])

    def add_points(self, points: Points, values: Matrix) -> None:
        """Single pairs: (pairs, columns)."""
        other, member = (points.hypothesis, points.premise) if self.turned else (points.premise, points.hypothesis)
        counted = _with_ones(values).astype(np.float32)
        group = self.member[member]
        step = max(1, CELLS_AT_ONCE // max(1, len(group)))
        for start in range(0, len(self.sums), step):
            some = slice(start, start + step)
            weights = np.ones((len(self.sums[some]), len(group)), np.float32)
            if self.phrase:
                weights *= self.phrase.of(some, points.phrase)
            for table, places in ((self.other, other), (self.word, member)):
                if table is not None:
                    weights *= table[some][:, places]
            for number in range(len(self.names) + 1):
                self.sums[some, number] += weights[:, group == number] @ counted[group == number]

    def group_means(self) -> Matrix64:
        """(draws, groups, columns); NaN where a draw leaves a group empty."""
        return _means(self.sums[:, :-1])

    def means(self) -> Matrix64:
        """(draws, columns) over all pairs, those outside every group included."""
        return _means(self.sums.sum(axis=1))


def resampled(probe: Probe, columns: int, draws: int, *, seed: int) -> Resampled | None:
    """Empty resamples; None where nothing is to be drawn, since draws that are all alike would look like certainty."""
    made = Resampled(probe, columns, draws, seed=seed) if draws else None
    return made if made and made.over else None


def _weights(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix | None:
    return drawn_weights(size, draws, seed) if size >= ENOUGH else None


def _with_ones(values: Matrix) -> Matrix:
    return np.concatenate([values, np.ones((*values.shape[:-1], 1), values.dtype)], axis=-1)


def _means(sums: Matrix64) -> Matrix64:
    count = sums[..., -1:]
    return np.divide(sums[..., :-1], count, out=np.full_like(sums[..., :-1], np.nan), where=count > 0)


ENOUGH = 8  # fewer members than this are taken as they are: drawing from three words tells little about other words
MOST_CLUSTERS = 4_096


class PhraseWeights:
    """The product of how often the fillers of each slot, and the template, were drawn.

    Phrases that share a verb share its effect, so that two thousand phrases of 27 verbs are no two thousand
    observations: drawn one by one they gave intervals an eighth as wide. Slots, and templates, with fewer than 8
    members are not drawn; `over` says what was. A slot with thousands of fillers is drawn by clusters of them.
    """

    def __init__(self, probe: Probe, draws: int, seed: np.random.SeedSequence) -> None:
        units = [(name, codes, count) for name, codes, count in _units(probe) if count >= ENOUGH]
        self.over = tuple(name for name, _, _ in units)
        self.codes = tuple(np.where(codes < 0, -1, codes % MOST_CLUSTERS) for _, codes, _ in units)
        sizes = [min(count, MOST_CLUSTERS) for _, _, count in units]
        self.tables = tuple(_table(size, draws, one) for size, one in zip(sizes, seed.spawn(len(units)), strict=True))

    def __bool__(self) -> bool:
        return bool(self.tables)

    def of(self, some: slice, phrases: Rows) -> Matrix:
        """(draws, phrases) for some of the draws."""
        weights = (table[some][:, codes[phrases]] for table, codes in zip(self.tables, self.codes, strict=True))
        return reduce(np.multiply, weights)


def drawn_weights(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix:
    """(draws, size): how often each of so many was drawn."""
    number = int(seed.generate_state(1)[0])
    return cluster_weights([range(size)], draws, seed=number)[0].astype(np.float32)


def _units(probe: Probe) -> Iterator[tuple[str, Rows, int]]:
    """What phrases are made of: a name, the number of every phrase's member, and how many members there are."""
    yield "templates", probe.phrases.template_of, len(probe.templates)
    for slot in probe.phrases.slots:
        codes, words = probe.phrases.fillers(slot)
        yield f"{slot} fillers", codes, len(words)


def _table(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix:
    """Weights with a column of ones behind them, for phrases without the slot (-1)."""
    return np.hstack([drawn_weights(size, draws, seed), np.ones((draws, 1), np.float32)])
