"""What the `labels` view offers: probabilities of a text classifier's labels, or the scores of a regression head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from evenhand.arrays import Matrix64, Rows
from evenhand.errors import DegenerateError, FormatError, UsageError, few, require, unknown_name
from evenhand.models.device import model_errors, run_in_batches, tokens_at_once
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.tokenizing import check_texts, encode

AnswerUnit = Literal["probability", "score"]


@runtime_checkable
class Classifier(Protocol):
    """A model that gives each text probabilities of labels.

    Attributes:
        name: for reports.
        labels: names of the labels, in the order of the columns.
        exclusive: whether the probabilities of a text add up to 1; otherwise each label is decided by itself.

    A model that gives scores, which have no range and decide nothing, also says `unit = "score"`; see `unit_of`.
    """

    name: str
    labels: tuple[str, ...]
    exclusive: bool

    def predict(self, texts: Sequence[str], *, tokens: int | None = None) -> Matrix64:
        """Return the probability of each label for each text, (texts, labels).

        The result does not depend on the order of the texts, nor, up to rounding, on the batches.

        Args:
            texts: the texts.
            tokens: the largest number of tokens in a batch.
        """


class TextClassifier:
    """A Hugging Face text classifier.

    The probabilities are a softmax over the labels, or a sigmoid of each label where the configuration says that the
    problem has several labels at once (`problem_type`). A regression head gives its scores as they are: one whose
    `problem_type` is regression, or with one output and no `problem_type`, which transformers trains as a regression
    (reward models are such). Texts longer than the window are refused.

    Args:
        transformer: the model.
    """

    def __init__(self, transformer: Transformer) -> None:
        config = transformer.model.config
        self.transformer = transformer
        self.name = transformer.name
        names: dict[int, str] = {int(number): str(name) for number, name in config.id2label.items()}
        self.labels: tuple[str, ...] = tuple(names[number] for number in sorted(names))
        problem = getattr(config, "problem_type", None)
        regression = problem == "regression" or (problem is None and len(self.labels) == 1)
        self.unit: AnswerUnit = "score" if regression else "probability"
        several = problem == "multi_label_classification" or regression
        self.exclusive = not several and len(self.labels) > 1

    def predict(self, texts: Sequence[str], *, tokens: int | None = None) -> Matrix64:
        """Return the probability of each label for each text; see `Classifier`."""
        torch = require("torch", extra="models")
        model, device = self.transformer.model, self.transformer.device
        tokenizer = self.transformer.tokenizer
        ids: list[list[int]] = encode(tokenizer, list(check_texts(texts)), verbose=False)["input_ids"]
        lengths = [len(row) for row in ids]
        self.transformer.check_lengths(lengths, self.transformer.window)
        probabilities = np.zeros((len(ids), len(self.labels)))

        def compute(rows: Rows) -> None:
            inputs = self.transformer.padded([ids[row] for row in rows])
            with torch.inference_mode(), model_errors(model):
                logits = model(**inputs).logits.float()
            if logits.shape != (len(rows), len(self.labels)):
                raise FormatError(
                    f"{self.name}: {tuple(logits.shape)} numbers for {len(rows)} texts and {len(self.labels)} labels",
                    hint="use the configuration that was saved with the weights",
                )
            if self.unit == "probability":
                logits = logits.softmax(dim=-1) if self.exclusive else logits.sigmoid()
            probabilities[rows] = logits.double().cpu().numpy()

        run_in_batches(lengths, compute, tokens=tokens or tokens_at_once(device))
        if not np.isfinite(probabilities).all():
            raise DegenerateError(f"{self.name}: a {self.unit} is NaN or infinite", hint="check the weights")
        return probabilities


def unit_of(classifier: Classifier) -> AnswerUnit:
    """Return what the numbers of a classifier are; probabilities, unless it says otherwise."""
    unit: AnswerUnit = getattr(classifier, "unit", "probability")
    return unit


def label_index(classifier: Classifier, label: str | None) -> int:
    """Return the column of a label; None is the last label.

    Raises:
        UnknownNameError: If the classifier has no such label.
    """
    if not classifier.labels:
        raise UsageError(f"{classifier.name} has no labels")
    if label is None:
        return len(classifier.labels) - 1
    matches = [number for number, name in enumerate(classifier.labels) if name.lower() == label.lower()]
    if len(matches) != 1:
        raise unknown_name(f"label of {classifier.name} ({few(classifier.labels)})", label, classifier.labels)
    return matches[0]


def decide(classifier: Classifier, probabilities: Matrix64) -> Rows:
    """Return the decision for each text as a number: the most probable label, or the set of labels above one half."""
    if classifier.exclusive:
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)
    weights = 1 << np.arange(probabilities.shape[1], dtype=np.int64)
    return np.asarray((probabilities >= 0.5) @ weights, dtype=np.int64)
