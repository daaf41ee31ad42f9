"""What the networks share in the exact evaluation of a whole probe: token rows, blocks of pairs, and the last layers.

A phrase with P premise and H hypothesis subjects has P + H sentences and P H pairs. What depends on one sentence only
(its states, and compare's first matrix, which is linear in the attended mixture) is computed per sentence. What remains
per pair are the dot products, the mixtures, compare's second layer and aggregate. Nothing is approximated.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from threading import local
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.models.nli.backend import Array, ArrayBackend, DeviceLayer, backend
from evenhand.models.nli.over_vectors import TokenRows
from evenhand.models.nli.protocol import LABELS, Grid
from evenhand.models.tokenizing import split_words
from evenhand.words.probes import Probe


class Sizes(NamedTuple):
    """How much is processed at once, for sentences of any length.

    Few subjects with many phrases are better than the reverse: phrases share their beginnings.
    """

    pairs: int  # in a grid
    subjects: int
    tokens: int  # to encode
    rows: int  # to compare


# On a CPU, the rows of a sentence and their intermediate results stay in the cache.
ON_CPU = Sizes(pairs=32_768, subjects=41, tokens=3_000, rows=3_500)
# On a GPU all rows take 1.2 GB, half of them at a time, and the states of 300 phrases of the gender probe 1 GB.
ON_GPU = Sizes(pairs=300_000, subjects=512, tokens=400_000, rows=1_500_000)


class PairWeights:
    """The layers after the tokens are encoded, on a backend.

    Attributes:
        compare: two layers over a token and what it attends to.
        aggregate: two layers over the sums of both sentences.
        output: the last layer.
        hidden: width of the layers.
    """

    def __init__(self, arrays: Mapping[str, Matrix], backend: ArrayBackend, *, inside: str = "") -> None:
        """Put named arrays on a backend; `inside` stands between the name of a network and that of its layers."""
        self.backend = backend
        self.compare = backend.layers(arrays, f"compare{inside}")
        self.aggregate = backend.layers(arrays, f"aggregate{inside}")
        self.output = backend.layer(arrays, "output")
        self.hidden = len(arrays["output.weight"][0])


@dataclass(frozen=True)
class EncodedSentences:
    """States (phrases, tokens, subjects, width) and their products (phrases, tokens, subjects, hidden).

    Tokens come before subjects, so a sum over tokens adds long rows.
    """

    states: Array
    own: Array  # compare's first matrix applied to the states, with its bias
    other: Array  # its half for attended tokens

    def part(self, phrases: slice, subjects: slice) -> EncodedSentences:
        """Return some phrases with some subjects."""
        return EncodedSentences(*(array[phrases, :, subjects] for array in (self.states, self.own, self.other)))


class BlockEvaluator(NamedTuple):
    """What every block of a probe uses.

    `phrases` prepares phrases, given their tokens before and after the subject. It returns a function that encodes them
    with every subject of a group.
    """

    phrases: Callable[[Rows, Rows], Callable[[Rows], EncodedSentences]]
    kernel: PairKernel
    sizes: Sizes


def evaluate_sentences(evaluator: BlockEvaluator, tokens: ProbeTokens, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of the probe, block by block."""
    jobs = (
        lambda group=group, part=part: _grid(evaluator, group, part, probe.shape)
        for group in tokens.groups
        for part in _parts(group, evaluator.sizes, probe.shape)
    )
    with evaluator.kernel.backend.single_threaded():
        yield from run_jobs(jobs, evaluator.kernel.source)


def _parts(group: PhraseGroup, sizes: Sizes, shape: tuple[int, int, int]) -> list[slice]:
    """Return the phrases in parts that are processed at once."""
    around = sum(part.shape[1] for part in group.around)
    most = max(own.tokens.size + around * len(own.tokens) for own in (*group.premise, *group.hypothesis))
    step = max(1, min(sizes.tokens // most, sizes.pairs // (shape[1] * shape[2])))
    return [slice(start, start + step) for start in range(0, len(group.phrases), step)]


def _grid(evaluator: BlockEvaluator, group: PhraseGroup, part: slice, shape: tuple[int, int, int]) -> ComingGrid:
    """Return the probabilities of a few phrases, for every combination of subject lengths."""
    phrases, kernel, (before, after) = group.phrases[part], evaluator.kernel, group.around
    with kernel.source.worker():
        answers = kernel.backend.empty((len(phrases), *shape[1:], len(LABELS)))
        encode = evaluator.phrases(before[part], after[part])

        def encoded(side: tuple[Subjects, ...]) -> Iterator[tuple[Rows, EncodedSentences]]:
            return ((own.fillers, kernel.load(encode(own.tokens))) for own in side)

        hypotheses = list(encoded(group.hypothesis))
        for (p_fillers, p), (h_fillers, h) in ((p, h) for p in encoded(group.premise) for h in hypotheses):
            rows = len(h_fillers) * (p.states.shape[1] + h.states.shape[1])
            for span, premises in cut_blocks(len(phrases), len(p_fillers), each=rows, most=evaluator.sizes.rows):
                block = kernel.probabilities(p.part(span, premises), h.part(span, slice(None)))
                write_block(answers[span], block, (p_fillers[premises], h_fillers), kernel.backend)
        return ComingGrid(phrases, kernel.backend.fetch(answers))


def write_block(answers: Array, block: Array, fillers: tuple[Rows, Rows], backend: ArrayBackend) -> None:
    """Write (labels, phrases, hypotheses, premises) probabilities into the cells of these premises and hypotheses."""
    premises, hypotheses = map(backend.put, fillers)
    answers[:, premises[:, None], hypotheses] = backend.xp.moveaxis(block, 0, -1).swapaxes(1, 2)


class PairKernel:
    """The formulas for blocks of pairs: numpy on a CPU, where its steps write to the same arrays, torch on a GPU."""

    def __init__(self, weights: PairWeights) -> None:
        self.source = weights.backend
        self.backend = backend("numpy") if self.source.name == "torch:cpu" else self.source

        def load(layer: DeviceLayer) -> DeviceLayer:
            return self._load(layer[0]), self._load(layer[1])

        aggregate = load(weights.aggregate[0]), load(weights.aggregate[1])
        self.layers = PairLayers(
            self.backend, load(weights.compare[1]), aggregate, load(weights.output), weights.hidden
        )

    def load(self, sentences: EncodedSentences) -> EncodedSentences:
        """Return the sentences as arrays of the backend."""
        return EncodedSentences(*map(self._load, (sentences.states, sentences.own, sentences.other)))

    def _load(self, array: Array) -> Array:
        return array if self.backend is self.source else self.backend.put(self.source.get(array))

    def probabilities(self, premise: EncodedSentences, hypothesis: EncodedSentences) -> Array:
        """Return (labels, phrases, hypotheses, premises) probabilities."""
        p_length, h_length = premise.states.shape[1], hypothesis.states.shape[1]
        pairs = premise.states.shape[0], hypothesis.states.shape[2], premise.states.shape[2]
        sums = self.backend.empty((*pairs, 2, self.layers.hidden))
        sums[..., 0, :] = self._compare(premise, hypothesis)
        sums[..., 1, :] = self._compare(hypothesis, premise).swapaxes(1, 2)
        sums = sums.reshape(-1, 2, self.layers.hidden)
        return self.layers.classify(sums, (p_length, h_length)).reshape(-1, *pairs)

    def _compare(self, own: EncodedSentences, others: EncodedSentences) -> Array:
        """Return the sums of compare's rows over own tokens, without the last bias: (phrases, others, own, hidden).

        Both sides compute the scores again, with the attended tokens first: a softmax over any axis but the last is
        several times faster, and the product is short.
        """
        phrases, tokens, sentences, width = others.states.shape
        own_tokens, own_sentences = own.own.shape[1:3]
        scores = others.states.reshape(phrases, -1, width) @ own.states.reshape(phrases, -1, width).swapaxes(1, 2)
        shares = softmax(scores.reshape(phrases, tokens, sentences, -1), 1, self.backend)
        rows = self.layers.rows((phrases, sentences, own_tokens * own_sentences, self.layers.hidden))
        xp = self.backend.xp
        xp.matmul(xp.moveaxis(shares, 1, -1), others.other.swapaxes(1, 2), out=rows)
        rows += own.own.reshape(phrases, 1, -1, self.layers.hidden)
        compared = self.layers.compare(1, prod(rows.shape[:-1]))
        return compared.reshape(phrases, sentences, own_tokens, own_sentences, -1).sum(axis=2)


class ComingGrid(NamedTuple):
    """A grid whose probabilities may still be on their way from the device."""

    phrases: Rows
    wait: Callable[[], Matrix]

    def result(self) -> Grid:
        """Return the grid, once it is here."""
        return Grid(self.phrases, self.wait())


def run_jobs(jobs: Iterator[Callable[[], ComingGrid]], backend: ArrayBackend) -> Iterator[Grid]:
    """Yield the results of the jobs in order; a few of them run ahead in the backend's threads.

    With one thread, the next job is started before the caller gets a result: a GPU computes it meanwhile.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    if backend.workers < 2:
        coming: deque[ComingGrid] = deque()
        with backend.single_threaded():
            for job in jobs:
                coming.append(job())
                if len(coming) > 1:
                    yield coming.popleft().result()
            yield from (grid.result() for grid in coming)
        return
    with backend.single_threaded(), ThreadPoolExecutor(backend.workers) as pool:
        waiting: deque[Future[ComingGrid]] = deque()
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > backend.workers + 1:
                yield waiting.popleft().result().result()
        while waiting:
            yield waiting.popleft().result().result()


LookUp = Callable[[str], TokenRows]  # from a text to the rows of its tokens
FILLERS_AT_ONCE = 512
JOINS = "-'’_"


@dataclass(frozen=True)
class Subjects:
    """Fillers of one side with the same number of tokens: their indices in the probe, and their tokens."""

    fillers: Rows
    tokens: Rows  # (fillers, tokens of each)


@dataclass(frozen=True)
class PhraseGroup:
    """Phrases with the same determiner and numbers of tokens, and the subjects that go with them.

    `around` has the tokens of their parts, (phrases, tokens) each: those before and after the subject, or all together
    for a network that ignores order.
    """

    phrases: Rows
    around: tuple[Rows, ...]
    premise: tuple[Subjects, ...]
    hypothesis: tuple[Subjects, ...]


@dataclass(frozen=True)
class ProbeTokens:
    """All phrases of a probe, with tokens numbered among `rows`, the rows of the table that occur."""

    rows: Rows
    groups: tuple[PhraseGroup, ...]


def probe_sentences(probe: Probe, look_up: LookUp, *, null: bool, subjects: int) -> ProbeTokens:
    """Return the sentences of a probe, with at most `subjects` subjects in a group.

    With `null`, a further token, numbered after all words, precedes each sentence.
    """
    alike: dict[tuple[str, int, int], list[tuple[int, TokenRows, TokenRows]]] = defaultdict(list)
    for number, phrase in enumerate(probe.phrases.all):
        before, after = look_up(phrase.before), look_up(phrase.after)
        alike[phrase.determiner, len(before), len(after)].append((number, before, after))
    groups = []
    for (determiner, _, _), phrases in alike.items():
        numbers, befores, afters = zip(*phrases, strict=True)
        sides = (tuple(by_length(own, at_once=subjects)) for own in _subjects(probe, look_up, determiner))
        groups.append(PhraseGroup(np.array(numbers), (_matrix(befores), _matrix(afters)), *sides))
    tokens = _numbered(groups)
    return (
        replace(tokens, groups=tuple(_after_null(group, len(tokens.rows)) for group in tokens.groups))
        if null
        else tokens
    )


def probe_bags(probe: Probe, look_up: LookUp) -> ProbeTokens:
    """Return the sentences of a probe for a network that ignores order.

    Tokens that all subjects share belong to the phrases.
    """
    alike: dict[tuple[str, int], list[tuple[int, TokenRows]]] = defaultdict(list)
    for number, phrase in enumerate(probe.phrases.all):
        shared = look_up(phrase.before) + look_up(phrase.after)
        alike[phrase.determiner, len(shared)].append((number, shared))
    groups = []
    for (determiner, _), phrases in alike.items():
        premise, hypothesis = _subjects(probe, look_up, determiner)
        common = _common([*premise, *hypothesis])
        sides = (tuple(by_length([_without(own, common) for own in side])) for side in (premise, hypothesis))
        rows = _matrix([shared + common for _, shared in phrases])
        groups.append(PhraseGroup(np.array([number for number, _ in phrases]), (rows,), *sides))
    return _numbered(groups)


def _subjects(probe: Probe, look_up: LookUp, determiner: str) -> tuple[list[TokenRows], list[TokenRows]]:
    """Return the tokens of the subjects of both sides."""
    premise, hypothesis = (probe.subjects(side, determiner) for side in ("premise", "hypothesis"))
    return [look_up(text) for text in premise], [look_up(text) for text in hypothesis]


def _matrix(tokens: Sequence[TokenRows]) -> Rows:
    return np.array(tokens, dtype=np.int64).reshape(len(tokens), -1)


def _numbered(groups: Sequence[PhraseGroup]) -> ProbeTokens:
    """Return groups whose tokens are numbered among the rows that occur in any of them."""
    parts = [part for group in groups for part in group.around]
    parts += [own.tokens for group in groups for own in (*group.premise, *group.hypothesis)]
    rows = np.unique(np.concatenate([part.ravel() for part in parts]))

    def number(tokens: Rows) -> Rows:
        return np.asarray(np.searchsorted(rows, tokens), dtype=np.int64)

    def side(subjects: tuple[Subjects, ...]) -> tuple[Subjects, ...]:
        return tuple(Subjects(own.fillers, number(own.tokens)) for own in subjects)

    return ProbeTokens(
        rows,
        tuple(
            PhraseGroup(group.phrases, tuple(map(number, group.around)), side(group.premise), side(group.hypothesis))
            for group in groups
        ),
    )


def _after_null(group: PhraseGroup, null: int) -> PhraseGroup:
    """Return phrases that begin with one more token."""
    before, after = group.around
    return replace(group, around=(np.concatenate([np.full((len(before), 1), null), before], axis=1), after))


def is_separable(probe: Probe) -> bool:
    """Return whether subject and phrase have separate tokens: nothing is joined to the slot, as in `{x}'s`."""
    phrases = probe.phrases.all
    apart = all(_open(x.before[-1:]) and _open(x.after[:1]) for x in phrases)
    return apart and all(split_words(x.before + x.after) for x in phrases)


def _open(neighbour: str) -> bool:
    return not neighbour or not (neighbour.isalnum() or neighbour in JOINS)


def _common(subjects: Sequence[TokenRows]) -> TokenRows:
    """Return the tokens that all subjects of both sides share, such as a determiner, leaving each at least one."""
    shared = Counter(subjects[0])
    for own in subjects[1:]:
        shared &= Counter(own)
    return tuple(shared.elements())[: min(map(len, subjects)) - 1]


def _without(subject: TokenRows, common: TokenRows) -> TokenRows:
    left = Counter(subject) - Counter(common)
    return tuple(left.elements())


def by_length(subjects: Sequence[TokenRows], *, at_once: int | None = None) -> Iterator[Subjects]:
    """Yield the subjects of a side in groups of equal length, with at most `at_once` in a group."""
    lengths = np.array([len(own) for own in subjects])
    for length in np.unique(lengths):
        fillers = np.flatnonzero(lengths == length)
        for group in np.array_split(fillers, math.ceil(len(fillers) / (at_once or FILLERS_AT_ONCE))):
            yield Subjects(group, np.array([subjects[filler] for filler in group], dtype=np.int64))


def cut_blocks(phrases: int, subjects: int, *, each: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of phrases x subjects with at most `most` rows, `each` for a subject in a phrase.

    A single subject with more rows than that is a block of its own.
    """
    few = max(1, min(phrases, most // (subjects * each)))
    parts = 1 if few > 1 else math.ceil(subjects / max(1, most // each))
    some = math.ceil(subjects / parts)
    for start in range(0, phrases, few):
        for first in range(0, subjects, some):
            yield slice(start, start + few), slice(first, first + some)


TILE_ROWS = 32


class PairLayers:
    """The layers on a backend, with biases folded into constants.

    max(0, x + b) = max(x, -b) + b, and what follows is linear: a bias is added once at the end instead of to every
    row. The constant is the sum of three terms, of which two are multiplied by the lengths of the sentences, because
    each row of compare adds its bias. Every step writes into an array of the workspace.
    """

    def __init__(
        self,
        backend: ArrayBackend,
        compare: DeviceLayer,
        aggregate: tuple[DeviceLayer, DeviceLayer],
        output: DeviceLayer,
        hidden: int,
    ) -> None:
        xp = backend.xp
        self.backend, self.hidden, self.workspace = backend, hidden, Workspace(backend, hidden)
        self.matrix, bias = compare
        (self.first, first_bias), (self.second, second_bias) = aggregate
        matrix, output_bias = output
        self.output = backend.put(backend.get(matrix).T)
        self.zero, self.compare_floor = backend.put(np.zeros(hidden)), -bias
        self.first_terms = xp.stack([first_bias, bias @ self.first[:hidden], bias @ self.first[hidden:]])
        self.second_terms = self.first_terms @ self.second
        self.second_terms[0] += second_bias
        self.output_terms = self.second_terms @ matrix
        self.output_terms[0] += output_bias

    def rows(self, shape: tuple[int, ...]) -> Array:
        """Return the array that `compare` reads, in this shape."""
        return self.workspace.array(0, shape)

    def compare(self, tokens: int, rows: int) -> Array:
        """Return max(0, rows) after compare's second layer, without its bias.

        The (tokens, rows, hidden) rows are those that were written last, and the result is (rows, tokens, hidden).
        """
        own = self.workspace.array(0, (tokens, rows, self.hidden))
        compared = self.workspace.array(1, (rows, tokens, self.hidden))
        self.workspace.floor(0, tokens * rows, self.zero)
        for token in range(tokens):
            self.backend.xp.matmul(own[token], self.matrix, out=compared[:, token])
        self.workspace.floor(1, tokens * rows, self.compare_floor)
        return compared

    def classify(self, sums: Array, lengths: tuple[int, int]) -> Array:
        """Return (labels, pairs) probabilities from (pairs, 2, hidden) sums of compared rows.

        `lengths` are the tokens of both sentences.
        """
        xp, pairs = self.backend.xp, len(sums)
        factors = self.backend.put(np.array([1, *lengths], np.float32))
        top = self.workspace.array(0, (pairs, self.hidden))
        xp.matmul(sums.reshape(pairs, -1), self.first, out=top)
        self.workspace.floor(0, pairs, -(factors @ self.first_terms))
        last = self.workspace.array(1, (pairs, self.hidden))
        xp.matmul(top, self.second, out=last)
        self.workspace.floor(1, pairs, -(factors @ self.second_terms))
        return softmax(self.output @ last.T + (factors @ self.output_terms)[:, None], 0, self.backend)


class Workspace(local):
    """Two arrays for each thread, which its steps write to in turn: a block stays in the cache."""

    def __init__(self, backend: ArrayBackend, hidden: int) -> None:
        self.backend, self.tile = backend, TILE_ROWS * hidden
        self.arrays = [backend.empty((0,)), backend.empty((0,))]

    def array(self, index: int, shape: tuple[int, ...]) -> Array:
        """Return the first or second array in this shape; it holds what was written to it last."""
        size = prod(shape)
        if len(self.arrays[index]) < size:
            self.arrays[index] = self.backend.empty((-(-size // self.tile) * self.tile,))
            self.arrays[index][:] = 0  # the last tile may reach beyond what is written
        return self.arrays[index][:size].reshape(shape)

    def floor(self, index: int, rows: int, row: Array) -> None:
        """Replace the first rows of an array by their maximum with `row`.

        The row is repeated: numpy takes the maximum of two long rows several times faster than that of many short
        ones, or of an array and a scalar.
        """
        xp = self.backend.xp
        tiles = self.arrays[index][: -(-rows // TILE_ROWS) * self.tile].reshape(-1, self.tile)
        xp.maximum(tiles, xp.concatenate([row] * TILE_ROWS), out=tiles)


def softmax(x: Array, axis: int, backend: ArrayBackend) -> Array:
    """Return the softmax over an axis, which is much faster for any axis but the last."""
    x -= backend.xp.amax(x, axis=axis, keepdims=True)
    powers = backend.xp.exp(x, out=x)
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers
