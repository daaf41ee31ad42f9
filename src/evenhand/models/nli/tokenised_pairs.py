"""Pairs as token ids: how a tokenizer joins two sentences, and batches of labelled pairs on a device."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from evenhand.arrays import Rows
from evenhand.errors import EvenhandWarning
from evenhand.models.nli.labelled_pairs import LabelledPairs, Labels, require_three_way
from evenhand.models.tokenizing import Ids, Tokenize, encode

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class PairFormat:
    """The special tokens around and between two sentences.

    `types` are the token types of the first part (up to the second sentence) and of the rest; None if the model has
    none.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int] | None

    def first(self, ids: Ids) -> Ids:
        """Return a premise with everything before the hypothesis."""
        return [*self.before, *ids, *self.between]

    def second(self, ids: Ids) -> Ids:
        """Return a hypothesis with everything after it."""
        return [*ids, *self.after]


def infer_pair_format(
    tokenizer: PreTrainedTokenizerBase, tokenize: Tokenize, premises: Sequence[str], hypotheses: Sequence[str]
) -> PairFormat | None:
    """Infer the format from the first pair, if it reproduces the tokenizer's ids and types for all of them.

    Returns None for a tokenizer that does more than add special tokens: one that tokenises the second sentence
    differently, or uses more than two types.
    """
    encoding = encode(tokenizer, list(premises), list(hypotheses), return_attention_mask=False, verbose=False)
    types = encoding.get("token_type_ids")
    sides = list(zip(tokenize(premises), tokenize(hypotheses), strict=True))
    layout = _infer_from_pair(*sides[0], encoding["input_ids"][0], types[0] if types else None)
    if layout is None:
        return None
    for index, (premise, hypothesis) in enumerate(sides):
        first, second = layout.first(premise), layout.second(hypothesis)
        if first + second != encoding["input_ids"][index]:
            return None
        if layout.types and [layout.types[0]] * len(first) + [layout.types[1]] * len(second) != types[index]:
            return None
    return layout


def _infer_from_pair(premise: Ids, hypothesis: Ids, pair: Ids, types: Ids | None) -> PairFormat | None:
    start = _find(pair, premise, 0)
    if start is None or not premise or not hypothesis:
        return None
    end = start + len(premise)
    second = _find(pair, hypothesis, end)
    if second is None:
        return None
    kinds = (types[0], types[second]) if types else None
    return PairFormat(tuple(pair[:start]), tuple(pair[end:second]), tuple(pair[second + len(hypothesis) :]), kinds)


def _find(ids: Ids, part: Ids, start: int) -> int | None:
    starts = range(start, len(ids) - len(part) + 1)
    return next((first for first in starts if ids[first : first + len(part)] == part), None)


def pair_ids(
    tokenizer: PreTrainedTokenizerBase, premises: Sequence[str], hypotheses: Sequence[str], limit: int
) -> tuple[list[Ids], list[Ids] | None]:
    """Return ids and types of pairs; pairs beyond the model's limit are truncated, with a warning."""
    encoding = encode(tokenizer, list(premises), list(hypotheses), return_attention_mask=False, verbose=False)
    ids, types = encoding["input_ids"], encoding.get("token_type_ids")
    long = [index for index, row in enumerate(ids) if len(row) > limit]
    if not long:
        return ids, types
    warnings.warn(
        f"{len(long):,} of {len(ids):,} pairs are longer than the model's limit of {limit:,} tokens and were truncated",
        EvenhandWarning,
        stacklevel=4,
    )
    texts = [[side[index] for index in long] for side in (premises, hypotheses)]
    shorter = encode(tokenizer, *texts, return_attention_mask=False, truncation="longest_first", max_length=limit)
    for row, index in enumerate(long):
        ids[index] = shorter["input_ids"][row]
        if types:
            types[index] = shorter["token_type_ids"][row]
    return ids, types


def length_limit(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the largest number of tokens: the smaller of the tokenizer's limit and the number of positions.

    RoBERTa and related models number positions from after the padding token.
    """
    longest = int(tokenizer.model_max_length)
    for name, layer in model.named_modules():
        if name.endswith("position_embeddings") and hasattr(layer, "num_embeddings"):
            unused = 0 if layer.padding_idx is None else layer.padding_idx + 1
            return min(longest, int(layer.num_embeddings) - unused)
    room = getattr(model.config, "max_position_embeddings", None)
    return min(longest, room) if isinstance(room, int) and room > 0 else longest


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of different lengths, concatenated."""

    ids: Rows
    lengths: Rows

    @classmethod
    def of(cls, rows: list[Ids]) -> Ragged:
        """Concatenate rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), lengths)

    @property
    def starts(self) -> Rows:
        """Start of each row."""
        return np.cumsum(self.lengths) - self.lengths


@dataclass(frozen=True, eq=False)
class TokenisedPairs:
    """Ids, token types and labels of pairs.

    Attributes:
        ids: the ids of each pair, special tokens included.
        types: the token type of each id; None if the model has none.
        labels: indices into LABELS.
        about: source, digest and counts of the pairs.
    """

    ids: Ragged
    types: Rows | None
    labels: Labels
    about: Mapping[str, object]

    @classmethod
    def of(cls, pairs: LabelledPairs, tokenizer: PreTrainedTokenizerBase, *, longest: int) -> TokenisedPairs:
        """Tokenise pairs; those above `longest` tokens are truncated, with a warning.

        Raises:
            UsageError: If some labels do not distinguish neutral from contradiction.
        """
        require_three_way(pairs)
        ids, types = pair_ids(tokenizer, pairs.premises, pairs.hypotheses, longest)
        kinds = Ragged.of(types).ids if types else None
        return cls(Ragged.of(ids), kinds, pairs.labels, pairs.to_dict())

    def __len__(self) -> int:
        return len(self.labels)


class PairBatch(NamedTuple):
    """The inputs of a model by name, and the labels."""

    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor


def cut_by_length(lengths: Rows, *, pairs: int, tokens: int, seed: Sequence[int] | None = None) -> list[Rows]:
    """Return batches as rows of indices: at most `pairs` pairs and `tokens` tokens each, padding included.

    Nearly all batches have pairs of one length, which need no padding and no mask. What is left over of each length is
    joined with its neighbours. With a seed, pairs are drawn at random within a length, and batches are in random order.

    >>> [batch.tolist() for batch in cut_by_length(np.array([3, 2, 3, 2, 3]), pairs=2, tokens=100)]
    [[1, 3], [0, 2], [4]]
    """
    generator = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(lengths)) if generator is None else generator.permutation(len(lengths))
    order = order[np.argsort(lengths[order], kind="stable")]
    values, counts = np.unique(lengths, return_counts=True)
    batches: list[Rows] = []
    left: list[Rows] = []
    for length, end, count in zip(values.tolist(), np.cumsum(counts).tolist(), counts.tolist(), strict=True):
        rows, size = order[end - count : end], batch_size(length, pairs, tokens)
        whole = count - count % size
        batches += np.split(rows[:whole], range(size, whole, size)) if whole else []
        left.append(rows[whole:])
    # Longest first: the first pair of a batch decides its length, and so its size.
    others = np.concatenate(left)[::-1] if left else order
    start = 0
    while start < len(others):
        size = batch_size(int(lengths[others[start]]), pairs, tokens)
        batches.append(others[start : start + size])
        start += size
    if generator is not None:
        generator.shuffle(batches)
    return batches


def batch_size(length: int, pairs: int, tokens: int) -> int:
    """Return how many pairs of a length a batch holds, at least one."""
    return max(1, min(pairs, tokens // max(1, length)))


class DevicePairs:
    """Tokenised pairs on a device."""

    def __init__(self, data: TokenisedPairs, device: str, *, padding: int) -> None:
        self.data, self.padding = data, padding
        self.ids = self._put(np.append(data.ids.ids, padding))  # the last one stands for all padding
        self.types = None if data.types is None else self._put(np.append(data.types, 0), device)
        self.ids, self.device = self.ids.to(device), device
        self.starts, self.lengths = self._put(data.ids.starts, device), self._put(data.ids.lengths, device)
        self.labels = self._put(data.labels.astype(np.int64), device)

    @staticmethod
    def _put(array: Rows, device: str = "cpu") -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), device=device)

    def batch(self, rows: Rows) -> PairBatch:
        """Return the pairs with these indices; there is a mask only where lengths differ."""
        lengths = self.data.ids.lengths[rows]
        longest = int(lengths.max())
        chosen = self._put(rows, self.device)
        position = torch.arange(longest, device=self.device)
        index = self.starts[chosen][:, None] + position
        inputs = {}
        if longest > int(lengths.min()):
            mask = position < self.lengths[chosen][:, None]
            index = torch.where(mask, index, len(self.ids) - 1)
            inputs["attention_mask"] = mask.long()
        inputs["input_ids"] = self.ids[index]
        if self.types is not None:
            inputs["token_type_ids"] = self.types[index]
        return PairBatch(inputs, self.labels[chosen])
