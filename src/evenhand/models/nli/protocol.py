"""What a model must be able to do, and what it may do better than that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.errors import FormatError, UsageError
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


LABELS = ("entailment", "neutral", "contradiction")
ROUNDING = 1e-9
TOLERANCE = 0.01  # a softmax in half precision misses one by up to 0.002, four printed decimals by less


@dataclass(frozen=True)
class Probabilities:
    """One row for each pair; `matrix` has the columns of LABELS, and every row sums to one."""

    matrix: Matrix

    @classmethod
    def named(cls, matrix: Any, labels: Sequence[str] = LABELS, *, where: str = "row {row}", first: int = 0) -> Any:
        """Checked probabilities whose columns stand in the order of `labels`.

        A row with NaN, with a number outside [0, 1] or with a sum other than one is an error that names it (`where`,
        its number counted from `first`). Rows are then divided by their sum, which may miss one by rounding.
        """
        order = label_order(labels)
        try:
            values = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise FormatError(f"probabilities must be numbers, {len(LABELS)} for each pair ({error})") from error
        if values.ndim != 2 or values.shape[1] != len(LABELS):
            raise FormatError(
                f"probabilities must have the shape (pairs, {len(LABELS)}), got {values.shape}",
                hint="one column each for entailment, neutral and contradiction",
            )
        _refuse(values, where, first)
        ordered, sums = values[:, order], values.sum(axis=1, keepdims=True)
        # Rows that sum to one but for the last bit stay as they are: 0.7 must not become more than 0.7.
        return cls(np.where(np.abs(sums - 1) > ROUNDING, ordered / sums, ordered))

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def entailment(self) -> Matrix:
        """Probability that the hypothesis follows."""
        return self.matrix[:, 0]

    @property
    def neutral(self) -> Matrix:
        """Probability that it neither follows nor contradicts."""
        return self.matrix[:, 1]

    @property
    def contradiction(self) -> Matrix:
        """Probability that it contradicts."""
        return self.matrix[:, 2]


def label_order(labels: Sequence[str]) -> list[int]:
    """Where each of LABELS stands in the order given; anything but these three names is an error."""
    if isinstance(labels, str) or sorted(map(str, labels)) != sorted(LABELS):
        raise UsageError(
            f"the order of labels must name {', '.join(LABELS)}, got {labels!r}",
            hint='say what the columns are, such as ("contradiction", "neutral", "entailment")',
        )
    return [list(labels).index(label) for label in LABELS]


def _refuse(values: np.ndarray, where: str, first: int) -> None:
    finite = np.isfinite(values).all(axis=1)
    for problem, good in (
        ("is no finite number", finite),
        ("lies outside 0 and 1", ~finite | ((values >= -TOLERANCE) & (values <= 1 + TOLERANCE)).all(axis=1)),
        ("do not sum to one", ~finite | (np.abs(values.sum(axis=1) - 1) <= TOLERANCE)),
    ):
        if not good.all():
            row = int(np.argmin(good))
            shown = ", ".join(f"{value:g}" for value in values[row])
            what = "its probabilities" if problem.startswith("do") else "a probability"
            raise FormatError(
                f"{where.format(row=first + row)}: {what} {problem}: {shown}",
                hint="give probabilities after the softmax, not logits, and one row for each pair",
            )
