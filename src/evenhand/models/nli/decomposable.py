"""Decomposable attention (Parikh et al. 2016) over word vectors; runs on numpy, or on torch.

`evaluate` computes a whole probe exactly, with a fraction of the work of evaluating every pair. Premise and hypothesis
share a phrase R and differ in their subjects A and B. Attention ignores order, so a sentence is a bag of tokens. With
E = exp(attend . attend) the following holds without approximation:

- A token of R in the premise attends to B and R: its row depends on (R, B) only, and likewise with A.
- A token a of A attends to B and R. Its mixture is (sum_b E_ab x_b + sum_r E_ar x_r) / (sum_b E_ab + sum_r E_ar),
  and the second parts of both sums depend on (a, R) only.
- The first matrix of compare is linear in the mixture, so it is applied to words instead of mixtures. Aggregate reads
  sums over tokens, so the rows of R are summed once for each (R, A) and (R, B) and added to those of A and B.

What remains for each pair is one row per token of A and B through the second matrix of compare, and aggregate
(`factorised.PairLayers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from types import ModuleType
from typing import ClassVar

import numpy as np

from evenhand.arrays import Matrix, Rows
from evenhand.models.nli.backend import Array, ArrayBackend, DeviceLayers
from evenhand.models.nli.factorised import (
    ComingGrid,
    PairLayers,
    PairWeights,
    PhraseGroup,
    Subjects,
    cut_blocks,
    is_separable,
    probe_bags,
    run_jobs,
    write_block,
)
from evenhand.models.nli.over_vectors import NLI_MODELS, Forward, ModelOverVectors, draw_arrays, require_axes
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.words.probes import Probe

# Parikh et al. 2016, section 3.4: words more than 10 apart share one bias. Before and after have separate biases here.
FARTHEST = 11
DISTANCES = 2 * FARTHEST + 1

BLOCKS_IN_CACHE = 16  # parts of a block: the rows of all their tokens stay in the cache of a core


@NLI_MODELS.register("decomposable-attention")
class DecomposableAttention(ModelOverVectors):
    """Attend, compare, aggregate. Word order matters only if the weights have intra-sentence attention.

    With intra-sentence attention, each token is represented by its projection beside what it attends to in its own
    sentence, and the next layers are twice as wide. On numpy and on torch the formulas are the same.
    """

    kind: ClassVar[str] = "decomposable-attention"

    def __repr__(self) -> str:
        return f"DecomposableAttention({self.name!r}, hidden {self.hidden}, over {self.vectors!r})"

    @property
    def hidden(self) -> int:
        """Width of every hidden layer."""
        return int(self.arrays["project.weight"].shape[0])

    @property
    def intra(self) -> bool:
        """Whether tokens attend to their own sentence first."""
        return "intra.distance" in self.arrays

    @classmethod
    def shapes(cls, arrays: Mapping[str, Matrix]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array for the widths of the projection."""
        require_axes(arrays, {"project.weight": 2})
        hidden, dim = arrays["project.weight"].shape
        return array_shapes(dim, hidden, len(arrays["oov"]), intra="intra.distance" in arrays)

    @cached_property
    def weights_on_device(self) -> DecomposableWeights:
        """The weights on the backend."""
        return DecomposableWeights(self.arrays, self.backend)

    def _probabilities(self, premise: Array, hypothesis: Array) -> Array:
        return probabilities(self.weights_on_device, premise, hypothesis)

    def _forward(self, words: Rows) -> Forward:
        """Compute once for each word what does not depend on its pair."""
        if self.intra:
            return super()._forward(words)
        weights, put, get = self.weights_on_device, self.backend.put, self.backend.get
        tables = word_tables(weights, self.table(words.tolist()))
        step = max(1, self.backend.pairs_at_once // BLOCKS_IN_CACHE)

        def probabilities_of(premise: Rows, hypothesis: Rows) -> Matrix:
            parts = []
            for start in range(0, len(premise), step):
                block = slice(start, start + step)
                parts.append(get(word_probabilities(weights, tables, put(premise[block]), put(hypothesis[block]))))
            return np.concatenate(parts)

        return probabilities_of

    def grids(self, probe: Probe) -> Iterator[Grid]:
        """Yield the whole probe by exact factorised evaluation; see `evaluate`.

        With intra-sentence attention every token depends on the subject, and pairs are evaluated one by one.
        """
        return pairwise_grids(self, probe) if self.intra else evaluate(self, probe)


def array_shapes(dim: int, hidden: int, spare: int, *, intra: bool = False) -> dict[str, tuple[int, ...]]:
    """Return every array with its shape; `project` has no bias, `intra.distance` a bias for each distance."""
    shapes: dict[str, tuple[int, ...]] = {"project.weight": (hidden, dim), "oov": (spare, dim)}
    width = 2 * hidden if intra else hidden
    inputs = {"attend.0": width, "compare.0": 2 * width, "aggregate.0": 2 * hidden}
    inputs |= {"attend.1": hidden, "compare.1": hidden, "aggregate.1": hidden}
    if intra:
        shapes["intra.distance"] = (DISTANCES,)
        inputs |= {"intra.0": hidden, "intra.1": hidden}
    for name, width in inputs.items():
        shapes |= {f"{name}.weight": (hidden, width), f"{name}.bias": (hidden,)}
    return shapes | {"output.weight": (len(LABELS), hidden), "output.bias": (len(LABELS),)}


def random_arrays(
    dim: int, hidden: int = 200, *, spare: int = 100, seed: int = 0, intra: bool = False
) -> dict[str, Matrix]:
    """Return arrays of an untrained model whose answers differ between pairs; for tests and benchmarks."""
    # Attention over a few hundred random coordinates would collapse to one token, and the output to one label.
    factors = {"attend.1.weight": 0.3, "output.weight": 0.5, "oov": 2.0}
    return draw_arrays(array_shapes(dim, hidden, spare, intra=intra), factors, seed)


class DecomposableWeights(PairWeights):
    """The weights on a backend."""

    def __init__(self, arrays: Mapping[str, Matrix], backend: ArrayBackend) -> None:
        super().__init__(arrays, backend)
        self.xp = backend.xp
        self.project = backend.put(arrays["project.weight"].T)
        self.attend = backend.layers(arrays, "attend")
        self.distance = arrays.get("intra.distance")
        self.intra = None if self.distance is None else backend.layers(arrays, "intra")


def probabilities(weights: DecomposableWeights, premise: Array, hypothesis: Array) -> Array:
    """Return (pairs, 3) probabilities for token vectors of shape (pairs, length, dim), all of equal length per side.

    This plain forward pass is the reference for the factorised evaluation.
    """
    xp = weights.xp
    p, h = (attend_within(weights, side @ weights.project) for side in (premise, hypothesis))
    scores = apply_layers(weights.attend, p) @ apply_layers(weights.attend, h).swapaxes(1, 2)
    to_h = softmax(scores, xp) @ h
    to_p = softmax(scores.swapaxes(1, 2), xp) @ p
    v_p = apply_layers(weights.compare, xp.concatenate([p, to_h], -1)).sum(axis=1)
    v_h = apply_layers(weights.compare, xp.concatenate([h, to_p], -1)).sum(axis=1)
    weight, bias = weights.output
    return softmax(apply_layers(weights.aggregate, xp.concatenate([v_p, v_h], -1)) @ weight + bias, xp)


def attend_within(weights: DecomposableWeights, tokens: Array) -> Array:
    """Append to each token what it attends to in its own sentence (Parikh et al. 2016, section 3.4), if trained so."""
    if weights.intra is None or weights.distance is None:
        return tokens
    queries = apply_layers(weights.intra, tokens)
    biases = weights.backend.put(weights.distance[distance_indices(tokens.shape[1])])
    attended = softmax(queries @ queries.swapaxes(1, 2) + biases, weights.xp) @ tokens
    return weights.xp.concatenate([tokens, attended], -1)


def distance_indices(length: int) -> Rows:
    """Return the (length, length) indices of the distance biases: of token i for token j, by i - j."""
    positions = np.arange(length)
    return np.asarray(np.clip(positions[:, None] - positions, -FARTHEST, FARTHEST) + FARTHEST, dtype=np.int64)


def apply_layers(layers: DeviceLayers, x: Array) -> Array:
    """Apply two layers with max(0, x) after each."""
    for weight, bias in layers:
        x = (x @ weight + bias).clip(0, None)
    return x


def softmax(x: Array, xp: ModuleType) -> Array:
    """Return the softmax over the last axis."""
    powers = xp.exp(x - xp.amax(x, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


PAIRS_IN_GRID = 32_768
PHRASE_BLOCKS = 4  # blocks whose phrases are prepared together


def evaluate(model: DecomposableAttention, probe: Probe) -> Iterator[Grid]:
    """Yield every phrase of the probe, factorised if its slot is separable, otherwise pair by pair."""
    if not is_separable(probe):
        yield from pairwise_grids(model, probe)
        return
    tokens = probe_bags(probe, model.lookup.sentence)
    with model.backend.worker():
        weights = model.weights_on_device
        kernel = Kernel(weights, word_tables(weights, model.table(tokens.rows.tolist())))
    _, premises, hypotheses = probe.shape
    step = max(1, max(PAIRS_IN_GRID, model.backend.pairs_at_once) // (premises * hypotheses))
    jobs = (
        lambda group=group, start=start: _grid(kernel, group, slice(start, start + step), probe.shape)
        for group in tokens.groups
        for start in range(0, len(group.phrases), step)
    )
    yield from run_jobs(jobs, model.backend)


def _grid(kernel: Kernel, group: PhraseGroup, span: slice, shape: tuple[int, int, int]) -> ComingGrid:
    """Return the probabilities of a few phrases, for every combination of subject lengths."""
    phrases, (tokens,) = group.phrases[span], group.around
    backend = kernel.weights.backend
    few = max(1, PHRASE_BLOCKS * backend.pairs_at_once // (shape[1] * shape[2]))
    with backend.worker():
        answers = backend.empty((len(phrases), *shape[1:], len(LABELS)))
        for start in range(0, len(phrases), few):
            part = slice(start, start + few)
            _fill(answers[part], kernel, group, backend.put(tokens[span][part]))
        return ComingGrid(phrases, backend.fetch(answers))


def _fill(answers: Array, kernel: Kernel, group: PhraseGroup, tokens: Array) -> None:
    """Write the probabilities of a few phrases, for every combination of subject lengths."""
    backend = kernel.weights.backend
    premise, hypothesis = (
        [(subjects.fillers, kernel.side(tokens, subjects)) for subjects in side]
        for side in (group.premise, group.hypothesis)
    )
    for (p_fillers, p), (h_fillers, h) in product(premise, hypothesis):
        rows = len(h_fillers) * (len(p.attend) + len(h.attend))
        for part, premises in cut_blocks(len(tokens), len(p_fillers), each=rows, most=2 * backend.pairs_at_once):
            block = kernel.pairs(p.part(part, premises), h.part(part, slice(None)))
            write_block(answers[part], block, (p_fillers[premises], h_fillers), backend)


@dataclass(frozen=True)
class BlockSide:
    """The subjects of one side within some phrases, and the shared rows that attend to them."""

    attend: Array  # (tokens of each, subjects, hidden)
    other: Array  # (tokens of each, subjects, hidden)
    subject: Attention  # (phrases, tokens of each, subjects, ...)
    shared: Array  # (phrases, subjects, hidden): the sum over the shared rows of the other sentence
    length: int  # tokens of a sentence

    def part(self, phrases: slice, subjects: slice) -> BlockSide:
        """Return some subjects within some phrases."""
        subject = Attention(*(array[phrases, :, subjects] for array in self.subject.arrays))
        shared = self.shared[phrases, subjects]
        return BlockSide(self.attend[:, subjects], self.other[:, subjects], subject, shared, self.length)


class Kernel:
    """The formulas for blocks of pairs."""

    def __init__(self, weights: DecomposableWeights, table: WordTables) -> None:
        self.weights, self.table, self.xp = weights, table, weights.xp
        self.layers = PairLayers(weights.backend, weights.compare[1], weights.aggregate, weights.output, weights.hidden)

    def side(self, phrase: Array, subjects: Subjects) -> BlockSide:
        """Return what depends on the phrases and one side's subjects only."""
        tokens = self.weights.backend.put(subjects.tokens.T)
        subject = attend(self.weights, self.table, tokens.reshape(-1), phrase)
        shape = len(phrase), *tokens.shape
        attention = Attention(*(array.reshape(*shape, *array.shape[2:]) for array in subject.arrays))
        attended, other = self.table.attend[tokens], self.table.other[tokens]
        shared = self._compare_shared(phrase, attended, other)
        return BlockSide(attended, other, attention, shared, phrase.shape[1] + len(tokens))

    def _compare_shared(self, phrase: Array, attended: Array, other: Array) -> Array:
        """Return the sum of the compared rows of shared tokens, which attend to their phrase and one subject."""
        shared = attend(self.weights, self.table, phrase, phrase)
        base = Attention(*(array[:, :, None] for array in shared.arrays))
        queries = self.table.attend[phrase]
        count, subjects, hidden = attended.shape
        (phrases, length), most = phrase.shape, 2 * self.weights.backend.pairs_at_once
        sums = self.weights.backend.empty((phrases, subjects, hidden))
        for part, cut in cut_blocks(phrases, subjects, each=length, most=most):
            keys = attended[:, cut].reshape(-1, hidden)
            logits = (queries[part] @ keys.T).reshape(-1, length, count, len(keys) // count)
            logits = self.xp.moveaxis(logits, 2, 0)
            rows = self.layers.rows((*logits.shape[1:], hidden))
            self._mix(rows, Attention(*(array[part] for array in base.arrays)), logits, other[:, cut])
            compared = self.layers.compare(1, prod(rows.shape[:-1]))
            sums[part, cut] = compared.reshape(rows.shape).sum(axis=1)
        return sums

    def pairs(self, premise: BlockSide, hypothesis: BlockSide) -> Array:
        """Return (labels, phrases, hypotheses, premises) probabilities."""
        hidden = self.weights.hidden
        (p_count, premises), (h_count, hypotheses) = premise.attend.shape[:2], hypothesis.attend.shape[:2]
        pairs = premise.shared.shape[0], hypotheses, premises
        rows = self.layers.rows((p_count + h_count, *pairs, hidden))
        scores = hypothesis.attend.reshape(-1, hidden) @ premise.attend.reshape(-1, hidden).T
        scores = scores.reshape(h_count, hypotheses, p_count, premises)
        for k in range(p_count):
            base = Attention(*(array[:, None, k] for array in premise.subject.arrays))
            self._mix(rows[k], base, scores[:, None, :, k], hypothesis.other[:, None, :, None])
        for k in range(h_count):
            base = Attention(*(array[:, k, :, None] for array in hypothesis.subject.arrays))
            self._mix(rows[p_count + k], base, scores[k].swapaxes(0, 1)[:, None], premise.other[:, None, None])
        sums = compared = self.layers.compare(len(rows), prod(pairs))
        if len(rows) > 2:
            sums = self.xp.stack([compared[:, :p_count].sum(axis=1), compared[:, p_count:].sum(axis=1)], 1)
        both = sums.reshape(*pairs, 2, hidden)
        both[..., 0, :] += hypothesis.shared[:, :, None]
        both[..., 1, :] += premise.shared[:, None]
        return self.layers.classify(sums, (premise.length, hypothesis.length)).reshape(-1, *pairs)

    def _mix(self, rows: Array, base: Attention, logits: Array, others: Array) -> None:
        """Write own + mixture of the phrase and of further tokens into `rows`.

        With the phrase's log sum L and shares s_k = exp(e_k - L) / (1 + sum exp(e - L)) the row is
        own + mixture + sum_k s_k (other_k - mixture). The largest exponent is subtracted first, as in any softmax. The
        further tokens are the first axis of `logits` and `others`.
        """
        xp = self.xp
        shifted = logits - base.log_sum
        top = xp.amax(shifted, axis=0).clip(0, None)
        powers = xp.exp(shifted - top)
        shares = powers / (xp.exp(-top) + powers.sum(axis=0))
        xp.subtract(others[0], base.mixture, out=rows)
        xp.multiply(rows, shares[0, ..., None], out=rows)
        xp.add(rows, base.with_own, out=rows)
        for k in range(1, len(shares)):
            rows += (others[k] - base.mixture) * shares[k, ..., None]


@dataclass(frozen=True)
class WordTables:
    """For each word, its attend vector and the two halves of compare's first matrix applied to it."""

    attend: Array
    own: Array  # the half for the token itself, with the bias
    other: Array  # the half for what it attends to


def word_tables(weights: DecomposableWeights, vectors: Matrix) -> WordTables:
    """Return the tables for the words of a probe."""
    x = weights.backend.put(vectors) @ weights.project
    matrix, bias = weights.compare[0]
    return WordTables(
        apply_layers(weights.attend, x), x @ matrix[: weights.hidden] + bias, x @ matrix[weights.hidden :]
    )


def word_probabilities(weights: DecomposableWeights, words: WordTables, premise: Array, hypothesis: Array) -> Array:
    """Return (pairs, 3) probabilities for words of shape (pairs, length), as `probabilities` does for their vectors."""
    xp, (weight, bias) = weights.xp, weights.compare[1]
    scores = words.attend[premise] @ words.attend[hypothesis].swapaxes(1, 2)
    compared = []
    for own, other, logits in ((premise, hypothesis, scores), (hypothesis, premise, scores.swapaxes(1, 2))):
        rows = (words.own[own] + softmax(logits, xp) @ words.other[other]).clip(0, None)
        # One product of all rows: a stack of matrices is multiplied one by one, which takes over twice as long.
        flat = (rows.reshape(-1, rows.shape[-1]) @ weight + bias).clip(0, None)
        compared.append(flat.reshape(rows.shape).sum(axis=1))
    weight, bias = weights.output
    return softmax(apply_layers(weights.aggregate, xp.concatenate(compared, -1)) @ weight + bias, xp)


@dataclass(frozen=True)
class Attention:
    """Tokens that attend to a phrase: (phrases, tokens, hidden) mixtures, also with own halves added, and log sums."""

    mixture: Array
    with_own: Array
    log_sum: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """All three arrays; what selects phrases and tokens applies to each."""
        return self.mixture, self.with_own, self.log_sum


def attend(weights: DecomposableWeights, table: WordTables, queries: Array, phrase: Array) -> Attention:
    """Return how `queries` (tokens, or phrases x tokens) attend to the tokens of each phrase."""
    xp, (phrases, length) = weights.xp, phrase.shape
    keys = table.attend[phrase]
    if queries.ndim == 1:
        logits = table.attend[queries] @ keys.reshape(phrases * length, -1).T
        logits = logits.reshape(-1, phrases, length).swapaxes(0, 1)
    else:
        logits = table.attend[queries] @ keys.swapaxes(1, 2)
    top = xp.amax(logits, axis=-1, keepdims=True)
    powers = xp.exp(logits - top)
    total = powers.sum(axis=-1, keepdims=True)
    mixture = (powers / total) @ table.other[phrase]
    return Attention(mixture, mixture + table.own[queries], (top + xp.log(total))[..., 0])
