"""The sentence sets with real transformers: both kinds of model, the audit by concept, and missing data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand import measures, words
from evenhand.audit.plan import concept_queries
from evenhand.cli import app
from evenhand.measures.registry import as_measurements
from scripted_model import ScriptedModel, uniform

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
