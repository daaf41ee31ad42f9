"""Sums over the pairs of a probe, by word and phrase, and the weights of resampled words and phrases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from evenhand.arrays import Matrix, Matrix64, Rows
from evenhand.errors import UsageError
from evenhand.models.nli import LABELS
from evenhand.stats import cluster_weights
from evenhand.stats.bootstrap import LEVEL
from evenhand.words.probes import Points, Probe

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2  # columns of Probabilities.matrix
SAYS = ("says_entailment", "says_neutral", "says_contradiction")
OFF = "off_neutral"


def threshold_name(tau: float) -> str:
    """Return the name of the score T:tau, such as `T:0.5`."""
    return f"T:{tau:g}"


@dataclass(frozen=True)
class PairColumns:
    """The statistics computed for each pair, one per column, in a fixed order."""

    thresholds: tuple[float, ...] = (0.5, 0.7)

    def __post_init__(self) -> None:
        for tau in self.thresholds:
            if not 0 <= tau < 1:
                raise UsageError(
                    f"a threshold must be at least 0 and below 1, got {tau}", hint="Dev et al. use 0.5 and 0.7"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return (*LABELS, *SAYS, OFF, *map(threshold_name, self.thresholds))

    def index(self, name: str) -> int:
        """Return the index of a column."""
        return self.names.index(name)

    def compute(self, probabilities: Matrix) -> Matrix:
        """Return the (..., columns) statistics of (..., 3) probabilities, in the same precision.

        A tie with neutral counts as neutral, a tie between the other two as entailment. T:tau is strict. `off_neutral`
        is the distance from (0, 1, 0), eq. 1 of Dawkins 2021.
        """
        e, n, c = (probabilities[..., label] for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))
        neutral = (n >= e) & (n >= c)
        entails = ~neutral & (e >= c)
        values = np.empty((*probabilities.shape[:-1], len(self.names)), dtype=probabilities.dtype)
        values[..., :3] = probabilities
        values[..., 3], values[..., 4], values[..., 5] = entails, neutral, ~neutral & ~entails
        values[..., 6] = np.sqrt(e * e + (1 - n) ** 2 + c * c)
        for column, tau in enumerate(self.thresholds, start=7):
            values[..., column] = n > tau
        return values


class Tables:
    """Running sums and counts of every column, by pair of fillers and by phrase."""

    def __init__(self, shape: tuple[int, int, int], columns: int) -> None:
        phrases, premises, hypotheses = shape
        self.words = np.zeros((premises, hypotheses, columns))
        self.word_counts = np.zeros((premises, hypotheses))
        self.phrases = np.zeros((phrases, columns))
        self.phrase_counts = np.zeros(phrases)

    def add_grid(self, phrases: Rows, values: Matrix) -> None:
        """Add whole phrases: (phrases, premises, hypotheses, columns)."""
        self.words += values.sum(axis=0, dtype=np.float64)
        self.word_counts += len(phrases)
        self.phrases[phrases] += values.sum(axis=(1, 2), dtype=np.float64)
        self.phrase_counts[phrases] += values.shape[1] * values.shape[2]

    def merge(self, other: Tables, first: int) -> None:
        """Add the sums of some phrases; `first` is the index of the first of them."""
        span = slice(first, first + len(other.phrases))
        self.words += other.words
        self.word_counts += other.word_counts
        self.phrases[span] += other.phrases
        self.phrase_counts[span] += other.phrase_counts

    def add_points(self, points: Points, values: Matrix) -> None:
        """Add single pairs: (pairs, columns)."""
        np.add.at(self.words, (points.premise, points.hypothesis), values)
        np.add.at(self.word_counts, (points.premise, points.hypothesis), 1)
        np.add.at(self.phrases, points.phrase, values)
        np.add.at(self.phrase_counts, points.phrase, 1)

    @property
    def count(self) -> int:
        """Number of pairs added."""
        return int(self.word_counts.sum())

    @property
    def means(self) -> Matrix64:
        """Mean of every column over all pairs."""
        return np.asarray(self.words.sum(axis=(0, 1)) / max(self.count, 1))

    def word_means(self) -> Matrix64:
        """Return the (premises, hypotheses, columns) means, NaN where a sample has no pair of the two."""
        return divided(self.words, self.word_counts)


def divided(sums: Matrix64, counts: Matrix64) -> Matrix64:
    """Return sums over counts, NaN where the count is zero."""
    wide = np.broadcast_to(counts[..., None], sums.shape)
    return np.divide(sums, wide, out=np.full_like(sums, np.nan), where=wide > 0)


CELLS_AT_ONCE = 4 << 20


class Resamples:
    """Column means of every group in each of `draws` bootstrap resamples of the words.

    The pigeonhole bootstrap (Owen 2007): the weight of a pair is the product of how often its two fillers and the
    words of its phrase were drawn. Fillers that belong to groups are drawn within their group, so that groups keep
    their size. An axis or group with fewer than 8 members is not resampled; `over` lists what was. The sum over a block
    of pairs is a matrix product, which costs a few thousand multiplications per pair.

    What it does not tell you: where words matter little beside the pair itself, products of weights tend to make the
    interval wider than necessary.
    """

    def __init__(self, probe: Probe, columns: int, draws: int, *, seed: int = 0) -> None:
        self.turned = probe.grouped == "premise"  # the grouped axis comes first and is swapped to the end
        _, premises, hypotheses = probe.shape
        others, members = (hypotheses, premises) if self.turned else (premises, hypotheses)
        self.names = tuple(probe.groups)
        self.member = np.full(members, len(self.names))
        for number, indices in enumerate(probe.groups.values()):
            self.member[list(indices)] = number
        seeds = np.random.SeedSequence(seed).spawn(2 + len(self.names))
        self.phrase = PhraseWeights(probe, draws, seeds[0])
        self.other = _weights(others, draws, seeds[1])
        self.word = self._word_weights(members, draws, seeds[2:])
        self.sums = np.zeros((draws, len(self.names) + 1, columns + 1))
        sides = ("hypothesis fillers", "premise fillers")
        axes = ((sides[0 if self.turned else 1], self.other), (sides[1 if self.turned else 0], self.word))
        self.over = (*self.phrase.over, *(label for label, weights in axes if weights is not None))

    def _word_weights(self, members: int, draws: int, seeds: Sequence[np.random.SeedSequence]) -> Matrix | None:
        sizes = np.bincount(self.member, minlength=len(self.names) + 1)[:-1]
        if sizes.min() < ENOUGH:
            return None
        weights = np.ones((draws, members), np.float32)
        for number, seed in enumerate(seeds):
            weights[:, self.member == number] = draw_weights(int(sizes[number]), draws, seed)
        return weights

    def blank(self) -> Resamples:
        """Return a copy with the same draws and all sums zero."""
        blank = copy(self)
        blank.sums = np.zeros_like(self.sums)
        return blank

    @property
    def membership(self) -> Matrix:
        """Indicator matrix (groups and the rest, members)."""
        return np.asarray(np.arange(len(self.names) + 1)[:, None] == self.member, dtype=np.float32)

    def add_grid(self, phrases: Rows, values: Matrix) -> None:
        """Add whole phrases: (phrases, premises, hypotheses, columns)."""
        extended = _with_ones(values.swapaxes(1, 2) if self.turned else values)
        if self.word is None:
            extended, members = self.membership @ extended, None
        else:
            members = self.word
        step = max(1, CELLS_AT_ONCE // int(np.prod(extended.shape[:1] + extended.shape[2:])))
        flat = extended.swapaxes(0, 1).reshape(extended.shape[1], -1)  # other fillers first
        for start in range(0, len(self.sums), step):
            draws = slice(start, start + step)
            part = flat.sum(axis=0)[None] if self.other is None else self.other[draws] @ flat
            part = part.reshape(len(part), len(phrases), *extended.shape[2:])
            if members is not None:
                part = self.membership @ (part * members[draws, None, :, None])
            self._add_phrases(draws, phrases, part)

    def _add_phrases(self, draws: slice, phrases: Rows, part: Matrix) -> None:
        """Add a part of shape (draws or 1, phrases, groups, columns)."""
        if not self.phrase:
            self.sums[draws] += part.sum(axis=1)
            return
        weights = self.phrase.select(draws, phrases)
        flat = part.reshape(len(part), len(phrases), -1)
        summed = weights @ flat[0] if len(flat) == 1 else np.matmul(weights[:, None], flat)[:, 0]
        self.sums[draws] += summed.reshape(len(summed), *part.shape[2:])

    def add_points(self, points: Points, values: Matrix) -> None:
        """Add single pairs: (pairs, columns)."""
        other, member = (points.hypothesis, points.premise) if self.turned else (points.premise, points.hypothesis)
        extended = _with_ones(values).astype(np.float32)
        group = self.member[member]
        step = max(1, CELLS_AT_ONCE // max(1, len(group)))
        for start in range(0, len(self.sums), step):
            draws = slice(start, start + step)
            weights = np.ones((len(self.sums[draws]), len(group)), np.float32)
            if self.phrase:
                weights *= self.phrase.select(draws, points.phrase)
            for table, indices in ((self.other, other), (self.word, member)):
                if table is not None:
                    weights *= table[draws][:, indices]
            for number in range(len(self.names) + 1):
                self.sums[draws, number] += weights[:, group == number] @ extended[group == number]

    def group_means(self) -> Matrix64:
        """Return the (draws, groups, columns) means; NaN where a draw leaves a group empty."""
        return _means(self.sums[:, :-1])

    def means(self) -> Matrix64:
        """Return the (draws, columns) means over all pairs, including those outside every group."""
        return _means(self.sums.sum(axis=1))


def make_resamples(probe: Probe, columns: int, draws: int, *, seed: int) -> Resamples | None:
    """Return empty resamples; None if nothing can be resampled, since identical draws would look like certainty."""
    resamples = _drawn(probe, probe.shape, columns, draws, seed) if draws else None
    return resamples.blank() if resamples and resamples.over else None


@lru_cache(maxsize=2)
def _drawn(probe: Probe, shape: tuple[int, int, int], columns: int, draws: int, seed: int) -> Resamples:
    """Return resamples of a probe; every model and every stage of an audit is asked about the same draws.

    The shape tells a part of a probe, which equals it otherwise, from the whole.
    """
    return Resamples(probe, columns, draws, seed=seed)


def _weights(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix | None:
    return draw_weights(size, draws, seed) if size >= ENOUGH else None


def _with_ones(values: Matrix) -> Matrix:
    return np.concatenate([values, np.ones((*values.shape[:-1], 1), values.dtype)], axis=-1)


def _means(sums: Matrix64) -> Matrix64:
    """Return means of columns, all of which are probabilities or shares."""
    count = sums[..., -1:]
    means = np.divide(sums[..., :-1], count, out=np.full_like(sums[..., :-1], np.nan), where=count > 0)
    return np.clip(means, 0.0, 1.0)


ENOUGH = 8  # smaller sets are not resampled: drawing from three words tells little about other words
MOST_CLUSTERS = 4_096


class PhraseWeights:
    """Weights of phrases: the product of how often the fillers of each slot, and the template, were drawn.

    Phrases that share a verb share its effect: two thousand phrases with 27 verbs are not two thousand independent
    observations, and drawing them one by one gave intervals an eighth as wide. Slots and templates with fewer than 8
    members are not resampled; `over` lists what was. A slot with thousands of fillers is drawn in clusters.
    """

    def __init__(self, probe: Probe, draws: int, seed: np.random.SeedSequence) -> None:
        units = [(name, codes, count) for name, codes, count in _units(probe) if count >= ENOUGH]
        self.over = tuple(name for name, _, _ in units)
        self.codes = tuple(np.where(codes < 0, -1, codes % MOST_CLUSTERS) for _, codes, _ in units)
        sizes = [min(count, MOST_CLUSTERS) for _, _, count in units]
        self.tables = tuple(_table(size, draws, one) for size, one in zip(sizes, seed.spawn(len(units)), strict=True))

    def __bool__(self) -> bool:
        return bool(self.tables)

    def select(self, draws: slice, phrases: Rows) -> Matrix:
        """Return the (draws, phrases) weights of some draws and phrases."""
        weights = (table[draws][:, codes[phrases]] for table, codes in zip(self.tables, self.codes, strict=True))
        return reduce(np.multiply, weights)


def draw_weights(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix:
    """Return (draws, size) weights: how often each of `size` members was drawn, with the deviations from 1 expanded.

    Means over draws spread by (n - 1) / n of the variance, and their quantiles are normal ones. The factor
    sqrt(n / (n - 1)) t / z makes them Student's (Hesterberg 2015). A member that was not drawn has a weight slightly
    below 0.
    """
    from scipy.special import ndtri, stdtrit

    number, probability = int(seed.generate_state(1)[0]), (1 + LEVEL) / 2
    factor = np.sqrt(size / (size - 1)) * stdtrit(size - 1, probability) / ndtri(probability)
    counts = cluster_weights([range(size)], draws, seed=number)[0]
    return np.asarray(1 + factor * (counts - 1), dtype=np.float32)


def _units(probe: Probe) -> Iterator[tuple[str, Rows, int]]:
    """Yield each unit of resampling: its name, the member index of every phrase, and the number of members."""
    yield "templates", probe.phrases.template_of, len(probe.templates)
    for slot in probe.phrases.slots:
        codes, words = probe.phrases.fillers(slot)
        yield f"{slot} fillers", codes, len(words)


def _table(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix:
    """Return weights with a last column of ones, for phrases without the slot (-1)."""
    return np.hstack([draw_weights(size, draws, seed), np.ones((draws, 1), np.float32)])
