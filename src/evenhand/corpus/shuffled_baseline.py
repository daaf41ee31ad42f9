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
real one. Mean |bias| falls with the number of hits of the rarer group, so each labelling is the one of `TRIES`
permutations whose group counts are nearest to the real ones. A text of a single document can only be rotated, which
gives no valid p-value if the document consists of many articles.

Labellings are drawn until `REACHED` of them have a mean |bias| of at least the observed one, or as many as the options
allow (Besag & Clifford 1991; `stats.permutation.sequential_test`). A text without association is decided after a few
dozen, a biased one gets a small p-value. They are counted in rounds of fixed sizes, so that neither memory nor engine
changes a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.corpus.counting.count import CountingPlan, LabelLog, token_ids, with_progress
from evenhand.corpus.counting.neighbours import DecayNeighbours, Neighbours, decay_neighbours, window_neighbours
from evenhand.corpus.counting.tokens import Vocabulary
from evenhand.corpus.counting.windows import Labels, Sums, Table, TokenBlock, blocks
from evenhand.corpus.readers.source import Shard, TextSource
from evenhand.corpus.readers.stream import END, ReadLog
from evenhand.corpus.word_scores import Scorer
from evenhand.engines import Engine, LocalEngine
from evenhand.errors import DegenerateError
from evenhand.progress import Progress
from evenhand.stats.bootstrap import ENOUGH
from evenhand.stats.permutation import SequentialTest, sequential_test

CELLS = 1 << 24  # sums held at once by each worker: 128 MB
KEPT = 1 << 26  # pairs of a hit and a word kept between two rounds: about 800 MB; larger texts are read again
STRATUM = 4  # documents
TRIES = 10
MANY_DOCUMENTS = 1_000  # with more, the group counts differ by less than 0.3 %, and one try is enough
REACHED = 10  # labellings that reach the observed value, after which no more are drawn
FIRST, GROWTH = 20, 5  # labellings of the first round, and how many times as many there are after each further one
RULE = (
    "labellings are drawn until {reached} have a mu of at least the observed one, at most {most:,}: p = {reached} / "
    "drawn, or (reached + 1) / ({most:,} + 1) if fewer reach it (Besag & Clifford 1991)"
)


@dataclass(frozen=True)
class Relabelling:
    """For each document with hits, the document whose labels it receives, and the offset in that sequence."""

    donors: NDArray[np.int32]
    offsets: Vector64


class PermutedLabels:
    """Yields the labels of consecutive hits under several relabellings."""

    def __init__(self, log: LabelLog, relabellings: list[Relabelling], first: int = 0) -> None:
        self._log, self._relabellings, self._next = log, relabellings, first
        self._starts = log.starts

    def draw(self, count: int) -> Labels:
        """Return (labellings, count): the labels of the next hits."""
        first, self._next = self._next, self._next + count
        labels = np.empty((len(self._relabellings), count), dtype=np.int8)
        if not count:
            return labels
        log, hits = self._log, np.arange(first, self._next)
        document = np.searchsorted(self._starts, hits, side="right") - 1
        place = (hits - self._starts[document] + 0.5) / log.sizes[document]  # in units of the document's hits
        for row, one in zip(labels, self._relabellings, strict=True):
            length = log.sizes[one.donors]
            position = (place * length[document] + one.offsets[document]).astype(np.int64) % length[document]
            row[:] = log.labels[self._starts[one.donors][document] + position]
        return labels


def draw_relabellings(log: LabelLog, groups: int, rng: np.random.Generator) -> Iterator[Relabelling]:
    """Yield relabellings of a text that keep its bursts, independent of each other, without end."""
    number = len(log.sizes)
    tries = TRIES if 1 < number <= MANY_DOCUMENTS else 1
    shares = np.stack([np.add.reduceat(log.labels == group, log.starts) for group in range(groups)]) / log.sizes
    real = shares @ log.sizes
    while True:
        donors = _permute_documents(log.sizes, tries, rng)
        distances = np.abs(shares[:, donors] @ log.sizes - real[:, None]).sum(axis=0)
        nearest = donors[np.argmin(distances)]
        yield Relabelling(nearest, rng.random(number) * log.sizes[nearest])


def _permute_documents(sizes: Rows, tries: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return (tries, documents): for each document another one of about as many hits."""
    number = len(sizes)
    order = np.argsort(sizes + rng.random((tries, number)), axis=1, kind="stable")
    strata = (np.arange(number) + rng.integers(STRATUM, size=(tries, 1))) // STRATUM
    shuffled = np.argsort(strata + rng.random((tries, number)), axis=1, kind="stable")
    donors = np.empty((tries, number), dtype=np.int32)
    np.put_along_axis(donors, order, np.take_along_axis(order, shuffled, axis=1).astype(np.int32), axis=1)
    return donors


@dataclass(frozen=True, eq=False)
class PermutedMeans:
    """Mean |bias| of each group against the rest under each labelling, (labellings, groups), and the test of each.

    NaN where no word co-occurs with both groups under a labelling; such labellings count as reaching the observed
    value. There is no test for a text of a single document.
    """

    values: Matrix64
    tests: tuple[SequentialTest, ...] | None


def permuted_means(
    source: TextSource,
    scorer: Scorer,
    observed: Vector64,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> PermutedMeans:
    """Return mean |bias| under permuted labels, and the p-value of the observed mean of each group.

    The scored words are chosen anew under each labelling by the same rules.

    Takes one more pass over the text. A text whose neighbours do not fit in memory is read once for every round, or
    more often if the sums of the labellings of a round do not fit.
    """
    log, most = scorer.counts.label_log, scorer.options.permutations or 0
    if log is None or not len(log.sizes):
        raise DegenerateError("the counts have no labels to permute")
    drawn = draw_relabellings(log, len(scorer.plan.groups), np.random.default_rng(scorer.options.seed))
    counter = _Counter(source, scorer, log, engine or LocalEngine(), progress)
    several = len(log.sizes) > 1
    means, stop = np.empty((0, len(scorer.plan.groups))), FIRST
    while True:
        more = list(islice(drawn, min(stop, most) - len(means)))
        means = np.concatenate([means, counter.means(more, len(means))])
        if np.isfinite(means).all(axis=1).mean() < ENOUGH:
            raise DegenerateError(
                "the text is too small for a baseline: with permuted labels no word co-occurs with both groups",
                hint="give more text, or turn the baseline off with `permutations=0`",
            )
        if not several:
            return PermutedMeans(means, None)
        reached = ~(means < observed)
        tests = [sequential_test(column, enough=REACHED, most=most) for column in reached.T]
        decided = tuple(test for test in tests if test is not None)
        if len(decided) == len(tests):
            return PermutedMeans(means, decided)
        stop *= GROWTH


class _Counter:
    """Counts a text under given labellings; keeps the neighbours of its hits if they fit in memory."""

    def __init__(
        self, source: TextSource, scorer: Scorer, log: LabelLog, engine: Engine, progress: Progress | None
    ) -> None:
        self._source, self._scorer, self._log = source, scorer, log
        self._engine, self._progress = engine, progress
        self._words = tuple(scorer.counts.words.gather(scorer.candidates[scorer.met]).to_list())
        self._plan = replace(scorer.plan, folds=0, log_labels=False)
        self._shards = source.shards()
        hits = scorer.counts.shard_hits
        self._first_hits = list(accumulate(hits[:-1], initial=0))
        self._kept: list[list[Neighbours | DecayNeighbours]] = [[] for _ in self._shards]
        cells = max(len(scorer.plan.groups) * (len(self._words) + 1), max(hits, default=0), len(log.sizes))
        self._at_once = max(1, CELLS // cells)

    def means(self, relabellings: list[Relabelling], before: int) -> Matrix64:
        """Return mean |bias| of each group under each relabelling: (labellings, groups)."""
        starts = range(0, len(relabellings), self._at_once)
        return np.concatenate([self._count(relabellings[i : i + self._at_once], before + i) for i in starts])

    def _count(self, relabellings: list[Relabelling], before: int) -> Matrix64:
        count = partial(_count_relabelled, self._source, self._plan, self._words, self._log, relabellings)
        jobs = zip(self._shards, self._first_hits, self._kept, strict=True)
        description = f"permuted labels, {before + 1:,} to {before + len(relabellings):,}"
        parts = with_progress(self._engine.map(count, jobs), len(self._shards), description, self._progress)
        total: Table | None = None
        room = KEPT
        for shard, (table, near) in enumerate(parts):
            total = table if total is None else total + table
            room -= sum(one.pairs for one in near)
            self._kept[shard] = near if room >= 0 else []
        return self._means(cast(Table, total))  # a text with labels has a shard

    def _means(self, total: Table) -> Matrix64:
        """Return the means of (labellings, groups, words + 1) co-occurrences."""
        groups = len(self._plan.groups)
        different = range(1 if groups == 2 else groups)  # of two groups one has the scores of the other, negated
        scores = ((self._scorer.values(table, group)[:-1] for group in different) for table in total)
        means = np.array([[_mean_size(values) for values in row] for row in scores])
        return np.broadcast_to(means, (len(total), groups))


def _count_relabelled(
    source: TextSource,
    plan: CountingPlan,
    words: tuple[str, ...],
    log: LabelLog,
    relabellings: list[Relabelling],
    job: tuple[Shard, int, list[Neighbours | DecayNeighbours]],
) -> tuple[Table, list[Neighbours | DecayNeighbours]]:
    """Return the counts of one shard, (labellings, groups, words + 1), and the neighbours of its hits if they are few.

    The last word stands for all unscored words.
    """
    shard, first_hit, kept = job
    first_word, groups = 1 + len(plan.group_words), len(plan.groups)
    rest = first_word + len(words)

    def stream() -> Iterator[TokenBlock]:
        vocabulary = Vocabulary((END, *plan.group_words, *words))
        text = token_ids(source, shard, plan, vocabulary, ReadLog(source.skip_bad))
        return blocks((np.minimum(ids, rest) for ids in text), plan.labels)

    parts: Iterable[Neighbours | DecayNeighbours]
    if plan.decay is None:
        parts = kept or window_neighbours(stream(), cast(int, plan.window), first_word, len(words))
    else:
        found = kept or decay_neighbours(stream(), plan.decay, first_word, len(words), most=KEPT)
        if found is None:
            labels = PermutedLabels(log, relabellings, first_hit)
            return _count_with_decay(stream(), plan, labels, len(relabellings), rest), []
        parts = found
    total = cast(Table, np.zeros((len(relabellings), groups, len(words) + 1), dtype=plan.kernel().dtype))
    few: list[Neighbours | DecayNeighbours] = []
    pairs = 0
    for part in parts:
        total += part.sums(PermutedLabels(log, relabellings, first_hit + part.first).draw(part.hits), groups)
        pairs += part.pairs
        few = [*few, part] if pairs <= KEPT else []
    return total, few


def _count_with_decay(
    stream: Iterator[TokenBlock], plan: CountingPlan, labels: PermutedLabels, labellings: int, rest: int
) -> Table:
    """Count one labelling after the other; for shards whose neighbours do not fit in memory."""
    kernel = plan.kernel(labellings)
    sums = Sums(labellings, len(plan.groups), kernel.dtype)
    sums.make_room(rest + 1)
    for block in stream:
        kernel.feed(replace(block, labels=labels.draw(len(block.hits))), sums)
    # The words of the groups are not scored, but count in the sums over all words.
    first_word = 1 + len(plan.group_words)
    table = sums.values[:, :, first_word : rest + 1].copy()
    table[:, :, -1] += sums.values[:, :, :first_word].sum(axis=2)
    return table


def _mean_size(values: Vector64) -> float:
    values = values[np.isfinite(values)]
    return float(np.abs(values).mean()) if len(values) else float("nan")
