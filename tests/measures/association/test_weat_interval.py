"""The interval of WEAT's effect size: what it solves, its symmetries, and how often it covers in simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import nctdtr

from evenhand import Vectors, measures
from evenhand.measures.association.weat import effect_size_interval, noncentralities

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


def test_the_noncentralities_solve_the_equation_that_defines_them() -> None:
    for t, freedom in ((0.0, 10.0), (3.3, 14.0), (-3.3, 14.0), (28.0, 9.0), (-60.0, 5.0)):
        low, high = noncentralities(t, freedom, 1.96)
        assert low < high
        assert nctdtr(freedom, low, t) == pytest.approx(0.975, abs=1e-4)
        assert nctdtr(freedom, high, t) == pytest.approx(0.025, abs=1e-4)


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
