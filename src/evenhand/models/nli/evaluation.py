"""How often a model's likeliest label is the right one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.errors import UsageError
from evenhand.models.nli.labelled_pairs import NOT_ENTAILED, LabelledPairs
from evenhand.models.nli.protocol import LABELS, NLIModel
from evenhand.stats import wilson

TWO_WAY = (LABELS[0], NOT_ENTAILED)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The share of pairs answered rightly, with its interval over pairs, and who was taken for whom.

    `confusion` counts pairs, right labels in rows and answers in columns, in the order of `labels`; `by_label` is the
    share of rightly answered pairs among those of a label (recall), and None for a label that no pair has.
    """

    accuracy: float
    interval: tuple[float, float]
    n: int
    by_label: Mapping[str, float | None]
    confusion: Rows
    skipped: Mapping[str, int]
    labels: tuple[str, ...] = LABELS
    source: str = "pairs"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "source": self.source,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "n": self.n,
            "by_label": dict(self.by_label),
            "labels": list(self.labels),
            "confusion": self.confusion.tolist(),
            "skipped": dict(self.skipped),
        }


def evaluate(
    model: NLIModel,
    pairs: LabelledPairs,
    *,
    batch: int = 8_192,
    progress: Callable[[int, int, str], None] | None = None,
) -> Accuracy:
    """Ask a model about labelled pairs. Of two equal probabilities the first in the order of LABELS is its answer.

    Where pairs are labelled entailment and non-entailment only (HANS), neutral and contradiction count as the latter.

    What it does not tell you: pairs of one premise are not independent, so the interval is somewhat too narrow; and a
    model may be right for reasons that have nothing to do with inference, such as single words of the hypothesis.
    """
    if batch < 1:
        raise UsageError(f"a batch holds at least 1 pair, got {batch}")
    answers = np.empty(len(pairs), np.int64)
    for start in range(0, len(pairs), batch):
        some = slice(start, start + batch)
        answers[some] = _answers(model.predict(pairs.premises[some], pairs.hypotheses[some]).matrix)
        if progress:
            progress(min(start + batch, len(pairs)), len(pairs), pairs.source)
    return _accuracy(answers, pairs)


def _answers(probabilities: Matrix) -> Rows:
    return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)


def _accuracy(answers: Rows, pairs: LabelledPairs) -> Accuracy:
    truth = pairs.labels.astype(np.int64)
    names: tuple[str, ...] = LABELS
    if pairs.two_way:
        truth, answers, names = (truth > 0).astype(np.int64), (answers > 0).astype(np.int64), TWO_WAY
    confusion = np.bincount(truth * len(names) + answers, minlength=len(names) ** 2).reshape(len(names), -1)
    right, asked = np.diag(confusion), confusion.sum(axis=1)
    by_label = {name: float(r / a) if a else None for name, r, a in zip(names, right, asked, strict=True)}
    total = int(right.sum())
    low, high = wilson(total / len(pairs), len(pairs)).tolist()
    return Accuracy(
        total / len(pairs),
        (low, high),
        len(pairs),
        by_label,
        np.asarray(confusion, dtype=np.int64),
        dict(pairs.skipped),
        names,
        pairs.source,
    )
