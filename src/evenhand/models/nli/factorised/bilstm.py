"""Exact evaluation of a whole probe by the BiLSTM model: every distinct sentence is encoded once.

For a phrase with P premise and H hypothesis subjects there are P + H sentences and P H pairs. What depends on one
sentence only (its states, and compare's first matrix, which is linear in the attended mixture) is made for sentences;
states themselves are shared among sentences with the same beginning or end (`prefixes`). A pair is left with the dot
products, the mixtures, compare's second layer and aggregate (`recurrent_pairs`). Nothing is approximated.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array
from evenhand.models.nli.bilstm_network import PlacedBiLSTM
from evenhand.models.nli.factorised.decomposable import shared_out
from evenhand.models.nli.factorised.layout import Subjects, Tokens, by_length, separable
from evenhand.models.nli.factorised.prefix_encoding import Encoded, Encoder
from evenhand.models.nli.protocol import LABELS, Grid, pairwise_grids
from evenhand.models.nli.tokens import Lookup
from evenhand.words.probes import Probe

if TYPE_CHECKING:
    from evenhand.models.nli.bilstm import BiLSTM


class Sizes(NamedTuple):
    """How much is worked on at once, whatever the length of the sentences.

    Few subjects with many phrases are better than the other way round: phrases share their beginnings.
    """

    pairs: int  # in a grid of answers
    subjects: int
    tokens: int  # to encode
    rows: int  # to compare


# On a processor the rows of a sentence and what is made of them stay in its cache, and freed arrays with malloc.
ON_CPU = Sizes(pairs=32_768, subjects=41, tokens=3_000, rows=3_500)
# On a GPU all rows are 1.2 GB, half of them there at a time.
ON_GPU = Sizes(pairs=100_000, subjects=512, tokens=200_000, rows=1_500_000)


class Engine(NamedTuple):
    """What every block of a probe needs."""

    encoder: Encoder
    kernel: PairKernel
    sizes: Sizes


def evaluate(model: BiLSTM, probe: Probe) -> Iterator[Grid]:
    """Every phrase of the probe; pair by pair where something is joined to its slot."""
    if not separable(probe):
        yield from pairwise_grids(model, probe)
        return
    sizes = ON_CPU if model.placed.bias.device.type == "cpu" else ON_GPU
    found = sentences(probe, model.lookup, null=model.placed.null is not None, subjects=sizes.subjects)
    engine = _engine(model, found.rows, sizes)
    jobs = (
        lambda frames=frames, part=part: _grid(engine, frames, part, probe.shape)
        for frames in found.frames
        for part in _parts(frames, sizes, probe.shape)
    )
    yield from shared_out(jobs, model.backend)


def _engine(model: BiLSTM, rows: Rows, sizes: Sizes) -> Engine:
    placed = model.placed
    with model.backend.worker():
        vectors = model.backend.put(model.table(rows.tolist()))
        if placed.null is not None:
            vectors = placed.torch.cat([vectors, placed.null[None]])
        return Engine(Encoder(placed, vectors), PairKernel(placed), sizes)


def _parts(frames: Frames, sizes: Sizes, shape: tuple[int, int, int]) -> list[slice]:
    """The phrases in parts that can be worked on at once."""
    around = frames.before.shape[1] + frames.after.shape[1]
    most = max(group.tokens.size + around * len(group.tokens) for group in (*frames.premise, *frames.hypothesis))
    step = max(1, min(sizes.tokens // most, sizes.pairs // (shape[1] * shape[2])))
    return [slice(start, start + step) for start in range(0, len(frames.phrases), step)]


def _grid(engine: Engine, frames: Frames, part: slice, shape: tuple[int, int, int]) -> Grid:
    """The answers to a few phrases, one combination of groups of subjects after the other."""
    phrases, encoder, kernel = frames.phrases[part], engine.encoder, engine.kernel
    answers = np.empty((len(phrases), *shape[1:], len(LABELS)), np.float32)
    with encoder.placed.backend.worker():
        around = encoder.frames(frames.before[part], frames.after[part])

        def encoded(side: tuple[Subjects, ...]) -> Iterator[tuple[Rows, Encoded]]:
            return ((group.places, encoder(around, group.tokens)) for group in side)

        hypotheses = list(encoded(frames.hypothesis))
        for (p_places, p), (h_places, h) in ((p, h) for p in encoded(frames.premise) for h in hypotheses):
            for some, premises in _cuts(engine.sizes.rows, p, h):
                found = kernel.probabilities(p.part(some, premises), h.part(some, slice(None)))
                place = np.ix_(np.arange(len(phrases))[some], p_places[premises], h_places)
                answers[place] = encoder.placed.backend.get(found)
    return Grid(phrases, answers)


def _cuts(rows: int, premise: Encoded, hypothesis: Encoded) -> Iterator[tuple[slice, slice]]:
    """Blocks of phrases x premises that together have at most so many rows to compare, unless one premise has more."""
    phrases, premises, p_tokens, _ = premise.states.shape
    each = hypothesis.states.shape[1] * (p_tokens + hypothesis.states.shape[2])
    few = max(1, min(phrases, rows // (premises * each)))
    parts = 1 if few > 1 else math.ceil(premises / max(1, rows // each))
    some = math.ceil(premises / parts)
    for start in range(0, phrases, few):
        for first in range(0, premises, some):
            yield slice(start, start + few), slice(first, first + some)


class PairKernel:
    """The formulas for blocks of pairs, one sentence of them after the other.

    max(0, x + b) = max(x, -b) + b, and what follows is linear: a bias is added once at the end, not to every row.
    """

    def __init__(self, placed: PlacedBiLSTM) -> None:
        self.placed, self.torch = placed, placed.torch
        _, (self.compare, self.compare_bias) = placed.compare
        (first, self.first_bias), (self.second, second_bias) = placed.aggregate
        weight, bias = placed.output
        self.halves = first[: placed.hidden], first[placed.hidden :]
        self.constants = tuple(self.compare_bias @ half for half in self.halves)
        self.compare_floor, self.second_floor = -self.compare_bias, -second_bias
        self.output, self.output_bias = weight, second_bias @ weight + bias

    def probabilities(self, premise: Encoded, hypothesis: Encoded) -> Array:
        """(phrases, premises, hypotheses, labels)."""
        top = self._compared(hypothesis, premise) @ self.halves[1]
        top += (self._compared(premise, hypothesis) @ self.halves[0]).transpose(1, 2)
        tokens = premise.states.shape[2], hypothesis.states.shape[2]
        top += tokens[0] * self.constants[0] + tokens[1] * self.constants[1] + self.first_bias
        return self._classified(top)

    def _compared(self, own: Encoded, others: Encoded) -> Array:
        """Sums over the own tokens of compare's rows without its last bias: (phrases, others, own sentences, hidden).

        Both sides make the scores anew, the tokens attended to in front: a softmax over any axis but the last is
        several times faster, and costs more than so short a product.
        """
        phrases, sentences, tokens, hidden = others.states.shape
        scores = others.states.reshape(phrases, -1, hidden) @ own.states.reshape(phrases, -1, hidden).mT
        shares = scores.view(phrases * sentences, tokens, -1).softmax(1)
        rows = self.torch.bmm(shares.mT, others.other.reshape(-1, tokens, hidden))
        rows.view(phrases, sentences, -1, hidden).add_(own.own.reshape(phrases, 1, -1, hidden))
        made = self.torch.mm(rows.clamp_(min=0).view(-1, hidden), self.compare)
        self.torch.maximum(made, self.compare_floor, out=made)
        return made.view(phrases, sentences, *own.states.shape[1:]).sum(3)

    def _classified(self, top: Array) -> Array:
        """The rest of aggregate, and the output."""
        last = top.clamp_(min=0) @ self.second
        self.torch.maximum(last, self.second_floor, out=last)
        return (last @ self.output + self.output_bias).softmax(-1)


@dataclass(frozen=True)
class Frames:
    """Phrases with the same number of tokens before and after the same determiner, and the subjects between them."""

    phrases: Rows
    before: Rows  # (phrases, tokens)
    after: Rows
    premise: tuple[Subjects, ...]
    hypothesis: tuple[Subjects, ...]


@dataclass(frozen=True)
class Sentences:
    """All frames of a probe, their tokens numbered among `rows`, the table's rows that occur."""

    rows: Rows
    frames: tuple[Frames, ...]


def sentences(probe: Probe, lookup: Lookup, *, null: bool, subjects: int) -> Sentences:
    """The probe's sentences, at most so many subjects in a group.

    With `null`, one token more, numbered after all words, stands in front of each.
    """
    found = list(_frames(probe, lookup, subjects))
    parts = [part for frames in found for part in (frames.before, frames.after)]
    parts += [group.tokens for frames in found for group in (*frames.premise, *frames.hypothesis)]
    rows = np.unique(np.concatenate([part.ravel() for part in parts]))
    return Sentences(rows, tuple(_renumbered(frames, rows, null=null) for frames in found))


def _frames(probe: Probe, lookup: Lookup, subjects: int) -> Iterator[Frames]:
    shaped: dict[tuple[str, int, int], list[tuple[int, Tokens, Tokens]]] = defaultdict(list)
    for number, phrase in enumerate(probe.phrases.all):
        before, after = lookup.sentence(phrase.before), lookup.sentence(phrase.after)
        shaped[phrase.determiner, len(before), len(after)].append((number, before, after))
    for (determiner, _, _), listed in shaped.items():
        numbers, befores, afters = zip(*listed, strict=True)
        sides = (
            tuple(by_length([lookup.sentence(text) for text in probe.subjects(side, determiner)], at_once=subjects))
            for side in ("premise", "hypothesis")
        )
        yield Frames(np.array(numbers), _matrix(befores), _matrix(afters), *sides)


def _matrix(tokens: Sequence[Tokens]) -> Rows:
    return np.array(tokens, dtype=np.int64).reshape(len(tokens), -1)


def _renumbered(frames: Frames, rows: Rows, *, null: bool) -> Frames:
    def number(tokens: Rows) -> Rows:
        return np.asarray(np.searchsorted(rows, tokens), dtype=np.int64)

    def side(given: tuple[Subjects, ...]) -> tuple[Subjects, ...]:
        return tuple(Subjects(group.places, number(group.tokens)) for group in given)

    before = number(frames.before)
    front = np.full((len(before), int(null)), len(rows), dtype=np.int64)
    return Frames(
        frames.phrases,
        np.concatenate([front, before], axis=1),
        number(frames.after),
        side(frames.premise),
        side(frames.hypothesis),
    )
