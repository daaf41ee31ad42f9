"""The statistics under the measures: permutation tests and bootstrap intervals, whole-array and seeded.

What a number means belongs in `measures`; here are only procedures on arrays.
"""

from evenhand.stats.bootstrap import interval, resamples
from evenhand.stats.permutation import PermutationTest, permutation_test

__all__ = ["PermutationTest", "interval", "permutation_test", "resamples"]
