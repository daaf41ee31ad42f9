"""Any Python function as an NLI model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.errors import FormatError, UsageError
from evenhand.models.nli.protocol import LABELS, Probabilities, label_order, require_equal_lengths


@dataclass(frozen=True)
class CallableModel:
    """A function from two lists of sentences to probabilities, called with at most `batch` pairs at a time.

    The order of its three columns must be said: half of the published models have another one than the rest.

    >>> always = CallableModel(lambda p, h: [[0.1, 0.8, 0.1]] * len(p), ("entailment", "neutral", "contradiction"))
    >>> float(always.predict(["A man ate."], ["A person ate."]).neutral[0])
    0.8
    """

    function: Callable[[list[str], list[str]], Any]
    labels: Sequence[str]
    name: str = "callable"
    batch: int = 256

    def __post_init__(self) -> None:
        label_order(self.labels)
        if self.batch < 1:
            raise UsageError(f"a batch holds at least 1 pair, got {self.batch}")

    def predict(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Probabilities:
        """The function's answers, checked."""
        require_equal_lengths(premises, hypotheses)
        parts = [self._part(premises, hypotheses, start) for start in range(0, len(premises), self.batch)]
        return Probabilities(np.concatenate(parts) if parts else np.empty((0, len(LABELS))))

    def _part(self, premises: Sequence[str], hypotheses: Sequence[str], start: int) -> np.ndarray:
        some = slice(start, start + self.batch)
        answer = self.function(list(premises[some]), list(hypotheses[some]))
        matrix = answer.matrix if isinstance(answer, Probabilities) else answer
        labels = LABELS if isinstance(answer, Probabilities) else self.labels
        found = Probabilities.named(matrix, labels, where=self.name + ", pair {row}", first=start)
        wanted = len(premises[some])
        if len(found) != wanted:
            raise FormatError(f"{self.name}: {len(found)} rows for {wanted} pairs", hint="return one row for each pair")
        return np.asarray(found.matrix)
