"""The records that a probe's scores come in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Interval = tuple[float, float] | None
Unit = Literal["sentence", "word_pair"]


@dataclass(frozen=True)
class Triple:
    """Mean probabilities, by name: papers write them in different orders."""

    entailment: float
    neutral: float
    contradiction: float


@dataclass(frozen=True)
class Score:
    """A number with its two uncertainties.

    `interval`: other words of the same kind might have been asked, in every slot that has eight or more (bootstrap,
    clustered). `sampling`: where only a sample of the pairs was asked, the range that holds the value over all of them
    with 95 % confidence (of d and E with more).
    """

    value: float
    interval: Interval = None
    sampling: Interval = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = {"value": self.value, "interval": list(self.interval) if self.interval else None}
        return found | ({"sampling": list(self.sampling)} if self.sampling else {})


@dataclass(frozen=True)
class Neutrality:
    """NN, FN and T:tau of Dev et al. 2020; 1 is best.

    NN is the mean probability of neutral, FN the share of units whose most probable label is neutral (a tie counts),
    T:tau the share whose probability of neutral exceeds tau. With `unit="word_pair"` probabilities are first averaged
    over the phrases of each pair of fillers, as the released evaluation does; of a sample these are means of few
    phrases, and FN and T:tau lie between those of sentences and those over all pairs.

    What it does not tell you: which way a model leans, and whether it is any good. A model that always answers neutral
    scores 1: see the controls.
    """

    net_neutral: Score
    fraction_neutral: Score
    threshold: Mapping[float, Score]
    unit: Unit
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "unit": self.unit,
            "n": self.n,
            "net_neutral": self.net_neutral.to_dict(),
            "fraction_neutral": self.fraction_neutral.to_dict(),
            "threshold": {f"{tau:g}": score.to_dict() for tau, score in self.threshold.items()},
        }


@dataclass(frozen=True)
class Group:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        shares = {label: getattr(self, label).to_dict() for label in ("entailment", "neutral", "contradiction")}
        return {"words": self.words, **shares}


@dataclass(frozen=True)
class Gap:
    """First group minus second, for each label; 0 is best. `p_value` is of entailment, over words.

    `chosen`: the probe has no fixed contrast, and these two of its groups differ most. Their interval then belongs to a
    difference that was picked for its size and is no test.
    """

    first: str
    second: str
    entailment: Score
    neutral: Score
    contradiction: Score
    p_value: float | None = None
    chosen: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        shares = {label: getattr(self, label).to_dict() for label in ("entailment", "neutral", "contradiction")}
        about = {"first": self.first, "second": self.second, "p_value": self.p_value, "chosen": self.chosen}
        return {**about, **shares}


@dataclass(frozen=True)
class Marked:
    """Dawkins 2021: d, the distance between the mean triples of two groups, and E, their distance from neutral.

    `error` is E of the tables, half the sum over groups of the distance of the group's mean triple from all neutral;
    `sentence_error` is E as eq. 1 prints it, the mean distance over sentences. Opposite errors cancel in the first, so
    that it is never the larger one. Both lie between 0 and the square root of 2; 0 is best. `p_value` is of d, over
    words dealt to the two groups in other ways. No interval of a distance can hold 0: judge d by its p.
    """

    first: str
    second: str
    distance: Score
    error: Score
    sentence_error: Score
    p_value: float | None
    partitions: int
    exact: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = asdict(self)
        return plain | {name: getattr(self, name).to_dict() for name in ("distance", "error", "sentence_error")}
