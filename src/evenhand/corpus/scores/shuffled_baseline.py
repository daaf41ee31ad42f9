"""What the mean absolute bias would be if the groups did not matter: the same text with the labels shuffled.

Every occurrence of a group word keeps its place; which group it counts for is dealt out anew, each group keeping its
number of occurrences. Labels are drawn while the text streams by: of the labels that are left, each block of text gets
a share without replacement (hypergeometric), which is the same distribution as one great shuffle.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.corpus.counting.accumulators import Sums
from evenhand.corpus.counting.count import Plan, Progress, watched, word_numbers
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.token_block import Labels, blocks
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.readers.read_log import Account
from evenhand.corpus.readers.source import Shard, Source
from evenhand.corpus.scores.word_scores import Scored
from evenhand.engines import Engine, LocalEngine
from evenhand.errors import DegenerateError

CELLS = 1 << 24  # sums kept at once, 128 MB, in each worker


class Shuffler:
    """Deals out the labels of some hits, (labellings, groups) of them, a handful at a time."""

    def __init__(self, hits: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._left, self._rng = hits, rng

    @property
    def labellings(self) -> int:
        """How many."""
        return len(self._left)

    def draw(self, count: int) -> Labels:
        """(labellings, count) labels."""
        taken = np.stack([self._rng.multivariate_hypergeometric(row, count, method="marginals") for row in self._left])
        self._left = self._left - taken  # not in place: what came from another process may be read-only
        groups = np.arange(taken.shape[1], dtype=np.int8)
        return np.stack([self._rng.permutation(np.repeat(groups, row)) for row in taken])


def shuffled_means(
    source: Source,
    scored: Scored,
    *,
    labellings: int,
    seed: int,
    engine: Engine | None = None,
    progress: Progress = None,
) -> Vector64:
    """Mean |bias| under each of several shuffled labellings, the words chosen anew each time by the same rules.

    Takes one more pass over the text, or several where the sums of all labellings would not fit in memory.
    """
    words = tuple(scored.counts.words.gather(scored.candidates[scored.met]).to_list())
    at_once = max(1, CELLS // (len(scored.plan.groups) * (len(words) + 1)))
    rounds = [min(at_once, labellings - done) for done in range(0, labellings, at_once)]
    rngs = np.random.default_rng(seed).spawn(len(rounds))
    return np.concatenate(
        [
            _round(source, scored, words, _dealt(scored, n, rng), engine or LocalEngine(), progress)
            for n, rng in zip(rounds, rngs, strict=True)
        ]
    )


def _dealt(scored: Scored, labellings: int, rng: np.random.Generator) -> list[Shuffler]:
    """The labels of all hits dealt out to the shards, each of which then goes on alone with chance of its own."""
    left = np.tile(scored.hits, (labellings, 1))
    dealt = []
    for hits, own in zip(scored.counts.shard_hits, rng.spawn(len(scored.counts.shard_hits)), strict=True):
        share = np.stack([rng.multivariate_hypergeometric(row, hits, method="marginals") for row in left])
        left -= share
        dealt.append(Shuffler(share, own))
    return dealt


def _round(
    source: Source,
    scored: Scored,
    words: tuple[str, ...],
    dealt: list[Shuffler],
    engine: Engine,
    progress: Progress,
) -> Vector64:
    shards = source.shards()
    jobs = zip(shards, dealt, strict=True)
    parts = engine.map(partial(_shuffled, source, replace(scored.plan, parts=0), words), jobs)
    total = reduce(add, watched(parts, len(shards), "shuffled labels", progress))
    first = 1 + len(scored.plan.group_words)
    return np.array([_mean(scored, table, slice(first, first + len(words))) for table in total])


def _shuffled(source: Source, plan: Plan, words: tuple[str, ...], job: tuple[Shard, Shuffler]) -> NDArray[Any]:
    """(labellings, groups, words) of one shard; the last word stands for all that are not scored."""
    shard, shuffler = job
    numbers = Vocabulary((END, *plan.group_words, *words))
    rest = 1 + len(plan.group_words) + len(words)
    kernel = plan.kernel(shuffler.labellings)
    sums = Sums(shuffler.labellings, len(plan.groups), kernel.dtype)
    sums.make_room(rest + 1)
    text = word_numbers(source, shard, plan, numbers, Account(source.skip_bad))
    for block in blocks((np.minimum(ids, rest) for ids in text), plan.labels):
        kernel.feed(replace(block, labels=shuffler.draw(len(block.hits))), sums)
    return sums.values[:, :, : rest + 1]


def _mean(scored: Scored, company: NDArray[Any], words: slice) -> float:
    values = scored.values(company, 0)[words]
    values = values[np.isfinite(values)]
    if not len(values):
        raise DegenerateError(
            "with shuffled labels no word meets both groups: too little text for a baseline",
            hint="give more text, or permutations=0 (--permutations 0) to do without it",
        )
    return float(np.abs(values).mean())
