"""Statistics on arrays: permutation tests, bootstrap intervals, slopes, correlations, adjusted p-values."""

from evenhand.stats.bootstrap import bca_interval, interval, percentile_interval, resamples, wilson
from evenhand.stats.correlation import Correlation, Slope, correlation_p, mean_ranks, pearson, spearman, theil_sen
from evenhand.stats.means import (
    cluster_moments,
    cluster_weights,
    clustered_interval,
    clustered_means,
    clustered_sums,
    contrast_interval,
    crossed_share_note,
    jackknife_interval,
    mean_interval,
    score_interval,
    share_interval,
    unanimous_interval,
)
from evenhand.stats.multiplicity import benjamini_hochberg, harmonic_mean_p, holm
from evenhand.stats.permutation import (
    InteractionTest,
    PermutationTest,
    interaction_test,
    interactions,
    permutation_test,
)

__all__ = [
    "Correlation",
    "InteractionTest",
    "PermutationTest",
    "Slope",
    "bca_interval",
    "benjamini_hochberg",
    "cluster_moments",
    "cluster_weights",
    "clustered_interval",
    "clustered_means",
    "clustered_sums",
    "contrast_interval",
    "correlation_p",
    "crossed_share_note",
    "harmonic_mean_p",
    "holm",
    "interaction_test",
    "interactions",
    "interval",
    "jackknife_interval",
    "mean_interval",
    "mean_ranks",
    "pearson",
    "percentile_interval",
    "permutation_test",
    "resamples",
    "score_interval",
    "share_interval",
    "spearman",
    "theil_sen",
    "unanimous_interval",
    "wilson",
]
