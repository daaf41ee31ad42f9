"""Views in parts: the same numbers as in one process, from this process by part and from a Ray cluster."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

import evenhand as eh
from evenhand.cli import app
from evenhand.engines import LocalEngine, RayEngine
from evenhand.errors import EvenhandWarning, UsageError
from evenhand.measures.likelihood.honest import TextContinuation
from evenhand.models.encoders.classifier import Classifier
from evenhand.models.encoders.sentences import ReportsUnknownWords, SentenceEncoder
from evenhand.models.lm.likelihood import MaskedLikelihood, TokenLikelihood
from evenhand.subjects import sharded_views
from evenhand.subjects.sharded_views import shard_view

NAMES = ("john", "mary", "the nurse", "a very good engineer", "paul", "the secretary of the king")
TEXTS = [f"{name} {verb}" for name in NAMES for verb in ("is here", "opened the door", "likes math and science")]
SPANS = [(0, text.index(" ")) for text in TEXTS]
CONTEXTS = ["{} is a nurse", "the engineer said that {} likes math", "{} opened the door"]
WITHIN = {"rtol": 1e-6, "atol": 1e-6}
SENTIMENT = {"num_labels": 3, "id2label": {0: "bad", 1: "neutral", 2: "good"}}

Folder = Callable[..., Path]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded_views, "TEXTS_IN_PART", 5)


def same(one: Any, other: Any) -> None:
    """Compare arrays, scores and lists of either."""
    if hasattr(one, "log_probabilities"):
        for name in vars(one):
            same(getattr(one, name), getattr(other, name))
    elif isinstance(one, np.ndarray):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, **WITHIN)
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    else:
        assert one == other


def likelihoods(view: Any) -> Iterator[Any]:
    yield view.log_probabilities(TEXTS)
    yield view.log_probabilities([])
    yield view.token_ids(TEXTS)
    yield view.token_log_probabilities(TEXTS)
    yield view.token_log_probabilities(TEXTS, [[1]] * len(TEXTS)) if view.masked else None
    yield view.filler_log_probabilities(CONTEXTS, ["john", "mary"])


def test_a_masked_model_by_part(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}")
    whole, parts = subject.view("likelihood"), shard_view(subject, "likelihood", LocalEngine())
    assert isinstance(parts, MaskedLikelihood)
    assert (parts.name, parts.mask_token, parts.longest) == (whole.name, whole.mask_token, whole.longest)
    assert parts.next_sentence is None
    for one, other in zip(likelihoods(whole), likelihoods(parts), strict=True):
        same(one, other)
    same(
        whole.span_log_probabilities(TEXTS, SPANS, later="absent"),
        parts.span_log_probabilities(TEXTS, SPANS, later="absent"),
    )
    same(
        whole.unmasked_log_probabilities(TEXTS, attention=True), parts.unmasked_log_probabilities(TEXTS, attention=True)
    )
    assert parts.top_fillers(CONTEXTS, 3) == whole.top_fillers(CONTEXTS, 3)


def test_a_next_sentence_head_by_part(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('BertForPreTraining')}")
    whole, parts = subject.view("likelihood"), shard_view(subject, "likelihood", LocalEngine())
    same(
        whole.next_sentence.log_probabilities(TEXTS, TEXTS[::-1]),
        parts.next_sentence.log_probabilities(TEXTS, TEXTS[::-1]),
    )


def test_a_causal_model_by_part(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}")
    whole, parts = subject.view("likelihood"), shard_view(subject, "likelihood", LocalEngine())
    assert isinstance(parts, TokenLikelihood)
    assert isinstance(parts, TextContinuation)
    assert not isinstance(parts, MaskedLikelihood)
    for one, other in zip(likelihoods(whole), likelihoods(parts), strict=True):
        same(one, other)
    assert parts.generate(2, 5, seed=3, start="He") == whole.generate(2, 5, seed=3, start="He")


def test_sentences_and_labels_by_part(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('BertForSequenceClassification', **SENTIMENT)}")
    whole, parts = subject.view("sentences"), shard_view(subject, "sentences", LocalEngine())
    assert isinstance(parts, SentenceEncoder)
    assert isinstance(parts, ReportsUnknownWords)
    assert (parts.name, parts.layers, parts.pooling) == (whole.name, whole.layers, whole.pooling)
    same(whole.encode(TEXTS, layer=1, pooling="cls"), parts.encode(TEXTS, layer=1, pooling="cls"))
    same(whole.encode_layers(TEXTS), parts.encode_layers(TEXTS))
    assert parts.unknown_words([*TEXTS, "a ☃ b"]) == whole.unknown_words([*TEXTS, "a ☃ b"])
    classes, labels = subject.view("labels"), shard_view(subject, "labels", LocalEngine())
    assert isinstance(labels, Classifier)
    assert (labels.labels, labels.exclusive) == (classes.labels, classes.exclusive)
    same(classes.predict(TEXTS), labels.predict(TEXTS))


def test_bad_texts_are_named_where_they_stand(tiny_folder: Folder) -> None:
    subject = eh.open(f"hf:{tiny_folder('BertForSequenceClassification', **SENTIMENT)}")
    view = shard_view(subject, "labels", LocalEngine())
    with pytest.raises(UsageError, match=r"text 2 has 102 tokens.*\(counted from text 5\)\n  hint: split"):
        view.predict([*TEXTS[:7], "he " * 100])
    with pytest.raises(UsageError, match="single text"):
        view.predict("he")
    likelihood = shard_view(eh.open(f"hf:{tiny_folder('BertForMaskedLM')}"), "likelihood", LocalEngine())
    with pytest.raises(UsageError, match="18 and 1 items"):
        likelihood.span_log_probabilities(TEXTS, [(0, 1)])


def test_a_warning_of_a_worker_reaches_the_caller(tiny_folder: Folder) -> None:
    view = shard_view(eh.open(f"hf:{tiny_folder('BertForMaskedLM')}"), "likelihood", LocalEngine())
    with pytest.warns(EvenhandWarning, match="1 of 3 texts have more than the 62 tokens") as caught:
        view.log_probabilities([*TEXTS[:7], "he " * 100])
    assert len(caught) == 1


def test_what_cannot_run_on_an_engine_is_refused(glove: eh.Vectors, tiny_folder: Folder) -> None:
    with pytest.raises(UsageError, match="word vectors, which is measured by this process"):
        eh.open(glove).run_on(LocalEngine(2))
    here = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}").run_on(LocalEngine())
    assert here.engine is None  # one process is this one
    done = CliRunner().invoke(app, ["measure", "weat", "--engine", "ray"])
    assert done.exit_code == 2
    assert "--engine ray is for models; word vectors: measured by this process" in done.stderr
    done = CliRunner().invoke(app, ["measure", "weat", "--workers", "2"])
    assert done.exit_code == 2
    assert "--workers and --address are for --engine ray" in done.stderr
    done = CliRunner().invoke(app, ["audit", "--jobs", "2", "--engine", "ray"])
    assert done.exit_code == 2
    assert "leave one of them out" in done.stderr


@pytest.mark.xdist_group("ray")
def test_a_cluster_scores_as_one_process_before_and_after_a_change(
    tiny_folder: Folder, ray_engine: RayEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder("BertForMaskedLM")
    monkeypatch.chdir(folder.parent)
    local, remote = eh.open(f"hf:{folder.name}"), eh.open(f"hf:./{folder.name}").run_on(ray_engine)
    change = eh.mitigations.get("linear")(site="layer:2").fit(local, "gender")
    for one, other in ((local, remote), (change(local), change(remote))):
        same(one.view("likelihood").log_probabilities(TEXTS), other.view("likelihood").log_probabilities(TEXTS))
        same(one.view("sentences").encode_layers(TEXTS), other.view("sentences").encode_layers(TEXTS))
    assert "transformer" not in vars(remote)  # the calling process loads no weights
    with pytest.raises(UsageError, match="layer 9 does not exist"):
        remote.view("sentences").encode(TEXTS, layer=9)


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_the_command_line_on_a_cluster(tiny_folder: Folder, ray_engine: RayEngine) -> None:
    list(ray_engine.map(str, [1]))  # the cluster that the command then finds
    folder = f"hf:{tiny_folder('GPT2LMHeadModel')}"
    results = []
    for engine in ("local", "ray"):
        done = CliRunner().invoke(
            app, ["measure", "perplexity", folder, "--engine", engine, "--device", "cpu", "--json"]
        )
        assert done.exit_code == 0, done.output
        results.append(json.loads(done.stdout[done.stdout.index("{") :]))
    assert results[0]["value"] == pytest.approx(results[1]["value"], rel=1e-6)
    assert results[0]["interval"] == pytest.approx(results[1]["interval"], rel=1e-6)
