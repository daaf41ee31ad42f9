"""Tokens with the characters they cover, and logits at chosen positions: what masked and causal models share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import FormatError
from evenhand.models.lm.likelihood import TokenScores, check_texts, covering
from evenhand.models.tokenizing import encode

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LOGITS_AT_ONCE = {"cuda": 1 << 29}  # numbers in the matrix of logits of one batch
FEW_LOGITS = 1 << 23  # on a CPU, larger matrices cost more in memory traffic than they save in calls


@dataclass(frozen=True, eq=False)
class EncodedText:
    """A text as token ids.

    Attributes:
        before, after: the special tokens that the tokenizer puts around a text.
        ids: the tokens of the text itself.
        spans: first and one past the last character of each token, without leading white space, (tokens, 2).
    """

    before: Rows
    ids: Rows
    after: Rows
    spans: Rows

    def covering(self, start: int, stop: int) -> list[int]:
        """Return the tokens that cover a character from `start` to `stop`, the last excluded."""
        return covering(self.spans, start, stop)

    def unscored(self) -> TokenScores:
        """Return the tokens with NaN for their log-probabilities."""
        return TokenScores(self.ids, self.spans, np.full(len(self.ids), np.nan))


def encode_texts(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, special: bool = True
) -> list[EncodedText]:
    """Return the tokens of texts with the characters that they cover.

    Args:
        tokenizer: a tokenizer that knows the characters of its tokens.
        texts: the texts.
        special: add the tokenizer's special tokens around each text.

    Raises:
        FormatError: If the tokenizer does not know the characters of its tokens.
    """
    if not len(check_texts(texts)):
        return []
    if not tokenizer.is_fast:
        raise FormatError(
            f"{type(tokenizer).__name__} does not say which characters a token covers",
            hint="use a folder with a tokenizer.json",
        )
    encoded = encode(
        tokenizer,
        list(texts),
        add_special_tokens=special,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    columns = (encoded["input_ids"], encoded["offset_mapping"], encoded["special_tokens_mask"])
    return [_encoded_text(text, *row) for text, *row in zip(texts, *columns, strict=True)]


def _encoded_text(text: str, ids: list[int], spans: list[tuple[int, int]], special: list[int]) -> EncodedText:
    inner = [position for position, flag in enumerate(special) if not flag]
    start, stop = (inner[0], inner[-1] + 1) if inner else (len(ids), len(ids))
    if not inner and len(ids) > 1:  # an empty text between its special tokens
        start = stop = 1
    trimmed = []
    for first, last in spans[start:stop]:
        while first < last and text[first].isspace():
            first += 1
        trimmed.append((first, last))
    array = np.array(ids, dtype=np.int64)
    return EncodedText(
        array[:start], array[start:stop], array[stop:], np.array(trimmed, dtype=np.int64).reshape(len(trimmed), 2)
    )


def logits_at(model: PreTrainedModel, rows: torch.Tensor, columns: torch.Tensor, **inputs: Any) -> Any:
    """Return the output of a language model whose logits are those at chosen positions only, (positions, vocabulary).

    The head of a language model reads each position by itself, and its product with the whole vocabulary is a large
    part of the work. A hook passes only the states of the chosen positions to the head, whatever the head computes.

    Args:
        model: a masked or causal language model.
        rows: the text of each position, (positions,).
        columns: the token of each position, (positions,).
        **inputs: arguments of the model, such as input_ids.

    Raises:
        FormatError: If the model is not a body with a head that reads each position by itself.
    """
    body = model.base_model
    if body is model:
        raise FormatError(
            f"{type(model).__name__} is not a body with a language-model head", hint="use a language model"
        )

    def choose(module: Any, arguments: Any, output: Any) -> Any:
        chosen = output[0][rows, columns][None]
        if isinstance(output, tuple):
            return (chosen, *output[1:])
        output["last_hidden_state"] = chosen
        return output

    handle = body.register_forward_hook(choose)
    try:
        output = model(**inputs)
    finally:
        handle.remove()
    if tuple(output.logits.shape[:-1]) != (1, len(rows)):
        raise FormatError(
            f"the head of {type(model).__name__} returns {tuple(output.logits.shape)} for {len(rows)} positions",
            hint="use a model whose head predicts each token by itself",
        )
    output["logits"] = output.logits[0]
    return output


def vocabulary_size(model: PreTrainedModel) -> int:
    """Return the number of logits of a position."""
    head = model.get_output_embeddings()
    table = model.get_input_embeddings() if head is None or not hasattr(head, "weight") else head
    return int(table.weight.shape[0])


def positions_at_once(model: PreTrainedModel, device: str) -> int:
    """Return how many positions have logits at the same time, so that the matrix of logits stays small."""
    return max(1, LOGITS_AT_ONCE.get(device.partition(":")[0], FEW_LOGITS) // vocabulary_size(model))
