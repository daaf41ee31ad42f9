"""Many NLI models over one biLM in one stack: models that differ in a direction removed share what they can.

The vectors of the biLM's upper layers are kept once for each set of token vectors; token vectors, which do not depend
on the sentence, once for each word. A direction that is removed from the layers after the whole pass is removed batch
by batch. The learning rate rises for some steps, and falls as half a cosine from the second epoch to the last.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional

from evenhand.errors import UsageError
from evenhand.models.encoders.elmo.encoder import EMBEDDINGS, Elmo
from evenhand.models.nli.labelled_pairs import LabelledPairs
from evenhand.models.nli.training import Stack
from evenhand.models.nli.training_batches import EncodedPairs, SentenceRows, TrainingBatches
from evenhand.models.tokenizing import split_words

WARMUP = 200  # steps


class Member(NamedTuple):
    """One model: the biLM with its maps, and its seed."""

    elmo: Elmo
    seed: int


class Inputs(NamedTuple):
    """What all batches of a stack read."""

    upper: torch.Tensor  # (variants x words, layers x dim): the layers above the token vectors
    offsets: torch.Tensor  # (members, 1, 1): first row of each member
    types: torch.Tensor  # (words): the word of each row
    tokens: torch.Tensor  # (variants x distinct words, projection)
    token_offsets: torch.Tensor
    projected: slice  # members whose layers lose a direction
    directions: torch.Tensor  # (projected members, layers + 1, dim)


class LayerBatches(TrainingBatches):
    """Batches whose rows are assembled from token vectors and upper layers."""

    def __init__(self, pairs: EncodedPairs, inputs: Inputs, *, batch: int) -> None:
        super().__init__(pairs, inputs.upper, inputs.offsets, batch=batch)
        self.inputs = inputs

    def _vectors(self, words: torch.Tensor) -> torch.Tensor:
        at = self.inputs
        first = functional.embedding(at.types[words] + at.token_offsets, at.tokens)
        rows = torch.cat([first, first, super()._vectors(words)], -1)
        if len(at.directions):
            part = rows[at.projected].unflatten(-1, at.directions.shape[1:])
            shares = torch.einsum("mptld,mld->mptl", part, at.directions)
            part -= shares[..., None] * at.directions[:, None, None]
        return rows


def encode(*data: LabelledPairs) -> tuple[list[list[str]], list[EncodedPairs]]:
    """Return the distinct sentences of all pairs, and the pairs as rows of their concatenated words."""
    texts = dict.fromkeys(text for pairs in data for side in (pairs.premises, pairs.hypotheses) for text in side)
    numbers = {text: number for number, text in enumerate(texts)}
    sentences = [split_words(text) for text in texts]
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    if not lengths.min():
        raise UsageError(f"the sentence {list(texts)[int(lengths.argmin())]!r} has no words")
    starts, words = np.cumsum(lengths) - lengths, np.arange(int(lengths.sum()))

    def side(side_texts: Sequence[str]) -> SentenceRows:
        rows = np.fromiter((numbers[text] for text in side_texts), np.int64, len(side_texts))
        return SentenceRows(words, starts[rows], lengths[rows])

    return sentences, [EncodedPairs(side(d.premises), side(d.hypotheses), d.labels) for d in data]


def read_inputs(sentences: list[list[str]], members: Sequence[Member], report: Callable[[str], None]) -> Inputs:
    """Compute the layers of all sentences for each distinct map of token vectors.

    Members with maps of layers must follow each other, and their maps remove one direction of each layer.
    """
    first = members[0].elmo
    device, dtype = first.device, torch.bfloat16 if first.device.type == "cuda" else torch.float32
    keys = [id(member.elmo.maps.get(EMBEDDINGS)) for member in members]
    variants = {key: member.elmo for key, member in zip(reversed(keys), reversed(members), strict=True)}
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    number = {word: place for place, word in enumerate(words)}
    types = np.fromiter((number[word] for sentence in sentences for word in sentence), np.int64)
    upper = torch.empty(len(variants) * len(types), first.layers * first.dim, dtype=dtype, device=device)
    token_vectors = torch.empty(len(variants) * len(words), first.dim // 2, dtype=dtype, device=device)
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    starts = torch.as_tensor(np.cumsum(lengths) - lengths, device=device)
    for place, elmo in enumerate(variants.values()):
        plain = elmo.with_maps({site: change for site, change in elmo.maps.items() if site == EMBEDDINGS})
        rows = upper[place * len(types) : (place + 1) * len(types)]

        def consume(batch, layers, sizes, rows=rows):  # type: ignore[no-untyped-def]
            positions = torch.arange(layers[0].shape[1], device=device)
            inside = positions < sizes[:, None]
            places = starts[torch.as_tensor(batch, device=device)][:, None] + positions
            rows[places[inside]] = torch.cat(layers[1:], -1)[inside].to(dtype)

        plain.run(sentences, consume)
        table = plain.token_table(words)
        token_vectors[place * len(words) : (place + 1) * len(words)] = table.vectors[table(words)].to(dtype)
        report(f"vectors {place + 1} of {len(variants)}")
    order = {key: place for place, key in enumerate(variants)}
    places = torch.tensor([order[key] for key in keys], device=device).view(-1, 1, 1)
    with_layers = [
        place for place, member in enumerate(members) if any(site != EMBEDDINGS for site in member.elmo.maps)
    ]
    projected = slice(with_layers[0], with_layers[-1] + 1) if with_layers else slice(0, 0)
    if len(with_layers) != projected.stop - projected.start:
        raise ValueError("the members with maps of layers do not follow each other")
    bases = [[members[m].elmo.maps[f"layer:{n}"].basis[0] for n in range(first.layers + 1)] for m in with_layers]
    directions = torch.as_tensor(np.array(bases, np.float32), device=device).to(dtype)
    return Inputs(
        upper,
        places * len(types),
        torch.as_tensor(types, device=device),
        token_vectors,
        places * len(words),
        projected,
        directions,
    )


class MemberDropout(torch.nn.Module):
    """Dropout with a rate for each member."""

    def __init__(self, rates: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("keep", 1 - torch.tensor(rates))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop numbers in training."""
        if not self.training:
            return x
        keep = self.keep.view(-1, *[1] * (x.dim() - 1)).to(x.dtype)
        return x * ((torch.rand_like(x) < keep) / keep)


class ScheduledStack(Stack):
    """A stack whose learning rate falls to zero, and may differ between members by a factor."""

    factors: torch.Tensor | None = None
    steps = 0

    def update(self, *, learning_rate: float | None = None, clip: float | None = None) -> None:
        """Take a step with the share of the learning rate that the schedule gives."""
        epoch = len(self.pairs)
        done = max(0.0, (self.steps - epoch) / max(1, (self.total - 1) * epoch))
        share = (1 + math.cos(math.pi * min(1.0, done))) / 2 * min(1.0, (self.steps + 1) / WARMUP)
        parameters = list(self.network.parameters())
        before = [parameter.detach().clone() for parameter in parameters] if self.factors is not None else None
        super().update(learning_rate=self.settings.learning_rate * share)
        if before:
            with torch.no_grad():
                for parameter, old in zip(parameters, before, strict=True):
                    factor = self.factors.view(-1, *[1] * (parameter.dim() - 1))
                    parameter.copy_(torch.lerp(old, parameter, factor))
        self.steps += 1

    def require_finite(self, loss: float, *, of: str = "") -> None:
        """Accept any loss: a member may diverge at a rate that is only tried."""


def train(
    stack: ScheduledStack, *, epochs: int | None = None, seconds: float = math.inf, report: Callable[[str], None]
) -> None:
    """Train for so many epochs, or as many as fit into the seconds by the time of the first; keep the best by dev."""
    began = time.monotonic()
    stack.total = epochs or 1_000
    while not stack.finished():
        stack.advance(lambda done, total, text: None)
        stack.done += 1
        epoch, taken = stack.done, time.monotonic() - began
        if epoch == 1 and not epochs:
            stack.total = max(2, int(seconds / taken))
        elif taken / epoch > seconds - taken and epoch < stack.total:
            report(f"no time for the last {stack.total - epoch} epochs")
            break
        last = stack.history[-1]
        loss, accuracy = np.nanmean(last["loss"]), np.mean(last["dev_accuracy"])
        report(f"epoch {epoch} of {stack.total}: loss {loss:.3f}, dev {accuracy:.4f}")
    stack.use_best()
