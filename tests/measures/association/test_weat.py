"""WEAT, its intervals, and its generalisation."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import nctdtr

from evenhand import Query, Vectors, measures
from evenhand import query as eh_query
from evenhand.errors import UsageError
from evenhand.measures.association.weat import effect_size_interval, largest_effect, noncentral_t, noncentralities

seeds = st.integers(0, 10_000)
# cosines with a = (1, 0) and b = (0, 1): s is the first coordinate minus the second, over the length
BY_HAND = Vectors(
    ["x1", "x2", "y1", "y2", "a", "b"],
    [[3.0, 4.0], [4.0, 3.0], [0.0, 2.0], [-3.0, 4.0], [2.0, 0.0], [0.0, 5.0]],
)
QUERY = Query("hand", {"X": ["x1", "x2"], "Y": ["y1", "y2"]}, {"A": ["a"], "B": ["b"]})


def brute_force(vectors, query, cosine, ddof):
    def s(word):
        near, far = ([cosine(vectors[word], vectors[a]) for a in group] for group in query.attributes)
        return np.mean(near) - np.mean(far)

    s_x, s_y = ([s(word) for word in group] for group in query.targets)
    effect = (np.mean(s_x) - np.mean(s_y)) / np.std(s_x + s_y, ddof=ddof)
    pooled, sums = s_x + s_y, []
    for chosen in combinations(range(len(pooled)), len(s_x)):
        sums.append(sum(pooled[i] for i in chosen))
    return effect, sum(s_x) - sum(s_y), np.mean([total >= sum(s_x) - 1e-12 for total in sums])


def test_by_hand():
    # s = -.2, .2, -1, -1.4: means 0 and -1.2, deviations from -.6 are .4 .8 -.4 -.8, variance (2 .16 + 2 .64) / 4 = .4
    m = measures.weat(BY_HAND, QUERY)
    assert m.value == pytest.approx(1.2 / math.sqrt(0.4), abs=1e-6)
    assert m.details["statistic"] == pytest.approx(2.4, abs=1e-6)
    assert m.p_value == 2 / 6  # the observed partition has the largest sum of the six, its mirror image the smallest
    assert measures.weat(BY_HAND, QUERY, alternative="greater").p_value == 1 / 6
    assert [item["value"] for item in m.items] == pytest.approx([-0.2, 0.2, -1.0, -1.4], abs=1e-6)
    assert (m.n, m.interval, m.positive) == (4, None, "X with A")
    assert m.reading == "the vectors associate X with A, Y with B"


def test_the_sample_deviation_is_smaller_by_the_known_ratio():
    population, sample = (measures.weat(BY_HAND, QUERY, ddof=ddof).value for ddof in (0, 1))
    assert sample / population == pytest.approx(math.sqrt(3 / 4))


@given(seeds, st.sampled_from([0, 1]))
def test_is_the_definition_with_sets_of_unequal_size(lab, seed, ddof):
    vectors, query = lab.planted(seed)
    m = measures.weat(vectors, query, ddof=ddof, alternative="greater")
    effect, statistic, p = brute_force(vectors, query, lab.cosine, ddof)
    assert m.value == pytest.approx(effect, rel=1e-6)
    assert m.details["statistic"] == pytest.approx(statistic, abs=1e-6)
    assert m.p_value == pytest.approx(p, abs=1e-9)


@given(seeds)
def test_swapping_targets_or_attributes_flips_the_sign(lab, seed):
    vectors, query = lab.planted(seed)
    plain = measures.weat(vectors, query, alternative="greater")
    targets = measures.weat(vectors, Query("t", query.targets[::-1], query.attributes))
    attributes = measures.weat(vectors, Query("a", query.targets, query.attributes[::-1]), alternative="less")
    assert targets.value == pytest.approx(-plain.value)
    assert attributes.value == pytest.approx(-plain.value)
    assert attributes.p_value == pytest.approx(plain.p_value)


@given(seeds, st.floats(0.01, 100))
def test_neither_rotation_nor_scale_matters(lab, seed, factor):
    vectors, query = lab.planted(seed)
    plain = measures.weat(vectors, query)
    for changed in (lab.rotated(vectors), lab.scaled(vectors, factor)):
        assert measures.weat(changed, query).value == pytest.approx(plain.value, abs=1e-4)


@given(seeds)
def test_equal_targets_stay_within_two(lab, seed):
    vectors, query = lab.planted(seed, sizes=(3, 3, 2, 2))
    assert abs(measures.weat(vectors, query).value) <= 2 + 1e-9


@given(seeds)
def test_single_words_always_give_an_effect_of_two(lab, seed):
    """Ethayarajh et al. 2019, proposition 2 and table 1."""
    vectors, query = lab.planted(seed, sizes=(1, 1, 1, 1))
    m = measures.weat(vectors, query, ties="gt", alternative="greater")
    assert m.value in (pytest.approx(2.0, abs=1e-9), pytest.approx(-2.0, abs=1e-9))
    assert m.p_value == (0.0 if m.value > 0 else 0.5)
    assert abs(measures.weat(vectors, query, ddof=1).value) == pytest.approx(math.sqrt(2))


def test_eight_and_eight_are_counted_exactly():
    m = measures.weat(Vectors.default(), "weat-6", alternative="greater")
    assert (m.details["partitions"], m.details["exact"]) == (12_870, True)
    assert m.p_value == 1 / 12_870  # every male name before every female one: the observed partition alone
    low, high = m.interval
    assert low < m.value < high


def test_more_words_are_sampled_with_the_seed():
    first, again, other = (measures.weat(Vectors.default(), "weat-2", samples=50, seed=s) for s in (0, 0, 1))
    assert not first.details["exact"]
    assert first == again
    assert first.interval == other.interval  # no random numbers in it
    assert first != other
    assert first.p_value >= 1 / 51


@given(seeds)
def test_two_sided_counts_both_directions_and_does_not_depend_on_the_sign(lab, seed):
    vectors, query = lab.planted(seed)
    greater, less = (measures.weat(vectors, query, alternative=name).p_value for name in ("greater", "less"))
    plain = measures.weat(vectors, query)
    swapped = measures.weat(vectors, Query("t", query.targets[::-1], query.attributes))
    assert plain.params["alternative"] == "two-sided"
    assert min(greater, less) <= plain.p_value <= 1
    assert swapped.p_value == pytest.approx(plain.p_value)


def test_a_strong_opposite_association_is_significant():
    """One-sided, it would have p = 1, which reads as no association at all."""
    query = eh_query("weat-6")
    opposite = Query("opposite", query.targets[::-1], query.attributes)
    m = measures.weat(Vectors.default(), opposite)
    assert m.value < -1.5
    assert m.p_value == 2 / 12_870
    assert "one-sided" not in m.reading
    one_sided = measures.weat(Vectors.default(), opposite, alternative="greater")
    assert one_sided.p_value == 1
    assert one_sided.reading.endswith("the p-value is one-sided (greater)")


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.sampled_from([0, 1]))
def test_no_value_is_beyond_the_bound_of_the_sizes(lab, seed, n_x, n_y, ddof):
    vectors, query = lab.planted(seed, sizes=(n_x, n_y, 2, 2))
    m = measures.weat(vectors, query, ddof=ddof)
    assert abs(m.value) <= m.details["bound"] + 1e-9
    assert m.details["bound"] == pytest.approx(largest_effect(n_x, n_y, ddof))


def test_the_bound_is_reached_and_explained_when_sets_are_unequal():
    # one word of X at the pole of A, four words of Y at that of B: s = 1 | -1 -1 -1 -1
    vectors = Vectors(["x", "p", "q", "r", "s", "a", "b"], [[2, 0], *[[0, k] for k in (1, 2, 3, 4)], [1, 0], [0, 1]])
    query = Query("q", {"X": ["x"], "Y": ["p", "q", "r", "s"]}, {"A": ["a"], "B": ["b"]})
    m = measures.weat(vectors, query)
    assert m.value == pytest.approx(2.5)
    assert m.details["bound"] == pytest.approx(2.5)
    assert m.reading.endswith("beyond 2 because 1 and 4 targets allow up to 2.50")


def test_missing_words_leave_unequal_sets():
    query = Query("q", {"X": ["x1", "x2"], "Y": ["y1", "gone"]}, {"A": ["a"], "B": ["b"]})
    m = measures.weat(BY_HAND, query)
    assert m.details["sizes"] == [2, 1, 1, 1]
    assert m.coverage.missing == ("gone",)
    assert m.p_value == 1 / 3


def test_a_word_of_both_targets_counts_on_both_sides():
    query = Query("q", {"X": ["x1", "x2"], "Y": ["x2", "y1"]}, {"A": ["a"], "B": ["b"]})
    m = measures.weat(BY_HAND, query)
    assert m.n == 4
    assert m.details["in_several_sets"] == ["x2"]
    # s = -.2, .2 | .2, -1: sums 0 and -.8, so the statistic is what x1 and y1 alone give
    assert m.details["statistic"] == pytest.approx(0.8, abs=1e-6)


def test_two_spellings_of_a_word_count_once():
    query = Query("q", {"X": ["x1", "X1", "x2"], "Y": ["y1", "y2"]}, {"A": ["a"], "B": ["b"]})
    m = measures.weat(BY_HAND, query)
    assert m.value == measures.weat(BY_HAND, QUERY).value
    assert m.details["repeated"] == ["X1"]


@pytest.mark.parametrize(
    ("targets", "attributes", "reason"),
    [
        ([["x1"], ["gone"]], [["a"], ["b"]], "no word of target 2"),
        ([["x1"], ["x1"]], [["a"], ["b"]], "same mean"),
        ([["x1"], ["y1"]], [["a"], ["a"]], "same mean"),
    ],
)
def test_undefined_says_why(targets, attributes, reason):
    m = measures.weat(BY_HAND, Query("q", targets, attributes))
    assert (m.status, m.value, m.p_value) == ("undefined", None, None)
    assert reason in m.reason


def test_attributes_that_differ_by_rounding_only_are_undefined():
    """As he and she after a projection: the effect size would be that of the last bits."""
    vectors = Vectors(["x", "y", "he", "she"], [[1, 0.2, 0], [0, 1, 0.3], [1, 1, 1], [1, 1, 1 + 2e-7]])
    m = measures.weat(vectors, Query("q", [["x"], ["y"]], [["he"], ["she"]]))
    assert m.status == "undefined"


def test_invalid_arguments_raise():
    with pytest.raises(UsageError, match="ddof"):
        measures.weat(BY_HAND, QUERY, ddof=2)
    with pytest.raises(UsageError, match="needs 2 target sets"):
        measures.weat(BY_HAND, Query("q", [["x1"]], [["a"], ["b"]]))
    with pytest.raises(UsageError, match="bigger"):
        measures.weat(BY_HAND, QUERY, alternative="bigger")


def test_equal_associations_of_different_words_have_no_effect_size():
    # s = cos(., a) - cos(., b) is -.2 for both.
    vectors = Vectors(["x", "y", "a", "b"], [[0.6, 0.8], [-0.8, -0.6], [1.0, 0.0], [0.0, 1.0]])
    m = measures.weat(vectors, Query("q", [["x"], ["y"]], [["a"], ["b"]]))
    assert "standard deviation is 0" in m.reason


def test_the_interval_has_the_ddof_of_the_value():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(20)]
    vectors = Vectors(words, rng.standard_normal((20, 4)))
    query = Query("q", [words[:6], words[6:12]], [words[12:16], words[16:]])
    population, sample = (measures.weat(vectors, query, ddof=ddof) for ddof in (0, 1))
    shrink = np.sqrt(11 / 12)
    assert sample.value == pytest.approx(shrink * population.value)
    assert sample.interval == pytest.approx([shrink * end for end in population.interval])
    assert sample.p_value == population.p_value


@pytest.mark.parametrize("name", ["weat", "generalised-weat", "rnd", "ect", "bat"])
def test_groups_that_collapsed_onto_each_other_are_not_compared(name):
    """After a projection both groups have the same vectors; 0 [-0.97, 0.97] would say that there is no bias."""
    rng = np.random.default_rng(0)
    group, words = rng.standard_normal((4, 6)), rng.standard_normal((8, 6))
    noise = 1e-6 * rng.standard_normal((4, 6))
    names = [f"w{i}" for i in range(16)]
    query = Query("q", [names[:4], names[4:8]], [names[8:12], names[12:]])
    collapsed = measures.get(name)(Vectors(names, np.concatenate([group, group + noise, words])), query)
    assert "target 1 and target 2 have the same mean vector" in collapsed.reason
    assert (collapsed.value, collapsed.interval, collapsed.p_value) == (None, None, None)
    apart = measures.get(name)(Vectors(names, np.concatenate([group, group + 1, words])), query)
    assert apart.value is not None
    equal_attributes = Vectors(names, np.concatenate([group, group + 1, words[:4], words[:4]]))
    assert measures.get(name)(equal_attributes, query).value is None


Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def gamma(shape: float, signs: tuple[int, int]) -> Draw:
    """Return skewed scores of variance 1, with the long tail in the given direction on each side."""
    return lambda rng, n, side: signs[side] * (rng.gamma(shape, size=n) - shape) / math.sqrt(shape)


SCORES: dict[str, Draw] = {
    "normal": lambda rng, n, side: rng.standard_normal(n),
    "sd ratio 1.5": lambda rng, n, side: rng.standard_normal(n) * (1.5, 1.0)[side],
    "skewed alike": gamma(4, (1, 1)),
    "skewed outwards": gamma(4, (1, -1)),
    "skewed inwards": gamma(4, (-1, 1)),
    "uniform": lambda rng, n, side: (rng.random(n) - 0.5) * math.sqrt(12),
}


def coverage(name: str, d: float, sizes: tuple[int, int], samples: int, seed: int = 0) -> float:
    """Return the share of samples whose interval covers the population's d."""
    rng = np.random.default_rng(seed)
    p = sizes[0] / sum(sizes)
    q = 1 - p
    first_variance = 2.25 if name == "sd ratio 1.5" else 1.0
    shift = d / math.sqrt(1 - p * q * d * d) * math.sqrt(p * first_variance + q)
    hits = 0
    for _ in range(samples):
        bounds = effect_size_interval(SCORES[name](rng, sizes[0], 0) + shift, SCORES[name](rng, sizes[1], 1))
        assert bounds is not None
        hits += bounds[0] <= d <= bounds[1]
    return hits / samples


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("sizes", [(6, 6), (8, 8), (16, 16), (40, 40), (8, 16), (25, 12)])
@pytest.mark.parametrize("d", [0.0, 1.0, 1.65, 1.9])
def test_the_interval_covers(name: str, sizes: tuple[int, int], d: float) -> None:
    # 1,500 samples: standard error .0057. Light tails and tails that point outwards make it too wide.
    largest = 0.995 if name in ("skewed outwards", "uniform") else 0.978
    assert 0.91 <= coverage(name, d, sizes, samples=1_500) <= largest


def test_the_interval_covers_where_the_bootstrap_does_not() -> None:
    """8 + 8 words and d = 1.65, the range of WEAT 6 to 8: the percentile bootstrap covers .79 to .82."""
    assert 0.92 <= coverage("normal", 1.65, (8, 8), samples=300) <= 0.99


# That of scipy before 1.15 has errors of up to 4e-5.
OF_SCIPY = 1e-12 if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 15) else 1e-4


@pytest.mark.parametrize("freedom", [2, 2.3, 2.9, 14.7, 1_000, 48_000])
@pytest.mark.parametrize("t", [0, 0.01, 0.3, 1, 2.5, 9, 30, 60])
def test_the_noncentral_t_distribution_is_that_of_scipy(freedom: float, t: float) -> None:
    share_below = noncentral_t(t, freedom)
    for noncentrality in (-6, -0.5, 0, 0.4, 3, 25, 70):
        assert share_below(noncentrality) == pytest.approx(nctdtr(freedom, noncentrality, t), abs=OF_SCIPY)


@pytest.mark.parametrize("spread", [1e-4, 1e-6, 1e-8])
def test_sets_that_are_far_apart_need_no_more_memory_than_others(spread: float) -> None:
    noise = spread * np.random.default_rng(0).standard_normal((2, 8))
    tracemalloc.start()
    low, high = effect_size_interval(1 + noise[0], -1 + noise[1]) or (0.0, 0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 2 - 1e-6 < low <= high <= 2
    assert peak < 1 << 20


def test_the_noncentralities_solve_the_equation_that_defines_them() -> None:
    for t, freedom in ((0.0, 10.0), (3.3, 14.0), (-3.3, 14.0), (28.0, 9.0), (-60.0, 5.0)):
        low, high = noncentralities(t, freedom, 1.96)
        assert low < high
        assert nctdtr(freedom, low, t) == pytest.approx(0.975, abs=1e-4)
        assert nctdtr(freedom, high, t) == pytest.approx(0.025, abs=1e-4)


@pytest.mark.parametrize("quantile", [0.01, 0.1, 0.5])
def test_noncentralities_near_the_median_solve_their_equation_too(quantile: float) -> None:
    """Noncentral t is skewed: with two degrees of freedom its median is far above the noncentrality."""
    for t, freedom in ((0.5, 2.0), (3.0, 2.0), (9.0, 3.0)):
        low, high = noncentralities(t, freedom, quantile)
        shares = nctdtr(freedom, np.array([low, high]), t)
        assert shares == pytest.approx([NormalDist().cdf(quantile), NormalDist().cdf(-quantile)], abs=1e-4)


def test_swapping_the_sides_mirrors_the_interval_and_scale_and_shift_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(3.0, 1.0, 8), rng.normal(0.0, 1.0, 8)
    low, high = effect_size_interval(x, y) or (0.0, 0.0)
    assert effect_size_interval(y, x) == pytest.approx((-high, -low))
    assert -2 < low < high < 2
    assert effect_size_interval(5 * x + 3, 5 * y + 3) == pytest.approx((low, high))


def test_a_higher_level_gives_a_wider_interval_and_more_words_a_narrower_one() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(1.0, 1.0, 40), rng.normal(0.0, 1.0, 40)

    def width(n: int, level: float) -> float:
        low, high = effect_size_interval(x[:n], y[:n], level=level) or (0.0, 0.0)
        return high - low

    assert width(8, 0.8) < width(8, 0.95) < width(8, 0.99)
    assert width(40, 0.95) < width(8, 0.95)


def test_too_few_words_or_no_spread_have_no_interval() -> None:
    assert effect_size_interval(np.arange(2.0), np.arange(5.0)) is None
    assert effect_size_interval(np.ones(5), np.zeros(5)) is None


@pytest.mark.parametrize("number", range(1, 11))
def test_every_query_on_the_embedded_vectors_has_an_interval_within_its_bound(number: int) -> None:
    m = measures.weat(Vectors.default(), f"weat-{number}", samples=100)
    low, high = m.interval
    assert -m.details["bound"] < low < m.value < high < m.details["bound"]


gweat = measures.get("generalised-weat")


def three_sets(seed):
    rng = np.random.default_rng(seed)
    names = [[f"{letter}{i}" for i in range(3 + n % 3)] for n, letter in enumerate("xyzabc")]
    words = [w for group in names for w in group]
    vectors = Vectors(words, rng.normal(size=(len(words), 5)).astype(np.float32))
    return vectors, Query("three", dict(zip("XYZ", names[:3], strict=True)), dict(zip("ABC", names[3:], strict=True)))


@given(seeds)
def test_two_sets_are_half_of_weats_difference_of_means(lab, seed):
    vectors, query = lab.planted(seed)
    difference = measures.weat(vectors, query).details["mean_difference"]
    assert gweat(vectors, query, samples=1).value == pytest.approx(difference / 2, abs=1e-9)


@given(seeds)
def test_is_the_definition(seed):
    vectors, query = three_sets(seed)

    def mean(group):
        return np.mean([vectors[w].astype(float) / np.linalg.norm(vectors[w].astype(float)) for w in group], axis=0)

    x, a = ([mean(group) for group in sets] for sets in (query.targets, query.attributes))
    expected = sum((xi - np.mean(x, axis=0)) @ (ai - np.mean(a, axis=0)) for xi, ai in zip(x, a, strict=True))
    m = gweat(vectors, query, samples=1)
    assert m.value == pytest.approx(expected, abs=1e-6)
    assert sum(m.details["by_set"].values()) == pytest.approx(m.value)


@given(seeds)
def test_the_order_of_the_sets_does_not_matter_if_both_are_turned(seed):
    vectors, query = three_sets(seed)
    turned = Query("t", query.targets[::-1], query.attributes[::-1])
    assert gweat(vectors, turned, samples=1).value == pytest.approx(gweat(vectors, query, samples=1).value)


def test_its_p_value_for_two_sets_is_that_of_weat(lab):
    vectors, query = lab.planted(7)
    for alternative in ("two-sided", "greater", "less"):
        exact = measures.weat(vectors, query, alternative=alternative).p_value
        m = gweat(vectors, query, samples=20_000, alternative=alternative)
        assert m.p_value == pytest.approx(exact, abs=0.02)
        assert m.params["alternative"] == alternative
        assert ("one-sided" in m.reading) == (alternative != "two-sided")


def test_associated_names_are_found():
    m = gweat(Vectors.default(), "weat-6", samples=500)
    assert m.p_value == 1 / 501
    assert m.interval[0] > 0
    assert m == gweat(Vectors.default(), "weat-6", samples=500)


def test_undefined_results_and_invalid_arguments():
    vectors, query = three_sets(0)
    m = gweat(vectors, Query("q", {"X": ["gone"], "Y": ["x0"]}, {"A": ["a0"], "B": ["b0"]}))
    assert (m.status, m.reason) == ("undefined", "no word of X is in the vocabulary")
    uneven = gweat(vectors, Query("q", query.targets, query.attributes[:2], concept="colour"))
    assert uneven.status == "undefined"
    assert "q about colour has 3 and 2" in uneven.reason
    with pytest.raises(UsageError, match="samples must be at least 1, got 0"):
        gweat(vectors, query, samples=0)
    with pytest.raises(UsageError, match="'both'"):
        gweat(vectors, query, alternative="both")
