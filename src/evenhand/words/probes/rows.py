"""The pairs of a probe as tables, block by block, and stratified samples of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.words.probes.probe import Points, Probe

ROWS_AT_ONCE = 20_000
FIXED = ("index", "premise", "hypothesis", "expected", "premise_word", "hypothesis_word", "group")
PairTable = dict[str, Sequence[int | str]]


def columns(probe: Probe) -> tuple[str, ...]:
    """Return the names of the columns: those of every probe, then its slots."""
    return (*FIXED, *probe.phrases.slots)


def tables(probe: Probe, sample: int | None, seed: int, rows: int) -> tuple[int, Iterator[PairTable]]:
    """Return the number of rows, and the rows in blocks: all pairs, or a stratified sample of them."""
    if sample is None:
        count, blocks = probe.n_pairs, iter(probe.blocks(rows))
    else:
        points = stratified(probe, sample, seed=seed).points
        count, blocks = len(points.phrase), _split(points, rows)
    return count, (_table(probe, block) for block in blocks)


def records(blocks: Iterable[PairTable]) -> Iterator[tuple[int | str, ...]]:
    """Yield the rows of all blocks."""
    for table in blocks:
        yield from zip(*table.values(), strict=True)


def _split(points: Points, rows: int) -> Iterator[Points]:
    starts = range(0, len(points.phrase), rows)
    return (Points(*(part[start : start + rows] for part in points)) for start in starts)


def _table(probe: Probe, points: Points) -> PairTable:
    """Return the columns of some pairs."""
    premises, hypotheses = probe.texts(points)
    phrase_words = {t: probe.phrases.words(t) for t in np.unique(points.phrase).tolist()}
    fillers = [probe.hypothesis[h] for h in points.hypothesis]
    grouped = fillers if probe.grouped == "hypothesis" else [probe.premise[p] for p in points.premise]
    table: PairTable = {
        "index": np.ravel_multi_index(points, probe.shape).tolist(),
        "premise": premises,
        "hypothesis": hypotheses,
        "expected": [str(probe.expected)] * len(premises),
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
    """Sampled pairs in the order of the probe, and the stratum of each."""

    points: Points
    stratum: Rows
    by: By
    per_stratum: int
    stratum_size: int  # pairs of the probe in each stratum

    def __len__(self) -> int:
        return len(self.stratum)

    @property
    def strata(self) -> int:
        """Number of strata."""
        return len(self) // self.per_stratum


def stratified(probe: Probe, size: int, *, seed: int = 0) -> Sample:
    """Draw a stratified sample of at most `size` pairs, without replacement within a stratum.

    A stratum is a pair of fillers, or a hypothesis filler or the whole probe if `size` is too small for two draws per
    stratum, the fewest that give a variance. All strata have the same number of pairs and draws, so the mean over the
    sample estimates the mean over the probe without weights.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"the seed must be a non-negative integer, got {seed!r}")
    if size < 2:
        raise UsageError(f"a sample needs at least 2 pairs, got {size}", hint="use a few thousand")
    if size >= probe.n_pairs:
        raise UsageError(
            f"a sample of {size:,} is not smaller than the probe's {probe.n_pairs:,} pairs", hint="leave out sample"
        )
    by, strata = _strata(probe, size)
    each, inside = size // strata, probe.n_pairs // strata
    rng = np.random.default_rng(seed)
    draws = np.stack([rng.choice(inside, each, replace=False, shuffle=False) for _ in range(strata)])
    stratum = np.repeat(np.arange(strata), each)
    points = _locate(probe, by, stratum, draws.ravel())
    order = np.ravel_multi_index(points, probe.shape).argsort()
    return Sample(Points(*(part[order] for part in points)), stratum[order], by, each, inside)


def _strata(probe: Probe, size: int) -> tuple[By, int]:
    _, premises, hypotheses = probe.shape
    choices: tuple[tuple[By, int], ...] = (("word pair", premises * hypotheses), ("hypothesis", hypotheses))
    return next(((by, count) for by, count in choices if 2 * count <= size), ("probe", 1))


def _locate(probe: Probe, by: By, stratum: Rows, inside: Rows) -> Points:
    phrases, premises, hypotheses = probe.shape
    if by == "word pair":
        premise, hypothesis = np.unravel_index(stratum, (premises, hypotheses))
        return Points(inside, premise, hypothesis)
    if by == "hypothesis":
        phrase, premise = np.unravel_index(inside, (phrases, premises))
        return Points(phrase, premise, stratum)
    return Points(*np.unravel_index(inside, probe.shape))
