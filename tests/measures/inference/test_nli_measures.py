"""The embedded NLI models as measures of vectors: what is asked, what is said of retraining, and in an audit."""

import json

import numpy as np
import pytest

import evenhand as eh
from evenhand.audit import Plan, check
from evenhand.measures.inference import answered, embedded, probe_seeds
from evenhand.report.html import page
from evenhand.subjects.embedded_nli import AT_TEST_TIME, RETRAINED

FEW = 2_000
IDS = ("nli-neutrality", "nli-gap", "mab")


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear", "span"], measures=["mab"])


def test_values_are_those_of_the_probe(glove: eh.Vectors):
    found = probe_seeds(embedded(device="numpy"), sample=FEW, draws=answered.DRAWS, seed=1)
    neutral = eh.measures.nli_neutrality(glove, sample=FEW, seed=1)
    assert neutral.value == found.scores["net_neutral"].mean
    assert neutral.interval == found.scores["net_neutral"].interval
    assert neutral.n == found.first.n_pairs
    for label in ("entailment", "contradiction"):
        gap = eh.measures.nli_gap(glove, sample=FEW, seed=1, label=label)
        assert gap.value == found.scores[f"gap_{label}"].mean
        assert gap.positive == "female"
    assert set(neutral.details["controls"]) == {"control-entailment", "control-contradiction"}


def test_items_are_occupations(glove: eh.Vectors):
    neutral, gap = (measure(glove, sample=FEW, seed=1) for measure in (eh.measures.nli_neutrality, eh.measures.nli_gap))
    assert len(neutral.items) == len(gap.items) == 164
    # every pair of words has the same number of sampled pairs, hence the mean over occupations is the gap
    assert np.mean([item["value"] for item in gap.items]) == pytest.approx(gap.value)
    assert np.mean([item["value"] for item in neutral.items]) == pytest.approx(neutral.value)


def test_both_scores_of_dawkins_come_from_all_pairs(audit: eh.Audit):
    error, distance = (audit.get(f"mab-explicit, {score}") for score in ("E", "d"))
    assert error.n == distance.n == 15_744
    assert 0 <= distance.value <= 2 * error.value <= 2 * 2**0.5  # the triangle inequality
    assert error.params["sample"] is None


def test_the_note_says_whether_the_model_was_retrained(audit: eh.Audit):
    found = {stage.name: audit.get("mab-explicit, E", stage.name) for stage in audit.stages}
    assert {name: one.note for name, one in found.items()} == {
        "original": "",
        "linear": RETRAINED,
        "span": AT_TEST_TIME,
    }
    assert "without the he-she direction" in found["linear"].params["trained_on"]
    assert found["span"].params["models"] == found["original"].params["models"]


@pytest.mark.parametrize("name", IDS)
def test_own_vectors_have_no_model(name):
    found = eh.measures.get(name)(eh.Vectors(["he", "she"], np.eye(2), name="mine"))
    assert (found.status, found.value) == ("undefined", None)
    assert "not mine" in found.reason
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_probe_the_vocabulary_lacks_is_undefined(glove: eh.Vectors, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[probe.strange]\ntemplates = ["The {subject} ate."]\npremise = ["qqqzx", "nurse"]\nhypothesis = ["woman", "man"]\n'
    )
    found = eh.measures.nli_neutrality(glove, path)
    assert found.status == "undefined"
    assert "qqqzx" in found.reason


def test_a_probe_without_two_comparable_groups(glove: eh.Vectors, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[probe.one]\ntemplates = ["The {subject} ate."]\npremise = ["nurse"]\nhypothesis = ["woman"]\n')
    assert eh.measures.nli_gap(glove, path).status == "undefined"
    assert eh.measures.mab(glove, path).status == "undefined"
    assert eh.measures.nli_neutrality(glove, path).n == 1


def test_wrong_options(glove: eh.Vectors):
    with pytest.raises(eh.EvenhandError, match="neutral"):
        eh.measures.nli_gap(glove, label="neutral")
    with pytest.raises(eh.EvenhandError, match="E or d"):
        eh.measures.mab(glove, score="e")


def test_the_same_question_is_asked_once(glove: eh.Vectors, monkeypatch):
    answered._run.cache_clear()
    calls = []
    true_run = answered.probe_seeds
    monkeypatch.setattr(answered, "probe_seeds", lambda *a, **k: calls.append(k) or true_run(*a, **k))
    eh.measures.mab(glove, score="E", sample=100)
    eh.measures.mab(glove, score="d", sample=100)
    assert len(calls) == 1
    eh.measures.mab(glove.with_matrix(glove.matrix.copy()), score="d", sample=100)
    assert len(calls) == 2


def test_in_an_audit(audit: eh.Audit):
    assert [case.label for case in audit.cases] == ["mab-explicit, E", "mab-explicit, d"]
    assert audit.get("mab-explicit, E", "linear").note == RETRAINED
    assert check(audit, maximum=["mab-explicit, E=1.5"]) == []
    text = page(audit)
    assert AT_TEST_TIME in text
    assert "Inference: what a model concludes" in text
    assert eh.measures.info("mab").limits.split(":")[0] in text


def test_other_vectors_in_an_audit_say_so():
    words = ["she", "he", "woman", "man"]
    mine = eh.Vectors(words, [[1.0, 0.2], [-1.0, 0.2], [0.8, 0.1], [-0.7, 0.3]], name="mine")
    audit = eh.Audit.run(mine, methods=[], measures=IDS)
    assert len(audit.results) == 5
    assert all("not mine" in result.measurement.reason for result in audit.results)
    assert check(audit, maximum=["nli-neutrality=1"])[0].why.startswith("undefined")


def test_all_pairs_are_asked_on_request():
    def options(full):
        cases = Plan.default(only=["nli-gap", "weat"], full_probes=full).cases
        return {case.label: dict(case.options) for case in cases}

    assert options(True)["nli-gap, entailment"] == {"label": "entailment", "sample": None}
    assert "sample" not in options(False)["nli-gap, entailment"]
    assert options(True)["weat-6"] == {}
