"""Slopes and deviations of scores against their definitions, computed with plain loops."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import t as student

from evenhand.corpus.beta import (
    Beta,
    NoiseCorrected,
    _covariance,
    _halves,
    _influence,
    _variance,
    corrected_deviation,
    corrected_slope,
    fieller,
    shared_scores,
    too_few_words,
    trimmed_line,
)
from evenhand.errors import DegenerateError

DRAW = np.random.default_rng(5)


def folds(count, words, seed):
    """Return co-occurrences of words that differ in their bias more than by noise."""
    draw = np.random.default_rng(seed)
    bias = np.linspace(-1.5, 1.5, words)
    return draw.poisson(np.exp(np.stack([bias, -bias]) / 2)[:, None, :] * 4, (2, count, words)).astype(np.float64)


def test_the_line_without_outliers_is_that_of_polyfit():
    x = np.concatenate([np.linspace(-1, 1, 40), [9.0, 0.2]])
    y = np.concatenate([np.sin(np.arange(40)), [0.1, -30.0]])
    slope, intercept, inliers = trimmed_line(x, y)
    assert np.flatnonzero(~inliers).tolist() == [40, 41]
    assert [slope, intercept] == pytest.approx(np.polyfit(x[:40], y[:40], 1))
    beta = Beta(x, y)
    assert beta.to_dict() == {
        "trimmed": pytest.approx(slope),
        "untrimmed": pytest.approx(np.polyfit(x, y, 1)[0]),
        "theil_sen": pytest.approx(beta.theil_sen),
        "theil_sen_interval": beta.theil_sen_interval,
        "intercept": pytest.approx(intercept),
        "words": 42,
        "removed": 2,
    }
    pairs = [(y[j] - y[i]) / (x[j] - x[i]) for i in range(42) for j in range(i)]
    assert beta.theil_sen == pytest.approx(np.median(pairs))
    assert beta.theil_sen_interval[0] < beta.theil_sen < beta.theil_sen_interval[1]


def test_a_word_at_exactly_three_deviations_is_no_outlier():
    x = np.array([-1.0, *[0.0] * 17, 1.0])
    assert trimmed_line(x, np.arange(19.0))[2].all()
    assert trimmed_line(np.arange(19.0), x)[2].all()


def test_words_with_one_score_have_no_outliers_and_slope_zero():
    slope, intercept, inliers = trimmed_line(np.arange(4.0), np.full(4, 2.0))
    assert (slope, intercept, inliers.all()) == (0, 2, True)


def test_three_words_are_enough_for_a_slope():
    assert Beta(np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])).words == 3
    with pytest.raises(DegenerateError, match=r"only 2 words are scored"):
        Beta(np.zeros(2), np.zeros(2))


def test_too_little_text_says_what_helps():
    assert too_few_words(2).hint == "use more text; for generated text, more or longer samples"
    assert too_few_words(2, 2).hint.startswith("lower min_count (currently 2); use more text")
    assert too_few_words(1).message.startswith("only 1 word is scored in both corpora")


def test_shared_words_keep_the_order_of_the_first_corpus():
    words, one, other = shared_scores({"c": 1.0, "a": 2.0, "b": 3.0}, {"b": 30.0, "d": 0.0, "c": 10.0})
    assert (words, one.tolist(), other.tolist()) == (["c", "b"], [1, 3], [10, 30])


def test_the_variance_of_a_mean_over_pairs_is_its_sum_over_all_tuples_of_folds():
    x = DRAW.normal(size=(5, 4)) + np.array([1.0, -1.0, 2.0, 0.5])
    k = x @ x.T
    n = len(k)
    apart = np.mean([k[i, j] * k[p, q] for i, j, p, q in permutations(range(n), 4)])
    one = np.mean([k[i, j] * k[i, p] for i, j, p in permutations(range(n), 3)]) - apart
    both = np.mean([k[i, j] ** 2 for i, j in permutations(range(n), 2)]) - apart
    pairs = list(permutations(range(n), 2))
    covariances = {0: 0.0, 1: one, 2: both}
    expected = sum(covariances[len({*a} & {*b})] for a, b in product(pairs, pairs)) / len(pairs) ** 2
    assert _variance(k) == pytest.approx(expected)


def test_the_covariance_of_both_means_is_its_sum_over_all_tuples_of_folds():
    x = DRAW.normal(size=(5, 4)) + np.array([1.0, -1.0, 2.0, 0.0])
    y = DRAW.normal(size=(4, 4)) + np.array([2.0, -1.0, 1.0, 0.0])
    within, between = x @ x.T / 4, x @ y.T / 4
    n, m = between.shape
    places = list(product(range(n), range(m)))
    apart = np.mean([between[i, a] * between[j, b] for (i, a), (j, b) in product(places, places) if i != j and a != b])
    row = np.mean([between[i, a] * between[i, b] for i in range(n) for a, b in permutations(range(m), 2)]) - apart
    column = np.mean([between[i, a] * between[j, a] for a in range(m) for i, j in permutations(range(n), 2)]) - apart
    both = np.mean(between**2) - apart
    kinds = {(True, True): both, (True, False): row, (False, True): column, (False, False): 0.0}
    above = sum(kinds[i == j, a == b] for (i, a), (j, b) in product(places, places)) / len(places) ** 2
    common = np.mean([within[i, j] * between[i, a] for i, j in permutations(range(n), 2) for a in range(m)])
    distinct = np.mean([within[i, j] * between[p, a] for i, j, p in permutations(range(n), 3) for a in range(m)])
    found = _covariance(x, y)
    shared = 2 / n * (common - distinct)
    assert found.tolist() == [
        [pytest.approx(above), pytest.approx(shared)],
        [pytest.approx(shared), pytest.approx(_variance(within))],
    ]


def score(counts):
    logs = np.log(counts + 0.5)
    ratios = logs[0] - logs[1]
    return ratios - ratios.mean()


def test_a_half_has_half_of_the_folds_rounded_down():
    table = folds(7, 5, 1)
    first, second = _halves(table, np.random.default_rng(3))
    chosen = np.random.default_rng(3).permutation(7)
    assert first == pytest.approx(score(table[:, chosen[:3]].sum(axis=1)))
    assert second == pytest.approx(score(table[:, chosen[3:]].sum(axis=1)))


def test_the_influence_of_a_fold_is_the_derivative_of_the_score_by_its_weight():
    table = folds(6, 4, 2)
    for fold, found in enumerate(_influence(table)):
        step, weights = 1e-6, np.full(6, -1 / 6)
        weights[fold] += 1
        moved = [score(np.einsum("gfw,f->gw", table, 1 + sign * step * weights)) for sign in (1, -1)]
        derivative = (moved[0] - moved[1]) / (2 * step)
        assert found == pytest.approx(score(table.sum(axis=1)) + 6 * derivative, abs=1e-6)


def test_the_interval_of_a_quotient_ends_where_the_difference_is_just_significant():
    covariance = np.array([[0.04, 0.01], [0.01, 0.02]])
    low, high = fieller(1.5, 1.2, covariance, 2.0)
    assert low < 1.5 / 1.2 < high
    for b in (low, high):
        variance = covariance[0, 0] - 2 * b * covariance[0, 1] + b**2 * covariance[1, 1]
        assert (1.5 - b * 1.2) ** 2 == pytest.approx(2.0**2 * variance)


def test_a_quotient_without_variance_is_its_own_interval():
    assert fieller(3.0, 2.0, np.zeros((2, 2)), 1.96) == (1.5, 1.5)


@pytest.mark.parametrize(("below", "variance"), [(-2.0, 0.0), (0.0, 0.0), (1.0, 1.0), (1.0, 2.0)])
def test_a_denominator_that_may_be_zero_has_no_interval(below, variance):
    assert fieller(1.0, below, np.diag([0.0, variance]), 1.0) is None


def test_the_slope_without_noise_is_the_mean_over_halvings():
    x, y = folds(11, 10, 3), folds(10, 10, 4)
    rng = np.random.default_rng(7)
    above, below = [], []
    for _ in range(16):
        (x1, x2), (y1, y2) = _halves(x, rng), _halves(y, rng)
        above.append(np.mean((x1 + x2) / 2 * (y1 + y2) / 2))
        below.append(np.mean(x1 * x2))
    found = corrected_slope(x, y, seed=7)
    assert found.value == pytest.approx(np.mean(above) / np.mean(below))
    covariance = _covariance(_influence(x), _influence(y))
    assert found.interval == pytest.approx(fieller(np.mean(above), np.mean(below), covariance, student.ppf(0.975, 9)))
    assert found.to_dict() == {"value": found.value, "interval": found.interval, "words": 10}


def test_the_deviation_without_noise_is_the_mean_over_halvings():
    x = folds(10, 10, 3)
    rng = np.random.default_rng(7)
    square = np.mean([np.mean(one * two) for one, two in (_halves(x, rng) for _ in range(16))])
    influence = _influence(x)
    reach = student.ppf(0.975, 9) * np.sqrt(_variance(influence @ influence.T / 10))
    found = corrected_deviation(x, seed=7)
    assert found.value == pytest.approx(np.sqrt(square))
    assert found.interval == pytest.approx((np.sqrt(max(square - reach, 0)), np.sqrt(square + reach)))


def test_a_text_without_bias_has_no_deviation_beyond_noise():
    table = np.random.default_rng(0).poisson(3.0, (2, 12, 40)).astype(np.float64)
    found = corrected_deviation(table, seed=0)
    assert found.value is None
    assert found.interval[0] == 0
    assert found.interval[1] > 0
    assert found.words == 40


def test_a_negative_estimate_of_the_variance_gives_no_interval():
    tables = [np.random.default_rng(seed).poisson(3.0, (2, 12, 40)).astype(np.float64) for seed in range(12)]
    variances = [_variance(influence @ influence.T / 40) for influence in map(_influence, tables)]
    assert min(variances) < 0 < max(variances)
    for table, variance in zip(tables, variances, strict=True):
        assert (corrected_deviation(table, seed=0).interval is None) == (variance < 0)


def test_nine_folds_or_nine_words_are_too_few():
    many, few_folds, few_words = folds(10, 10, 0), folds(9, 10, 0), folds(10, 9, 0)
    assert corrected_slope(many, many).value is not None
    assert corrected_deviation(many).value is not None
    for x, y in ((many, few_folds), (few_folds, many), (few_words, few_words)):
        assert corrected_slope(x, y) == NoiseCorrected(None, None, x.shape[2])
    for x in (few_folds, few_words):
        assert corrected_deviation(x) == NoiseCorrected(None, None, x.shape[2])


def test_a_corrected_value_as_text():
    assert NoiseCorrected(None, None, 3).text() == "none (no spread beyond noise, or too little text)"
    assert NoiseCorrected(0.5, None, 3).text() == "0.500"
    assert NoiseCorrected(0.5, (0.25, 0.75), 3).text() == "0.500 [0.25, 0.75]"
