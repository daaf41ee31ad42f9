"""The measures of inference models on probes."""

import itertools
import json

import numpy as np
import pytest
from scipy.stats import ttest_ind

import evenhand as eh
from evenhand.audit import Plan, check
from evenhand.measures.inference import embedded, nli_measures, probe_seeds
from evenhand.models.nli import LABELS, CallableModel, NLIEnsemble
from evenhand.report.html import page
from evenhand.subjects.embedded_nli import AT_TEST_TIME, RETRAINED
from evenhand.words import Template
from evenhand.words.probes import Probe
from evenhand.words.probes.probe import Filler

FEW = 2_000
IDS = ("nli-neutrality", "nli-gap", "mab")


pytestmark = pytest.mark.xdist_group("nli-measures")  # so that its fixtures are made once


@pytest.fixture(scope="module")
def audit(glove: eh.Vectors) -> eh.Audit:
    return eh.Audit.run(glove, methods=["linear", "span"], measures=["mab"])


@pytest.fixture(scope="module")
def view(glove: eh.Vectors) -> NLIEnsemble:
    return eh.open(glove).view("inference")


def test_values_are_those_of_the_probe(view: NLIEnsemble):
    scores = probe_seeds(embedded(device="numpy"), sample=FEW, draws=nli_measures.DRAWS, seed=1).scores
    neutral = eh.measures.nli_neutrality(view, sample=FEW, seed=1)
    assert neutral.value == scores["net_neutral"].mean
    assert neutral.interval == scores["net_neutral"].interval
    both = eh.measures.nli_gap(view, sample=FEW, seed=1)
    assert [gap.score for gap in both] == ["entailment", "contradiction"]
    for gap in both:
        assert gap.value == scores[f"gap_{gap.score}"].mean
        assert gap.positive == "female"
        assert eh.measures.nli_gap(view, sample=FEW, seed=1, label=gap.score) == gap
    assert set(neutral.details["controls"]) == {"control-entailment", "control-contradiction"}


def test_items_are_occupations(view: NLIEnsemble):
    neutral = eh.measures.nli_neutrality(view, sample=FEW, seed=1)
    gap, _ = eh.measures.nli_gap(view, sample=FEW, seed=1)
    assert len(neutral.items) == len(gap.items) == 164
    # every pair of words has the same number of sampled pairs, hence the mean over occupations is the gap
    assert np.mean([item["value"] for item in gap.items]) == pytest.approx(gap.value)
    assert np.mean([item["value"] for item in neutral.items]) == pytest.approx(neutral.value)
    assert gap.details["groups"] == ["female", "male"]
    for item in gap.items:
        assert item["first"] - item["second"] == pytest.approx(item["value"], abs=2e-4)


def test_a_gap_has_its_p_value_over_the_words_of_the_groups(view: NLIEnsemble):
    """Recomputed from the tables: Student's test of six word means, which is larger than that over occupations."""
    found = probe_seeds(view.members, sample=FEW, draws=nli_measures.DRAWS, seed=1)
    gap, _ = eh.measures.nli_gap(view, sample=FEW, seed=1)
    asked = found.first.asked
    sums = np.mean([result.tables.words[..., 0].sum(axis=0) for result in found.results], axis=0)
    means = sums / found.first.tables.word_counts.sum(axis=0)
    groups = [means[list(asked.groups[name])] for name in ("female", "male")]
    assert gap.p_value == pytest.approx(ttest_ind(*groups).pvalue)
    assert gap.units[0].value == pytest.approx(gap.value, rel=1e-12)
    assert gap.units[0].unit == "premise"
    assert gap.units[0].count == 164


def test_both_scores_of_dawkins_come_from_all_pairs(audit: eh.Audit):
    error, distance = (audit.get(f"mab-explicit:{score}") for score in ("E", "d"))
    assert error.n == distance.n == 15_744
    assert 0 <= distance.value <= 2 * error.value <= 2 * 2**0.5  # the triangle inequality
    assert error.params["sample"] is None


def test_the_note_says_whether_the_model_was_retrained(audit: eh.Audit):
    cells = {stage.name: audit.get("mab-explicit:E", stage.name) for stage in audit.stages}
    assert {name: cell.note for name, cell in cells.items()} == {
        "original": "",
        "linear": RETRAINED,
        "span": AT_TEST_TIME,
    }
    assert cells["span"].params["models"] == cells["original"].params["models"]
    assert cells["linear"].params["models"] != cells["original"].params["models"]


@pytest.mark.parametrize("name", IDS)
def test_vectors_are_not_a_model(name: str, glove: eh.Vectors):
    with pytest.raises(eh.EvenhandError, match="not vectors"):
        eh.measures.get(name)(glove)


def test_a_probe_the_vocabulary_lacks_is_undefined(view: NLIEnsemble, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[probe.strange]\ntemplates = ["The {subject} ate."]\npremise = ["qqqzx", "nurse"]\nhypothesis = ["woman", "man"]\n'
    )
    measurement = eh.measures.nli_neutrality(view, path)
    assert measurement.status == "undefined"
    assert "qqqzx" in measurement.reason
    json.dumps(measurement.to_dict(), allow_nan=False)


def test_a_probe_without_two_comparable_groups(view: NLIEnsemble, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[probe.one]\ntemplates = ["The {subject} ate."]\npremise = ["nurse"]\nhypothesis = ["woman"]\n')
    assert [gap.status for gap in eh.measures.nli_gap(view, path)] == ["undefined"] * 2
    assert [score.status for score in eh.measures.mab(view, path)] == ["undefined"] * 2
    assert eh.measures.nli_neutrality(view, path).n == 1


def test_wrong_options(view: NLIEnsemble):
    with pytest.raises(eh.EvenhandError, match="neutral"):
        eh.measures.nli_gap(view, label="neutral")
    with pytest.raises(eh.EvenhandError, match="E or d"):
        eh.measures.mab(view, score="e")


def test_the_same_question_to_the_same_view_runs_once(glove: eh.Vectors, monkeypatch):
    calls = []
    monkeypatch.setattr(
        nli_measures, "probe_seeds", lambda *args, **options: calls.append(options) or probe_seeds(*args, **options)
    )
    view = eh.open(glove).view("inference")
    eh.measures.mab(view, sample=100)
    eh.measures.mab(view, sample=100)
    assert len(calls) == 1
    eh.measures.mab(eh.open(glove).view("inference"), sample=100)
    assert len(calls) == 2


def test_in_an_audit(audit: eh.Audit):
    assert audit.labels == ("mab-explicit:E", "mab-explicit:d")
    assert audit.get("mab-explicit, E", "linear").note == RETRAINED
    assert all(limit.holds for limit in check(audit, maximum=["mab-explicit, E=1.5"]))
    text = page(audit)
    assert AT_TEST_TIME in text
    assert "Inference: does the model" in text
    assert eh.measures.info("mab").limits.split(":")[0] in text


def test_other_vectors_offer_no_inference():
    words = ["she", "he", "woman", "man"]
    mine = eh.Vectors(words, [[1.0, 0.2], [-1.0, 0.2], [0.8, 0.1], [-0.7, 0.3]], name="mine")
    assert "inference" not in eh.open(mine).offers
    with pytest.raises(eh.EvenhandError, match=r"nli-gap needs the view 'inference'; mine .* offers vectors"):
        eh.Audit.run(mine, methods=[], measures=["nli-gap"])


def test_all_pairs_are_asked_on_request(glove: eh.Vectors):
    def options(full: bool) -> dict[str, dict[str, object]]:
        plan = Plan.default([eh.open(glove)], only=["nli-gap", "weat"], full_probes=full)
        return {question.label(): dict(question.options) for question in plan.questions}

    assert options(True)["nli-gap"] == {"sample": 0}
    assert options(False)["nli-gap"] == {}
    assert options(True)["weat-6"] == {}


def test_a_view_of_one_model_can_be_probed_and_several_seeds_say_how(view: NLIEnsemble):
    one = NLIEnsemble(view.members[:1])
    assert (
        eh.probe(one, "mab-explicit", sample=50).n_pairs == eh.probe(view.members[0], "mab-explicit", sample=50).n_pairs
    )
    with pytest.raises(eh.EvenhandError, match="probe_seeds"):
        eh.probe(view, "mab-explicit")


ENTAILED = {"a1": 0.5, "a2": 0.7, "b1": 0.2, "b2": 0.2, "c1": 0.1, "c2": 0.3, "d1": 0.9}


def answer(premises: list[str], hypotheses: list[str]) -> list[list[float]]:
    p = [next(value for word, value in ENTAILED.items() if f" {word} " in text) for text in hypotheses]
    return [[x, 0.95 - x, 0.05] for x in p]


MODEL = CallableModel(answer, LABELS, "table")


def probe(groups: str = "abc") -> Probe:
    fillers = tuple(Filler(word, group=word[0]) for group in groups for word in ENTAILED if word[0] == group)
    sides = {"premise": (Filler("cook"), Filler("driver"), Filler("judge")), "hypothesis": fillers}
    return Probe("own", (Template("t", "The {subject} slept."), Template("u", "The {subject} ate.")), **sides)


def measured(groups: str = "abc") -> dict[str, eh.Measurement]:
    return {m.score: m for m in eh.measures.nli_groups(MODEL, probe(groups), sample=None)}


def test_differences_by_hand() -> None:
    found = measured()
    assert list(found) == [f"{label}:{how}" for label in ("entailment", "contradiction") for how in HOWS]
    rest = {item["first"]: item["value"] for item in found["entailment:one-against-rest"].items}
    # means 0.6, 0.2, 0.2; the others of a are 0.2, those of b and c 0.4
    assert rest == pytest.approx({"a": 0.4, "b": -0.2, "c": -0.2})
    pairs = {item["word"]: item["value"] for item in found["entailment:pairwise"].items}
    assert pairs == pytest.approx({"a – b": 0.4, "a – c": 0.4, "b – c": 0.0})
    # of the 6 ways to choose 2 of 4 words, 2 are as far apart: p = 1/3, times 3 for the smallest
    assert found["entailment:pairwise"].p_value == pytest.approx(1.0)
    # of the 15 ways to choose 2 of 6 words, 1 is as far: 1/15 times 3
    assert found["entailment:one-against-rest"].p_value == pytest.approx(3 / 15)
    assert found["contradiction:pairwise"].value == pytest.approx(0.0, abs=1e-12)


HOWS = ("pairwise", "one-against-rest")


@pytest.mark.parametrize("order", ["".join(order) for order in itertools.permutations("abc")])
def test_permuted_groups_permute_the_differences(order: str) -> None:
    plain, turned = measured(), measured(order)
    for score, m in plain.items():
        assert turned[score].value == pytest.approx(m.value, abs=1e-12)
        values = [{item["word"]: item["value"] for item in one.items} for one in (m, turned[score])]
        assert values[1] == pytest.approx(values[0], abs=1e-12)


def test_a_group_of_one_word_is_left_out_and_named() -> None:
    m = measured("abcd")["entailment:pairwise"]
    assert m.details["left_out"] == ["d"]
    assert "with fewer than 2 known words: d" in m.note
    assert len(m.items) == 3
    alone = measured("ad")["entailment:pairwise"]
    assert alone.status == "undefined"
    assert "fewer than two groups" in alone.reason
