"""What differs from no bias, and what changed, by hand: roles, tests, corrections, verdicts and their boundaries."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import evenhand as eh
from evenhand.audit import Question, compare
from evenhand.audit.record import Row
from evenhand.audit.significance import (
    LEVEL,
    Changed,
    RowPair,
    compare_rows,
    corrected,
    distance_from_ideal,
    is_changeable,
    null_value,
    paired_test,
    role,
    run_change_tests,
    run_tests,
    standard_error,
)
from evenhand.audit.significance import (
    Tested as OneTest,
)
from evenhand.stats.multiplicity import NORMAL_95, harmonic_mean_p, holm
from evenhand.stats.units import exchange_test
from made_audits import audit_of, measured, result, units

BELOW = math.nextafter(LEVEL, 0.0)


def row(*stages: eh.Measurement, variant: str = "") -> Row:
    """A row whose stages are called original, one, two."""
    question = Question(stages[0].measure, stages[0].query, {}, variant)
    return Row("a row", question, dict(zip(("original", "one", "two"), stages, strict=False)))


def weat(value: float | None, half: float | None = None, query: str = "weat-6", **more: object) -> eh.Measurement:
    return measured("weat", value, half, query=query, **more)


@pytest.mark.parametrize(
    ("measure", "query", "variant", "concept", "wanted", "changeable"),
    [
        ("weat", "weat-6", "", "gender", "bias", True),
        ("weat", "weat-6", "", "religion", "control", True),
        ("weat", "weat-1", "", "gender", "control", True),
        ("direct-bias", "vocabulary", "old-direction", "gender", "by construction", False),
        ("direct-bias", "vocabulary", "new-direction", "gender", "bias", True),
        ("clustering", "vocabulary", "", "gender", "left", False),
        ("similarity", "rg-65", "", "gender", "cost", True),
        ("retention", "vocabulary", "", "gender", "moved", True),
        ("retrieval-skew", "grep-biasir", "", "gender", "bias", True),
        ("retrieval-skew", "grep-biasir", "", "religion", "control", True),
    ],
)
def test_what_a_row_is_for(measure: str, query: str, variant: str, concept: str, wanted: str, changeable: bool) -> None:
    question = Question(measure, query, {}, variant)
    assert role(question, concept) == wanted
    assert is_changeable(Row("x", question, {})) is changeable


def test_the_null_is_that_of_the_score() -> None:
    assert null_value(Question("weat", "weat-6"), weat(1.0)) == 0.0
    assert null_value(Question("ripa", "x"), measured("ripa", 1.0)) is None
    scores = [measured("mweat", 1.0, score=score) for score in ("lean", "difference")]
    assert [null_value(Question("mweat", "x"), m) for m in scores] == [0.0, None]


def test_a_standard_error_is_a_fourth_of_the_interval_but_for_the_quantile() -> None:
    assert standard_error(weat(1.0)) is None
    assert standard_error(weat(3.0, 2 * NORMAL_95)) == pytest.approx(2.0)


def p_and_strength(m: eh.Measurement) -> tuple[float, float] | None:
    found = run_tests([row(m)], ["original"])
    assert len(found) <= 1
    return (found[0].p, found[0].strength) if found else None


def test_a_score_is_tested_by_its_p_value_else_by_its_interval() -> None:
    half = 0.1 * NORMAL_95
    assert p_and_strength(weat(-0.5, half, p_value=0.2)) == (0.2, pytest.approx(5.0))
    assert p_and_strength(weat(0.5, p_value=0.01)) == (0.01, 0.0)
    assert p_and_strength(weat(0.5, 0.0, p_value=0.01)) == (0.01, math.inf)
    assert p_and_strength(weat(0.0, 0.0, p_value=1.0)) == (1.0, 0.0)
    assert p_and_strength(weat(0.5, half)) == (BELOW, pytest.approx(5.0))
    assert p_and_strength(weat(0.1, 0.1)) == (1.0, pytest.approx(NORMAL_95))
    assert p_and_strength(weat(-0.1, 0.1)) == (1.0, pytest.approx(NORMAL_95))
    assert p_and_strength(weat(-0.5, half)) == (BELOW, pytest.approx(5.0))
    assert p_and_strength(weat(0.5, 0.0)) is None
    assert p_and_strength(weat(0.5)) is None
    assert p_and_strength(measured("ripa", 0.5, half, query="x")) is None
    assert p_and_strength(measured("ripa", 0.5, half, query="x", p_value=0.03)) == (0.03, pytest.approx(5.0))
    assert p_and_strength(measured("crows-pairs", 60.0, 10 * NORMAL_95, query="x", p_value=0.3)) == (
        0.3,
        pytest.approx(1.0),
    )
    assert p_and_strength(weat(None)) is None
    assert p_and_strength(weat(0.5, p_value=0.01, details={"not_interpretable": "controls failed"})) is None


def test_p_values_are_corrected_over_the_questions_of_each_stage() -> None:
    """Two measures ask weat-6 and one asks weat-7; a stage that has one question is not corrected."""
    six = row(weat(1.0, p_value=0.01), weat(1.0, p_value=0.03))
    other = row(*(measured("rnd", 1.0, query="weat-6", p_value=p) for p in (0.04,)))
    seven = row(weat(1.0, query="weat-7", p_value=0.03))
    found = run_tests(iter([six, other, seven]), iter(["original", "one", "two"]))
    together = harmonic_mean_p([0.01, 0.04])
    wanted = holm([together, 0.03])
    assert [(one.row, one.stage) for one in found] == [
        (six, "original"), (other, "original"), (seven, "original"), (six, "one")
    ]  # fmt: skip
    assert [one.p for one in found] == pytest.approx([wanted[0], max(wanted[0], 0.04), wanted[1], 0.03])
    assert [one.measurement.p_value for one in found] == [0.01, 0.04, 0.03, 0.03]


def test_scores_of_other_criteria_or_views_are_other_questions() -> None:
    scores = ("demographic-parity-difference", "demographic-parity-ratio", "equal-opportunity-difference")
    rows = [row(measured("group-metrics", 0.2, query="sex", score=score, p_value=0.02)) for score in scores]
    assert [one.p for one in run_tests(rows, ["original"])] == pytest.approx([0.04, 0.04, 0.04])
    assert [one.p for one in run_tests(rows[:2], ["original"])] == pytest.approx([0.02, 0.02])
    views = [row(weat(1.0, p_value=0.02)), row(measured("seat", 1.0, query="weat-6", p_value=0.02))]
    assert [one.p for one in run_tests(views, ["original"])] == pytest.approx([0.04, 0.04])


def test_a_corrected_p_value_is_never_below_its_own() -> None:
    assert corrected([], []) == []
    assert corrected(["a", "a"], [0.001, 0.9]) == [pytest.approx(harmonic_mean_p([0.001, 0.9])), 0.9]
    assert corrected(["a", "b", "c"], [0.01, 0.02, 0.03]) == pytest.approx([0.03, 0.04, 0.04])


def test_a_test_at_the_level_is_not_significant() -> None:
    at, below = (OneTest(row(weat(1.0)), "original", weat(1.0), p, 2.0) for p in (LEVEL, BELOW))
    assert (at.sure, below.sure) == (False, True)


# Before and after ---------------------------------------------------------------------------------------------------


def changed(before: eh.Measurement, after: eh.Measurement, p: float = 0.01, p_moved: float = 0.01) -> Changed:
    return Changed(row(before, after), before, after, p, 3.0, p_moved, paired=True)


@pytest.mark.parametrize(
    ("before", "after", "p", "p_moved", "verdict"),
    [
        ((1.0, 0.1), (0.5, 0.1), 0.01, 0.01, "better"),
        ((1.0, 0.1), (0.5, 0.1), LEVEL, 0.01, "unclear"),
        ((0.5, 0.1), (1.0, 0.1), 0.01, 0.01, "worse"),
        ((1.0, 0.1), (-0.5, 0.1), 0.01, 0.01, "other sign"),
        ((-1.0, 0.1), (0.5, 0.1), 0.01, 0.01, "other sign"),
        ((1.0, 0.1), (-0.5, 0.1), 0.01, LEVEL, "better"),
        ((0.5, 0.1), (-1.0, 0.1), 0.01, 0.01, "worse"),
        ((1.0, 0.1), (-1.0, 0.1), 0.5, 0.01, "other sign"),
        ((1.0, 0.1), (-1.0, 0.1), 0.5, LEVEL, "unclear"),
        ((1.0, 1.0), (-0.5, 0.1), 0.01, 0.01, "better"),  # intervals that end at 0 are on no side of it
        ((1.0, 0.1), (-0.5, 0.5), 0.01, 0.01, "better"),
        ((-1.0, 1.0), (0.5, 0.1), 0.01, 0.01, "better"),
        ((-1.0, 0.1), (0.5, 0.5), 0.01, 0.01, "better"),
        ((1.0, None), (-0.5, 0.1), 0.01, 0.01, "better"),
        ((1.0, 0.1), (-0.5, None), 0.01, 0.01, "better"),
        ((1.0, 0.1), (1.0 + 1e-7, 0.1), 0.5, 0.5, "same"),
        ((1.0, 0.1), (1.0 + 1.2e-6, 0.1), 0.5, 0.5, "unclear"),
        ((0.0, 0.1), (9e-10, 0.1), 0.5, 0.5, "same"),
        ((0.0, 0.1), (1.2e-9, 0.1), 0.5, 0.5, "unclear"),
        ((1.0, 0.1), (1.0, 0.1), 0.01, 0.01, "worse"),
        ((1.0, 0.1), (-1.0, 0.1), 0.01, 0.01, "worse"),
    ],
)
def test_the_change_in_a_word(
    before: tuple[float, float | None], after: tuple[float, float | None], p: float, p_moved: float, verdict: str
) -> None:
    assert changed(weat(*before), weat(*after), p, p_moved).verdict == verdict


def test_only_scores_whose_ideal_has_two_sides_change_sign() -> None:
    fifty = [measured("crows-pairs", value, 1.0, query="crows-pairs") for value in (60.0, 45.0)]
    assert changed(*fifty).verdict == "other sign"
    assert changed(*fifty[::-1]).verdict == "worse"
    for measure in ("ect", "direct-bias"):
        pair = [measured(measure, value, 0.1, query="x") for value in (1.5, 0.6)]
        assert not changed(*pair).changes_sign


def test_distances_from_each_ideal() -> None:
    scores = {"weat": 0.3, "ect": 0.7, "crows-pairs": 49.7, "direct-bias": -0.3, "similarity": 0.3}
    found = {name: distance_from_ideal(measured(name, -0.3 if name != "similarity" else 0.3)) for name in scores}
    assert found == pytest.approx(
        {"weat": 0.3, "ect": 1.3, "crows-pairs": 50.3, "direct-bias": -0.3, "similarity": -0.3}
    )
    assert distance_from_ideal(weat(None)) == 0.0


def numbers(shift: float = 0.0, count: int = 12) -> np.ndarray:
    return np.random.default_rng(count).normal(0.5 + shift, 0.2, count)


def with_units(shift: float, *more: object, count: int = 12, score: float = 0.0) -> eh.Measurement:
    values = numbers(shift, count)
    return weat(float(values.mean()) + score, 0.1, units=(units(values), *more))


def test_values_of_the_same_units_are_compared_unit_by_unit() -> None:
    before, after = with_units(0.0), with_units(-0.3)
    wanted = exchange_test(before.units[0], after.units[0], np.abs)
    assert paired_test(before, after) == wanted
    (found,) = run_change_tests([row(before, after)], ["one"])["one"]
    assert (found.p, found.p_moved, found.strength) == (wanted.p_distance, wanted.p_moved, wanted.strength)
    assert (found.paired, found.lost, found.sure, found.closer) == (True, 0, True, True)
    assert (found.before, found.after) == (before, after)


def test_of_two_kinds_of_units_the_weaker_test_counts() -> None:
    first, second = numbers(0.0, 8), numbers(0.0, 5)
    before = weat(1.0, units=(units(first), units(second, unit="template")))
    after = weat(
        0.5, units=(units(second - 0.05, unit="template"), units(first[:7] - 0.4, [f"word {n}" for n in range(7)]))
    )
    tests = [
        exchange_test(before.units[0], after.units[1], np.abs), exchange_test(before.units[1], after.units[0], np.abs)
    ]  # fmt: skip
    found = paired_test(before, after)
    assert found.p_moved == max(test.p_moved for test in tests)
    assert found.p_distance == max(test.p_distance for test in tests)
    assert found.strength == min(test.strength for test in tests)
    assert (found.common, found.lost) == (5, 1)
    assert paired_test(before, replace(after, units=after.units[:1])) is None
    assert paired_test(replace(before, units=before.units[:1]), after) is None


@pytest.mark.parametrize(("both", "enough"), [(3, False), (4, True), (5, True)])
def test_half_of_the_units_must_be_the_same(both: int, enough: bool) -> None:
    values = numbers(0.0, 8)
    before = weat(1.0, units=(units(values),))
    names = [f"word {number}" for number in range(both)]
    after = weat(0.5, units=(units(values[:both] - 0.3, names),))
    assert (paired_test(before, after) is not None) is enough
    assert (paired_test(after, before) is not None) is enough
    if enough:
        assert paired_test(before, after).lost == 8 - both


def unpaired(before: eh.Measurement, after: eh.Measurement) -> list[Changed]:
    return run_change_tests([row(before, after)], ["one"])["one"]


def test_other_values_are_compared_as_independent_ones_by_their_intervals() -> None:
    before, after = weat(1.2, 0.3 * NORMAL_95), weat(-0.8, 0.4 * NORMAL_95)
    (found,) = unpaired(before, after)
    assert (found.paired, found.lost) == (False, 0)
    assert found.strength == pytest.approx(0.4 / 0.5)
    assert found.p == pytest.approx(math.erfc(0.8 / math.sqrt(2)))
    assert found.p_moved == pytest.approx(math.erfc(4.0 / math.sqrt(2)))
    assert unpaired(before, weat(-0.8)) == unpaired(weat(1.2), after) == []
    (exact,) = unpaired(weat(1.0, 0.0), weat(0.5, 0.0))
    assert (exact.p, exact.p_moved, exact.strength) == (1.0, 1.0, 0.0)
    (half,) = unpaired(weat(1.0, 0.0), weat(0.5, 0.1 * NORMAL_95))
    assert half.strength == pytest.approx(5.0)


def test_what_has_no_value_or_no_meaning_is_not_compared() -> None:
    failed = {"not_interpretable": "controls failed"}
    whole = weat(1.0, 0.1)
    for other in (weat(None), replace(whole, value=None), weat(1.0, 0.1, details=failed)):
        assert unpaired(whole, other) == unpaired(other, whole) == []
    assert run_change_tests([row(whole)], ["one"]) == {"one": []}
    assert len(unpaired(whole, whole)) == 1


def test_changes_are_corrected_over_the_questions_of_each_stage() -> None:
    z = [3.0, 2.5, 2.2]
    pairs = [
        (weat(1.0, 0.1 * NORMAL_95, query), weat(1.0 - 0.1 * size, 0.0, query))
        for size, query in zip(z, ("weat-6", "weat-7", "weat-8"), strict=True)
    ]
    rows = [row(before, after, before) for before, after in pairs]
    found = run_change_tests(iter(rows), ["one", "two"])
    wanted = holm([math.erfc(size / math.sqrt(2)) for size in z])
    assert [one.p for one in found["one"]] == pytest.approx(wanted)
    assert [one.p_moved for one in found["one"]] == pytest.approx(wanted)
    assert [one.p for one in found["two"]] == [1.0, 1.0, 1.0]


# Two records --------------------------------------------------------------------------------------------------------


def test_rows_of_two_records_are_matched_by_subject_stage_and_label() -> None:
    old = audit_of(
        [
            result("original", weat(1.0, 0.1)),
            result("linear", weat(0.9, 0.1)),
            result("original", weat(1.0, query="weat-7")),
        ]
    )
    new = audit_of(
        [
            result("original", weat(0.5, 0.1), subject="w"), result("hard", weat(0.4, 0.1), subject="w"),
            result("original", weat(None), subject="w"), result("original", weat(1.5, query="weat-7"), subject="w"),
            result("original", weat(1.5, query="weat-8"), subject="w"),
        ]
    )  # fmt: skip
    changes = compare(old, replace(new, results=new.results[:2] + new.results[3:]))
    assert [(one.label, one.subject, one.stage, one.verdict, one.change) for one in changes] == [
        ("weat-6", "w", "original", "better", -0.5), ("weat-7", "w", "original", "not tested", 0.5)
    ]  # fmt: skip
    assert changes[0].to_dict() == {
        "label": "weat-6", "subject": "w", "stage": "original", "before": weat(1.0, 0.1).to_dict(),
        "after": weat(0.5, 0.1).to_dict(), "change": -0.5, "verdict": "better",
        "p_value": pytest.approx(math.erfc(0.5 * NORMAL_95 / 0.1 / 2)), "paired": False, "units_lost": 0,
    }  # fmt: skip
    assert (changes[1].p, changes[1].paired, changes[1].lost) == (None, False, 0)
    several = audit_of([*old.results, result("original", weat(0.7, 0.1), subject="w")])
    assert [(one.subject, one.label) for one in compare(several, several)] == [
        ("v", "weat-6"), ("v", "weat-6"), ("v", "weat-7"), ("w", "weat-6")
    ]  # fmt: skip
    assert [one.subject for one in compare(several, new)] == ["w"]
    assert [one.subject for one in compare(new, several)] == ["w"]


def test_rows_are_corrected_over_one_subject_one_stage_and_one_kind() -> None:
    z = 2.2
    p = math.erfc(z / math.sqrt(2))

    def pair(subject: str, stage: str, measure: str, query: str) -> RowPair:
        before, after = (
            measured(measure, 1.0, 0.1 * NORMAL_95, query=query),
            measured(measure, 1 - z / 10, 0.0, query=query),
        )
        return RowPair(subject, stage, query, Question(measure, query), before, after)

    pairs = [
        pair("a", "x", "weat", "weat-6"), pair("a", "x", "weat", "weat-7"), pair("a", "y", "weat", "weat-6"),
        pair("b", "x", "weat", "weat-6"), pair("a", "x", "weat", "weat-3"), pair("a", "x", "similarity", "rg-65"),
    ]  # fmt: skip
    found = compare_rows(iter(pairs), "gender")
    assert [one.p for one in found] == pytest.approx([2 * p, 2 * p, p, p, p, p], rel=1e-9)
    assert [(one.subject, one.stage, one.label) for one in found] == [
        (one.subject, one.stage, one.label) for one in pairs
    ]


def test_verdicts_of_rows_that_are_not_tested() -> None:
    failed = {"not_interpretable": "controls failed"}
    cases = {
        "undefined": [(weat(None), weat(1.0)), (weat(1.0), weat(None)), (weat(None), weat(None))],
        "not interpretable": [(weat(1.0, details=failed), weat(0.5)), (weat(1.0), weat(0.5, details=failed))],
        "same": [(weat(1.0), weat(1.0))],
        "not tested": [(weat(1.0), weat(0.5))],
    }
    for verdict, pairs in cases.items():
        for before, after in pairs:
            (one,) = compare_rows([RowPair("v", "original", "x", Question("weat", "weat-6"), before, after)], "gender")
            wanted = None if verdict == "undefined" else after.value - before.value
            assert (one.verdict, one.change, one.p, one.paired, one.lost) == (verdict, wanted, None, False, 0)


def test_a_tested_row_says_whether_and_on_what_it_was_compared() -> None:
    before, after = with_units(0.0, count=8), with_units(-0.3, count=8)
    fewer = weat(0.1, 0.1, units=(units(numbers(-0.3, 8)[:6], [f"word {n}" for n in range(6)]),))
    for second, lost in ((after, 0), (fewer, 2)):
        (one,) = compare_rows([RowPair("v", "original", "x", Question("weat", "weat-6"), before, second)], "gender")
        test = paired_test(before, second)
        assert (one.p, one.paired, one.lost, one.verdict) == (test.p_distance, True, lost, "better")


def test_a_warning_names_two_concepts_or_two_contents_of_one() -> None:
    rows = [result("original", weat(1.0, 0.1))]
    with pytest.warns(eh.errors.EvenhandWarning, match="different concepts: gender and gender"):
        compare(audit_of(rows, digest="a"), audit_of(rows, digest="b"))
    assert len(compare(audit_of(rows, digest="a"), audit_of(rows, digest="a"))) == 1
