"""What every association measure owes its readers, whatever it measures."""

import json

import pytest

from evenhand import Vectors, concept, measures, query
from evenhand.measures import Measurement
from evenhand.words import concept_query

MEASURES = [name for name in measures.ids() if measures.info(name).family == "association"]


ENGLISH = [name for name in MEASURES if measures.info(name).takes != "pairs"]  # English words have no two forms


def default_query(name):
    """Return the first default query of a measure, or WEAT 6; for measures of intersections a query about one."""
    if measures.info(name).crossed:
        return concept_query("gender x race/pleasant-unpleasant", concept("gender x race"))
    return (*measures.info(name).queries, "weat-6")[0]


@pytest.fixture(scope="module")
def vectors():
    return Vectors.default()


@pytest.mark.parametrize("name", ENGLISH)
def test_the_record_is_plain_data_and_comes_back(name, vectors):
    m = measures.get(name)(vectors, default_query(name), seed=3)
    assert m.status == "ok"
    assert (m.seed, m.measure) == (3, name)
    assert m.query == getattr(default_query(name), "name", default_query(name))
    assert m.params["case"] == vectors.case
    plain = json.loads(json.dumps(m.to_dict(), allow_nan=False))
    assert Measurement.from_dict(plain).to_dict() == m.to_dict()


@pytest.mark.parametrize("name", ENGLISH)
def test_the_interval_holds_the_value(name, vectors):
    m = measures.get(name)(vectors, default_query(name))
    assert m.interval[0] <= m.value <= m.interval[1]


@pytest.mark.parametrize("name", ENGLISH)
def test_vectors_without_the_words_are_undefined_and_say_which_set(name):
    m = measures.get(name)(Vectors(["unrelated"], [[1.0, 2.0]]), default_query(name))
    assert (m.status, m.value, m.interval, m.p_value) == ("undefined", None, None, None)
    assert "in the vocabulary" in m.reason
    assert not m.coverage.found


@pytest.mark.parametrize("name", [name for name in MEASURES if measures.info(name).takes == "query"])
def test_a_query_that_lost_most_words_is_undefined_unless_min_share_allows_it(name, vectors):
    everything = query(default_query(name))
    cut = vectors.restrict([spelling for word in everything.words[::3] if (spelling := vectors.find(word))])
    m = measures.get(name)(cut, everything)
    assert m.status == "undefined"
    assert "min_share=0.5" in m.reason
    assert "too few words" not in measures.get(name)(cut, everything, min_share=0).reason


@pytest.mark.parametrize("name", MEASURES)
def test_the_description_is_complete(name):
    info = measures.info(name)
    assert info.id == name
    assert info.family == "association"
    assert all((info.title, info.formula, info.reading, info.limits, info.cites))
    assert "What it does not tell you" in measures.get(name).__doc__
