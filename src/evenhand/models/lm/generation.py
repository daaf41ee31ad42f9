"""Text from a language model, many samples side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.errors import UsageError
from evenhand.files import writing
from evenhand.models.lm.awd_lstm import AWDLSTM
from evenhand.models.lm.settings import check_seed
from evenhand.models.lm.vocabulary import EOS, Tokens, TokenVocabulary

STARTS = ("uniform", "eos")
SIDE_BY_SIDE = {"cuda": 2000}  # samples at once on a device; elsewhere FEW
FEW = 100


def generate(
    model: AWDLSTM,
    vocabulary: TokenVocabulary,
    *,
    samples: int = 2000,
    tokens: int = 500,
    temperature: float = 1.0,
    start: str = "uniform",
    burn_in: int = 0,
    batch: int | None = None,
    seed: int = 0,
    progress: Any = None,
) -> Tokens:
    """Draw samples of so many tokens each, as numbers (samples, tokens).

    Each sample starts from a zero state and a first token that is not part of it. Sample i is drawn with random
    numbers that depend on `seed` and i alone, so that it does not matter how many are drawn, nor how many side by
    side (except where two words are so close that the order of summation decides).

    Args:
        model: whose text.
        vocabulary: of the model.
        samples: how many; the paper has 2,000 of 500 tokens.
        tokens: in each.
        temperature: below 1 the likely words become likelier.
        start: `uniform` feeds a word drawn evenly from the vocabulary first (the paper), `eos` the end of a line.
        burn_in: tokens drawn and thrown away before each sample, to get away from an odd first word.
        batch: samples side by side.
        seed: of the draws.
        progress: called with (done, total, what).
    """
    check_seed(seed)
    _check(model, vocabulary, samples, tokens, temperature, start, burn_in)
    batch = batch or SIDE_BY_SIDE.get(model.device.type, FEW)
    first = vocabulary.index[EOS] if start == "eos" else None
    drawn = np.empty((samples, tokens), np.int32)
    for low in range(0, samples, batch):
        chosen = range(low, min(low + batch, samples))
        draws = _draws(seed, chosen, 1 + burn_in + tokens)
        drawn[low : chosen.stop] = _sampled(model, draws, temperature, first)[:, burn_in:]
        if progress:
            progress(chosen.stop, samples, "samples")
    return drawn


def write_samples(path: str | Path, samples: Tokens, vocabulary: TokenVocabulary) -> Path:
    """Write one sample a line, `<eos>` and `<unk>` included; read it back with documents="line"."""
    with writing(Path(path)) as out:
        for sample in samples:
            out.write((" ".join(vocabulary.decode(sample)) + "\n").encode())
    return Path(path)


def _draws(seed: int, chosen: range, count: int) -> NDArray[np.float32]:
    return np.stack([np.random.default_rng([seed, number]).random(count, dtype=np.float32) for number in chosen])


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def _sampled(model: AWDLSTM, draws: NDArray[np.float32], temperature: float, first: int | None) -> Tokens:
    training = model.training
    model.eval()
    try:
        uniform = torch.from_numpy(np.ascontiguousarray(draws.T)).to(model.device)
        current = (uniform[0] * model.words).long().clamp_(max=model.words - 1)
        current = current if first is None else torch.full_like(current, first)
        state = model.start(len(current))
        found = torch.empty((len(uniform) - 1, len(current)), dtype=torch.int32, device=model.device)
        for step in range(1, len(uniform)):
            logits, state, *_ = model(current[None], state)
            current = _chosen(logits[0].float() / temperature, uniform[step])
            found[step - 1] = current
        return np.ascontiguousarray(found.cpu().numpy().T)
    finally:
        model.train(training)


def _chosen(logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The word at which the cumulative probability passes a uniform number."""
    reached = torch.softmax(logits, dim=-1).cumsum(dim=-1)
    # The last sum is 1 but for rounding: measured against itself, a draw never falls behind the last word.
    found = torch.searchsorted(reached, (uniform * reached[:, -1])[:, None], right=True)
    return found[:, 0].clamp_(max=logits.shape[-1] - 1)


def _check(
    model: AWDLSTM,
    vocabulary: TokenVocabulary,
    samples: int,
    tokens: int,
    temperature: float,
    start: str,
    burn_in: int,
) -> None:
    if model.words != len(vocabulary):
        raise UsageError(f"the model has {model.words:,} words, the vocabulary {len(vocabulary):,}")
    if min(samples, tokens) < 1 or burn_in < 0:
        raise UsageError(f"samples and tokens start at 1, burn_in at 0, got {samples}, {tokens}, {burn_in}")
    if not temperature > 0:
        raise UsageError(f"a temperature is above 0, got {temperature}", hint="1 draws from the model as it is")
    if start not in STARTS:
        raise UsageError(f"unknown start {start!r}", hint=f"use {' or '.join(STARTS)}")
    if start == "eos" and EOS not in vocabulary:
        raise UsageError(f"the vocabulary has no {EOS}", hint="use start='uniform'")
