"""Accuracy: counted by hand, two classes, the interval covers what it says."""

import numpy as np
import pytest

from evenhand.errors import UsageError
from evenhand.models.nli import LABELS, CallableModel, Probabilities
from evenhand.models.nli.labelled_pairs import LabelledPairs, evaluate
from evenhand.stats import wilson

SURE = {"e": [0.8, 0.1, 0.1], "n": [0.1, 0.8, 0.1], "c": [0.1, 0.1, 0.8]}


def parrot():
    """Answers with the label that the hypothesis names."""
    return CallableModel(lambda premises, hypotheses: [SURE[text] for text in hypotheses], LABELS)


def pairs(answers, labels):
    return LabelledPairs.of(["A"] * len(labels), answers, labels)


def test_by_hand():
    found = evaluate(parrot(), pairs("eenncc", "eennce"), batch=4)
    assert found.accuracy == pytest.approx(5 / 6)
    assert found.n == 6
    assert found.by_label == {"entailment": pytest.approx(2 / 3), "neutral": 1.0, "contradiction": 1.0}
    assert found.confusion.tolist() == [[2, 0, 1], [0, 2, 0], [0, 0, 1]]
    assert found.interval == tuple(wilson(5 / 6, 6))
    assert found.to_dict()["confusion"][0] == [2, 0, 1]


def test_two_classes_take_neutral_and_contradiction_for_one():
    found = evaluate(parrot(), pairs("ence", ["entailment", *["non-entailment"] * 3]))
    assert found.labels == ("entailment", "non-entailment")
    assert found.confusion.tolist() == [[1, 0], [1, 2]]
    assert found.accuracy == 0.75


def test_a_label_without_pairs_has_no_share():
    assert evaluate(parrot(), pairs("ee", "ee")).by_label["neutral"] is None


def test_progress_counts_pairs():
    told = []
    evaluate(parrot(), pairs("eenn", "eenn"), batch=3, progress=lambda *step: told.append(step))
    assert told == [(3, 4, "pairs"), (4, 4, "pairs")]


def test_batch_of_nothing():
    with pytest.raises(UsageError, match="at least 1"):
        evaluate(parrot(), pairs("e", "e"), batch=0)


def test_ties_go_to_the_first_label():
    flat = CallableModel(lambda p, h: Probabilities(np.full((len(p), 3), 1 / 3)), LABELS)
    assert evaluate(flat, pairs("ee", "en")).accuracy == 0.5
