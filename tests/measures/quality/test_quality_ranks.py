from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand.measures.quality import similarity as ranks
from evenhand.stats.correlation import spearman_rows

columns = st.integers(3, 30).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 6), min_size=n, max_size=n) for _ in range(2)))
)


def of_all(x: np.ndarray, y: np.ndarray) -> float:
    return float(ranks.correlations(x, y, np.ones((1, len(x)), dtype=np.int64))[0])


@given(columns)
def test_equal_values_share_their_mean_rank_as_in_scipy(both: tuple[list[int], list[int]]) -> None:
    x, y = (np.array(column, dtype=np.float64) for column in both)
    ours = of_all(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(ours)
    else:
        assert ours == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


@given(columns, st.integers(0, 99))
def test_counts_of_draws_give_the_same_value_as_the_draws(both: tuple[list[int], list[int]], seed: int) -> None:
    x, y = (np.array(column, dtype=np.float64) for column in both)
    counts = np.random.default_rng(seed).multinomial(len(x), np.full(len(x), 1 / len(x)))
    drawn = np.repeat(np.arange(len(x)), counts)
    by_counts = ranks.correlations(x, y, counts[None])[0]
    assert by_counts == pytest.approx(spearman_rows(x[drawn][None], y[drawn][None])[0], abs=1e-12, nan_ok=True)


def test_the_interval_holds_the_value_and_is_seeded() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    y = x + rng.normal(size=80)
    low, high = ranks.rank_interval(x, y, seed=1) or (0, 0)
    assert low < of_all(x, y) < high
    assert ranks.rank_interval(x, y, seed=1) == (low, high)
    assert ranks.rank_interval(x, y, seed=2) != (low, high)
    assert ranks.rank_interval(x[:2], y[:2]) is None
