"""P-values of draws that stop early (Besag & Clifford 1991)."""

import numpy as np
import pytest

from evenhand.stats.permutation import sequential_test


def test_a_hand_computed_example():
    reached = np.array([0, 1, 0, 1, 1, 0], dtype=bool)
    found = sequential_test(reached, enough=2, most=10)
    assert (found.p_value, found.draws, found.reached) == (2 / 4, 4, 2)
    assert sequential_test(reached, enough=4, most=10) is None  # more must be drawn
    found = sequential_test(reached, enough=4, most=6)
    assert (found.p_value, found.draws, found.reached) == (4 / 7, 6, 3)


def test_draws_beyond_the_most_do_not_count():
    found = sequential_test(np.ones(9, dtype=bool), enough=5, most=3)
    assert (found.p_value, found.draws) == (1.0, 3)


@pytest.mark.parametrize(("enough", "most"), [(1, 4), (2, 5), (3, 6)])
def test_it_is_exact_under_the_null(enough, most):
    """All ranks of the observed value among `most` draws are equally likely: P(p <= a) = a for each value p takes."""
    chances: dict[float, float] = {}
    rng = np.random.default_rng(0)
    for rank in range(most + 1):
        # `rank` of the draws reach the observed value, in any order.
        for _ in range(4000):
            reached = rng.permutation(np.arange(most) < rank)
            p = sequential_test(reached, enough=enough, most=most).p_value
            chances[p] = chances.get(p, 0) + 1 / (4000 * (most + 1))
    for limit in sorted(chances):
        assert sum(share for p, share in chances.items() if p <= limit) == pytest.approx(limit, abs=0.02)
