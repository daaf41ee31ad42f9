"""A Python function as an NLI model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand.arrays import Matrix
from evenhand.errors import FormatError, UsageError
from evenhand.models.nli.protocol import LABELS, Probabilities, label_order, require_equal_lengths


@dataclass(frozen=True)
class CallableModel:
    """A function from two lists of sentences to probabilities, called with at most `batch` pairs at a time.

    `labels` names the three columns in order; published models differ in it.

    >>> always = CallableModel(lambda p, h: [[0.1, 0.8, 0.1]] * len(p), ("entailment", "neutral", "contradiction"))
    >>> float(always.predict(["A man ate."], ["A person ate."]).neutral[0])
    0.8
    """

    function: Callable[[list[str], list[str]], ArrayLike | Probabilities]
    labels: Sequence[str]
    name: str = "callable"
    batch: int = 256

    def __post_init__(self) -> None:
        label_order(self.labels)
        if self.batch < 1:
            raise UsageError(f"batch must be at least 1, got {self.batch}")

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """Return the function's probabilities, checked."""
        require_equal_lengths(premises, hypotheses)
        parts = [self._predict_batch(premises, hypotheses, start) for start in range(0, len(premises), self.batch)]
        return Probabilities(np.concatenate(parts) if parts else np.empty((0, len(LABELS))))

    def _predict_batch(self, premises: Sequence[str], hypotheses: Sequence[str], start: int) -> Matrix:
        span = slice(start, start + self.batch)
        answer = self.function(list(premises[span]), list(hypotheses[span]))
        matrix = answer.matrix if isinstance(answer, Probabilities) else answer
        labels = LABELS if isinstance(answer, Probabilities) else self.labels
        probabilities = Probabilities.named(matrix, labels, where=self.name + ", pair {row}", first=start)
        pairs = len(premises[span])
        if len(probabilities) != pairs:
            raise FormatError(
                f"{self.name}: {len(probabilities)} rows for {pairs} pairs", hint="return one row per pair"
            )
        return probabilities.matrix
