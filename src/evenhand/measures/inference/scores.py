"""The records that hold a probe's scores, and the rule that decides whether they can be interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from evenhand.models.nli.protocol import LABELS

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
