"""The sentence sets with real transformers: both kinds of model, the audit by concept, and missing data."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand import measures, words
from evenhand.audit.plan import concept_queries
from evenhand.cli import app
from evenhand.measures.likelihood.bbq import answer_scores
from evenhand.measures.likelihood.bbq_items import BBQItem
from evenhand.measures.likelihood.holistic_bias import holistic_bias
from evenhand.measures.likelihood.honest import HonestTemplate, complete
from evenhand.measures.registry import as_measurements
from scripted_model import ScriptedModel, uniform

torch = pytest.importorskip("torch")

SETS = ("bbq", "holistic-bias", "honest", "pronoun-share", "winobias", "winogender")
NEED_DATA = ("bbq", "holistic-bias", "honest", "winobias", "winogender")


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_DATA", raising=False)


@pytest.fixture
def holistic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a small HolisticBias and nothing else."""
    folder = tmp_path / "data" / "holistic-bias"
    folder.mkdir(parents=True)
    texts = {
        "descriptors": {"religion": {"all": ["good", "bad", "nice"]}, "age": {"all": ["old", "young"]}},
        "nouns": {"neutral": [["person", "people"], ["worker", "workers"], ["man", "men"], ["girl", "girls"]]},
        "sentence_templates": {"I'm {noun_phrase}.": {}, "I like {plural_noun_phrase}.": {}, "Here is {noun_phrase}.": {}},
        "standalone_noun_phrases": {},
    }  # fmt: skip
    for name, content in texts.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "data"))
    return folder


@pytest.mark.parametrize("class_name", ["BertForMaskedLM", "GPT2LMHeadModel"])
def test_pronouns_on_tiny_models(tiny_folder: Callable[..., Path], class_name: str) -> None:
    view = eh.open(f"hf:{tiny_folder(class_name)}").view("likelihood")
    pearson, _, slope = measures.get("pronoun-share")(view)
    assert pearson.n == 40
    assert pearson.interval[0] < 0 < pearson.interval[1]  # random weights know nothing of the labour market
    assert abs(slope.value) < 0.5


def masked_logs(view: Any, prefix: str, filler: str, suffix: str) -> list[float]:
    """By torch alone: log P of each token of the filler, the filler masked from that token on."""
    tokenizer, model = view.transformer.tokenizer, view.transformer.model
    before, inside, after = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prefix, filler, suffix)
    )
    logs = []
    for shown in range(len(inside)):
        hidden = [tokenizer.mask_token_id] * (len(inside) - shown)
        ids = [tokenizer.cls_token_id, *before, *inside[:shown], *hidden, *after, tokenizer.sep_token_id]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0]
        logs.append(float(logits[1 + len(before) + shown].log_softmax(-1)[inside[shown]]))
    return logs


def one_mask_at_a_time(view: Any, text: str) -> list[float]:
    """By torch alone: log P of each token of a text with this token masked."""
    ids = view.transformer.tokenizer(text)["input_ids"]
    logs = []
    for place in range(1, len(ids) - 1):
        hidden = [*ids[:place], view.transformer.tokenizer.mask_token_id, *ids[place + 1 :]]
        with torch.no_grad():
            logits = view.transformer.model(input_ids=torch.tensor([hidden])).logits[0, place]
        logs.append(float(logits.log_softmax(-1)[ids[place]]))
    return logs


def causal_logs(view: Any, text: str) -> list[float]:
    """By torch alone: log P of each token of a text after the token for its beginning."""
    ids = [view.tokenizer.bos_token_id, *view.tokenizer(text, add_special_tokens=False)["input_ids"]]
    with torch.no_grad():
        logs = view.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return [float(logs[place, token]) for place, token in enumerate(ids[1:])]


def test_answers_of_bbq_by_hand(tiny_folder: Callable[..., Path]) -> None:
    item = BBQItem(
        "Age",
        "1",
        0,
        "ambig",
        "neg",
        "a man met a girl",
        "who is bad?",
        ("the man", "the girl", "not a"),
        2,
        2,
        0,
        "label",
    )
    options = ["; ".join(item.answers[place] for place in order) for order in permutations(range(3))]
    prompts = [f"a man met a girl\nwho is bad?\nOptions: {text}.\nAnswer:" for text in options]
    masked = eh.open(f"hf:{tiny_folder('BertForMaskedLM', max_position_embeddings=128)}").view("likelihood")
    masked.transformer.tokenizer.model_max_length = 128
    expected = [
        np.mean([sum(masked_logs(masked, prompt, answer, ".")) for prompt in prompts]) for answer in item.answers
    ]
    np.testing.assert_allclose(answer_scores(masked, [item])[0], expected, rtol=1e-5)
    causal = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel', n_positions=256)}").view("likelihood")
    rows = []
    for answer in item.answers:
        count = len(causal.token_ids([answer])[0].ids)  # the blank before it is a token of its own here
        rows.append(np.mean([sum(causal_logs(causal, f"{prompt} {answer}")[-count:]) for prompt in prompts]))
    np.testing.assert_allclose(answer_scores(causal, [item])[0], rows, rtol=1e-5)


def test_losses_of_holistic_bias_by_hand(tiny_folder: Callable[..., Path], holistic: Path) -> None:
    nouns, templates = (
        (("person", "people"), ("worker", "workers"), ("man", "men"), ("girl", "girls")),
        ("I'm a {}.", "I like {}.", "Here is a {}."),
    )
    texts = [t.format(f"old {one if 'like' not in t else many}") for t in templates for one, many in nouns]
    texts = [text.replace("a old", "an old") for text in texts]
    causal = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}").view("likelihood")
    masked = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}").view("likelihood")
    measured = holistic_bias(causal, holistic, axis="age")
    (old,) = [item for item in measured.items if item["descriptor"] == "old"]
    assert old["value"] == pytest.approx(np.mean([-np.mean(causal_logs(causal, text)) for text in texts]), rel=1e-5)
    measured = holistic_bias(masked, holistic, axis="age")
    (old,) = [item for item in measured.items if item["descriptor"] == "old"]
    losses = [-np.mean(one_mask_at_a_time(masked, text)) for text in texts]
    assert old["value"] == pytest.approx(np.mean(losses), rel=1e-4)


def test_fills_of_honest_by_hand(tiny_folder: Callable[..., Path]) -> None:
    template = HonestTemplate("the woman is a {}.", "[I] is a [M].", "the woman", "female")
    masked = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}").view("likelihood")
    tokenizer = masked.transformer.tokenizer
    ids = tokenizer(f"the woman is a {tokenizer.mask_token}.")["input_ids"]
    with torch.no_grad():
        logits = masked.transformer.model(input_ids=torch.tensor([ids])).logits[0, ids.index(tokenizer.mask_token_id)]
    ranked = tokenizer.convert_ids_to_tokens(logits.argsort(descending=True).tolist())
    whole = [word for word in ranked if not word.startswith(("##", "["))]
    assert complete(masked, [template], 5) == [whole[:5]]
    causal = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}").view("likelihood")
    assert complete(causal, [template], 3, seed=7) == [causal.generate(3, 4, seed=7, start="the woman is a")]


@pytest.mark.filterwarnings("ignore:.*its content differs from the catalog")
def test_holistic_bias_in_an_audit_follows_the_concept(tiny_folder: Callable[..., Path], holistic: Path) -> None:
    subject = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}")
    audit = eh.Audit.run(subject, measures=["holistic-bias"], methods=[], concept="religion")
    assert audit.get("holistic-bias").params["axis"] == "religion"
    assert 0 <= audit.get("holistic-bias").value <= 100


def test_without_data_an_audit_asks_nothing(no_data: None) -> None:
    for name in NEED_DATA:
        assert concept_queries(measures.info(name), words.concept("gender")) == ()
    assert concept_queries(measures.info("pronoun-share"), words.concept("gender")) == ("occupations-share-of-women",)


@pytest.mark.filterwarnings("ignore:.*its content differs from the catalog")
def test_sets_about_gender_are_not_asked_about_religion(holistic: Path) -> None:
    asked = {name: concept_queries(measures.info(name), words.concept("religion")) for name in SETS}
    assert {name for name, queries in asked.items() if queries} == {"holistic-bias"}
    own = words.Concept("colour", groups={"warm": ["red"], "cold": ["blue"]})
    assert concept_queries(measures.info("holistic-bias"), own) == ()


@pytest.mark.parametrize(("name", "line"), [("bbq", "fetch bbq"), ("honest", "fetch honest hurtlex")])
def test_the_verb_names_what_to_fetch(no_data: None, tiny_folder: Callable[..., Path], name: str, line: str) -> None:
    done = CliRunner().invoke(app, ["measure", name, f"hf:{tiny_folder('BertForMaskedLM')}"])
    assert done.exit_code == 4
    assert line in str(done.exception) + done.stderr


@pytest.mark.parametrize("name", SETS)
def test_every_score_has_a_direction_and_says_its_ideal(name: str) -> None:
    info = measures.info(name)
    assert info.view == "likelihood"
    assert "absence" in info.limits or "fair" in info.limits or "opinion" in info.limits


@pytest.mark.parametrize("masked", [True, False])
def test_a_model_that_gives_nan_has_no_scores(masked: bool) -> None:
    class Broken(ScriptedModel):
        def log_probabilities(self, texts, *, batch=None):
            raise eh.errors.DegenerateError("the log-probability of text 0 is nan")

        def filler_log_probabilities(self, contexts, fillers, *, tokens=None):
            raise eh.errors.DegenerateError("the log-probability of text 0 is nan")

    measured = as_measurements(measures.get("pronoun-share")(Broken(uniform(), masked=masked)))
    assert all(m.status == "undefined" and "nan" in m.reason for m in measured)
    assert all(m.value is None or np.isfinite(m.value) for m in measured)
