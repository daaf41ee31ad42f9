"""Asking any model about the pairs of a probe, a phrase or a handful of pairs at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenhand.arrays import Matrix
from evenhand.models.nli.probabilities import LABELS
from evenhand.models.nli.protocol import Grid, NLIModel
from evenhand.words.probes import Points, Probe

PAIRS_AT_ONCE = 8_192


def answers(model: NLIModel, probe: Probe, points: Points) -> Matrix:
    """The model's probabilities for some pairs."""
    parts = [
        model.predict(*probe.texts(Points(*(part[start : start + PAIRS_AT_ONCE] for part in points)))).matrix
        for start in range(0, len(points.phrase), PAIRS_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty((0, len(LABELS)))


def grids_of(model: NLIModel, probe: Probe) -> Iterator[Grid]:
    """Every phrase of the probe, asked pair by pair."""
    phrases, premises, hypotheses = probe.shape
    each = premises * hypotheses
    step = max(1, PAIRS_AT_ONCE // each)
    for start in range(0, phrases, step):
        some = np.arange(start, min(start + step, phrases))
        found = answers(model, probe, probe.points(start * each, (start + len(some)) * each))
        yield Grid(some, found.reshape(len(some), premises, hypotheses, len(LABELS)))
