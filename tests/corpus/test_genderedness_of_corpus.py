"""Genderedness, its noise and its constants against plain loops."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from evenhand.corpus.cooccurrence import Cooccurrence
from evenhand.corpus.genderedness import Constants, by_chance, fit_constants, genderedness, pair_scales
from evenhand.errors import DegenerateError, UsageError
from evenhand.words import pairs as named_pairs

WORDS = ("she", "he", "her", "his", "u", "v", "w", "x")
PAIRS = (("she", "he"), ("her", "his"))
TABLE = np.array(
    [
        [0, 2, 1, 0, 5, 1, 0, 4],
        [2, 0, 0, 1, 2, 3, 1, 6],
        [1, 0, 0, 3, 0, 2, 2, 1],
        [0, 1, 3, 0, 4, 1, 2, 0],
        [5, 2, 0, 4, 0, 0, 0, 0],
        [1, 3, 2, 1, 0, 0, 1, 0],
        [0, 1, 2, 2, 0, 1, 0, 0],
        [4, 6, 1, 0, 0, 0, 0, 0],
    ],
    dtype=float,
)


def counts(table=TABLE, words=WORDS, **params):
    return Cooccurrence(words, csr_array(table), np.ones(len(words), dtype=int), params)


def cspmi(x, y, table=TABLE):
    both, total = table[WORDS.index(x), WORDS.index(y)], table.sum()
    chance = table[WORDS.index(x)].sum() / total * table[WORDS.index(y)].sum() / total
    return np.log(both / total / chance) + np.log(both / total)


def scale(pair, alpha, lambda_):
    return 1 / np.sqrt(lambda_ * (alpha - cspmi(*pair)))


def ratio(word, pair, table=TABLE):
    x, y = (table[WORDS.index(word), WORDS.index(one)] / table[WORDS.index(one)].sum() for one in pair)
    return np.log(x / y)


def test_the_value_of_a_word_is_the_mean_over_pairs():
    found = genderedness(counts(), WORDS[4:], pairs=PAIRS, alpha=2.0, lambda_=3.0)
    for word, one in zip(WORDS[4:], found, strict=True):
        defined = [p for p in PAIRS if all(TABLE[WORDS.index(word), WORDS.index(x)] for x in p)]
        expected = {p: scale(p, 2.0, 3.0) * ratio(word, p) for p in defined}
        assert one.word == word
        assert one.by_pair == pytest.approx(expected)
        assert one.value == (pytest.approx(np.mean(list(expected.values()))) if expected else None)
        assert set(one.lost) == set(PAIRS) - set(defined)
    assert found[0].lost == {("her", "his"): "never near 'her'"}
    assert found[2].lost == {("she", "he"): "never near 'she'"}
    assert found[3].lost == {("her", "his"): "never near 'his'"}
    assert found[1].lost == {}
    assert genderedness(counts(), "v", pairs=PAIRS, alpha=2.0, lambda_=3.0) == found[1:2]


def test_a_word_needs_enough_pairs_and_enough_company():
    once = {"pairs": PAIRS, "alpha": 2.0}
    (one,) = genderedness(counts(), "u", **once, min_pairs=1)
    assert one.value == one.by_pair["she", "he"]
    assert genderedness(counts(), "u", **once, min_pairs=2)[0].value is None
    assert genderedness(counts(), "v", **once, min_pairs=2)[0].value is not None
    (least,) = genderedness(counts(), "v", **once, least=1.0)
    assert not least.lost
    (least,) = genderedness(counts(), "v", **once, least=2.0)
    assert least.lost == {PAIRS[0]: "near 'she' with a count below 2", PAIRS[1]: "near 'his' with a count below 2"}
    for wrong in ({"lambda_": 0.0}, {"min_pairs": 0}):
        with pytest.raises(UsageError, match="lambda must be above 0 and min_pairs at least 1"):
            genderedness(counts(), "u", pairs=PAIRS, **wrong)


def test_a_pair_without_a_distance_says_why():
    room = 1.5 + cspmi("she", "he")
    scales = pair_scales(counts(), (*PAIRS, ("she", "his"), ("queen", "he"), ("her", "king"), PAIRS[0]), alpha=2.0)
    assert list(scales) == [*PAIRS, ("she", "his"), ("queen", "he"), ("her", "king")]
    assert scales[PAIRS[0]] == pytest.approx(scale(PAIRS[0], 2.0, 1.0))
    assert scales["she", "his"] == "'she' and 'his' never co-occur, so their PMI is undefined"
    assert scales["queen", "he"] == "'queen' is not in the text"
    assert scales["her", "king"] == "'king' is not in the text"
    low = pair_scales(counts(), PAIRS[:1], alpha=cspmi("she", "he") - 1.5)
    assert low[PAIRS[0]] == "-csPMI + alpha is -1.500, not above 0"
    assert room != 0
    exact = counts().cspmi("she", "he")
    assert pair_scales(counts(), PAIRS[:1], alpha=exact)[PAIRS[0]] == "-csPMI + alpha is 0.000, not above 0"
    shipped = pair_scales(counts())
    assert list(shipped) == list(dict.fromkeys(named_pairs("ethayarajh2019-pairs")))


@pytest.mark.parametrize("least", [0.0, 2.0])
@pytest.mark.parametrize(
    ("params", "events"),
    [
        ({}, 1.0),
        ({"window": 3}, 1.0),
        ({"weighting": "harmonic", "window": "3"}, 1.0),
        ({"window": 3, "weighting": "flat"}, 1.0),
        ({"window": 3, "weighting": "harmonic"}, (1 + 1 / 2 + 1 / 3) / (1 + 1 / 4 + 1 / 9)),
        ({"window": 3, "weighting": "dynamic"}, (1 + 2 / 3 + 1 / 3) / (1 + 4 / 9 + 1 / 9)),
    ],
)
def test_chance_is_the_mean_over_binomial_draws(least, params, events):
    words = WORDS[4:]
    found = by_chance(
        counts(**params), words, pairs=(*PAIRS, ("queen", "he")), alpha=2.0, lambda_=3.0, least=least, draws=7, seed=5
    )
    near = np.array([[[TABLE[WORDS.index(w), WORDS.index(x)] for x in p] for p in PAIRS] for w in words])
    together = np.array([[round(sum(two) * events) for two in row] for row in near])
    row_sums = TABLE.sum(axis=1)
    share = np.array([[row_sums[WORDS.index(x)] for x in p] for p in PAIRS])
    first = np.random.default_rng(5).binomial(together, share[:, 0] / share.sum(axis=1), (7, *together.shape))
    values = []
    for draw in first:
        for word in range(len(words)):
            defined = []
            for place, pair in enumerate(PAIRS):
                x, y = draw[word, place], together[word, place] - draw[word, place]
                if x and y and min(x, y) >= least * events:
                    expected = np.log(share[place, 0] / share[place, 1])
                    defined.append(scale(pair, 2.0, 3.0) * (np.log(x / y) - expected))
            if defined:
                values.append(abs(np.mean(defined)))
    assert found == pytest.approx(np.mean(values))


def test_one_draw_is_enough_for_chance():
    assert by_chance(counts(), ["v", "x"], pairs=PAIRS, alpha=2.0, draws=1, seed=1) > 0
    with pytest.raises(UsageError, match="draws must be at least 1, got 0"):
        by_chance(counts(), ["v"], pairs=PAIRS, draws=0)


def loss(c, d, alpha, lambda_):
    return np.sqrt(np.mean((d - np.sqrt(np.maximum(alpha - c, 0) / lambda_)) ** 2))


def test_the_constant_of_one_pair_fits_exactly():
    found = fit_constants([-9.0], [2.0], lambda_=3.0)
    assert found == Constants(pytest.approx(3.0), 3.0, pytest.approx(0, abs=1e-9), 1, identified=True)
    assert isinstance(found.lambda_, float)
    assert fit_constants([-2.0], [1e-9]) == Constants(-2.0, 1.0, pytest.approx(0, abs=1e-8), 1, identified=True)


@pytest.mark.parametrize("lambda_", [1.0, 2.5])
def test_the_fitted_constant_is_the_best_of_all(lambda_):
    c, d = np.array([-9.0, -12.0, -7.0, -10.0]), np.array([2.9, 3.0, 2.4, 3.4])
    found = fit_constants(c, d, lambda_=lambda_)
    assert found.error == pytest.approx(loss(c, d, found.alpha, lambda_))
    grid = np.linspace(-7, 40, 4001)
    assert found.error <= min(loss(c, d, alpha, lambda_) for alpha in grid) + 1e-12
    assert (found.pairs, found.lambda_, found.identified) == (4, lambda_, True)


def test_distances_that_are_all_too_small_identify_no_constant():
    found = fit_constants([-2.0, -9.0], [1e-9, 3.0])
    assert found.alpha == pytest.approx(-2.0, abs=1e-9)
    assert not found.identified
    inside = fit_constants([-2.0, -9.0], [1e-3, 3.0])
    assert 1e-6 < inside.alpha + 2 < 2e-6
    assert inside.identified


def test_both_constants_are_the_best_of_all():
    c = np.array([-9.0, -12.0, -7.0, -10.0, -15.0])
    d = np.sqrt((-1.5 - c) / 2.5) * np.array([1.02, 0.99, 1.01, 0.98, 1.0])
    found = fit_constants(c, d, lambda_=None)
    assert found.identified
    assert found.pairs == 5
    assert found.error == pytest.approx(loss(c, d, found.alpha, found.lambda_))
    for alpha in found.alpha + np.array([-1, -0.1, -0.01, 0.01, 0.1, 1]):
        for lambda_ in found.lambda_ * np.array([0.9, 0.99, 0.999, 1.001, 1.01, 1.1]):
            assert loss(c, d, alpha, lambda_) > found.error
    exact = fit_constants(c[:3], np.sqrt((-1.5 - c[:3]) / 2.5), lambda_=None)
    assert (exact.alpha, exact.lambda_) == pytest.approx((-1.5, 2.5), rel=1e-4)


@pytest.mark.parametrize("rising", [True, False])
def test_distances_that_do_not_follow_identify_no_constants(rising):
    c = np.array([-9.0, -8.0, -7.0, -6.0])
    d = np.array([1.0, 1.0, 1.0, 1.0]) if rising else np.array([9.0, 1.0, 0.1, 1e-4])
    assert not fit_constants(c, d, lambda_=None).identified


@pytest.mark.parametrize(
    ("c", "d", "lambda_", "kind", "message"),
    [
        ([], [], 1.0, UsageError, "same length above 0, got 0 and 0"),
        ([-9.0, -8.0], [1.0], 1.0, UsageError, "same length above 0, got 2 and 1"),
        ([np.nan], [1.0], 1.0, DegenerateError, "finite"),
        ([-9.0], [np.inf], 1.0, DegenerateError, "finite"),
        ([-9.0], [0.0], 1.0, DegenerateError, "above 0"),
        ([-9.0], [1.0], 0.0, UsageError, "lambda must be above 0, got 0.0"),
        ([-9.0, -8.0], [1.0, 1.0], None, UsageError, "two constants need at least 3 pairs, got 2"),
    ],
)
def test_what_cannot_be_fitted(c, d, lambda_, kind, message):
    with pytest.raises(kind, match=message):
        fit_constants(c, d, lambda_=lambda_)
