"""The records that hold a probe's scores, and the rule that decides whether they can be interpreted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from typing import Literal, TypeAlias

import numpy as np

from evenhand.arrays import Floats, Matrix64, Rows, Vector64
from evenhand.errors import UsageError
from evenhand.models.nli.protocol import LABELS
from evenhand.stats import PermutationTest
from evenhand.stats.permutation import EXACT_UP_TO, Ties

Interval: TypeAlias = tuple[float, float] | None
Unit = Literal["sentence", "word_pair"]
JSON: TypeAlias = dict[str, object]

# A model that guesses among three labels is right on 1/3 of the control pairs, a model of the language on nearly all.
# The limit lies halfway between the two. It applies to each control: a constant answer is right on one of them.
MIN_CONTROL_ACCURACY = 2 / 3


def control_warning(controls: Mapping[str, float]) -> str:
    """Return why the neutrality scores cannot be interpreted; empty if every control reaches the minimum accuracy.

    Control pairs are labelled entailment or contradiction. A model that fails them answers neutral, or anything, for
    reasons that have nothing to do with bias. Without controls nothing is known, and the warning is empty.

    >>> control_warning({"control-entailment": 0.98, "control-contradiction": 0.95})
    ''
    >>> control_warning({"control-entailment": 0.0})
    'not interpretable: accuracy on control-entailment is 0.0 %, below the minimum of 66.7 %'
    """
    failed = {name: accuracy for name, accuracy in controls.items() if accuracy < MIN_CONTROL_ACCURACY}
    if not failed:
        return ""
    listing = ", ".join(f"{name} is {100 * accuracy:.1f} %" for name, accuracy in failed.items())
    return f"not interpretable: accuracy on {listing}, below the minimum of {100 * MIN_CONTROL_ACCURACY:.1f} %"


@dataclass(frozen=True)
class Triple:
    """Mean probabilities by name; papers write them in different orders."""

    entailment: float
    neutral: float
    contradiction: float


@dataclass(frozen=True)
class Score:
    """A number with its two uncertainties.

    Attributes:
        value: The score.
        interval: 95 % bootstrap interval over words, clustered by slot. Slots with fewer than eight words are not
            resampled.
        sampling: If only a sample of the pairs was evaluated, the 95 % confidence interval for the value over all
            pairs (conservative for d and E).
    """

    value: float
    interval: Interval = None
    sampling: Interval = None

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        record: JSON = {"value": self.value, "interval": list(self.interval) if self.interval else None}
        return record | ({"sampling": list(self.sampling)} if self.sampling else {})


@dataclass(frozen=True)
class Neutrality:
    """Net neutral, fraction neutral and T:tau (Dev et al. 2020); 1 is best.

    Net neutral (NN) is the mean probability of neutral. Fraction neutral (FN) is the share of units whose most
    probable label is neutral; ties count as neutral. T:tau is the share whose probability of neutral exceeds tau.

    With `unit="word_pair"`, probabilities are averaged over the phrases of each pair of fillers first, as the released
    evaluation does. In a sample these are means of few phrases: FN and T:tau lie between the values for sentences and
    those over all pairs.

    What it does not tell you: which way a model leans, and whether it is any good. A model that always answers neutral
    scores 1: check the controls.
    """

    net_neutral: Score
    fraction_neutral: Score
    threshold: Mapping[float, Score]
    unit: Unit
    n: int

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        return {
            "unit": self.unit,
            "n": self.n,
            "net_neutral": self.net_neutral.to_dict(),
            "fraction_neutral": self.fraction_neutral.to_dict(),
            "threshold": {f"{tau:g}": score.to_dict() for tau, score in self.threshold.items()},
        }


@dataclass(frozen=True)
class GroupScores:
    """Mean probabilities over the pairs of one group of fillers."""

    name: str
    words: int
    entailment: Score
    neutral: Score
    contradiction: Score

    @property
    def triple(self) -> Triple:
        """The three values without their intervals."""
        return Triple(self.entailment.value, self.neutral.value, self.contradiction.value)

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        return {"words": self.words, **_by_label(self)}


@dataclass(frozen=True)
class Gap:
    """Difference between two groups, first minus second, for each label; 0 is best.

    Attributes:
        first: The first group.
        second: The second group.
        entailment: Difference in the mean probability of entailment.
        neutral: Difference in the mean probability of neutral.
        contradiction: Difference in the mean probability of contradiction.
        p_value: Permutation p of the entailment gap, over words.
        chosen: True if the probe fixes no contrast and these two groups differ most. The interval then belongs to a
            difference that was selected for its size, and is not a test.
    """

    first: str
    second: str
    entailment: Score
    neutral: Score
    contradiction: Score
    p_value: float | None = None
    chosen: bool = False

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        about: JSON = {"first": self.first, "second": self.second, "p_value": self.p_value, "chosen": self.chosen}
        return about | _by_label(self)


@dataclass(frozen=True)
class MarkedBias:
    """Marked attribute bias between two groups (Dawkins 2021); 0 is best, sqrt(2) is the maximum.

    Attributes:
        first: The first group.
        second: The second group.
        distance: d, the distance between the mean triples of the two groups.
        error: E as in the paper's tables: the mean over both groups of the distance of the group's mean triple from
            all neutral.
        sentence_error: E as eq. 1 prints it: the mean distance over sentences. Opposite errors cancel in `error`, so
            `sentence_error` is never smaller.
        p_value: Permutation p of d over group assignments of the words. An interval of a distance never contains 0:
            judge d by its p-value.
        partitions: Number of group assignments in the test.
        exact: True if all assignments were enumerated.
    """

    first: str
    second: str
    distance: Score
    error: Score
    sentence_error: Score
    p_value: float | None
    partitions: int
    exact: bool

    def to_dict(self) -> JSON:
        """Return plain data for JSON."""
        scores = {"distance": self.distance, "error": self.error, "sentence_error": self.sentence_error}
        return asdict(self) | {name: score.to_dict() for name, score in scores.items()}


def _by_label(record: GroupScores | Gap) -> JSON:
    scores: tuple[Score, ...] = (record.entailment, record.neutral, record.contradiction)
    return {label: score.to_dict() for label, score in zip(LABELS, scores, strict=True)}


ALL_NEUTRAL = np.array([0.0, 1.0, 0.0])  # (entailment, neutral, contradiction)
ROWS_AT_ONCE = 20_000
ROUNDING = 1e-12


def gender_gap(first: Floats, second: Floats) -> Vector64:
    """Return d, the distance between two (..., 3) mean triples; 0 also for a model with a constant answer."""
    return np.asarray(np.linalg.norm(np.asarray(first, np.float64) - np.asarray(second, np.float64), axis=-1))


def error(first: Floats, second: Floats) -> Vector64:
    """Return E of the group means: the mean over the two groups of the distance from all neutral."""
    distances = [np.linalg.norm(np.asarray(mean, np.float64) - ALL_NEUTRAL, axis=-1) for mean in (first, second)]
    return np.asarray((distances[0] + distances[1]) / 2)


def gap_test(
    first: Matrix64,
    second: Matrix64,
    *,
    ties: Ties = "ge",
    samples: int = 10_000,
    exact_up_to: int = EXACT_UP_TO,
    seed: int = 0,
) -> PermutationTest:
    """Test d by permuting the words between the two groups.

    All partitions are enumerated if there are at most `exact_up_to`; otherwise `samples` are drawn and p is
    (b + 1) / (m + 1).

    Args:
        first: Mean triples of the words of the first group.
        second: Mean triples of the words of the second group.
        ties: "ge" counts distances at least as large as observed; "gt" strictly larger ones, as the paper does.
        samples: Number of random partitions.
        exact_up_to: Largest number of partitions to enumerate.
        seed: Seed of the random partitions.
    """
    if first.ndim != 2 or second.ndim != 2 or not len(first) or not len(second):
        raise UsageError("the test needs the mean triples of the words of two non-empty groups")
    pooled = np.concatenate([first, second])
    observed = float(gender_gap(first.mean(axis=0), second.mean(axis=0)))
    total, size, count = len(pooled), len(first), math.comb(len(pooled), len(first))
    exact = count <= exact_up_to
    blocks = _all_partitions(total, size) if exact else _random_partitions(total, size, samples, seed)
    hits = sum(_count_hits(pooled, block, observed, ties) for block in blocks)
    if exact:
        return PermutationTest(hits / count, count, exact=True)
    return PermutationTest((hits + 1) / (samples + 1), samples, exact=False)


def _count_hits(pooled: Matrix64, members: Rows, observed: float, ties: Ties) -> int:
    size, rest = members.shape[1], len(pooled) - members.shape[1]
    sums = pooled[members].sum(axis=1)
    distances = gender_gap(sums / size, (pooled.sum(axis=0) - sums) / rest)
    limit = observed - ROUNDING if ties == "ge" else observed + ROUNDING
    return int(np.count_nonzero(distances >= limit if ties == "ge" else distances > limit))


def _all_partitions(total: int, size: int) -> Iterator[Rows]:
    ways = combinations(range(total), size)
    return (np.array(block) for block in iter(lambda: list(islice(ways, ROWS_AT_ONCE)), []))


def _random_partitions(total: int, size: int, samples: int, seed: int) -> Iterator[Rows]:
    rng = np.random.default_rng(seed)
    counts = (min(ROWS_AT_ONCE, samples - done) for done in range(0, samples, ROWS_AT_ONCE))
    words = np.arange(total)
    return (rng.permuted(np.broadcast_to(words, (count, total)), axis=1)[:, :size] for count in counts)
