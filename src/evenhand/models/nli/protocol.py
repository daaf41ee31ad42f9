"""What a model must be able to do, and what it may do better than that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from evenhand.arrays import Matrix, Rows
from evenhand.models.nli.probabilities import Probabilities
from evenhand.words.probes import Points, Probe


@dataclass(frozen=True)
class Grid:
    """Answers to whole phrases of a probe: (phrases, premise fillers, hypothesis fillers, labels)."""

    phrases: Rows
    probabilities: Matrix


@runtime_checkable
class NLIModel(Protocol):
    """Anything that gives probabilities for pairs of sentences."""

    name: str

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """The probabilities of each pair."""


@runtime_checkable
class GridModel(NLIModel, Protocol):
    """A model that knows a faster way through a probe than pair by pair."""

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Every phrase of the probe once, in any order."""


@runtime_checkable
class RecordedModel(Protocol):
    """Answers given elsewhere, for the pairs of a probe in its order."""

    name: str

    def recorded(self, probe: Probe, blocks: Iterable[Points]) -> Iterator[Probabilities]:
        """The answers to each block; too few or too many of them is an error."""


@runtime_checkable
class Vocabulary(Protocol):
    """A model with a fixed vocabulary."""

    def lost(self, words: Iterable[str]) -> tuple[str, ...]:
        """Which of these fillers it has no vector for."""
