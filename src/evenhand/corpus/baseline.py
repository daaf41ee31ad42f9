"""What the mean absolute bias would be if the groups did not matter: the same text with the labels shuffled.

Every occurrence of a group word keeps its place; which group it counts for is dealt out anew, each group keeping its
number of occurrences. Labels are drawn while the text streams by: of the labels that are left, each block of text gets
a share without replacement (hypergeometric), which is the same distribution as one great shuffle.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.corpus.blocks import Labels, blocks
from evenhand.corpus.counting import Progress, word_numbers
from evenhand.corpus.pieces import END
from evenhand.corpus.readers.account import Account
from evenhand.corpus.readers.source import Source
from evenhand.corpus.scoring import Scored
from evenhand.corpus.sums import Sums
from evenhand.corpus.vocabulary import Vocabulary
from evenhand.errors import DegenerateError

CELLS = 1 << 25  # sums kept at once, 256 MB


class Shuffler:
    """Deals out the labels of all hits, a handful at a time."""

    def __init__(self, hits: NDArray[np.int64], labellings: int, rng: np.random.Generator) -> None:
        self._left = np.tile(hits, (labellings, 1))
        self._rng = rng

    def draw(self, count: int) -> Labels:
        """(labellings, count) labels."""
        return np.stack([self._row(left, count) for left in self._left])

    def _row(self, left: NDArray[np.int64], count: int) -> Labels:
        taken = self._rng.multivariate_hypergeometric(left, count, method="marginals")
        left -= taken
        return self._rng.permutation(np.repeat(np.arange(len(left), dtype=np.int8), taken))


def shuffled_means(
    source: Source, scored: Scored, *, labellings: int, seed: int, progress: Progress = None
) -> Vector64:
    """Mean |bias| under each of several shuffled labellings, the words chosen anew each time by the same rules.

    Takes one more pass over the text, or several where the sums of all labellings would not fit in memory.
    """
    words = scored.counts.words.gather(scored.candidates[scored.met]).to_list()
    at_once = max(1, CELLS // (len(scored.plan.groups) * (len(words) + 1)))
    rounds = [min(at_once, labellings - done) for done in range(0, labellings, at_once)]
    rngs = np.random.default_rng(seed).spawn(len(rounds))
    return np.concatenate(
        [
            _round(source, scored, words, Shuffler(scored.hits, n, rng), n, progress)
            for n, rng in zip(rounds, rngs, strict=True)
        ]
    )


def _round(
    source: Source, scored: Scored, words: list[str], shuffler: Shuffler, labellings: int, progress: Progress
) -> Vector64:
    plan = replace(scored.plan, parts=0)
    numbers = Vocabulary((END, *plan.group_words, *words))
    first = 1 + len(plan.group_words)
    rest = first + len(words)  # every other word: it counts in the sums only
    sums = Sums(labellings, len(plan.groups), plan.kernel().dtype)
    sums.make_room(rest + 1)
    shards = source.shards()
    for number, shard in enumerate(shards):
        if progress:
            progress(number, len(shards), "shuffled labels")
        kernel = plan.kernel(labellings)
        text = word_numbers(source, shard, plan, numbers, Account(source.skip_bad))
        for block in blocks((np.minimum(ids, rest) for ids in text), plan.labels):
            kernel.feed(replace(block, labels=shuffler.draw(len(block.hits))), sums)
    return np.array([_mean(scored, table[:, : rest + 1], slice(first, rest)) for table in sums.values])


def _mean(scored: Scored, company: NDArray[Any], words: slice) -> float:
    values = scored.values(company, 0)[words]
    values = values[np.isfinite(values)]
    if not len(values):
        raise DegenerateError("with shuffled labels no word meets both groups: too little text for a baseline")
    return float(np.abs(values).mean())
