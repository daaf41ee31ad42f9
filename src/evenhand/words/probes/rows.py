"""The pairs of a probe as rows of a table, block after block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from evenhand.words.probes.probe import Points, Probe
from evenhand.words.probes.sampling import stratified

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
