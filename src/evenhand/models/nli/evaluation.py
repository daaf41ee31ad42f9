"""Accuracy of NLI models on labelled pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.models.nli.labelled_pairs import NOT_ENTAILED, LabelledPairs
from evenhand.models.nli.protocol import LABELS, NLIModel
from evenhand.stats import wilson

TWO_WAY = (LABELS[0], NOT_ENTAILED)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Accuracy with its interval over pairs, recall by label, and the confusion matrix.

    `confusion` counts pairs, with true labels in rows and predictions in columns, in the order of `labels`. `by_label`
    is the recall of each label; None for a label that no pair has.
    """

    accuracy: float
    interval: tuple[float, float]
    n: int
    by_label: Mapping[str, float | None]
    confusion: Rows
    skipped: Mapping[str, int]
    labels: tuple[str, ...] = LABELS
    source: str = "pairs"

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
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
    """Return the accuracy of a model on labelled pairs.

    Ties go to the first label in the order of LABELS. If pairs are labelled entailment and non-entailment only, as in
    HANS, neutral and contradiction both count as non-entailment.

    What it does not tell you: pairs that share a premise are not independent, so the interval is somewhat too narrow.
    A model may also be right for reasons that have nothing to do with inference, such as single words of the
    hypothesis.
    """
    if batch < 1:
        raise UsageError(f"batch must be at least 1, got {batch}")
    predictions = np.empty(len(pairs), np.int64)
    for start in range(0, len(pairs), batch):
        span = slice(start, start + batch)
        predictions[span] = model.predict(pairs.premises[span], pairs.hypotheses[span]).matrix.argmax(axis=1)
        if progress:
            progress(min(start + batch, len(pairs)), len(pairs), pairs.source)
    return _accuracy(predictions, pairs)


def _accuracy(predictions: Rows, pairs: LabelledPairs) -> Accuracy:
    truth = pairs.labels.astype(np.int64)
    names: tuple[str, ...] = LABELS
    if pairs.two_way:
        truth, predictions, names = (truth > 0).astype(np.int64), (predictions > 0).astype(np.int64), TWO_WAY
    confusion = np.bincount(truth * len(names) + predictions, minlength=len(names) ** 2).reshape(len(names), -1)
    correct, totals = np.diag(confusion), confusion.sum(axis=1)
    by_label = {name: float(c / n) if n else None for name, c, n in zip(names, correct, totals, strict=True)}
    accuracy = int(correct.sum()) / len(pairs)
    low, high = wilson(accuracy, len(pairs)).tolist()
    return Accuracy(
        accuracy,
        (low, high),
        len(pairs),
        by_label,
        np.asarray(confusion, dtype=np.int64),
        dict(pairs.skipped),
        names,
        pairs.source,
    )
