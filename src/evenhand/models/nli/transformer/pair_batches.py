"""Labelled pairs as token ids, in batches of similar length that are assembled on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.models.nli.labelled_pairs import LabelledPairs, Labels
from evenhand.models.nli.transformer.device_model import Ragged, Tensor
from evenhand.models.nli.transformer.token_ids import Tokenizer, pair_ids


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
    def of(cls, pairs: LabelledPairs, tokenizer: Tokenizer, *, longest: int) -> TokenisedPairs:
        """Tokenise pairs; those above `longest` tokens are truncated, with a warning.

        Raises:
            UsageError: If some labels do not distinguish neutral from contradiction.
        """
        if pairs.two_way:
            raise UsageError(
                f"{pairs.source}: its labels do not distinguish neutral from contradiction",
                hint="use it for evaluation only",
            )
        ids, types = pair_ids(tokenizer, pairs.premises, pairs.hypotheses, longest)
        kinds = Ragged.of(types).ids if types else None
        return cls(Ragged.of(ids), kinds, pairs.labels, pairs.to_dict())

    def __len__(self) -> int:
        return len(self.labels)


class PairBatch(NamedTuple):
    """The inputs of a model by name, and the labels."""

    inputs: dict[str, Tensor]
    labels: Tensor


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
    def _put(array: Rows, device: str = "cpu") -> Tensor:
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
