"""Sample texts from a word-level language model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.errors import UsageError
from evenhand.files import writing
from evenhand.models.lm.awd_lstm.corpus import EOS, Tokens, TokenVocabulary
from evenhand.models.lm.awd_lstm.network import AWDLSTM
from evenhand.models.lm.likelihood import check_seed

STARTS = ("uniform", "eos")
SAMPLES_AT_ONCE = {"cuda": 2000}  # by device; elsewhere FEW_SAMPLES
FEW_SAMPLES = 100


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
    first_text: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Tokens:
    """Return sampled token numbers, (samples, tokens).

    Each sample starts from a zero state and a first token that is not part of it. Sample i depends on `seed` and i
    alone, not on the number of samples or the batch (except where two words are so close that the order of summation
    decides).

    Args:
        model: the language model.
        vocabulary: its vocabulary.
        samples: number of samples; 2,000 in the paper.
        tokens: tokens in each sample; 500 in the paper.
        temperature: divisor of the logits; below 1, likely words become likelier.
        start: the first input: `uniform` is a word drawn uniformly from the vocabulary (the paper), `eos` the end of a
            line.
        burn_in: tokens sampled and discarded before each sample, to reduce the influence of the first word.
        batch: samples drawn side by side.
        seed: seed of the samples.
        first_text: number of the first sample, to go on where an earlier call ended.
        progress: called with (done, total, unit).
    """
    check_seed(seed)
    _check(model, vocabulary, samples, tokens, temperature, start, burn_in)
    batch = batch or samples_at_once(model)
    first = vocabulary.index[EOS] if start == "eos" else None
    result = np.empty((samples, tokens), np.int32)
    for low in range(0, samples, batch):
        numbers = range(low, min(low + batch, samples))
        draws = _uniform(seed, range(first_text + low, first_text + numbers.stop), 1 + burn_in + tokens)
        result[low : numbers.stop] = _sample(model, draws, temperature, first)[:, burn_in:]
        if progress:
            progress(numbers.stop, samples, "samples")
    return result


def samples_at_once(model: AWDLSTM) -> int:
    """Return how many samples are drawn side by side by default."""
    return SAMPLES_AT_ONCE.get(model.device.type, FEW_SAMPLES)


def write_samples(path: str | Path, samples: Tokens, vocabulary: TokenVocabulary) -> Path:
    """Write one sample per line, including `<eos>` and `<unk>`; read the file back with documents="line"."""
    with writing(Path(path)) as out:
        for sample in samples:
            out.write((" ".join(vocabulary.decode(sample)) + "\n").encode())
    return Path(path)


def _uniform(seed: int, numbers: range, count: int) -> NDArray[np.float32]:
    """Return uniform random numbers, (samples, count), that depend on the seed and the sample's number alone."""
    return np.stack([np.random.default_rng([seed, number]).random(count, dtype=np.float32) for number in numbers])


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def _sample(model: AWDLSTM, draws: NDArray[np.float32], temperature: float, first: int | None) -> Tokens:
    training = model.training
    model.eval()
    try:
        uniform = torch.from_numpy(np.ascontiguousarray(draws.T)).to(model.device)
        current = (uniform[0] * model.words).long().clamp_(max=model.words - 1)
        current = current if first is None else torch.full_like(current, first)
        state = model.start(len(current))
        result = torch.empty((len(uniform) - 1, len(current)), dtype=torch.int32, device=model.device)
        for step in range(1, len(uniform)):
            logits, state, *_ = model(current[None], state)
            current = _choose(logits[0].float() / temperature, uniform[step])
            result[step - 1] = current
        return np.ascontiguousarray(result.cpu().numpy().T)
    finally:
        model.train(training)


def _choose(logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return the word at which the cumulative probability exceeds a uniform number."""
    cumulative = torch.softmax(logits, dim=-1).cumsum(dim=-1)
    # The last sum is 1 only up to rounding; relative to it, no draw lies beyond the last word.
    words = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)
    return words[:, 0].clamp_(max=logits.shape[-1] - 1)


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
        raise UsageError(
            f"samples and tokens must be at least 1, burn_in at least 0, got {samples}, {tokens}, {burn_in}"
        )
    if not temperature > 0:
        raise UsageError(f"temperature must be above 0, got {temperature}", hint="1 samples from the model unchanged")
    if start not in STARTS:
        raise UsageError(f"unknown start {start!r}", hint=f"use {' or '.join(STARTS)}")
    if start == "eos" and EOS not in vocabulary:
        raise UsageError(f"the vocabulary has no {EOS}", hint="use start='uniform'")
