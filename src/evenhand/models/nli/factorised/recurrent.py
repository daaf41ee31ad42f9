"""Exact evaluation of a whole probe by the BiLSTM model: every distinct sentence is encoded once.

For a phrase with P premise and H hypothesis subjects there are P + H sentences and P H pairs. What depends on one
sentence only (its states, and compare's first matrix, which is linear in the attended mixture) is made for sentences;
states themselves are shared among sentences with the same beginning or end (`prefixes`). A pair is left with the dot
products, the mixtures, compare's second layer and aggregate (`recurrent_pairs`). Nothing is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.asking import grids_of
from evenhand.models.nli.factorised.encoding import Encoded, Encoder
from evenhand.models.nli.factorised.layout import Subjects, separable
from evenhand.models.nli.factorised.recurrent_pairs import PairKernel
from evenhand.models.nli.factorised.sentences import Frames, sentences
from evenhand.models.nli.factorised.threads import shared_out
from evenhand.models.nli.probabilities import LABELS
from evenhand.models.nli.protocol import Grid
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
        yield from grids_of(model, probe)
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
