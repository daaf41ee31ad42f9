"""A call of a measure: what it records, and when it has no value."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Literal, get_type_hints

import numpy as np
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures.call import Call, ListCoverage, collapse_problem, coverage_problem, measure
from evenhand.measures.quality.rated_sets import Questions, RatedPairs
from evenhand.measures.registry import MEASURES, Info, as_measurements
from evenhand.models.vectors import Coverage, Vectors
from evenhand.words import concept_query

NAMES = [name for name in measures.ids() if measures.info(name).view == "vectors"]
ARGUMENTS = {
    "indirect-bias": [("nurse", "teacher"), ("doctor", "engineer")],
    "generalised-weat": "weat-6",
    "interaction": concept_query("gender x age/career-family", eh.concept("gender x age")),
    "analogy": Questions("mine", (("man", "woman", "king", "queen"),), ("all",)),
    "similarity": RatedPairs("mine", (("cat", "dog"), ("cup", "mug"), ("sun", "tax")), np.array([8.0, 9.0, 1.0])),
}
LISTS = {
    "ripa": "bolukbasi2016-professions",
    "direct-bias": "bolukbasi2016-professions",
    "same": "bolukbasi2016-professions",
    "proximity-bias": "bolukbasi2016-professions",
    "neighbours": "bolukbasi2016-professions",
    "retention": "bolukbasi2016-professions",
    "occupation-share": "occupations-share-of-women",
}


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    return Vectors.default()


def test_exactly_half_of_a_list_is_enough() -> None:
    assert coverage_problem([ListCoverage("a", 5, 10)]) == ""
    assert coverage_problem([ListCoverage("a", 4, 10), ListCoverage("b", 9, 10), ListCoverage("c", 1, 3)]) == (
        "too few words are in the vocabulary: a 4 of 10, c 1 of 3 (min_share=0.5)"
    )
    assert coverage_problem([ListCoverage("p", 1, 3, "pair")], 0.2) == ""
    assert coverage_problem([ListCoverage("p", 0, 3, "pair")], 0.0) == "no pair of p is in the vocabulary"
    with pytest.raises(UsageError, match="between 0 and 1, got 2"):
        coverage_problem([], 2)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_which_more_than_half_is_missing_has_no_number(name: str, vectors: Vectors) -> None:
    words = eh.words.wordset(LISTS[name])
    known = [word for word in words if word in vectors]
    remaining = set(known[: int(0.4 * len(words))])
    cut = vectors.restrict([word for word in vectors.words if word in remaining or word not in known])
    m = measures.get(name)(cut, words)
    assert (m.status, m.value) == ("undefined", None)
    assert f"{len(remaining)} of {len(words)}" in m.reason
    assert measures.get(name)(cut, words, min_share=0.3).status == "ok"


@pytest.mark.parametrize("name", ["direct-bias", "ripa", "indirect-bias"])
def test_the_pairs_that_define_the_direction_are_a_list_too(name: str, vectors: Vectors) -> None:
    pairs = eh.concept("gender").pairs
    lost = {word for pair in list(pairs)[:6] for word in pair}
    cut = vectors.restrict([word for word in vectors.words if word not in lost])
    argument = ARGUMENTS.get(name, "bolukbasi2016-professions")
    complete = sum(all(word in cut for word in pair) for pair in pairs)
    m = measures.get(name)(cut, argument)
    assert m.reason == f"too few pairs are in the vocabulary: {pairs.name} {complete} of 10 (min_share=0.5)"


def test_collapsed_norms_are_compared_with_the_reference_or_with_one() -> None:
    v = Vectors(["a", "b", "c"], np.eye(3) * 1e-9)
    assert collapse_problem(v) == "the vectors collapsed: their median norm is 1e-09, below 1e-06 of 1"
    assert "of the reference's" in collapse_problem(v, v.with_matrix(np.eye(3)))
    assert collapse_problem(v, v) == ""  # small, but as small as they were
    assert collapse_problem(v.with_matrix(np.eye(3) * 1e-3)) == ""
    assert collapse_problem(Vectors([], np.empty((0, 3)))) == ""


@pytest.mark.parametrize("name", NAMES)
def test_no_measure_has_a_value_on_collapsed_vectors(name: str, vectors: Vectors) -> None:
    dust = vectors.with_matrix(vectors.matrix * np.float32(1e-15))
    query = ARGUMENTS.get(name, (*measures.info(name).queries, "")[0])
    for reference in (None, vectors):
        for m in as_measurements(measures.get(name)(dust, query, reference=reference)):
            assert (m.status, m.value) == ("undefined", None)
            assert "the vectors collapsed" in m.reason


def info_of(id: str) -> Info:
    return Info(id, "Toy", "words", "zero", "f", "r", "l", (), (), definition=4)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch):
    """Return a decorator of measures that are forgotten afterwards."""
    monkeypatch.setattr(MEASURES, "_objects", dict(MEASURES._objects))
    return measure(info_of("toy"))


def test_all_results_of_a_call_share_what_was_asked() -> None:
    call = Call(info_of("toy"), "model", {"k": 1}, 3)
    call.describe("q", positive="first", coverage=Coverage((), ("b",)), params={"k": 2})
    value = call.measurement(1, 2, score="s", reading="r", details={"x": 1})
    none = call.undefined("why", score="s")
    not_finite = call.measurement(float("nan"), 2, score="s", reading="0 / 0")
    for m in (value, none, not_finite):
        assert (m.measure, m.query, m.model, m.params, m.seed) == ("toy", "q", "model", {"k": 2}, 3)
        assert (m.positive, m.score, m.definition, m.coverage.missing) == ("first", "s", 4, ("b",))
    assert (value.value, value.n, value.reading, value.details) == (1.0, 2, "r", {"x": 1})
    assert (none.value, none.reason, none.n) == (None, "why", 0)
    assert (not_finite.status, not_finite.reason) == ("undefined", "0 / 0")


def test_the_parameters_are_recorded(toy) -> None:
    @toy
    def count(call, view, words, *, concept="gender", k=10, sample=None, pool=(), order=None, reference=None, seed=0):
        call.describe("words")
        return call.measurement(k, k, reading="r")

    v = Vectors(["a"], [[1.0]], name="toy vectors")
    m = count(v, ["a"], concept=eh.concept("religion"), pool=("a", "b"), order=object(), reference=v, seed=5)
    assert m.params == {
        "concept": "religion", "k": 10, "sample": None, "pool": ["a", "b"], "order": "given", "case": "auto",
    }  # fmt: skip
    assert (m.model, m.seed, m.query, count.info.id) == ("toy vectors", 5, "words", "toy")
    with pytest.raises(TypeError, match=r"toy\(\) got an unexpected keyword argument 'kk'"):
        count(v, ["a"], kk=1)


@pytest.mark.parametrize("error", [DegenerateError, VocabularyError])
def test_what_cannot_be_measured_is_undefined(toy, error: type[Exception]) -> None:
    @toy
    def broken(call, view, words, *, several=False, seed=0):
        call.describe("words", scores=("one", "two") if several else "one")
        raise error("why")

    m = broken(None, "words")
    assert (m.status, m.reason, m.score, m.query, m.definition) == ("undefined", "why", "one", "words", 4)
    assert [m.score for m in broken(None, "words", several=True)] == ["one", "two"]


def test_other_errors_reach_the_user(toy) -> None:
    @toy
    def broken(call, view, words, *, seed=0):
        raise UsageError("no such option")

    with pytest.raises(UsageError, match="no such option"):
        broken(None, "words")


@pytest.mark.parametrize("returned", [0.5, None, (0.5,)])
def test_a_measure_that_returns_no_measurement_is_an_error(toy, returned: object) -> None:
    @toy
    def number(call, view, words, *, seed=0):
        return returned

    with pytest.raises(UsageError, match="a measure returned"):
        number(None, "words")


def test_a_measure_takes_the_call_first(toy) -> None:
    with pytest.raises(UsageError, match="the first parameter of a measure is `call`, old has 'vectors'"):

        @toy
        def old(vectors, query, *, seed=0):
            return None


def test_a_parameter_of_names_takes_no_other_value(toy) -> None:
    @toy
    def compare(call, view, words, *, distance: Literal["near", "far"] | None = None, runs: int = 1, seed=0):
        return call.measurement(1.0, runs, reading="r")

    assert compare(None, "words", distance="far").params == {"distance": "far", "runs": 1}
    assert compare(None, "words").params["distance"] is None
    with pytest.raises(UsageError, match="distance must be near or far, got 'middle'"):
        compare(None, "words", distance="middle")


@pytest.mark.parametrize("name", measures.ids())
def test_the_types_of_a_measure_are_known_at_run_time(name: str) -> None:
    get_type_hints(inspect.unwrap(measures.get(name)))  # otherwise its options would not be checked


def test_the_definition_number_is_that_of_the_measure(vectors: Vectors) -> None:
    """A record of an earlier definition must not pass for one of today's."""
    assert measures.weat(vectors, "weat-6", samples=10).definition == measures.info("weat").definition == 3


@pytest.mark.parametrize(("view", "family"), [("vectors", "association"), ("generation", "text"), ("chat", "chat")])
def test_reports_show_a_measure_under_its_view_unless_it_says_otherwise(view: str, family: str) -> None:
    info = replace(info_of("weat"), view=view, family="")
    assert info.family == family
    assert replace(info, family="quality").family == "quality"
