"""The pairs of a probe as rows of a table, block after block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.words.probes.probe import Points, Probe

ROWS_AT_ONCE = 20_000
FIXED = ("index", "premise", "hypothesis", "expected", "premise_word", "hypothesis_word", "group")
Table = dict[str, list[Any]]


def columns(probe: Probe) -> tuple[str, ...]:
    """The names of the columns: what every probe has, then its slots."""
    return (*FIXED, *probe.phrases.slots)


def tables(probe: Probe, sample: int | None, seed: int, rows: int) -> tuple[int, Iterator[Table]]:
    """How many rows there are, and the rows, so many at a time: all pairs, or a stratified sample of them."""
    if sample is None:
        count, blocks = probe.n_pairs, iter(probe.blocks(rows))
    else:
        drawn = stratified(probe, sample, seed=seed).points
        count, blocks = len(drawn.phrase), _cut(drawn, rows)
    return count, (_table(probe, block) for block in blocks)


def records(some: Iterable[Table]) -> Iterator[tuple[Any, ...]]:
    """Row by row."""
    for table in some:
        yield from zip(*table.values(), strict=True)


def _cut(points: Points, rows: int) -> Iterator[Points]:
    cuts = range(0, len(points.phrase), rows)
    return (Points(*(part[cut : cut + rows] for part in points)) for cut in cuts)


def _table(probe: Probe, points: Points) -> Table:
    """The columns of some pairs."""
    premises, hypotheses = probe.texts(points)
    phrase_words = {t: probe.phrases.words(t) for t in np.unique(points.phrase).tolist()}
    fillers = [probe.hypothesis[h] for h in points.hypothesis]
    grouped = fillers if probe.grouped == "hypothesis" else [probe.premise[p] for p in points.premise]
    table: Table = {
        "index": np.ravel_multi_index(points, probe.shape).tolist(),
        "premise": premises,
        "hypothesis": hypotheses,
        "expected": [probe.expected] * len(premises),
        "premise_word": [probe.premise[p].word for p in points.premise],
        "hypothesis_word": [filler.word for filler in fillers],
        "group": [filler.group for filler in grouped],
    }
    for slot in probe.phrases.slots:
        table[slot] = [phrase_words[t].get(slot, "") for t in points.phrase.tolist()]
    return table


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
