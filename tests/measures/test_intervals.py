"""Bootstrap intervals over words."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.measures import fields as intervals
from evenhand.measures.fields import mean_interval, weighted_mean_interval, word_interval
from evenhand.stats import bootstrap


def test_a_mean_has_the_plain_bootstrap_interval() -> None:
    values = np.arange(10.0) ** 2
    drawn = values[bootstrap.resamples(10, seed=4)].mean(axis=1)
    assert mean_interval(values, seed=4) == bootstrap.interval(drawn)


def test_blocks_draw_what_one_draw_would(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(10.0) ** 2
    whole = mean_interval(values, seed=4)
    monkeypatch.setattr(bootstrap, "CELLS_AT_ONCE", 70)
    assert mean_interval(values, seed=4) == whole


def test_many_words_have_the_interval_that_the_bootstrap_would_give() -> None:
    values = np.random.default_rng(0).exponential(size=intervals.MANY + 1)
    drawn = word_interval(lambda rows: values[rows].mean(axis=1), len(values), seed=0)
    assert mean_interval(values, seed=0) == pytest.approx(drawn, abs=2e-3)


def test_equal_weights_are_the_plain_mean_and_zero_weights_do_not_count() -> None:
    values = np.arange(10.0)
    assert weighted_mean_interval(values, np.full(10, 3.0), seed=1) == pytest.approx(mean_interval(values, seed=1))
    low, high = weighted_mean_interval(values, np.r_[np.ones(5), np.zeros(5)], seed=1)
    assert 0 <= low < high <= 4


def test_two_words_have_no_interval() -> None:
    assert mean_interval(np.array([1.0, 2.0]), seed=0) is None
