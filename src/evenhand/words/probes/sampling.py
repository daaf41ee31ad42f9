"""A stratified sample of a probe: the same number of pairs from every stratum, so that a plain mean is unbiased."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.words.probes.probe import Points, Probe

By = Literal["word pair", "hypothesis", "probe"]


@dataclass(frozen=True)
class Sample:
    """The pairs drawn, in the order of the probe, and the stratum of each."""

    points: Points
    stratum: Rows
    by: By
    per_stratum: int
    stratum_size: int  # how many pairs of the probe each stratum has

    def __len__(self) -> int:
        return len(self.stratum)

    @property
    def strata(self) -> int:
        """How many strata there are."""
        return len(self) // self.per_stratum


def stratified(probe: Probe, size: int, *, seed: int = 0) -> Sample:
    """About `size` pairs (never more): phrases drawn without replacement in every stratum.

    A stratum is a pair of fillers; with too few pairs for two draws in each, a hypothesis filler, then the whole probe.
    All strata have the same number of pairs and of draws, hence every mean over the sample estimates the mean over the
    probe without weights. Two draws in a stratum are the least that tell a spread.
    """
    if size < 2:
        raise UsageError(f"a sample needs at least 2 pairs, got {size}", hint="a few thousand are a good number")
    if size >= probe.n_pairs:
        raise UsageError(
            f"the probe has only {probe.n_pairs:,} pairs, {size:,} asked for", hint="run it without sample"
        )
    by, strata = _strata(probe, size)
    each, inside = size // strata, probe.n_pairs // strata
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.choice(inside, each, replace=False, shuffle=False) for _ in range(strata)])
    stratum = np.repeat(np.arange(strata), each)
    points = _located(probe, by, stratum, drawn.ravel())
    order = np.ravel_multi_index(points, probe.shape).argsort()
    return Sample(Points(*(part[order] for part in points)), stratum[order], by, each, inside)


def _strata(probe: Probe, size: int) -> tuple[By, int]:
    _, premises, hypotheses = probe.shape
    choices: tuple[tuple[By, int], ...] = (("word pair", premises * hypotheses), ("hypothesis", hypotheses))
    return next(((by, count) for by, count in choices if 2 * count <= size), ("probe", 1))


def _located(probe: Probe, by: By, stratum: Rows, inside: Rows) -> Points:
    phrases, premises, hypotheses = probe.shape
    if by == "word pair":
        premise, hypothesis = np.unravel_index(stratum, (premises, hypotheses))
        return Points(inside, premise, hypothesis)
    if by == "hypothesis":
        phrase, premise = np.unravel_index(inside, (phrases, premises))
        return Points(phrase, premise, stratum)
    return Points(*np.unravel_index(inside, probe.shape))
