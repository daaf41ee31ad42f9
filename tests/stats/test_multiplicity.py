"""Holm and Benjamini-Hochberg: by hand, scipy's, and the laws of adjusted p-values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evenhand.errors import UsageError
from evenhand.stats import benjamini_hochberg, holm

p_lists = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_holm_by_hand():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, then not smaller than the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_benjamini_hochberg_by_hand():
    # sorted .005 .01 .03 .04, times 4/1 4/2 4/3 4/4: .02 .02 .04 .04
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])


@given(p_lists)
def test_benjamini_hochberg_is_scipys(p):
    assert benjamini_hochberg(p) == pytest.approx(scipy_stats.false_discovery_control(p))


@given(p_lists)
def test_holm_rejects_step_by_step(p):
    """Holm's own procedure: go up from the smallest, stop at the first p > alpha / (m - k + 1)."""
    alpha, rejected = 0.05, set()
    for k, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (len(p) - k) > alpha:
            break
        rejected.add(int(i))
    assert {int(i) for i in np.flatnonzero(holm(p) <= alpha)} == rejected


@given(p_lists)
@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_adjusting_keeps_the_order_and_never_lowers_a_value(adjust, p):
    adjusted = adjust(p)
    assert (adjusted >= np.array(p) - 1e-15).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()


@given(p_lists)
def test_the_stricter_promise_costs_more(p):
    assert (holm(p) >= benjamini_hochberg(p) - 1e-12).all()


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_an_invalid_p_value_is_named(adjust):
    for wrong in (1.5, -0.1, float("nan")):
        with pytest.raises(UsageError, match=str(wrong)):
            adjust([0.5, wrong])
    with pytest.raises(UsageError, match="one-dimensional"):
        adjust([[0.5]])
    assert len(adjust([])) == 0
