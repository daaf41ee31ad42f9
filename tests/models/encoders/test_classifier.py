"""Hugging Face text classifiers as a view of labels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import UsageError  # noqa: E402
from evenhand.models.encoders.classifier import Classifier, decide, label_index  # noqa: E402

TEXTS = ["she is a nurse", "he", "the doctor said that the engineer was very good", "zzz qqq"]
NAMES = {0: "bad", 1: "fair", 2: "good"}


def classifier(tiny: Callable[..., Path], **options: object) -> Classifier:
    settings = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}, **options}
    view: Classifier = eh.open(f"hf:{tiny('BertForSequenceClassification', **settings)}").view("labels")
    return view


def logits(tiny: Callable[..., Path], **options: object) -> np.ndarray:
    model = classifier(tiny, **options).transformer
    with torch.no_grad():
        rows = [model.model(**model.tokenizer(text, return_tensors="pt")).logits[0] for text in TEXTS]
    return torch.stack(rows).double().numpy()


def test_softmax_by_hand_in_any_batch(tiny_folder: Callable[..., Path]) -> None:
    view = classifier(tiny_folder)
    assert (view.labels, view.exclusive) == (("bad", "fair", "good"), True)
    raw = np.exp(logits(tiny_folder))
    expected = raw / raw.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(view.predict(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(view.predict(TEXTS, tokens=1), expected, atol=1e-6)
    np.testing.assert_allclose(view.predict(TEXTS[::-1])[::-1], expected, atol=1e-6)
    assert decide(view, view.predict(TEXTS)).tolist() == expected.argmax(axis=1).tolist()


def test_several_labels_at_once_are_decided_one_by_one(tiny_folder: Callable[..., Path]) -> None:
    view = classifier(tiny_folder, problem_type="multi_label_classification")
    assert not view.exclusive
    raw = logits(tiny_folder, problem_type="multi_label_classification")
    np.testing.assert_allclose(view.predict(TEXTS), 1 / (1 + np.exp(-raw)), atol=1e-6)
    assert decide(view, np.array([[0.6, 0.1, 0.7], [0.2, 0.3, 0.1]])).tolist() == [5, 0]


def test_labels_are_named(tiny_folder: Callable[..., Path]) -> None:
    view = classifier(tiny_folder)
    assert [label_index(view, name) for name in (None, "good", "Bad")] == [2, 2, 0]
    with pytest.raises(eh.EvenhandError, match=r"no label of .* 'worse'"):
        label_index(view, "worse")
    with pytest.raises(UsageError, match="text 0 has 102 tokens, and the model reads 64"):
        view.predict(["she " * 100])


def test_only_classifiers_offer_labels(tiny_folder: Callable[..., Path]) -> None:
    assert eh.open(f"hf:{tiny_folder('BertModel')}").offers == ("vectors", "sentences")
    folder = tiny_folder("BertForSequenceClassification", id2label=NAMES, label2id={"bad": 0, "fair": 1, "good": 2})
    assert eh.open(f"hf:{folder}").offers == ("vectors", "sentences", "labels")


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({"id2label": {0: "reward"}, "label2id": {"reward": 0}}, "score"),
        ({"problem_type": "regression"}, "score"),
        (
            {"id2label": {0: "toxic"}, "label2id": {"toxic": 0}, "problem_type": "multi_label_classification"},
            "probability",
        ),
        ({}, "probability"),
    ],
)
def test_a_regression_head_gives_its_scores_as_they_are(
    options: dict[str, object], unit: str, tiny_folder: Callable[..., Path]
) -> None:
    view = classifier(tiny_folder, **options)
    assert view.unit == unit
    if unit == "score":
        assert not view.exclusive
        np.testing.assert_allclose(view.predict(TEXTS), logits(tiny_folder, **options), atol=1e-6)
    else:
        assert ((view.predict(TEXTS) > 0) & (view.predict(TEXTS) < 1)).all()
