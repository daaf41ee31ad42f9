"""How often each phrase is drawn in a bootstrap: as often as its words are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.stats import cluster_weights
from evenhand.words.probes import Probe

ENOUGH = 8  # fewer members than this are taken as they are: drawing from three words tells little about other words
MOST_CLUSTERS = 4_096


class PhraseWeights:
    """The product of how often the fillers of each slot, and the template, were drawn.

    Phrases that share a verb share its effect, so that two thousand phrases of 27 verbs are no two thousand
    observations: drawn one by one they gave intervals an eighth as wide. Slots, and templates, with fewer than 8
    members are not drawn; `over` says what was. A slot with thousands of fillers is drawn by clusters of them.
    """

    def __init__(self, probe: Probe, draws: int, seed: np.random.SeedSequence) -> None:
        units = [(name, codes, count) for name, codes, count in _units(probe) if count >= ENOUGH]
        self.over = tuple(name for name, _, _ in units)
        self.codes = tuple(np.where(codes < 0, -1, codes % MOST_CLUSTERS) for _, codes, _ in units)
        sizes = [min(count, MOST_CLUSTERS) for _, _, count in units]
        self.tables = tuple(_table(size, draws, one) for size, one in zip(sizes, seed.spawn(len(units)), strict=True))

    def __bool__(self) -> bool:
        return bool(self.tables)

    def of(self, some: slice, phrases: Rows) -> Matrix:
        """(draws, phrases) for some of the draws."""
        weights = (table[some][:, codes[phrases]] for table, codes in zip(self.tables, self.codes, strict=True))
        return reduce(np.multiply, weights)


def drawn_weights(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix:
    """(draws, size): how often each of so many was drawn."""
    number = int(seed.generate_state(1)[0])
    return cluster_weights([range(size)], draws, seed=number)[0].astype(np.float32)


def _units(probe: Probe) -> Iterator[tuple[str, Rows, int]]:
    """What phrases are made of: a name, the number of every phrase's member, and how many members there are."""
    yield "templates", probe.phrases.template_of, len(probe.templates)
    for slot in probe.phrases.slots:
        codes, words = probe.phrases.fillers(slot)
        yield f"{slot} fillers", codes, len(words)


def _table(size: int, draws: int, seed: np.random.SeedSequence) -> Matrix:
    """Weights with a column of ones behind them, for phrases without the slot (-1)."""
    return np.hstack([drawn_weights(size, draws, seed), np.ones((draws, 1), np.float32)])
