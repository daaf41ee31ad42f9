"""Whole records of probes and of measures of inference models on small inputs that reach every branch."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_ind

from evenhand import measures
from evenhand.engines import LocalEngine
from evenhand.measures.inference import accumulator as sums_of_pairs
from evenhand.measures.inference import compare, nli_measures, probe, probe_seeds
from evenhand.measures.inference.accumulator import SampleStatistics, TopPairs, effective_size
from evenhand.measures.inference.bias_by_site_inference import probe_pairs, words_p
from evenhand.measures.inference.pair_statistics import draw_weights
from evenhand.measures.inference.seeds import spread_of
from evenhand.models.nli import LABELS, CallableModel, NLIEnsemble
from evenhand.stats import wilson
from evenhand.words.probes import Filler, Points, Probe
from evenhand.words.probes.dataset import Sample
from evenhand.words.template import Template
from meaningless import number, plain
from recorded_numbers import check_whole


def model(name: str = "one", *, sharp: float = 1.0, tie: bool = False) -> CallableModel:
    """Answers without a meaning; sharp ones are surer, and with ties some labels are equally probable."""

    def answer(premises: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
        raw = np.array(
            [
                [number(name, *pair, label) + 0.3 * number(pair[1].split()[1], label) for label in range(3)]
                for pair in zip(premises, hypotheses, strict=True)
            ]
        )
        weights = np.exp(3 * sharp * raw)
        found = np.round(weights / weights.sum(axis=1, keepdims=True), 1 if tie else 6)
        found[:, 1] = np.round(1 - found[:, 0] - found[:, 2], 6)
        return np.asarray(found)

    return CallableModel(answer, LABELS, name)


def always(probabilities: Sequence[float]) -> CallableModel:
    return CallableModel(lambda p, h: np.tile(probabilities, (len(p), 1)), LABELS, "always")


def surely(groups: Sequence[str]) -> CallableModel:
    """Concludes entailment for some groups and contradiction for others, but for a few pairs."""

    def answer(premises: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
        rows = []
        for pair in zip(premises, hypotheses, strict=True):
            label = 0 if pair[1].split()[1][0] in groups else 2
            rows.append(np.eye(3)[1 if number(*pair) < 0.15 else label])
        return np.array(rows)

    return CallableModel(answer, LABELS, "surely")


def asked(
    groups: dict[str, int],
    *,
    others: int = 9,
    foods: int = 8,
    premise: bool = False,
    controls: bool = False,
    **more: Any,
) -> Probe:
    """A probe with groups of some words on one side; the word of a person has the number that tells it from others."""
    template = Template("t", "The {subject} ate a/an {food}.", {"food": [f"x{n}" for n in range(foods)]})
    grouped = tuple(Filler(f"{group}{n}", group=group) for group, size in groups.items() for n in range(size))
    plainly = tuple(Filler(f"p{n}") for n in range(others))
    sides = (grouped, plainly) if premise else (plainly, grouped)
    named = ("control-entailment", "control-contradiction") if controls else ()
    return Probe("own", (template,), *sides, controls=named, **more)


def two_templates() -> Probe:
    slots = {"verb": [f"v{n}" for n in range(9)], "object": [f"o{n}" for n in range(3)]}
    first = Template("t", "The {subject} {verb} a/an {object}.", slots)
    second = Template("u", "The {subject} {verb} it.", {"verb": ["v0", "w"]})
    hypothesis = tuple(Filler(f"{group}{n}", group=group) for group in "fm" for n in range(2))
    return Probe("two", (first, second), (Filler("p0"), Filler("p1")), hypothesis)


PROBES: dict[str, Probe] = {
    "large": asked({"f": 8, "m": 9}),
    "small": asked({"f": 3, "m": 2}, others=2, foods=3),
    "on the premise": asked({"f": 3, "m": 8}, premise=True, others=4),
    "three groups": asked({"a": 1, "b": 2, "c": 9}, others=3, foods=4),
    "contrast": asked({"a": 2, "b": 2, "c": 2}, others=8, foods=2, contrast=("c", "a")),
    "without groups": replace(asked({"f": 2}, others=3, foods=2), hypothesis=(Filler("h0"), Filler("h1"), Filler("h2"))),
    "one group": asked({"f": 4}, others=3, foods=2),
    "one word each": asked({"f": 1, "m": 1}, others=9, foods=2),
    "two templates": two_templates(),
}  # fmt: skip


def probe_cases() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in PROBES.items():
        for sample in (None, 12):
            result = probe(model(), one, sample=sample, draws=40, seed=2, thresholds=(0.25, 0.5), controls=False)
            record = result.to_dict()
            record |= {"drawn": {key: values[::5] for key, values in result.drawn.items()}, "repr": repr(result)}
            record |= {"top words": result.top("neutral", 3, unit="word_pair")}
            found[f"{name} {sample}"] = record
    ties = probe(model(tie=True), PROBES["small"], draws=0, controls=False)
    found["ties"] = [
        ties.to_dict(),
        ties.top("entailment", 4),
        ties.top("contradiction", 2),
        ties.restrict("p1", ["f0", "m1"]),
    ]
    found["controls"] = probe(
        model(sharp=2), asked({"f": 2, "m": 2}, others=2, foods=2, controls=True), draws=0
    ).to_dict()
    for name, one in (
        ("surely", PROBES["small"]),
        ("surely, three", PROBES["three groups"]),
        ("surely, large", PROBES["large"]),
    ):
        for first in ("f", "a"), ("m", "c"):
            found[f"{name} {first[0]}"] = probe(
                surely(first), one, sample=16, draws=40, seed=1, controls=False
            ).to_dict()
    found["neutral"] = probe(always([0.0, 1.0, 0.0]), PROBES["small"], sample=12, draws=0).to_dict()
    found["never neutral"] = probe(always([0.5, 0.0, 0.5]), PROBES["contrast"], sample=24, draws=0).to_dict()
    return found


def seed_cases() -> dict[str, Any]:
    some = [model(name) for name in ("one", "two", "three")]
    one, three, small = PROBES["large"], PROBES["three groups"], PROBES["small"]
    before = probe_seeds(some, one, draws=30, seed=1, controls=False, condition="before")
    after = probe_seeds(
        [model(name, sharp=2) for name in ("one", "two", "three")], one, draws=30, seed=1, controls=False
    )
    sampled = [probe_seeds(some[:count], small, sample=12, draws=0, seed=3, controls=False) for count in (1, 2)]
    told: list[tuple[int, int, str]] = []
    chosen = probe_seeds(some[:2], three, draws=20, progress=lambda *step: told.append(step), controls=False)
    failing = probe_seeds(
        [always([0.0, 1.0, 0.0])] * 2, asked({"f": 1, "m": 1}, others=1, foods=1, controls=True), draws=0
    )
    return {
        "before": {**before.to_dict(), "models": 3},
        "differences": compare(before, after).to_dict()["differences"],
        "sampled": [{**each.to_dict(), "models": 2} for each in sampled],
        "compared samples": compare(sampled[1], sampled[1]).to_dict()["differences"],
        "three groups": {**chosen.to_dict(), "models": 2},
        "told": told,
        "failing": [{**failing.to_dict(), "models": 2}, repr(failing), failing._repr_html_(), failing.accuracy],
        "shown": [repr(before), repr(after), before._rows(), repr(sampled[0]), sampled[1]._repr_html_()],
        "spreads": [spread_of([0.1, 0.4], None, (0.0, 1.0)), spread_of([0.2], np.array([[0.1, 0.3] * 20]), (0.0, 0.25))],
    }  # fmt: skip


def measure_cases() -> dict[str, Any]:
    few, many = NLIEnsemble((model(),), note="not retrained"), NLIEnsemble((model("one"), model("two")))
    found: dict[str, Any] = {}
    for name in ("small", "three groups", "contrast", "on the premise"):
        one = PROBES[name]
        for size in (None, 12):
            found[f"neutrality {name} {size}"] = measures.nli_neutrality(many, one, sample=size)
            found[f"gap {name} {size}"] = measures.nli_gap(many, one, sample=size)
            found[f"mab {name} {size}"] = measures.mab(few, one, sample=size)
        found[f"groups {name}"] = measures.nli_groups(many, one, sample=None)
    for name in ("large", "one word each", "one group"):
        found[f"neutrality {name}"] = measures.nli_neutrality(few, PROBES[name], sample=None)
        found[f"gap {name}"] = measures.nli_gap(few, PROBES[name], label="contradiction", sample=None)
        found[f"groups {name}"] = measures.nli_groups(few, PROBES[name], sample=None)
    found["groups of a sample"] = measures.nli_groups(few, PROBES["three groups"], sample=20, seed=2)
    controls = asked({"f": 2, "m": 2}, others=2, foods=2, controls=True)
    found["controls"] = measures.nli_neutrality(many, controls)
    found["d"] = measures.mab(few, controls, score="d")
    found["pairs"] = [
        probe_pairs(PROBES[name], *groups, sample, 3)
        for name, groups in (("large", "fm"), ("on the premise", "mf"), ("contrast", "ca"))
        for sample in (None, 5, 11, 10_000)
    ]
    return found


CASES: dict[str, Callable[[], dict[str, Any]]] = {"probes": probe_cases, "seeds": seed_cases, "measures": measure_cases}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_whole_records_are_the_recorded_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nli_measures, "DRAWS", 60)
    # Draws are products in single precision, which differ between processors.
    check_whole(f"cases of {name} of inference models", json.loads(json.dumps(plain(CASES[name]()))), relative=1e-4)


# By the definition --------------------------------------------------------------------------------------------------


def stratified_sample(strata: Sequence[int], size: int) -> Sample:
    rows = np.arange(len(strata))
    per = max(strata.count(one) for one in strata)
    return Sample(Points(rows, rows, rows), np.array(strata), "pair", per, size)


@pytest.mark.parametrize("rows", [None, [0, 1, 2, 3, 4], [5, 6, 7, 8], [0, 3], [2, 3, 8, 9]])
def test_the_error_of_a_stratified_mean_is_that_of_the_textbook(rows: list[int] | None) -> None:
    strata = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    values = np.array([[number(row, "a"), float(row % 3 == 0), 0.0] for row in range(10)])
    found = SampleStatistics(stratified_sample(strata, 12), values)
    chosen = list(range(10)) if rows is None else rows
    by_stratum = [[row for row in chosen if strata[row] == s] for s in sorted({strata[row] for row in chosen})]
    half = found.half_width(None if rows is None else np.array(rows))
    bounds = found.bounds(None if rows is None else np.array(rows))
    known = [values[part].var(axis=0, ddof=1) for part in by_stratum if len(part) > 1]
    if not known:
        assert np.isnan(half).all()
        return
    variances = [values[part].var(axis=0, ddof=1) if len(part) > 1 else np.mean(known, axis=0) for part in by_stratum]
    terms = [
        (len(p) / len(chosen)) ** 2 * (1 - 3 / 12) * v / len(p) for p, v in zip(by_stratum, variances, strict=True)
    ]
    error, freedom = np.sqrt(np.sum(terms, axis=0)), len(chosen) - len(by_stratum)
    expected = error * student.ppf(0.975, freedom)
    assert half == pytest.approx(expected, rel=1e-9, abs=1e-12)
    mean = values[chosen].mean(axis=0)
    assert bounds[:, 0] == pytest.approx(np.clip([mean[0] - expected[0], mean[0] + expected[0]], 0, 1))
    for column in (1, 2):
        p = mean[column]
        size = p * (1 - p) / error[column] ** 2 if error[column] > 0 else len(chosen) / (1 - 3 / 12)
        assert bounds[:, column] == pytest.approx(wilson(p, size, quantile=student.ppf(0.975, freedom)), rel=1e-9)


def test_the_effective_size_is_that_of_independent_pairs() -> None:
    found = effective_size(np.array([0.5, 0.2, 0.0, 1.0, 0.3, 0.5]), np.array([0.1, 0.04, 0.2, 0.0, 0.0, np.nan]), 7.0)
    assert found[:5] == pytest.approx([25, 100, 7, 7, 7])
    assert np.isnan(found[5])


@pytest.mark.parametrize("cut", [1, 3, 7, 20])
@pytest.mark.parametrize("k", [1, 3, 20, 30])
def test_the_pairs_kept_are_the_most_probable_and_of_equal_ones_the_first(cut: int, k: int) -> None:
    values = np.array([[round(4 * number(row, label)) / 4 for label in range(2)] for row in range(20)])
    whole, parts = TopPairs(2, k), TopPairs(2, k)
    for start in range(0, 20, cut):
        whole.add(np.arange(start, min(start + cut, 20)), values[start : start + cut])
        part = TopPairs(2, k)
        part.add(np.arange(start, min(start + cut, 20)), values[start : start + cut])
        parts.merge(part)
    for label in range(2):
        expected = sorted(range(20), key=lambda row: (-values[row, label], row))[:k]
        for found in (whole, parts):
            assert found.ranking(label) == tuple((row, values[row, label]) for row in expected)


class Elsewhere(LocalEngine):
    """An engine whose parts report nothing while they run."""

    here = False


@pytest.mark.parametrize("engine", ["local", Elsewhere()])
@pytest.mark.parametrize("pairs", [1, 40, 144, 145, 1 << 16])
def test_parts_of_a_probe_give_the_same_result_and_say_how_far_they_are(
    engine: Any, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, told = asked({"f": 2, "m": 2}, others=2, foods=36), []
    whole = probe(model(), one, draws=10, controls=False).to_dict()
    monkeypatch.setattr(sums_of_pairs, "SLOW_PAIRS_IN_PART", pairs)
    found = probe(model(), one, draws=10, controls=False, engine=engine, progress=lambda *step: told.append(step))
    assert [step[1:] for step in told] == [(36, "own")] * len(told)
    steps = np.diff([0, *(step[0] for step in told)])
    assert steps.sum() == 36
    if engine != "local":
        assert steps.tolist() == [min(max(1, pairs // 8), 36 - n) for n in range(0, 36, max(1, pairs // 8))]
    assert found.neutrality.net_neutral.value == pytest.approx(whole["net_neutral"], rel=1e-9)
    assert found.top("entailment", 5) == tuple(whole["top"]["entailment"][:5])
    assert found.by_word[0] == pytest.approx(whole["by_word"][0])


def test_a_sample_is_asked_in_blocks_and_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    one, told = PROBES["large"], []
    whole = probe(model(), one, sample=100, draws=0, controls=False)
    monkeypatch.setattr(sums_of_pairs, "PAIRS_AT_ONCE", 40)
    found = probe(model(), one, sample=100, draws=0, controls=False, progress=lambda *step: told.append(step))
    size = found.n_pairs
    assert told == [(min(n + 40, size), size, "own") for n in range(0, size, 40)]
    assert found.neutrality == whole.neutrality


def test_the_p_value_of_a_gap_is_the_larger_one_of_two_tests() -> None:
    view, one = NLIEnsemble((model("one"), model("two"))), PROBES["large"]
    found = measures.nli_gap(view, one, label="entailment", sample=None)
    means = np.zeros((8, 9, 17))
    for each in view.members:
        premises, hypotheses = one.texts(one.points(0, one.n_pairs))
        means += each.predict(premises, hypotheses).matrix[:, 0].reshape(8, 9, 17) / 2
    words, fillers = means.mean(axis=(0, 1)), means.mean(axis=0)
    gaps = fillers[:, :8].mean(axis=1) - fillers[:, 8:].mean(axis=1)
    over_words = ttest_ind(words[:8], words[8:]).pvalue
    signs = np.array([[1 if n >> bit & 1 else -1 for bit in range(9)] for n in range(512)])
    away = np.abs(signs @ gaps)
    over_fillers = np.mean(away >= abs(gaps.sum()) * (1 - 1e-9))
    assert found.value == pytest.approx(words[:8].mean() - words[8:].mean())
    assert found.p_value == pytest.approx(max(over_words, over_fillers), rel=1e-6)
    assert [(item["word"], item["value"]) for item in found.items] == [
        (f"p{n}", pytest.approx(gap, abs=1e-9)) for n, gap in enumerate(gaps)
    ]


def test_words_of_groups_are_tested_by_student_and_fillers_by_signs() -> None:
    words, fillers = ["a", "a", "b", "b", "c", "c"], ["x", "y", "z", "u", "v", "w"]
    values = np.array([0.9, 0.7, 1.0, 0.6, 0.8, 1.2])
    over_words = ttest_1samp([0.8, 0.8, 1.0], 0).pvalue
    assert words_p(words, fillers, values) == pytest.approx(max(over_words, 2 / 2**6))
    assert words_p(words, ["x"] * 6, values) == pytest.approx(over_words)
    assert words_p(["a"] * 6, fillers, values) is None
    assert words_p(["a", "a", "a", "b", "b", "b"], ["x"] * 6, np.ones(6)) == 0.0
    assert words_p(["a", "a", "a", "b", "b", "b"], fillers, np.ones(6)) == pytest.approx(2 / 2**6)


def test_drawn_weights_spread_as_students_distribution() -> None:
    weights = draw_weights(10, 4_000, np.random.SeedSequence(5))
    wide = np.sqrt(10 / 9) * student.ppf(0.975, 9) / 1.959963985
    counts = 1 + (weights - 1) / wide
    assert counts.sum(axis=1) == pytest.approx(np.full(4_000, 10), abs=1e-3)
    assert np.abs(counts - counts.round()).max() < 1e-4
    assert counts.min() > -1e-4


def test_a_part_of_a_spread_without_draws_is_students_interval() -> None:
    values = [0.2, 0.5, 0.4]
    half = student.ppf(0.975, 2) * np.std(values, ddof=1) / 3**0.5
    found = spread_of(values, None, (-10.0, 10.0))
    assert found.interval == pytest.approx((np.mean(values) - half, np.mean(values) + half))


def test_a_probe_of_one_pair_has_the_answer_to_it() -> None:
    one = asked({"f": 1}, others=1, foods=1)
    found = probe(always([0.2, 0.7, 0.1]), one, controls=False)
    assert found.n_pairs == 1
    assert found.neutrality.net_neutral.value == pytest.approx(0.7)
    assert found.accuracy == 1.0
    assert found.gap is None


def test_conditions_of_which_one_has_no_draws_are_compared_by_seeds() -> None:
    drawn, plainly = (
        probe_seeds([model("one"), model("two")], PROBES["large"], draws=draws, controls=False) for draws in (20, 0)
    )
    for before, after in ((drawn, plainly), (plainly, drawn)):
        spread = compare(before, after).differences["net_neutral"]
        assert (spread.mean, spread.interval) == (0, (0, 0))
    assert compare(plainly, drawn).differences.keys() == compare(drawn, plainly).differences.keys()


def test_words_that_do_not_differ_within_their_group_are_certain_or_alike() -> None:
    a, b = np.array([0.2, 0.2, 0.2]), np.array([0.5, 0.5])
    assert nli_measures._student_p(a, b) == 0.0
    assert nli_measures._student_p(a, a[:2]) == 1.0
    c = np.array([0.1, 0.4, 0.3, 0.2])
    assert nli_measures._student_p(c, b + np.array([0.1, 0.0])) == pytest.approx(
        ttest_ind(c, b + np.array([0.1, 0.0])).pvalue
    )
    assert measures.nli_gap(always([0.2, 0.5, 0.3]), PROBES["large"], label="entailment", sample=None).p_value == 1.0
