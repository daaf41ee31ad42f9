"""How well a language model predicts a text."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from evenhand.errors import DegenerateError
from evenhand.models.lm.awd_lstm import AWDLSTM
from evenhand.models.lm.batches import columns
from evenhand.models.lm.vocabulary import Tokens

CHUNK = 4096  # predictions scored at a time: bounds the memory of the scores, moves no number


def perplexity(model: AWDLSTM, tokens: Tokens, *, batch: int = 1, dtype: Any = None) -> float:
    """exp(mean negative log probability of each token given all before it), with the state carried all along.

    With one column (the default) every token but the first is predicted from the whole text before it: exact. More
    columns go faster: each column starts from a zero state, its first token is not predicted, and up to batch - 1
    tokens at the end are left out. Merity et al. 2018 validate with 10 columns and test with 1.
    """
    loss = mean_loss(model, columns(tokens, batch, model.device), dtype=dtype)
    if not math.isfinite(loss):
        raise DegenerateError(f"the mean loss is {loss}", hint="the weights hold NaN or infinity: train again")
    return math.exp(loss)


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def mean_loss(model: AWDLSTM, text: torch.Tensor, *, dtype: Any = None) -> float:
    """Mean negative log probability over columns of text (steps, batch), without dropout, in natural logs."""
    training = model.training
    model.eval()
    try:
        state = model.start(text.shape[1], dtype=dtype)
        total = torch.zeros((), dtype=torch.float64, device=text.device)
        length = max(1, CHUNK // text.shape[1])
        for start in range(0, len(text) - 1, length):
            end = min(start + length, len(text) - 1)
            logits, state, *_ = model(text[start:end], state, dtype=dtype)
            wanted = text[start + 1 : end + 1].flatten()
            total += functional.cross_entropy(logits.flatten(0, 1).float(), wanted, reduction="sum")
        return float(total) / int(text[1:].numel())
    finally:
        model.train(training)
