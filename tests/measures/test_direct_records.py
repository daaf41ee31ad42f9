"""What all measures share, on small inputs that reach every branch: calls, groups, numbers as people read them, records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.errors import DegenerateError, UsageError, VocabularyError
from evenhand.measures import numbers
from evenhand.measures.call import (
    Call,
    ListCoverage,
    _plain,
    collapse_problem,
    coverage_problem,
    names_taken,
    word_interval,
)
from evenhand.measures.groups import (
    GroupRow,
    GroupTable,
    adjust_rows,
    against_others,
    contrasts,
    group_word_p,
    means_by,
    same_words,
)
from evenhand.measures.measurement import Measurement, undefined, word_items
from evenhand.measures.registry import Info
from evenhand.models.vectors import Coverage, Vectors
from evenhand.stats.permutation import relabelling_p
from evenhand.stats.units import mean_units, null_p
from evenhand.words import Pairs, WordSet
from meaningless import number, plain
from recorded_numbers import check_whole

INFO = Info("toy", "Toy", "words", "zero", "f", "r", "l", (), definition=3)


def measured(value: float | None, interval: Any = None, p: float | None = None, **more: Any) -> Measurement:
    status: Any = "ok" if value is not None else "undefined"
    given = {"coverage": Coverage(("a", "b"), ("c",)), **more}
    return Measurement("toy", value, 1234, interval=interval, p_value=p, status=status, **given)


VALUES = (
    None, 0.0, 4.9e-7, 5e-7, -5e-7, 0.000999, 0.001, -0.00123, 0.0123, 0.5, 0.9994, 0.9996, 1.0, -1.5, 9.996, 99.94,
    99.996, 100.0, -123.456, 999.6, 1000.0, -1234.5, 123456.7,
)  # fmt: skip
INTERVALS = (
    (0.5, 0.5), (0.4, 0.6), (0.4999, 0.5001), (0.4999999, 0.5000001), (-1.0, 2.0), (-2000.0, 3000.0), (999.0, 1000.0),
    (900.0, 1100.0), (0.0, 0.02), (-0.02, 0.0), (0.3, 0.5002), (99.5, 100.5), (0.0001, 0.00012), (-0.0, 0.0),
)  # fmt: skip


def shown() -> dict[str, Any]:
    ps = (0.0, 0.00099, 0.001, 0.0123, 0.0494, 0.0495, 0.04999, 0.05, 0.0501, 0.9996, 1.0)
    of_interval = [
        measured(value, interval)
        for interval in INTERVALS
        for value in (0.0, 0.00005, 0.0004, 0.5, 0.50004, -1.5, 100.0, 999.4, 1050.0, None)
    ]
    return {
        "numbers": [numbers.number(value) for value in VALUES],
        "digits": [[numbers.number(value, digits) for digits in (0, 1, 3)] for value in VALUES],
        "p-values": [numbers.format_p(p) for p in ps],
        "cells": [numbers.cell(m) for m in of_interval],
        "marked": [
            numbers.cell(measured(0.5, (0.4, 0.6), 0.02, details={"not_interpretable": "why"})),
            numbers.words(measured(0.5)), numbers.words(measured(0.5, coverage=Coverage(()))), numbers.p_value(measured(1.0)),
        ],
        "summaries": [
            repr(m) + m._repr_html_() + m.__rich__()
            for m in (
                measured(0.123456, (0.1, 0.2), 0.01234, query="toy-one", score="s", reading="<b>"),
                measured(12345.678, None, None, query="other", note="n", details={"not_interpretable": "controls"}),
                measured(None, reason="too [few]"), measured(-0.5, coverage=Coverage(("a",)), score="x"),
            )
        ],
    }  # fmt: skip


def grouped() -> dict[str, Any]:
    def row(
        first: str, second: str, value: float | None, p: float | None, score: str = ""
    ) -> tuple[str, str, Measurement]:
        reason = "" if value is not None else f"{first} has no words"
        return first, second, measured(value, (value - 1, value + 1) if value else None, p, score=score, reason=reason)

    first = [row("a", "b", 0.5, 0.01), row("a", "c", -2.0, 0.05), row("b", "c", None, None)]
    second = [row("a", "b", 1.5, 0.2, "s"), row("a", "c", 0.2, None, "s"), row("b", "c", 1.0, 0.001, "s")]
    none = [row("a", "b", None, None), row("b", "a", None, 0.01)]
    untested = [row("a", "b", 0.5, None), row("b", "a", 3.0, None)]
    found: dict[str, Any] = {}
    for id in ("weat", "rnsb", "crows-pairs", "stereoset", "retention", "similarity"):
        for name, rows in (("two scores", first + second), ("none", none), ("untested", untested)):
            table = GroupTable(id, "pairwise", ("a", "b", "c"), adjust_rows(rows), "own")
            found[f"{id} {name}"] = [table.measurements(), repr(table)]
    table = GroupTable("weat", "one-against-rest", ("a", "b", "c"), adjust_rows(first + second), "own")
    return {**found, "table": table.to_dict(), "significant": [each.name for each in table.significant]}


def declared() -> dict[str, Any]:
    pytest.importorskip("torch")
    infos = [measures.info(id) for id in measures.ids()]
    return {
        info.id: [info.family, info.groups, info.prominence, [info.better_score(s) for s in ("", "gap", *info.scores)]]
        for info in infos
    }


@pytest.mark.parametrize("part", [shown, grouped, declared])
def test_whole_records_are_the_recorded_ones(part: Any) -> None:
    check_whole(f"cases of what is {part.__name__}", json.loads(json.dumps(plain(part()))))


# Numbers ------------------------------------------------------------------------------------------------------------


def test_a_p_value_is_told_on_the_side_of_its_decision() -> None:
    told = {p: numbers.format_p(p) for p in (0.0009999, 0.001, 0.04949, 0.0495, 0.0499999, 0.05, 0.0504, 0.9999)}
    assert list(told.values()) == [
        "p < .001",
        "p = .001",
        "p = .049",
        "p < .05",
        "p < .05",
        "p = .050",
        "p = .050",
        "p = 1.000",
    ]


def test_three_digits_are_shown_of_numbers_of_every_size() -> None:
    assert [numbers.digits_for(size) for size in (0.0, 0.999, 1, 99.9, 100, 5000)] == [3, 3, 2, 2, 1, 1]
    assert [numbers.number(value) for value in (999.94, 1000, 0.001, 0.000999, 5e-7, 4.99e-7)] == [
        "999.9", "1,000", "0.001", "1.0e-03", "5.0e-07", "0",
    ]  # fmt: skip


# Records ------------------------------------------------------------------------------------------------------------


def test_of_many_words_those_with_the_largest_values_are_kept_in_their_order() -> None:
    values = np.array([number(row) - 0.5 for row in range(402)])
    for size in (3, 399, 400, 401, 402):
        words = [f"w{row}" for row in range(size)]
        found = word_items(words, values[:size], row=list(range(size)))
        lost = set(np.argsort(np.abs(values[:size]))[: max(0, size - 400)].tolist())
        assert [item["row"] for item in found] == [row for row in range(size) if row not in lost]
        assert [item["value"] for item in found] == [values[row] for row in range(size) if row not in lost]
        assert [item["word"] for item in found] == [words[row] for row in range(size) if row not in lost]


def test_a_record_is_read_again_as_it_was() -> None:
    whole = measured(
        0.5, (0.4, 0.6), 0.01, items=({"word": "a", "value": 1.0}, {"word": "b", "value": 2.0}), seed=3, definition=2,
        units=(mean_units("word", ["a", "b"], [0.0, 1.0]),), params={"k": 1}, details={"x": [1]}, query="q", note="n",
    )  # fmt: skip
    again = Measurement.from_dict(json.loads(json.dumps(whole.to_dict())))
    assert again.to_dict() == whole.to_dict()
    assert again.coverage.found == ("a", "b")
    without = Measurement.from_dict(json.loads(json.dumps(replace(whole, items=(), interval=None).to_dict())))
    assert (len(without.coverage.found), without.coverage.found[0], without.interval) == (2, "", None)
    record = whole.to_dict() | {"items": []}
    del record["units"]
    record["coverage"]["found"] = 10_000_001
    with pytest.raises(ValueError, match="10,000,001 words found"):
        Measurement.from_dict(record)
    record["coverage"]["found"] = 4
    assert Measurement.from_dict(record).units == ()


def test_an_undefined_measurement_has_no_number() -> None:
    found = undefined("weat", "why", Coverage((), ("a",)), score="s")
    assert (found.value, found.n, found.status, found.reason, found.score) == (None, 0, "undefined", "why", "s")
    assert found.coverage.missing == ("a",)


# Calls --------------------------------------------------------------------------------------------------------------


def of_list(name: str, found: int, total: int, unit: str = "word") -> ListCoverage:
    return ListCoverage(name, found, total, unit)


def test_a_list_needs_one_entry_and_its_share() -> None:
    assert coverage_problem([]) == ""
    assert coverage_problem([of_list("a", 1, 2), of_list("b", 5, 10)]) == ""
    assert coverage_problem([of_list("a", 0, 0), of_list("b", 0, 3), of_list("c", 0, 3, "pair")]) == (
        "no word of a, b is in the vocabulary"
    )
    lists = [of_list("a", 4, 9), of_list("b", 3, 10, "pair"), of_list("c", 1, 3)]
    assert coverage_problem(lists) == "too few words are in the vocabulary: a 4 of 9, c 1 of 3 (min_share=0.5)"
    assert coverage_problem(lists[1:]) == "too few pairs are in the vocabulary: b 3 of 10 (min_share=0.5)"
    assert coverage_problem(lists, 0.3) == ""
    assert coverage_problem([of_list("a", 1, 9)], 0.0) == ""
    assert "a 8 of 9" in coverage_problem([of_list("a", 8, 9)], 1.0)
    for share in (-0.1, 1.1):
        with pytest.raises(UsageError, match="between 0 and 1"):
            coverage_problem([], share)


def test_coverage_of_words_and_pairs_is_counted() -> None:
    v = Vectors(["a", "b", "c"], np.eye(3))
    assert ListCoverage.of_words("x", Coverage(("a", "b"), ("z",))) == ("x", 2, 3, "word")
    pairs = Pairs("p", (("a", "b"), ("a", "z"), ("y", "b"), ("c", "a")))
    assert ListCoverage.of_pairs(v, pairs) == ("p", 2, 4, "pair")


def test_vectors_collapse_below_a_millionth_of_the_reference() -> None:
    def of_norm(norm: float, rows: int = 3) -> Vectors:
        return Vectors([f"w{n}" for n in range(rows)], np.eye(rows, 4) * norm)

    assert collapse_problem(of_norm(1.2e-6)) == ""
    assert "their median norm is 5e-07, below 1e-06 of 1" in collapse_problem(of_norm(5e-7))
    assert collapse_problem(of_norm(1.0), of_norm(5e5)) == ""
    assert "below 1e-06 of the reference's" in collapse_problem(of_norm(1.0), of_norm(2e6))
    for tiny, told in ((1, False), (0, True)):  # of 3,999 rows a sample of 2,000 has every second one
        norms = np.ones((3_999, 1))
        norms[tiny::2] = 1e-9
        assert bool(collapse_problem(Vectors([f"w{n}" for n in range(3_999)], norms))) == told


def test_arguments_are_recorded_as_plain_data() -> None:
    named = WordSet("names", ("a", "b"))
    given = [
        True,
        2,
        0.5,
        "x",
        None,
        np.float32(0.25),
        np.int64(3),
        Path("a") / "b",
        named,
        {1: Path("c")},
        ["a", np.int8(1)],
        {3},
        object,
    ]
    assert [_plain(value) for value in given] == [
        True, 2, 0.5, "x", None, 0.25, 3, str(Path("a") / "b"), "names", {"1": "c"}, ["a", 1], "given", "given",
    ]  # fmt: skip


def test_the_names_a_parameter_takes_are_those_of_its_type() -> None:
    def function(
        a: Literal["x", "y"], b: Literal["x"] | Literal["z"] | None, c: Literal["x"] | int, d: int, e: Literal[1] = 1
    ) -> None: ...

    assert names_taken(function) == {"a": ("x", "y"), "b": ("x", "z", None), "e": (1,)}


def test_vectors_say_their_case_and_language() -> None:
    def call(vectors: object) -> Call:
        import inspect

        signature = inspect.signature(lambda view, words, *, k=1, concept="", reference=None, seed=4: None)
        return Call.bind(INFO, signature, (vectors, "w"), {"k": 2}, {})

    plainly, french = Vectors(["a"], [[1.0]], name="v"), Vectors(["a"], [[1.0]], name="f").in_language("fr")
    assert (call(plainly).params, call(plainly).seed, call(plainly).model) == (
        {"k": 2, "concept": "", "case": "auto"},
        4,
        "v",
    )
    assert call(french).params == {"k": 2, "concept": "", "case": "auto", "language": "fr"}
    assert (call("no vectors").params, call("no vectors").model) == ({"k": 2, "concept": ""}, "")


def test_what_every_measure_requires_is_checked_in_its_order() -> None:
    tiny = Vectors(["a"], [[1e-9]])
    call = Call(INFO, view=tiny, reference=tiny)
    call.require([of_list("a", 1, 1)])  # as small as the reference
    with pytest.raises(VocabularyError, match="no word of a"):
        call.require([of_list("a", 0, 1)])
    with pytest.raises(DegenerateError, match="collapsed"):
        Call(INFO, view=tiny, reference="no vectors").require([of_list("a", 0, 1)])
    with pytest.raises(VocabularyError, match=r"min_share=0\.9"):
        Call(INFO, view="model").require([of_list("a", 8, 10)], 0.9)


def test_a_measurement_has_what_its_call_knows_unless_told_otherwise() -> None:
    call = Call(INFO, "m", {"a": 1}, 7, query="q", positive="p", note="first")
    one = call.measurement(2, 3, reading="r", positive="", note="second", params={"b": 2}, items=iter([{"x": 1}]))
    assert (one.positive, one.note, one.params, one.items, one.value) == (
        "",
        "first; second",
        {"a": 1, "b": 2},
        ({"x": 1},),
        2.0,
    )
    other = call.measurement(2, 3, reading="r")
    assert (other.positive, other.note, other.params, other.details, other.definition) == (
        "p",
        "first",
        {"a": 1},
        {},
        3,
    )
    infinite = call.measurement(float("-inf"), 3, reading="r", positive="o", details={"d": 1}, params={"b": 2})
    assert (infinite.status, infinite.positive, infinite.details, infinite.params) == (
        "undefined",
        "o",
        {"d": 1},
        {"a": 1, "b": 2},
    )
    why = call.undefined("why", items=[{"x": 2}])
    assert (why.items, why.n, why.positive, why.reading, why.reason) == (({"x": 2},), 0, "p", "", "why")


def test_one_or_two_words_have_no_interval() -> None:
    values = np.array([0.1, 0.4, 0.2])

    def mean(rows: np.ndarray) -> np.ndarray:
        return np.asarray(values[rows].mean(axis=1))

    assert word_interval(mean, 2, seed=0) is None
    found = word_interval(mean, 3, seed=0)
    assert found is not None
    assert 0.1 - 1e-9 <= found[0] < found[1] <= 0.4 + 1e-9


# Groups -------------------------------------------------------------------------------------------------------------


def test_contrasts_and_means_of_groups_by_hand() -> None:
    (only,) = contrasts(["a", "b"])
    assert (only.group, only.score, only.first, only.others, only.against) == ("a", "", 0, (1,), "b")
    assert (only.name("gap"), contrasts("abc")[1].name("gap")) == ("gap", "gap:b")
    assert [one.against for one in contrasts("abcd")] == ["the other groups"] * 4
    values = np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    assert against_others(values).tolist() == [[-3.0, -1.5, 4.5], [-1.5, -1.5, 3.0]]
    assert means_by("abcab", [1.0, 2.0, 3.0, 5.0, 7.0]) == {"a": 3.0, "b": 4.5, "c": 3.0}


def test_cases_that_share_a_word_are_one_through_any_chain() -> None:
    texts = [
        ["he ran", "she ran"],
        ["old cat", "young cat"],
        ["she sat", "they sat"],
        ["an ox", "a cow"],
        ["x", "x"],
        ["they", "young"],
        ["y", "y"],
    ]
    assert same_words(texts).tolist() == [0, 0, 0, 1, 2, 0, 3]
    assert same_words([["The Man", "the woman"], ["MAN.", "boy!"]]).tolist() == [0, 0]


def test_the_p_value_of_group_words_is_the_largest_one() -> None:
    texts = [[f"m{n % 4} said", f"f{n % 4} said"] for n in range(12)]
    values = against_others(np.array([[number(n, g) + (g == 0) for g in range(2)] for n in range(12)]))
    contrast = contrasts("mf")[0]
    sums = np.stack([values[[n for n in range(12) if n % 4 == word]].sum(axis=0) for word in range(4)])
    by_word = relabelling_p(sums, 0)
    frames = [f"s{n // 4}" for n in range(12)]
    by_frame = null_p(mean_units("", frames, values[:, 0]))
    assert by_frame is not None
    assert group_word_p(texts, values, contrast) == by_word
    assert group_word_p(texts, values, contrast, [frames]) == max(by_word, by_frame) == by_frame > by_word
    assert group_word_p(texts, values, contrast, [["one"] * 12]) == by_word


def test_rows_are_adjusted_for_each_score_without_those_that_have_no_test() -> None:
    rows = adjust_rows(
        [("a", "b", measured(1.0, None, 0.01)), ("a", "c", measured(1.0, None, 0.04)), ("a", "d", measured(1.0)),
         ("b", "c", measured(None, None, 0.001)), ("b", "d", measured(1.0, None, 0.03, score="s"))]
    )  # fmt: skip
    assert [row.p_adjusted for row in rows] == [0.02, 0.04, None, None, 0.03]
    table = GroupTable("weat", "pairwise", ("a", "b", "c", "d"), rows, "own")
    assert [row.name for row in table.significant] == ["a – b", "a – c", "b – d"]
    assert table.get("c", "a") is rows[1]
    assert GroupRow("a", "b", measured(1.0, (0.5, 1.5), 0.2), 0.4).to_dict() == {
        "first": "a", "second": "b", "score": "", "value": 1.0, "low": 0.5, "high": 1.5, "p_value": 0.2, "p_holm": 0.4,
        "n": 1234, "status": "ok", "reason": "",
    }  # fmt: skip


def test_measures_that_compare_no_groups_are_refused() -> None:
    v = Vectors(["a", "b"], np.eye(2))
    for id, message in (("analogy", "takes neither"), ("mac", "does not compare|more than|has 1 group|not")):
        with pytest.raises(eh.EvenhandError, match=message):
            measures.pairwise(v, id, "nothing")
