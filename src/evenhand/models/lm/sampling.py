"""Texts that a causal language model writes side by side, token by token.

Prompts of different lengths stand in one batch, because a step reads all weights, however few texts it goes on with.
They are padded on the right: a prompt does not look behind itself, and later tokens are told where it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import require
from evenhand.models.device import model_errors, pad
from evenhand.models.lm.forward import logits_at

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import Cache, PreTrainedModel

MOST_LEFT = 0.8  # of the texts in a batch: then those that have ended are taken out of it
LONGEST_TO_SHORTEST = 2  # lengths of the prompts in a batch: padding is read like text


def batches_of(lengths: Sequence[int], most: int, *, mixed: bool) -> list[list[int]]:
    """Return the numbers of texts that are written side by side, shortest prompts first.

    Args:
        lengths: tokens of the prompt of each text.
        most: texts in a batch.
        mixed: whether prompts of different lengths may stand in a batch.
    """
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        shortest = lengths[batches[-1][0]] if batches else 0
        longest = LONGEST_TO_SHORTEST * shortest if mixed else shortest
        if not batches or len(batches[-1]) == most or lengths[number] > longest:
            batches.append([])
        batches[-1].append(number)
    return batches


def uniform_draws(seed: int, numbers: range, count: int) -> NDArray[np.float32]:
    """Return uniform random numbers, (texts, count), that depend on the seed and the number of each text alone."""
    return np.stack([np.random.default_rng([seed, number]).random(count, dtype=np.float32) for number in numbers])


def draw_tokens(logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return the token of each row at which the cumulative probability exceeds a uniform number."""
    torch = require("torch", extra="models")
    cumulative = logits.softmax(dim=-1).cumsum(dim=-1)
    # The last sum is 1 only up to rounding; relative to it, no draw lies beyond the last token.
    tokens: Tensor = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)
    return tokens[:, 0].clamp_(max=logits.shape[-1] - 1)


def sample(
    model: PreTrainedModel,
    first: Sequence[Sequence[int]],
    uniform: NDArray[np.float32],
    temperature: float,
    *,
    ends: Collection[int],
    repeats: bool,
    drops: bool,
) -> list[list[int]]:
    """Return sampled token ids, one row for each row of first ids and of uniform numbers.

    Args:
        model: the language model.
        first: what each text begins with; of one length unless `repeats`.
        uniform: a number for each text and token, (texts, tokens).
        temperature: divisor of the logits.
        ends: tokens that end a text.
        repeats: whether a row of the cache can be repeated, and positions can be given: equal prompts are read once.
        drops: whether texts that have ended can be taken out of the cache.
    """
    torch = require("torch", extra="models")
    draws = torch.from_numpy(np.ascontiguousarray(uniform.T)).to(model.device)
    ending = torch.tensor(sorted(ends), device=model.device)
    texts: list[list[int]] = [[] for _ in first]
    with torch.inference_mode():
        batch = _Batch.read(model, [tuple(ids) for ids in first], repeats=repeats)
        for step, number in enumerate(draws, start=1):
            drawn = draw_tokens(batch.logits.float() / temperature, number[batch.rows])
            for row, token in zip(batch.rows.tolist(), drawn.tolist(), strict=True):
                texts[row].append(token)
            batch.done |= torch.isin(drawn, ending)
            left = torch.nonzero(~batch.done)[:, 0]
            if not len(left) or step == len(draws):
                break
            if drops and len(left) <= MOST_LEFT * len(batch.rows) and batch.keep(left):
                drawn = drawn[left]
            batch.go_on(drawn[:, None])
    return texts


@dataclass
class _Batch:
    """Texts that a model still writes.

    Attributes:
        rows: the number of each text.
        lengths: tokens of its prompt.
        done: whether it has ended.
        logits: of its next token, (texts, vocabulary).
        width: columns of the cache for prompts.
        written: tokens behind the prompts in the cache.
    """

    model: PreTrainedModel
    rows: torch.Tensor
    lengths: torch.Tensor
    done: torch.Tensor
    logits: torch.Tensor
    cache: Cache
    width: int
    written: int = 0

    @classmethod
    def read(cls, model: PreTrainedModel, every: list[tuple[int, ...]], *, repeats: bool) -> _Batch:
        """Read the prompts of all texts."""
        torch = require("torch", extra="models")
        prompts = {ids: place for place, ids in enumerate(dict.fromkeys(every))} if repeats else {}
        ids, lengths = pad([np.array(prompt, dtype=np.int64) for prompt in prompts or every])
        current, last = (torch.from_numpy(array).to(model.device) for array in (ids, lengths - 1))
        if (lengths == ids.shape[1]).all():
            with model_errors(model):
                out = model(input_ids=current, use_cache=True, logits_to_keep=1)
            logits = out.logits[:, -1]
        else:
            rows = torch.arange(len(ids), device=model.device)
            out = logits_at(model, rows, last, input_ids=current, use_cache=True)
            logits = out.logits
        cache, lengths = out.past_key_values, last + 1
        if prompts and len(prompts) < len(every):
            copied = torch.tensor([prompts[ids] for ids in every], device=model.device)
            logits, lengths = logits[copied], lengths[copied]
            cache.batch_select_indices(copied)
        rows = torch.arange(len(every), device=model.device)
        return cls(model, rows, lengths, torch.zeros_like(rows, dtype=torch.bool), logits, cache, ids.shape[1])

    def keep(self, left: torch.Tensor) -> bool:
        """Go on with some of the texts; return False where the cache cannot be cut."""
        if not hasattr(self.cache, "batch_select_indices"):
            return False
        self.cache.batch_select_indices(left)
        self.rows, self.lengths, self.done = self.rows[left], self.lengths[left], self.done[left]
        return True

    def go_on(self, tokens: torch.Tensor) -> None:
        """Read the next token of each text, (texts, 1)."""
        self.written += 1
        with model_errors(self.model):
            out = self.model(
                input_ids=tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=1, **self._places()
            )
        self.logits, self.cache = out.logits[:, -1], out.past_key_values

    def _places(self) -> dict[str, Tensor]:
        """Return positions and mask of the next token of each text; none if the prompts have one length."""
        torch = require("torch", extra="models")
        lengths = self.lengths[:, None]
        if (lengths == self.width).all():
            return {}
        columns = torch.arange(self.width + self.written, device=lengths.device)
        padding = (columns >= lengths) & (columns < self.width)
        mask = torch.zeros(padding.shape, dtype=self.model.dtype, device=lengths.device)
        mask.masked_fill_(padding, torch.finfo(self.model.dtype).min)
        return {"position_ids": lengths + self.written - 1, "attention_mask": mask[:, None, None]}
