"""A probe in parts: the same result to the last bit from this process, from two others and from a Ray cluster."""

import json
import pickle

import numpy as np
import pytest

from evenhand.engines import LocalEngine
from evenhand.errors import UsageError
from evenhand.measures.inference import accumulator, probe
from evenhand.models.nli import LABELS, CallableModel, DecomposableAttention
from evenhand.models.nli.decomposable import random_arrays
from evenhand.words import probes

RUNS = {
    "all pairs": {"probe": "mab-explicit"},
    "a sample": {"probe": "gender-occupation", "sample": 700, "seed": 3},
}


@pytest.fixture(scope="module")
def model(glove):
    return DecomposableAttention(random_arrays(glove.dim, 8), glove, name="tiny")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    for name in ("PAIRS_IN_PART", "SLOW_PAIRS_IN_PART"):
        monkeypatch.setattr(accumulator, name, 3_000)
    monkeypatch.setattr(accumulator, "PAIRS_AT_ONCE", 300)


def same(one, other):
    assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())
    for name in ("words", "word_counts", "phrases", "phrase_counts"):
        assert getattr(one.tables, name).tobytes() == getattr(other.tables, name).tobytes()
    assert one.extremes == other.extremes
    for name, draws in one.drawn.items():
        assert draws.tobytes() == other.drawn[name].tobytes()


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_two_processes_answer_as_one(model, run):
    options = {**run, "draws": 50, "controls": False}  # each further call starts two processes
    same(probe(model, **options), probe(model, **options, engine=LocalEngine(2)))


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_cluster_answers_as_one_process(model, ray_engine, run):
    same(probe(model, **run, draws=50), probe(model, **run, draws=50, engine=ray_engine))


@pytest.mark.xdist_group("ray")
def test_a_function_goes_to_the_cluster_too(ray_engine):
    def answer(premises, hypotheses):
        lengths = np.array([[len(p), len(h), len(p) + 2 * len(h)] for p, h in zip(premises, hypotheses, strict=True)])
        return lengths / lengths.sum(axis=1, keepdims=True)

    asked = CallableModel(answer, LABELS)
    same(probe(asked, "mab-explicit", draws=50), probe(asked, "mab-explicit", draws=50, engine=ray_engine))
    with pytest.raises(UsageError, match="cannot be sent to another process"):
        probe(asked, "mab-explicit", engine=LocalEngine(2))


def test_parts_change_no_more_than_rounding(model, monkeypatch):
    many = probe(model, "mab-explicit", draws=50)
    monkeypatch.setattr(accumulator, "PAIRS_IN_PART", 1 << 30)
    one = probe(model, "mab-explicit", draws=50)
    assert one.n_pairs == many.n_pairs
    np.testing.assert_allclose(one.tables.words, many.tables.words, atol=1e-5)
    np.testing.assert_allclose(one.tables.phrases, many.tables.phrases, atol=1e-5)
    assert many.headline == pytest.approx(one.headline, abs=1e-6)
    np.testing.assert_allclose(one.drawn["net_neutral"], many.drawn["net_neutral"], atol=1e-6)


@pytest.mark.parametrize("engine", [LocalEngine(), LocalEngine(2)], ids=["one process", "two"])
def test_progress_reaches_the_last_phrase(model, engine):
    told = []
    probe(model, "mab-explicit", draws=0, controls=False, engine=engine, progress=lambda *state: told.append(state))
    done = [state[0] for state in told]
    assert done == sorted(done)
    assert done[-1] == told[-1][1] == probes.probe("mab-explicit").shape[0]
    assert len(done) > 1


def test_a_part_of_a_probe_has_its_phrases(model):
    asked = probes.probe("mab-explicit")
    some = pickle.loads(pickle.dumps(asked.part(2, 5)))
    assert some.shape == (3, *asked.shape[1:])
    assert some.phrases.all == asked.phrases.all[2:5]
    each = asked.n_pairs // asked.shape[0]
    assert some.pair(1).premise == asked.pair(2 * each + 1).premise
    for wrong in ((0, 0), (-1, 2), (0, asked.shape[0] + 1)):
        with pytest.raises(UsageError, match="there are no phrases"):
            asked.part(*wrong)
    with pytest.raises(UsageError, match="there is no phrase 3"):
        some.phrases[3]
