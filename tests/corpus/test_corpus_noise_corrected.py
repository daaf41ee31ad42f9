"""Slope and deviation without noise: exact cases, and coverage in simulated texts with bursts."""

import numpy as np
import pytest

from evenhand import corpus
from evenhand.corpus.beta import (
    LEAST_COUNT,
    NoiseCorrected,
    corrected_deviation,
    corrected_slope,
    fieller,
)
from evenhand.corpus.readers import Texts

FOLDS = 100


def company(bias, documents, rng, *, burst=0.3, male=3.0):
    """Return (2, folds, words): co-occurrences of a text whose documents have topics and lean to a group."""
    base = 1 / (np.arange(len(bias)) + 10.0)
    table = np.zeros((2, FOLDS, len(bias)))
    chances = [base * np.exp(sign * bias / 2) for sign in (1, -1)]
    for document in range(documents):
        topic = rng.gamma(burst, 1 / burst, size=len(bias))
        hits = rng.gamma(0.5, 2.0, size=2) * 30 * np.array([1, male]) / (1 + male)
        for group in (0, 1):
            expected = hits[group] * 20 * chances[group] / chances[group].sum() * topic
            table[group, document % FOLDS] += rng.poisson(expected)
    return table


def coverage(samples, *, words=600, documents=300, sd=0.4, scale=1.0, second=None, sparse=False, **how):
    rng = np.random.default_rng(0)
    slopes, deviations, values, plain = [], [], [], []
    for seed in range(samples):
        bias = rng.standard_normal(words) * sd
        if sparse:
            bias = np.where(rng.random(words) < 0.2, bias * np.sqrt(5), 0.0)
        tables = company(bias, documents, rng, **how), company(bias * scale, second or documents, rng, **how)
        often = np.all([table.sum(axis=(0, 1)) >= LEAST_COUNT for table in tables], axis=0)
        x, y = (table[:, :, often] for table in tables)
        slope, deviation = corrected_slope(x, y, seed=seed), corrected_deviation(x, seed=seed)
        slopes.append(slope.interval is not None and slope.interval[0] <= scale <= slope.interval[1])
        deviations.append(deviation.interval[0] <= bias[often].std() <= deviation.interval[1])
        values.append((slope.value or np.nan) / scale)
        scores = [np.log(t.sum(axis=1) + 0.5) for t in (x, y)]
        plain.append(np.polyfit(scores[0][0] - scores[0][1], scores[1][0] - scores[1][1], 1)[0] / scale)
    return {
        "beta": np.mean(slopes),
        "sigma": np.mean(deviations),
        "value": np.nanmean(values),
        "plain": np.mean(plain),
    }


FAMILIES = [
    {}, {"sd": 0.25}, {"scale": 0.5}, {"second": 900}, {"sparse": True}, {"burst": 0.05}, {"male": 1.0},
    {"documents": 1000},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("how", FAMILIES, ids=str)
def test_the_intervals_cover(how):
    found = coverage(200, **how)
    assert found["beta"] >= 0.93
    assert found["sigma"] >= 0.92
    assert abs(found["value"] - 1) < 0.04


def test_the_intervals_cover_in_a_few_texts_where_the_plain_slope_is_far_off():
    found = coverage(12, words=300, documents=200)
    assert found["beta"] >= 0.9
    assert found["sigma"] >= 0.8
    assert abs(found["value"] - 1) < 0.15
    assert found["plain"] < 0.8


def test_texts_without_noise_have_their_own_slope_and_deviation():
    """Folds that are alike have no noise: both values are those of the log ratios."""
    rng = np.random.default_rng(0)
    bias = rng.standard_normal(50)
    tables = [1e9 * np.exp([[scale * bias / 2], [-scale * bias / 2]]).repeat(20, axis=1) for scale in (1, 0.5)]
    slope, deviation = corrected_slope(*tables), corrected_deviation(tables[0])
    assert slope.value == pytest.approx(0.5, abs=1e-6)
    assert deviation.value == pytest.approx(bias.std(), abs=1e-6)
    assert slope.words == 50


def test_without_any_bias_there_is_no_slope():
    rng = np.random.default_rng(1)
    x, y = (company(np.zeros(300), 200, rng) for _ in range(2))
    assert corrected_slope(x, y).interval is None
    assert corrected_slope(x, y).value is None
    assert corrected_deviation(x).interval[0] == 0


def test_few_words_or_folds_have_no_value():
    table = np.ones((2, 100, 5))
    assert corrected_slope(table, table) == NoiseCorrected(None, None, 5)
    assert corrected_deviation(np.ones((2, 9, 50))) == NoiseCorrected(None, None, 50)
    assert "none" in NoiseCorrected(None, None, 5).text()


def test_ten_words_in_ten_folds_are_enough():
    table = np.random.default_rng(0).poisson(1000 * np.exp(np.linspace(-1, 1, 10)), (2, 10, 10)).astype(float)
    table[1] = table[1, :, ::-1]
    assert corrected_slope(table, table).value == pytest.approx(1, abs=0.1)
    assert corrected_deviation(table).value > 1
    assert corrected_slope(table, table[:, :9]).value is None
    assert corrected_slope(table[..., :9], table[..., :9]).value is None
    assert corrected_deviation(table[..., :9]).value is None


def test_the_deviation_is_that_of_random_halves_of_the_folds():
    """The mean over 16 halvings of the product of the centred log ratios of 5 and the other 5 of 10 folds."""
    table = np.random.default_rng(0).poisson(30 * np.exp(np.linspace(-0.3, 0.3, 12)), (2, 10, 12)).astype(float)
    table[1] = table[1, :, ::-1]
    rng, products = np.random.default_rng(7), []
    for _ in range(16):
        order = rng.permutation(10)
        logs = [np.log(table[:, part].sum(axis=1) + 0.5) for part in (order[:5], order[5:])]
        one, other = (ratio - ratio.mean() for ratio in (log[0] - log[1] for log in logs))
        products.append(one @ other / 12)
    found = corrected_deviation(table, seed=7)
    assert found.value == pytest.approx(np.sqrt(np.mean(products)))
    assert found.interval[0] ** 2 + found.interval[1] ** 2 == pytest.approx(2 * np.mean(products))
    assert found.interval == pytest.approx((0.3464065, 0.4182701), abs=1e-6)  # as recorded: Student's t of 9 degrees


def test_fieller_by_hand():
    """Independent parts of variance .01 and no error below: 2 ± 1.96 * .1 over 1."""
    low, high = fieller(2.0, 1.0, np.array([[0.01, 0.0], [0.0, 0.0]]), 1.96)
    assert (low, high) == pytest.approx((2 - 0.196, 2 + 0.196))
    assert fieller(2.0, 0.1, np.array([[0.01, 0.0], [0.0, 0.01]]), 1.96) is None
    assert fieller(2.0, 1.0, np.zeros((2, 2)), 1.96) == (2, 2)  # without errors the quotient is exact


def texts(rng, documents=60):
    words = [f"w{i}" for i in range(40)]
    lean = np.linspace(-1.5, 1.5, len(words))
    found = []
    for _ in range(documents):
        parts = []
        for pronoun, sign in (("she", 1), ("he", -1)):
            chances = np.exp(sign * lean / 2) / np.exp(sign * lean / 2).sum()
            parts += [f"{pronoun} {' '.join(rng.choice(words, size=8, p=chances))}" for _ in range(4)]
        found.append(" . . . . . . . . . . . . ".join(parts))
    return Texts(found)


def test_a_comparison_has_the_corrected_values_beside_the_published_ones():
    rng = np.random.default_rng(0)
    sources = [texts(rng) for _ in range(2)]
    groups = {"female": ["she"], "male": ["he"]}
    found = corpus.compare(*sources, groups, window=8, tokenizer="whitespace")
    beta = found.corrected["beta"]
    assert beta.interval[0] < 1 < beta.interval[1]
    assert found.beta.trimmed == found.value("beta") < beta.value
    assert found.corrected["sigma"].value < found.second.sigma
    assert found.to_dict(points=False)["noise_corrected"]["beta"]["value"] == beta.value
    assert found.corrected_text("beta").startswith(f"{beta.value:.3f} [")
    decayed = corpus.compare(*sources, groups, decay=0.9, tokenizer="whitespace")
    assert decayed.corrected == {}
    assert decayed.corrected_text("beta") == ""
