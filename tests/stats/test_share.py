"""The interval of a share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.stats import wilson


@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_wilson_holds_the_share_and_stays_inside(n, share):
    right = round(share * n)
    low, high = wilson(right / n, n)
    assert 0 <= low <= right / n <= high <= 1


def test_wilson_is_where_the_score_test_turns():
    low, high = wilson(0.3, 100)
    for end in (low, high):
        assert (0.3 - end) ** 2 == pytest.approx(1.959963985**2 * end * (1 - end) / 100)


def test_wilson_covers():
    rights = np.random.default_rng(0).binomial(200, 0.8, 2_000)
    covered = np.mean([low <= 0.8 <= high for low, high in wilson(rights / 200, 200).T])
    assert covered == pytest.approx(0.95, abs=0.02)
