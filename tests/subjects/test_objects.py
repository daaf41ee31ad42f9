"""Objects of other libraries: classifiers with `predict_proba`, pipelines, pairs of model and tokenizer."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import evenhand as eh
from evenhand.errors import DegenerateError, UnknownNameError, UsageError

TEXTS = ["she is good", "he is bad", "she was nice", "he was awful", "they were late", "it was nice"]
ANSWERS = ["positive", "negative", "positive", "negative", "negative", "positive"]


class Fixed:
    """A classifier that gives every text the same numbers."""

    def __init__(self, *row: float) -> None:
        self.row = row

    def predict_proba(self, texts: list[str]) -> Any:
        return np.tile(self.row, (len(texts), 1))


def fitted(texts: list[str] = TEXTS) -> Any:
    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, ANSWERS)


def test_a_pipeline_of_scikit_learn_is_audited() -> None:
    subject = eh.open(fitted())
    assert subject.offers == ("labels",)
    assert subject.view("labels").labels == ("negative", "positive")
    audit = eh.Audit.run(fitted())
    gap = audit.get("counterfactual:gap")
    assert gap.value is not None
    assert gap.value > 0  # "she" occurs in positive texts only
    assert audit.manifest["arguments"]["no_command"] == "Pipeline is only in memory"


def test_a_classifier_that_ignores_its_text_has_no_gap() -> None:
    values = {m.score: m.value for m in eh.measures.counterfactual(eh.open(Fixed(0.3, 0.7)).view("labels"))}
    assert values["flip-rate"] == values["change"] == values["gap"] == 0.0


def test_the_digest_is_that_of_the_answers() -> None:
    assert eh.open(fitted()).digest == eh.open(fitted()).digest
    assert eh.open(Fixed(0.3, 0.7)).digest != eh.open(Fixed(0.4, 0.6)).digest
    assert eh.open(Fixed(0.3, 0.7), digest="v1").digest == "v1"
    named = eh.open(Fixed(0.3, 0.7), labels=["no", "yes"], name="mine")
    assert (named.name, named.view("labels").labels) == ("mine", ("no", "yes"))
    assert eh.open(Fixed(0.3, 0.7)).view("labels").labels == ("label 0", "label 1")
    assert eh.open(Fixed(0.3, 0.7)).view("labels").predict([]).shape == (0, 2)


def test_objects_that_cannot_be_asked_are_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="failed on a list of texts"):
        eh.open(LogisticRegression())
    with pytest.raises(UsageError, match="2 columns and 3 labels"):
        eh.open(Fixed(0.5, 0.5), labels=["a", "b", "c"])
    for row in ((0.5, 0.9), (float("nan"), 1.0), (-1.0, 2.0)):
        with pytest.raises(DegenerateError, match="not between 0 and 1"):
            eh.open(Fixed(*row))
    with pytest.raises(UsageError, match="cannot be audited"):
        eh.open(LogisticRegression)  # a class, not an object


class Returns(Fixed):
    """A classifier that returns a given thing for any texts."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def predict_proba(self, texts: list[str]) -> Any:
        return self.rows


@pytest.mark.parametrize("rows", [None, [0.5, 0.5], [[0.5, 0.5]], np.zeros((2, 0)), np.full((2, 2, 1), 0.5)])
def test_rows_of_another_shape_are_refused(rows: Any) -> None:
    with pytest.raises(UsageError, match=r"returned shape \(.*\) for 2 texts"):
        eh.open(Returns(rows))


def test_the_text_without_probabilities_is_named() -> None:
    for row in ([1.0, 1.0], [1e308, 1e308], [-0.5, 1.5], [np.inf, 0.0]):
        with pytest.raises(DegenerateError, match=r"of 'The woman was late again\.' are not between 0 and 1"):
            eh.open(Returns([[0.5, 0.5], row]))


def test_labels_and_options_that_mean_nothing_are_refused() -> None:
    for labels in ("ab", ["a", "a"]):
        with pytest.raises(UsageError, match="not a list of different names"):
            eh.open(Fixed(0.5, 0.5), labels=labels)
    with pytest.raises(UnknownNameError, match="no option of a classifier in memory 'device'"):
        eh.open(Fixed(0.5, 0.5), device="cpu")


def test_a_pipeline_of_transformers_and_a_pair_are_opened(tiny_folder: Callable[..., Path]) -> None:
    transformers = pytest.importorskip("transformers")
    folder = tiny_folder("BertForSequenceClassification", id2label={0: "negative", 1: "positive"})
    pipeline = transformers.pipeline("text-classification", model=str(folder), device=-1)
    subject = eh.open(pipeline)
    assert (subject.name, subject.address) == (folder.name, "")
    assert subject.offers == eh.open(f"hf:{folder}").offers
    texts = ["she is a doctor", "he is a nurse"]
    stored = eh.open(f"hf:{folder}").view("labels").predict(texts)
    np.testing.assert_allclose(subject.view("labels").predict(texts), stored, atol=1e-6)
    kept = vars(subject)["live_folder"].path
    pair = eh.open((pipeline.model, pipeline.tokenizer))
    np.testing.assert_allclose(pair.view("labels").predict(texts), stored, atol=1e-6)
    with pytest.raises(UsageError, match="without its tokenizer"):
        eh.open(pipeline.model)
    del subject
    gc.collect()
    assert not kept.exists()


@pytest.mark.filterwarnings("ignore:.*words are split")
def test_a_changed_subject_keeps_the_folder(tiny_folder: Callable[..., Path]) -> None:
    transformers = pytest.importorskip("transformers")
    folder = tiny_folder("BertModel")
    model, tokenizer = (
        transformers.AutoModel.from_pretrained(folder),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    before = eh.open((model, tokenizer))
    change = eh.mitigations.get("linear")(site="embeddings").fit(before, "gender")
    after = change(before)
    kept = vars(before)["live_folder"].path
    del before, change
    gc.collect()
    assert kept.exists()
    assert after.view("sentences").encode(["she is a nurse"]).shape[0] == 1


def test_a_sentence_transformer_is_saved_and_opened(tiny_folder: Callable[..., Path]) -> None:
    """The package is not a dependency: an object with its module and its `save` stands for one."""
    pytest.importorskip("transformers")
    folder = tiny_folder("BertModel")

    class SentenceTransformer:
        def save(self, path: str) -> None:
            import json
            import shutil

            shutil.copytree(folder, path)
            modules = [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            ]
            (Path(path) / "modules.json").write_text(json.dumps(modules))
            (Path(path) / "1_Pooling").mkdir()
            pooling = {
                "word_embedding_dimension": 16,
                "pooling_mode_mean_tokens": True,
                "pooling_mode_cls_token": False,
            }
            (Path(path) / "1_Pooling" / "config.json").write_text(json.dumps(pooling))

    SentenceTransformer.__module__ = "sentence_transformers.SentenceTransformer"
    subject = eh.open(SentenceTransformer())
    assert subject.name == "SentenceTransformer"
    assert "sentences" in subject.offers
    assert subject.view("sentences").encode(["she is a nurse"]).shape == (1, 16)
