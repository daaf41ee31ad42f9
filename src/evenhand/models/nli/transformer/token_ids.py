"""Word pieces: of single sentences, of pairs, and how a tokenizer puts two sentences together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenhand.errors import EvenhandWarning

Ids = list[int]


def sentence_pieces(tokenizer: Any) -> Any:
    """A function from sentences to their ids without special tokens.

    The tokenizer's own Rust part where it has one, on all cores and without the wrapping of every sentence in a
    record; a copy of it, since calls of the wrapper set truncation and padding on the original.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return lambda texts: tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    copy = type(backend).from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    return lambda texts: [found.ids for found in copy.encode_batch_fast(list(texts), add_special_tokens=False)]


@dataclass(frozen=True)
class Frame:
    """What a tokenizer writes around and between two sentences.

    `types` are the token types of the first part (up to the second sentence) and of the rest; None where the model
    takes none.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int] | None

    def first(self, ids: Ids) -> Ids:
        """A premise with all that comes before the hypothesis."""
        return [*self.before, *ids, *self.between]

    def second(self, ids: Ids) -> Ids:
        """A hypothesis with all that comes after it."""
        return [*ids, *self.after]


def frame_of(tokenizer: Any, pieces: Any, premises: Sequence[str], hypotheses: Sequence[str]) -> Frame | None:
    """The frame read off the first of these pairs, if it gives exactly the tokenizer's ids and types for all of them.

    None for a tokenizer that does more than put special tokens around: one that writes the second sentence otherwise
    than the first, or gives the parts more than two types.
    """
    found = tokenizer(list(premises), list(hypotheses), return_attention_mask=False, verbose=False)
    types = found.get("token_type_ids")
    sides = list(zip(pieces(premises), pieces(hypotheses), strict=True))
    frame = _read_off(*sides[0], found["input_ids"][0], types[0] if types else None)
    if frame is None:
        return None
    for place, (premise, hypothesis) in enumerate(sides):
        first, second = frame.first(premise), frame.second(hypothesis)
        if first + second != found["input_ids"][place]:
            return None
        if frame.types and [frame.types[0]] * len(first) + [frame.types[1]] * len(second) != types[place]:
            return None
    return frame


def _read_off(premise: Ids, hypothesis: Ids, pair: Ids, types: Ids | None) -> Frame | None:
    start = _find(pair, premise, 0)
    if start is None or not premise or not hypothesis:
        return None
    end = start + len(premise)
    second = _find(pair, hypothesis, end)
    if second is None:
        return None
    kinds = (types[0], types[second]) if types else None
    return Frame(tuple(pair[:start]), tuple(pair[end:second]), tuple(pair[second + len(hypothesis) :]), kinds)


def _find(ids: Ids, part: Ids, start: int) -> int | None:
    places = range(start, len(ids) - len(part) + 1)
    return next((place for place in places if ids[place : place + len(part)] == part), None)


def pair_ids(
    tokenizer: Any, premises: Sequence[str], hypotheses: Sequence[str], limit: int
) -> tuple[list[Ids], list[Ids] | None]:
    """Ids and types of pairs as the tokenizer gives them; pairs beyond the model's limit are cut, with a warning."""
    found = tokenizer(list(premises), list(hypotheses), return_attention_mask=False, verbose=False)
    ids, types = found["input_ids"], found.get("token_type_ids")
    long = [place for place, row in enumerate(ids) if len(row) > limit]
    if not long:
        return ids, types
    warnings.warn(
        f"{len(long):,} of {len(ids):,} pairs are longer than the {limit:,} tokens that the model takes and were cut",
        EvenhandWarning,
        stacklevel=4,
    )
    texts = [[texts[place] for place in long] for texts in (premises, hypotheses)]
    shorter = tokenizer(*texts, return_attention_mask=False, truncation="longest_first", max_length=limit)
    for row, place in enumerate(long):
        ids[place] = shorter["input_ids"][row]
        if types:
            types[place] = shorter["token_type_ids"][row]
    return ids, types


def limit_of(model: Any, tokenizer: Any) -> int:
    """The most tokens that the model takes: what the tokenizer says, and what its table of positions has room for.

    RoBERTa and its kin number positions from behind that of the padding token.
    """
    longest = int(tokenizer.model_max_length)
    for name, layer in model.named_modules():
        if name.endswith("position_embeddings") and hasattr(layer, "num_embeddings"):
            unused = 0 if layer.padding_idx is None else layer.padding_idx + 1
            return min(longest, int(layer.num_embeddings) - unused)
    room = getattr(model.config, "max_position_embeddings", None)
    return min(longest, room) if isinstance(room, int) and room > 0 else longest
