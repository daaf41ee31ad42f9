"""Sampling units: the estimate from its columns, exact tests of a change and of a null value, records."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from evenhand.errors import UsageError
from evenhand.stats import mean_ranks
from evenhand.stats.units import (
    MOST_UNITS,
    Units,
    contrast_units,
    correlation_units,
    effect_size_units,
    exchange_test,
    linearised_units,
    mean_units,
    null_p,
    ratio_units,
    units,
)

WORDS = list("abcdefgh")


def test_estimates_are_those_of_their_definitions() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=8), rng.normal(size=8)
    pooled = np.concatenate([x, y])
    assert mean_units("word", WORDS, x).value == pytest.approx(x.mean())
    assert ratio_units("word", WORDS, x, y**2).scaled(100).value == pytest.approx(100 * x.sum() / (y**2).sum())
    assert contrast_units("word", [WORDS, WORDS[:5]], [x, y[:5]], [1, -1]).value == pytest.approx(
        x.mean() - y[:5].mean()
    )
    for ddof in (0, 1):
        effect = effect_size_units("word", WORDS, WORDS, x, y, ddof=ddof).value
        assert effect == pytest.approx((x.mean() - y.mean()) / pooled.std(ddof=ddof))
    assert correlation_units("word", WORDS, x, y).value == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert correlation_units("word", WORDS, x, y, statistic="slope").value == pytest.approx(np.polyfit(x, y, 1)[0])
    ranks = correlation_units("word", WORDS, mean_ranks(x), mean_ranks(y))
    assert ranks.value == pytest.approx(spearmanr(x, y).statistic)
    assert units("exp-ratio", "text", WORDS, np.full(8, 2.0), x).value == pytest.approx(np.exp(x.sum() / 16))


def test_values_of_one_name_are_one_unit() -> None:
    found = mean_units("word", ["a", "b", "a"], [1.0, 2.0, 6.0])
    assert found.names == ("a", "b")
    assert found.columns.tolist() == [[2.0, 7.0], [1.0, 2.0]]
    assert found.value == 3.0


def test_leaving_out_units_of_a_mean_gives_its_values_back() -> None:
    x = np.array([1.0, 4.0, 7.0, 2.0])
    left_out = [np.delete(x, i).mean() for i in range(4)]
    found = linearised_units("word", "abcd", float(x.mean()), left_out)
    np.testing.assert_allclose(found.columns[:, 1], x)


def test_the_exchange_test_by_hand() -> None:
    """Three units that all fall: of the 8 exchanges, the observed one and its mirror image are as extreme."""
    before, after = mean_units("word", "abc", [3.0, 2.0, 5.0]), mean_units("word", "abc", [2.0, 1.5, 1.0])
    test = exchange_test(before, after, np.abs)
    assert test is not None
    assert (test.p_moved, test.p_distance, test.common, test.lost) == (0.25, 0.25, 3, 0)


def test_a_value_that_passes_the_ideal_has_moved_but_is_not_nearer() -> None:
    rng = np.random.default_rng(1)
    values = 1 + 0.1 * rng.normal(size=12)
    test = exchange_test(mean_units("w", range(12), values), mean_units("w", range(12), -values), np.abs)
    assert test is not None
    assert test.p_moved == pytest.approx(2 / 2**12)
    assert test.p_distance == 1.0


def test_the_same_units_have_not_changed() -> None:
    found = mean_units("word", WORDS, np.arange(8.0))
    test = exchange_test(found, mean_units("word", WORDS, np.arange(8.0)), np.abs)
    assert test is not None
    assert (test.p_moved, test.p_distance) == (1.0, 1.0)


def test_units_are_matched_by_name_in_any_order() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=8), rng.normal(size=8)
    order = rng.permutation(8)
    straight = exchange_test(mean_units("w", WORDS, x), mean_units("w", WORDS, y), np.abs)
    shuffled = mean_units("w", [WORDS[i] for i in order], y[order])
    assert exchange_test(mean_units("w", WORDS, x), shuffled, np.abs) == straight
    fewer = exchange_test(mean_units("w", WORDS, x), mean_units("w", WORDS[:6], y[:6]), np.abs)
    assert fewer is not None
    assert (fewer.common, fewer.lost) == (6, 2)


@pytest.mark.parametrize(
    "other",
    [
        mean_units("pair", WORDS, np.arange(8.0)),
        correlation_units("word", WORDS, np.arange(8.0), np.arange(8.0) ** 2),
        mean_units("word", ["x", "y", "z"], np.arange(3.0)),
        mean_units("word", ["a", "b"], np.arange(2.0)),
        contrast_units("word", ["ab", "cd"], [np.arange(2.0), np.arange(2.0)]),
    ],
)
def test_estimates_of_other_kinds_are_not_paired(other: Units) -> None:
    assert exchange_test(mean_units("word", WORDS, np.arange(8.0)), other, np.abs) is None


def test_the_level_of_the_exchange_test_is_kept() -> None:
    """Effect sizes of words that are drawn anew before and after: 5 % of the tests have p <= .05."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(400):
        drawn = [effect_size_units("w", range(8), range(8), rng.normal(0.5, 1, 8), rng.normal(0, 1, 8)) for _ in "ab"]
        test = exchange_test(*drawn, np.abs)
        assert test is not None
        hits += test.p_moved <= 0.05
    assert 8 <= hits <= 33  # 20 expected; 99.8 % of binomial counts


def test_a_null_value_by_hand() -> None:
    """Signs of three positive values: 2 of 8 patterns are as extreme; with null 2, the values -1, 0, 1 cancel."""
    found = mean_units("word", "abc", [1.0, 2.0, 3.0])
    assert null_p(found) == 0.25
    assert null_p(found, 2.0) == 1.0
    assert null_p(mean_units("word", "ab", [1.0, 2.0])) is None
    assert null_p(found.scaled(100), 200.0) == 1.0
    with pytest.raises(UsageError, match="no test by change of signs"):
        null_p(correlation_units("word", "abc", [1.0, 2.0, 3.0], [1.0, 2.0, 4.0]))


@given(st.integers(1, 600), st.integers(0, 9))
def test_a_record_keeps_the_estimate(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = ratio_units("word", range(count), rng.normal(size=count), 1 + rng.random(count))
    again = Units.from_dict(json.loads(json.dumps(found.to_dict())))
    assert (again.names is None) == (count > MOST_UNITS)
    assert again.count == count
    assert again.value == pytest.approx(found.value, rel=1e-6, abs=1e-8)


def test_blocks_compare_with_names() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    many, fewer = mean_units("w", range(400), x), mean_units("w", range(255), x[:255] + 1)
    assert exchange_test(Units.from_dict(many.to_dict()), fewer, np.abs) is not None


@pytest.mark.parametrize(
    "damage",
    [{"statistic": "median"}, {"columns": [[1.0]]}, {"names": ["a", "a"]}, {"columns": [[1.0, float("nan")]] * 2}],
)
def test_damaged_units_are_refused(damage: dict[str, object]) -> None:
    record = mean_units("word", "ab", [1.0, 2.0]).to_dict() | damage
    with pytest.raises(ValueError, match="damaged"):
        Units.from_dict(record)


@pytest.mark.parametrize("kind", ["correlation", "effect size"])
def test_units_of_measurement_do_not_count(kind: str) -> None:
    """Exchanging a word between an estimate in metres and one in kilometres is exchanging a word."""
    x, y = np.random.default_rng(0).normal(size=(2, 8))

    def made(scale: float, shift: float) -> Units:
        if kind == "correlation":
            return correlation_units("word", WORDS, scale * x + shift, scale * y + shift)
        return effect_size_units("word", WORDS, WORDS, scale * x + shift, scale * y + shift)

    np.testing.assert_allclose(made(1000.0, 7.0).columns, made(1.0, 0.0).columns, atol=1e-9)
