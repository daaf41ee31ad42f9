"""The BiLSTM model of Dev et al. 2020 over word vectors. It needs torch, which is imported when a model is made.

`evaluate` computes a whole probe exactly: every distinct sentence is encoded once, and sentences with the same
beginning or end share states (`SentenceEncoding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.models.nli.backend import Array, ArrayBackend
from evenhand.models.nli.decomposable import apply_layers
from evenhand.models.nli.factorised import (
    ON_CPU,
    ON_GPU,
    BlockEvaluator,
    EncodedSentences,
    PairKernel,
    PairWeights,
    evaluate_sentences,
    is_separable,
    probe_sentences,
)
from evenhand.models.nli.over_vectors import NLI_MODELS, ModelOverVectors, draw_arrays, require_axes
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.words.probes import Probe

FORWARD, BACKWARD = 0, 1  # the two directions


@NLI_MODELS.register("bilstm")
class BiLSTM(ModelOverVectors):
    """Decomposable attention over the states of a bidirectional LSTM, so word order matters.

    Let h be the states of both directions. A premise token attends to the hypothesis by softmax(h_p . h_h), without a
    network in between, and vice versa. Compare reads [h; attended], its rows are summed over the tokens, and aggregate
    reads both sums. As in the authors' code, a null token precedes every sentence. Its vector is fixed, not learned:
    all vectors are frozen there, and this one is drawn at random like those of out-of-vocabulary words.

    References:
        Dev, Li, Phillips & Srikumar (2020), On Measuring and Mitigating Biased Inferences of Word Embeddings, AAAI.
    """

    kind: ClassVar[str] = "bilstm"
    needs_torch: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"BiLSTM({self.name!r}, hidden {self.hidden}, over {self.vectors!r})"

    @property
    def hidden(self) -> int:
        """Width of every hidden layer: the units of both directions together."""
        return 2 * int(self.arrays["lstm.recurrent"].shape[2])

    @classmethod
    def shapes(cls, arrays: Mapping[str, Matrix]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array for the units of a direction; without `null`, no token is prepended."""
        require_axes(arrays, {"lstm.recurrent": 3})
        spare, dim = arrays["oov"].shape
        shapes = array_shapes(dim, arrays["lstm.recurrent"].shape[2], spare)
        return {name: shape for name, shape in shapes.items() if name in arrays or name != "null"}

    @cached_property
    def weights_on_device(self) -> BiLSTMWeights:
        """The weights on the device."""
        return BiLSTMWeights(self.arrays, self.backend)

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        return probabilities(self.weights_on_device, premise, hypothesis)

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Yield the whole probe, encoding every distinct sentence once; see `evaluate`."""
        return evaluate(self, probe)


def evaluate(model: BiLSTM, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of the probe; pair by pair if something is joined to its slot."""
    if not is_separable(probe):
        yield from pairwise_grids(model, probe)
        return
    weights = model.weights_on_device
    sizes = ON_CPU if weights.bias.device.type == "cpu" else ON_GPU
    tokens = probe_sentences(probe, model.lookup.sentence, null=weights.null is not None, subjects=sizes.subjects)
    with model.backend.worker():
        vectors = model.backend.put(model.table(tokens.rows.tolist()))
        if weights.null is not None:
            vectors = weights.torch.cat([vectors, weights.null[None]])
        evaluator = BlockEvaluator(SentenceEncoding(weights, vectors).phrases, PairKernel(weights), sizes)
    yield from evaluate_sentences(evaluator, tokens, probe)


class BiLSTMWeights(PairWeights):
    """The weights on a torch backend."""

    def __init__(self, arrays: Mapping[str, Matrix], backend: ArrayBackend) -> None:
        super().__init__(arrays, backend)
        self.torch = backend.xp
        self.input = backend.put(arrays["lstm.input"].swapaxes(1, 2))
        self.recurrent = backend.put(arrays["lstm.recurrent"].swapaxes(1, 2))
        self.bias = backend.put(arrays["lstm.bias"])
        self.half = int(arrays["lstm.recurrent"].shape[2])
        self.null = backend.put(arrays["null"]) if "null" in arrays else None


def probabilities(weights: BiLSTMWeights, premise: Array, hypothesis: Array) -> Array:
    """Return (pairs, 3) probabilities for token vectors of shape (pairs, length, dim), all of equal length per side.

    This plain forward pass is the reference for the factorised evaluation.
    """
    p, h = encode(weights, premise), encode(weights, hypothesis)
    scores = p @ h.swapaxes(1, 2)
    to_h, to_p = scores.softmax(2) @ h, scores.softmax(1).swapaxes(1, 2) @ p
    cat = weights.torch.cat
    both = [apply_layers(weights.compare, cat(pair, -1)).sum(1) for pair in ([p, to_h], [h, to_p])]
    weight, bias = weights.output
    return (apply_layers(weights.aggregate, cat(both, -1)) @ weight + bias).softmax(1)


def encode(weights: BiLSTMWeights, vectors: Array) -> Array:
    """Return the (sentences, tokens, hidden) states of both directions, including the null token if there is one."""
    if weights.null is not None:
        vectors = weights.torch.cat([weights.null.expand(len(vectors), 1, -1), vectors], 1)
    forward = list(_states(weights, FORWARD, vectors.unbind(1)))
    backward = list(_states(weights, BACKWARD, vectors.flip(1).unbind(1)))[::-1]
    return weights.torch.cat([weights.torch.stack(forward, 1), weights.torch.stack(backward, 1)], -1)


def _states(weights: BiLSTMWeights, direction: int, vectors: Sequence[Array]) -> Iterator[Array]:
    hidden = cell = vectors[0].new_zeros(len(vectors[0]), weights.half)
    for x in vectors:
        gates = x @ weights.input[direction] + weights.bias[direction] + hidden @ weights.recurrent[direction]
        hidden, cell = lstm_step(gates, cell)
        yield hidden


def lstm_step(gates: Array, cell: Array) -> tuple[Array, Array]:
    """Return the new hidden state and cell from (..., 4 half) gate inputs in torch's order and a (..., half) cell."""
    input_gate, forget, new, output = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + input_gate.sigmoid() * new.tanh()
    return output.sigmoid() * cell.tanh(), cell


def array_shapes(dim: int, half: int, spare: int) -> dict[str, tuple[int, ...]]:
    """Return every array with its shape, for `half` units in each direction.

    The first axis of the three LSTM arrays is the direction: forward, then backward. The gates are in torch's order:
    input, forget, cell, output. One bias replaces torch's two, which are only ever added.
    """
    hidden = 2 * half
    shapes: dict[str, tuple[int, ...]] = {
        "lstm.input": (2, 4 * half, dim),
        "lstm.recurrent": (2, 4 * half, half),
        "lstm.bias": (2, 4 * half),
    }
    widths = {"compare.0": 2 * hidden, "compare.1": hidden, "aggregate.0": 2 * hidden, "aggregate.1": hidden}
    for name, width in widths.items():
        shapes |= {f"{name}.weight": (hidden, width), f"{name}.bias": (hidden,)}
    shapes |= {"output.weight": (len(LABELS), hidden), "output.bias": (len(LABELS),)}
    return shapes | {"null": (dim,), "oov": (spare, dim)}


def random_arrays(dim: int, hidden: int = 200, *, spare: int = 100, seed: int = 0) -> dict[str, Matrix]:
    """Return arrays of an untrained model whose answers differ between pairs; for tests and benchmarks."""
    # Large enough that a word changes the states of the words after it, small enough that gates stay open.
    factors = dict.fromkeys(("lstm.recurrent", "compare.0.weight", "compare.1.weight", "oov"), 2.0)
    return draw_arrays(array_shapes(dim, hidden // 2, spare), factors, seed)


class Branching(NamedTuple):
    """One level of a trie: how distinct prefixes grow by a column of tokens."""

    parent: Array | None  # parent of each new prefix; None if no state needs moving: one for all, or one each
    word: Array
    reached: Array  # (rows,): the new prefix of each row
    alone: bool  # True if each row has a prefix of its own; prefixes are then numbered like the rows


Tries = tuple[tuple[Branching, ...], tuple[Branching, ...]]  # read forward and backward


class SentenceEncoding:
    """Both directions of the LSTM over the words of a probe."""

    def __init__(self, weights: BiLSTMWeights, vectors: Array) -> None:
        self.weights = weights
        self.readers = tuple(DirectionReader(weights, direction, vectors) for direction in (FORWARD, BACKWARD))
        (_, self.bias), _ = weights.compare

    def tries(self, tokens: Rows) -> Tries:
        """Return the tries of some subjects, or of phrases without their subjects."""
        put = self.weights.backend.put
        return build_trie(tokens, put), build_trie(tokens[:, ::-1], put)

    def phrases(self, before: Rows, after: Rows) -> Callable[[Rows], EncodedSentences]:
        """Return what encodes the phrases with every subject; see `BlockEvaluator`."""
        forward, backward = self.tries(np.concatenate([before, after], axis=1))
        cut, turn = before.shape[1], after.shape[1]
        around = SentenceTries(forward[:cut], (), forward[cut:]), SentenceTries(backward[:turn], (), backward[turn:])
        return partial(self._encode, around)

    def _encode(self, around: tuple[SentenceTries, SentenceTries], subjects: Rows) -> EncodedSentences:
        tries = self.tries(subjects)
        forward, backward = (own._replace(subject=trie) for own, trie in zip(around, tries, strict=True))
        encoded = self._empty((*forward.before, *forward.after), subjects)
        half = self.weights.half
        for token, level in enumerate(self.readers[FORWARD].read(forward)):
            states, own, other = _expand(level)
            encoded.states[:, token, :, :half] = states
            encoded.own[:, token] = own + self.bias
            encoded.other[:, token] = other
        for token, level in enumerate(self.readers[BACKWARD].read(backward), start=1):
            states, own, other = _expand(level)
            encoded.states[:, -token, :, half:] = states
            encoded.own[:, -token] += own
            encoded.other[:, -token] += other
        return encoded

    def _empty(self, around: tuple[Branching, ...], subjects: Rows) -> EncodedSentences:
        shape = len(around[0].reached), len(around) + subjects.shape[1], len(subjects), self.weights.hidden
        return EncodedSentences(*(self.weights.backend.empty(shape) for _ in range(3)))


def _expand(level: PositionStates) -> tuple[Array, ...]:
    """Give the distinct states of one position to all sentences that share them; a single one is broadcast."""
    tables: tuple[Array, ...] = level.hidden, level.own, level.other
    for axis, branching in enumerate(level.reached):
        if branching is not None and not branching.alone and tables[0].shape[axis] > 1:
            tables = tuple(table.index_select(axis, branching.reached) for table in tables)
    return tables


def build_trie(tokens: Rows, put: Callable[[Rows], Array]) -> tuple[Branching, ...]:
    """Return the trie of (rows, tokens), one level per column."""
    reached, prefixes = np.zeros(len(tokens), np.int64), 1
    levels = []
    for column in tokens.T:
        first, following = _distinct(reached * (tokens.max() + 1) + column)
        branches = 1 < prefixes < len(first)
        parent = put(reached[first]) if branches else None
        levels.append(Branching(parent, put(column[first]), put(following), len(first) == len(tokens)))
        reached, prefixes = following, len(first)
    return tuple(levels)


def _distinct(keys: Rows) -> tuple[Rows, Rows]:
    """Return the first index of each distinct key, and every key's number among them in order of appearance."""
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[numbers]


class SentenceTries(NamedTuple):
    """The tries of phrases (before and after the subject) and of subjects, in reading order."""

    before: tuple[Branching, ...]
    subject: tuple[Branching, ...]
    after: tuple[Branching, ...]


class PositionStates(NamedTuple):
    """The states at one position, (phrase prefixes, subject prefixes, ...), and the trie levels that led to them."""

    hidden: Array
    own: Array  # this direction's part of compare's first matrix, for the token itself
    other: Array  # the same for an attended token
    reached: tuple[Branching | None, Branching | None]  # of phrases and subjects; None before the first token


class DirectionReader:
    """One direction of the LSTM over the words of a probe.

    The next gates and compare's first layer are both linear in a state. Their matrices are concatenated, so a
    state is multiplied once.
    """

    def __init__(self, weights: BiLSTMWeights, direction: int, vectors: Array) -> None:
        (compare, _), _ = weights.compare
        own, other = (
            compare[start : start + weights.half]
            for start in (direction * weights.half, weights.hidden + direction * weights.half)
        )
        self.half, self.widths = weights.half, (4 * weights.half, weights.hidden, weights.hidden)
        self.projection = weights.torch.cat([weights.recurrent[direction], own, other], 1)
        self.inputs = vectors @ weights.input[direction] + weights.bias[direction]

    def read(self, frame: SentenceTries) -> Iterator[PositionStates]:
        """Yield a level for each token of the sentences."""
        cell = self.inputs.new_zeros(1, 1, self.half)
        sums = self.inputs.new_zeros(1, 1, 4 * self.half)
        reached: list[Branching | None] = [None, None]
        parts = ((0, frame.before), (1, frame.subject), (0, frame.after))
        steps = [(axis, branching) for axis, part in parts for branching in part]
        for step, (axis, branching) in enumerate(steps, start=1):
            if branching.parent is not None:
                sums, cell = (state.index_select(axis, branching.parent) for state in (sums, cell))
            hidden, cell = lstm_step(sums + self.inputs[branching.word].unsqueeze(1 - axis), cell)
            if step < len(steps):
                sums, own, other = (hidden @ self.projection).split(self.widths, -1)
            else:  # no gates follow
                own, other = (hidden @ self.projection[:, self.widths[0] :]).split(self.widths[1:], -1)
            reached[axis] = branching
            yield PositionStates(hidden, own, other, (reached[0], reached[1]))
