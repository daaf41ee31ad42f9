"""Token ids of sentences and pairs, and how a tokenizer joins two sentences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandWarning
from evenhand.models.tokenizing import encode, tokenizer_errors

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Ids = list[int]
Tokenizer = Any  # a transformers tokenizer, which is called
Tokenize = Callable[[Sequence[str]], list[Ids]]


def sentence_tokenizer(tokenizer: Tokenizer) -> Tokenize:
    """Return a function from sentences to their ids, without special tokens.

    It uses the tokenizer's Rust part if there is one, which runs on all cores. It is copied, because the Python wrapper
    sets truncation and padding on the original.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return lambda texts: encode(tokenizer, list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    copy = type(backend).from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()

    def tokenize(texts: Sequence[str]) -> list[Ids]:
        with tokenizer_errors(tokenizer):
            return [encoding.ids for encoding in copy.encode_batch_fast(list(texts), add_special_tokens=False)]

    return tokenize


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
    tokenizer: Tokenizer, tokenize: Tokenize, premises: Sequence[str], hypotheses: Sequence[str]
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
    tokenizer: Tokenizer, premises: Sequence[str], hypotheses: Sequence[str], limit: int
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


def length_limit(model: PreTrainedModel, tokenizer: Tokenizer) -> int:
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
