"""The mean absolute bias expected by chance: the same text with the group labels shuffled.

Every occurrence of a group word keeps its position; the groups are assigned to the occurrences at random, each group
keeping its number of occurrences. Labels are drawn while the text is streamed: each block of text receives a sample
without replacement (hypergeometric) from the labels that remain, which has the same distribution as one shuffle of all
labels.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Vector64
from evenhand.corpus.counting.accumulators import Sums, Table
from evenhand.corpus.counting.count import CountingPlan, token_ids, with_progress
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.token_block import Labels, blocks
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.source import Shard, Source
from evenhand.corpus.scores.word_scores import Scorer
from evenhand.engines import Engine, LocalEngine
from evenhand.errors import DegenerateError
from evenhand.progress import Progress

CELLS = 1 << 24  # sums held at once by each worker: 128 MB


class LabelShuffler:
    """Draws the labels of group words without replacement; `counts` are (labellings, groups)."""

    def __init__(self, counts: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._remaining, self._rng = counts, rng

    @property
    def labellings(self) -> int:
        """Number of labellings drawn in parallel."""
        return len(self._remaining)

    def draw(self, count: int) -> Labels:
        """Return (labellings, count) labels."""
        samples = [self._rng.multivariate_hypergeometric(row, count, method="marginals") for row in self._remaining]
        drawn = np.stack(samples)
        self._remaining = self._remaining - drawn  # not in place: an array from another process may be read-only
        groups = np.arange(drawn.shape[1], dtype=np.int8)
        return np.stack([self._rng.permutation(np.repeat(groups, row)) for row in drawn])


def shuffled_means(
    source: Source, scorer: Scorer, *, engine: Engine | None = None, progress: Progress | None = None
) -> Vector64:
    """Return mean |bias| under each shuffled labelling, the scored words chosen anew each time by the same rules.

    Takes one more pass over the text, or several if the sums of all labellings do not fit in memory.
    """
    labellings = scorer.options.permutations or 0
    words = tuple(scorer.counts.words.gather(scorer.candidates[scorer.met]).to_list())
    at_once = max(1, CELLS // (len(scorer.plan.groups) * (len(words) + 1)))
    rounds = [min(at_once, labellings - done) for done in range(0, labellings, at_once)]
    rngs = np.random.default_rng(scorer.options.seed).spawn(len(rounds))
    return np.concatenate(
        [
            _round(source, scorer, words, _split_labels(scorer, n, rng), engine or LocalEngine(), progress)
            for n, rng in zip(rounds, rngs, strict=True)
        ]
    )


def _split_labels(scorer: Scorer, labellings: int, rng: np.random.Generator) -> list[LabelShuffler]:
    """Distribute the labels of all group words over the shards, each with a random generator of its own."""
    remaining = np.tile(scorer.hits, (labellings, 1))
    shufflers = []
    for hits, child in zip(scorer.counts.shard_hits, rng.spawn(len(scorer.counts.shard_hits)), strict=True):
        share = np.stack([rng.multivariate_hypergeometric(row, hits, method="marginals") for row in remaining])
        remaining -= share
        shufflers.append(LabelShuffler(share, child))
    return shufflers


def _round(
    source: Source,
    scorer: Scorer,
    words: tuple[str, ...],
    shufflers: list[LabelShuffler],
    engine: Engine,
    progress: Progress | None,
) -> Vector64:
    shards = source.shards()
    jobs = zip(shards, shufflers, strict=True)
    parts = engine.map(partial(_count_shuffled, source, replace(scorer.plan, folds=0), words), jobs)
    total = reduce(add, with_progress(parts, len(shards), "shuffled labels", progress))
    first = 1 + len(scorer.plan.group_words)
    return np.array([_mean(scorer, table, slice(first, first + len(words))) for table in total])


def _count_shuffled(
    source: Source, plan: CountingPlan, words: tuple[str, ...], job: tuple[Shard, LabelShuffler]
) -> Table:
    """Return the counts of one shard, (labellings, groups, words); the last word stands for all unscored words."""
    shard, shuffler = job
    vocabulary = Vocabulary((END, *plan.group_words, *words))
    rest = 1 + len(plan.group_words) + len(words)
    kernel = plan.kernel(shuffler.labellings)
    sums = Sums(shuffler.labellings, len(plan.groups), kernel.dtype)
    sums.make_room(rest + 1)
    text = token_ids(source, shard, plan, vocabulary, ReadLog(source.skip_bad))
    for block in blocks((np.minimum(ids, rest) for ids in text), plan.labels):
        kernel.feed(replace(block, labels=shuffler.draw(len(block.hits))), sums)
    return sums.values[:, :, : rest + 1]


def _mean(scorer: Scorer, cooccurrence: Table, words: slice) -> float:
    values = scorer.values(cooccurrence, 0)[words]
    values = values[np.isfinite(values)]
    if not len(values):
        raise DegenerateError(
            "the text is too small for a baseline: with shuffled labels no word co-occurs with both groups",
            hint="give more text, or turn the baseline off with permutations=0 (--permutations 0)",
        )
    return float(np.abs(values).mean())
