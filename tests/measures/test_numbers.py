"""Numbers as they are printed: a value lies inside its printed interval, and zero has no sign."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.measures import Measurement, numbers
from evenhand.models.vectors import Coverage


def measurement(value, interval):
    return Measurement("weat", value, 10, Coverage(()), interval=interval)


@pytest.mark.parametrize(
    ("value", "interval", "shown"),
    [
        (1.7712, (1.4312, 1.8621), "1.77 [1.43, 1.86]"),
        (0.00079, (0.00075, 0.00083), "0.00079 [0.00075, 0.00083]"),
        (0.01234, (0.01221, 0.01255), "0.0123 [0.0122, 0.0126]"),
        (0.0004, (-0.0211, 0.0221), "4.0e-04 [-0.021, 0.022]"),
        (-0.0000004, (-0.0004, 0.0211), "0 [0.000, 0.021]"),
        (0.0, (-0.973, 0.973), "0 [-0.973, 0.973]"),
        (12345.6, (12300.0, 12400.0), "12,346 [12300, 12400]"),
        (0.5, (0.5, 0.5), "0.500 [0.500, 0.500]"),
        (0.0007, None, "7.0e-04"),
    ],
)
def test_value_and_interval(value, interval, shown):
    assert numbers.cell(measurement(value, interval)) == shown


finite = st.floats(-2000, 2000).filter(lambda x: x == 0 or abs(x) > 1e-5)


@given(finite, st.floats(1e-4, 10), st.floats(1e-4, 10))
def test_a_value_is_printed_inside_its_interval(value, below, above):
    shown = measurement(value, (value - below, value + above))
    low, high = (float(end) for end in numbers.interval(shown).strip("[]").split(", "))
    assert low <= float(numbers.value(shown).replace(",", "")) <= high
    assert low < high
    assert not re.search(r"-0(\.0+)?(?![\d.])", numbers.cell(shown))


@pytest.mark.parametrize("value", [-0.0004, -0.0, 0.0])
def test_a_rounded_zero_has_no_sign(value):
    assert numbers.number(value, 3) in ("0.000", "0")
