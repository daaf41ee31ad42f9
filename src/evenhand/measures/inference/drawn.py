"""The headline scores of every bootstrap draw: what intervals over several models, and of differences, are made of."""

from __future__ import annotations

from evenhand.arrays import Vector64
from evenhand.measures.inference import marked, summary
from evenhand.measures.inference.columns import threshold_name
from evenhand.measures.inference.gathering import Gathered
from evenhand.models.nli import LABELS


def headline_draws(gathered: Gathered) -> dict[str, Vector64]:
    """Every score of `ProbeResult.headline` in each draw of words; nothing without a bootstrap.

    Runs on the same probe with the same seed draw the same words, so that draw i of one model can be set
    against draw i of another.
    """
    if gathered.resampled is None:
        return {}
    columns, means = gathered.columns, gathered.resampled.means()
    scores = {"net_neutral": "neutral", "fraction_neutral": "says_neutral"}
    scores |= {threshold_name(tau): threshold_name(tau) for tau in columns.thresholds}
    found = {score: means[:, columns.at(column)] for score, column in scores.items()}
    names = summary.contrast(gathered)
    return found if names is None else found | _between(gathered, names)


def _between(gathered: Gathered, names: tuple[str, str]) -> dict[str, Vector64]:
    places = [list(gathered.probe.groups).index(name) for name in names]
    drawn = gathered.resampled.group_means() if gathered.resampled else None
    if drawn is None:
        return {}
    first, second = (drawn[:, place, : len(LABELS)] for place in places)
    gaps = {f"gap_{label}": (first - second)[:, number] for number, label in enumerate(LABELS)}
    return {**gaps, "d": marked.gender_gap(first, second), "E": marked.error(first, second)}
