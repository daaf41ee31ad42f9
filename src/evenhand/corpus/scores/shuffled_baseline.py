"""The mean absolute bias expected by chance: the same text with its group labels permuted between documents.

Group words come in bursts (a biography says "she" a hundred times), and so do other words. Shuffling the labels of
single occurrences destroys these bursts, so that a shuffled text is less noisy than a real one and the observed mean
|bias| exceeds it without any association. Here the occurrences of group words ("hits") keep their positions, and whole
sequences of labels move:

1. Documents with hits are sorted by their number of hits, ties in random order, and divided into strata of `STRATUM`
   neighbours; the position of the first boundary is random.
2. Within each stratum the label sequences are permuted. A sequence of another length is stretched or shrunk to fit.
3. Each sequence is rotated by a random offset.

If the text and the labels of a document are independent given its number of hits, every such text is as likely as the
real one. Mean |bias| falls with the number of hits of the rarer group, so of `TRIES` permutations per labelling those
with group counts nearest to the real ones are used. A text of a single document can only be rotated, which gives no
valid p-value if the document consists of many articles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import accumulate
from operator import add

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus.counting.accumulators import Sums, Table
from evenhand.corpus.counting.count import CountingPlan, LabelLog, LabelSequence, token_ids, with_progress
from evenhand.corpus.counting.text_stream import END
from evenhand.corpus.counting.token_block import Labels, blocks
from evenhand.corpus.counting.vocabulary import Vocabulary
from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.source import Shard, TextSource
from evenhand.corpus.scores.word_scores import Scorer
from evenhand.engines import Engine, LocalEngine
from evenhand.errors import DegenerateError
from evenhand.progress import Progress

CELLS = 1 << 24  # sums held at once by each worker: 128 MB
STRATUM = 4  # documents
TRIES = 10
MANY_DOCUMENTS = 10_000  # with more, the group counts hardly differ between permutations, and one try is enough


@dataclass(frozen=True)
class Relabelling:
    """For each document with hits, the document whose labels it receives, and the offset in that sequence."""

    donors: NDArray[np.int32]
    offsets: Vector64

    def labels(self, log: LabelLog, starts: Rows, first: int, stop: int) -> LabelSequence:
        """Return the new labels of the hits from `first` up to `stop`."""
        hits = np.arange(first, stop)
        document = np.searchsorted(starts, hits, side="right") - 1
        donor = self.donors[document]
        length = log.sizes[donor]
        position = (hits - starts[document] + 0.5) * (length / log.sizes[document]) + self.offsets[document]
        return np.asarray(log.labels[starts[donor] + np.floor(position).astype(np.int64) % length], dtype=np.int8)


class PermutedLabels:
    """Yields the labels of consecutive hits under several relabellings."""

    def __init__(self, log: LabelLog, relabellings: list[Relabelling], first: int = 0) -> None:
        self._log, self._relabellings, self._next = log, relabellings, first
        self._starts = log.starts

    def draw(self, count: int) -> Labels:
        """Return (labellings, count): the labels of the next hits."""
        first, self._next = self._next, self._next + count
        if not count:
            return np.empty((len(self._relabellings), 0), dtype=np.int8)
        return np.stack([one.labels(self._log, self._starts, first, self._next) for one in self._relabellings])


def draw_relabellings(log: LabelLog, groups: int, count: int, rng: np.random.Generator) -> list[Relabelling]:
    """Draw `count` relabellings of a text that keep its bursts."""
    if not len(log.sizes):
        return []
    tries = TRIES if 1 < len(log.sizes) <= MANY_DOCUMENTS else 1
    starts = log.starts
    shares = np.stack([np.add.reduceat(log.labels == group, starts) for group in range(groups)]) / log.sizes
    real = shares @ log.sizes
    donors = [_permute_documents(log.sizes, rng) for _ in range(count * tries)]
    distances = [float(np.abs(shares[:, one] @ log.sizes - real).sum()) for one in donors]
    nearest = np.argsort(distances, kind="stable")[:count]
    return [Relabelling(donors[i], rng.random(len(log.sizes)) * log.sizes[donors[i]]) for i in nearest]


def _permute_documents(sizes: Rows, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return for each document another one of about as many hits."""
    number = len(sizes)
    order = np.argsort(sizes + rng.random(number), kind="stable")
    strata = (np.arange(number) + rng.integers(STRATUM)) // STRATUM
    donors = np.empty(number, dtype=np.int32)
    donors[order] = order[np.argsort(strata + rng.random(number), kind="stable")]
    return donors


def permuted_means(
    source: TextSource, scorer: Scorer, *, engine: Engine | None = None, progress: Progress | None = None
) -> Matrix64:
    """Return mean |bias| of each group against the rest under each relabelling: (labellings, groups).

    The scored words are chosen anew each time by the same rules.

    Takes one more pass over the text, or several if the sums of all labellings do not fit in memory.
    """
    log, labellings = scorer.counts.label_log, scorer.options.permutations or 0
    if log is None:
        raise DegenerateError("the counts have no labels to permute")
    words = tuple(scorer.counts.words.gather(scorer.candidates[scorer.met]).to_list())
    groups = len(scorer.plan.groups)
    relabellings = draw_relabellings(log, groups, labellings, np.random.default_rng(scorer.options.seed))
    at_once = max(1, CELLS // (groups * (len(words) + 1)))
    rounds = [relabellings[first : first + at_once] for first in range(0, labellings, at_once)]
    workers = engine or LocalEngine()
    return np.concatenate([_round(source, scorer, words, log, some, workers, progress) for some in rounds])


def _round(
    source: TextSource,
    scorer: Scorer,
    words: tuple[str, ...],
    log: LabelLog,
    relabellings: list[Relabelling],
    engine: Engine,
    progress: Progress | None,
) -> Matrix64:
    shards = source.shards()
    first_hits = accumulate(scorer.counts.shard_hits[:-1], initial=0)
    plan = replace(scorer.plan, folds=0, log_labels=False)
    count = partial(_count_relabelled, source, plan, words, log, relabellings)
    parts = engine.map(count, zip(shards, first_hits, strict=True))
    total = reduce(add, with_progress(parts, len(shards), "permuted labels", progress))
    first = 1 + len(scorer.plan.group_words)
    scored, groups = slice(first, first + len(words)), range(len(scorer.plan.groups))
    return np.array([[_mean(scorer, table, scored, group) for group in groups] for table in total])


def _count_relabelled(
    source: TextSource,
    plan: CountingPlan,
    words: tuple[str, ...],
    log: LabelLog,
    relabellings: list[Relabelling],
    job: tuple[Shard, int],
) -> Table:
    """Return the counts of one shard, (labellings, groups, words); the last word stands for all unscored words."""
    shard, first_hit = job
    labels = PermutedLabels(log, relabellings, first_hit)
    vocabulary = Vocabulary((END, *plan.group_words, *words))
    rest = 1 + len(plan.group_words) + len(words)
    kernel = plan.kernel(len(relabellings))
    sums = Sums(len(relabellings), len(plan.groups), kernel.dtype)
    sums.make_room(rest + 1)
    text = token_ids(source, shard, plan, vocabulary, ReadLog(source.skip_bad))
    for block in blocks((np.minimum(ids, rest) for ids in text), plan.labels):
        kernel.feed(replace(block, labels=labels.draw(len(block.hits))), sums)
    return sums.values[:, :, : rest + 1]


def _mean(scorer: Scorer, cooccurrence: Table, words: slice, group: int) -> float:
    values = scorer.values(cooccurrence, group)[words]
    values = values[np.isfinite(values)]
    if not len(values):
        raise DegenerateError(
            "the text is too small for a baseline: with permuted labels no word co-occurs with both groups",
            hint="give more text, or turn the baseline off with permutations=0 (--permutations 0)",
        )
    return float(np.abs(values).mean())
