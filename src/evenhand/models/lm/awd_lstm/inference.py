"""Texts scored and written by a word-level AWD-LSTM: log-probabilities, perplexity, samples."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from evenhand.arrays import Matrix64, Rows
from evenhand.errors import DegenerateError, UsageError
from evenhand.files import writing
from evenhand.models.device import pad
from evenhand.models.lm.awd_lstm.corpus import EOS, Tokens, TokenVocabulary, columns, line_tokens
from evenhand.models.lm.awd_lstm.network import AWDLSTM
from evenhand.models.lm.likelihood import TextScores, TokenScores, check_scores, check_seed, score_fillers
from evenhand.models.lm.sampling import draw_tokens, uniform_draws
from evenhand.models.tokenizing import check_texts

CHUNK = 4096  # predictions scored at a time; bounds memory and does not change the result
SCORES_AT_ONCE = 1 << 25  # numbers in the matrix of scores of one batch
TEXTS_AT_ONCE = 64


class WordLikelihood:
    """The likelihood of texts under an AWD-LSTM.

    A text is split at whitespace, with `<eos>` between its lines. The first token is predicted from `<eos>`; if the
    vocabulary has none, it is not predicted. Words outside the vocabulary are scored as `<unk>`, so compare models with
    the same vocabulary only.

    Args:
        model: the language model.
        vocabulary: its vocabulary.
        name: for reports.
    """

    masked = False

    def __init__(self, model: AWDLSTM, vocabulary: TokenVocabulary, *, name: str = "awd-lstm") -> None:
        if model.words != len(vocabulary):
            raise UsageError(f"the model has {model.words:,} words, the vocabulary {len(vocabulary):,}")
        self.model, self.vocabulary, self.name = model, vocabulary, name

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the log-probability of each text; see `Likelihood`."""
        scores = self._score_texts(texts, TEXTS_AT_ONCE if batch is None else batch)
        totals = np.array([np.nansum(score.log_probabilities) for score in scores], dtype=np.float64)
        first = 0 if EOS in self.vocabulary else 1
        return TextScores(totals, np.array([max(0, len(score.ids) - first) for score in scores], dtype=np.int64))

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the tokens of each text; see `TokenLikelihood`. An `<eos>` covers the line end."""
        tokens = []
        for text in check_texts(texts):
            ids = self.vocabulary.encode(line_tokens(text)).astype(np.int64)
            spans = [match.span() for match in re.finditer(r"\n|\S+", text.strip())]
            start = len(text) - len(text.lstrip())
            shifted = np.array(spans, dtype=np.int64).reshape(len(ids), 2) + start
            tokens.append(TokenScores(ids, shifted, np.full(len(ids), np.nan)))
        return tokens

    def token_log_probabilities(
        self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the tokens of each text with their log-probabilities, all from one pass; see `TokenLikelihood`."""
        return self._score_texts(texts, TEXTS_AT_ONCE)

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> Matrix64:
        """Return the log-probability of each filled context; see `TokenLikelihood`."""
        return score_fillers(self, contexts, fillers, None)

    def _score_texts(self, texts: Sequence[str], batch: int) -> list[TokenScores]:
        scores = self.token_ids(texts)
        first = np.array([self.vocabulary.index[EOS]] if EOS in self.vocabulary else [], dtype=np.int64)
        sequences = [np.concatenate([first, score.ids]) for score in scores]
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                for rows in batches_by_length([len(ids) for ids in sequences], batch):
                    for row, logs in zip(rows, self._score([sequences[row] for row in rows]), strict=True):
                        predicted = len(sequences[row]) - 1
                        part = logs[:predicted]
                        if not np.isfinite(part).all():
                            check_scores(np.where(np.arange(len(scores)) == row, part.sum(), 0.0), self.name)
                        scores[row].log_probabilities[len(scores[row].ids) - predicted :] = part
        finally:
            self.model.train(training)
        return scores

    def _score(self, sequences: list[np.ndarray]) -> Matrix64:
        """Return the log-probabilities of tokens of sequences, read side by side with their states carried along."""
        ids, lengths = (torch.from_numpy(array).to(self.model.device) for array in pad(sequences))
        parts: list[torch.Tensor] = []
        step = max(1, SCORES_AT_ONCE // (self.model.words * len(sequences)))
        state = self.model.start(len(sequences))
        for start in range(0, ids.shape[1] - 1, step):
            stop = min(start + step, ids.shape[1] - 1)
            logits, state, *_ = self.model(ids[:, start:stop].T, state)
            parts.append(token_scores(logits.transpose(0, 1), ids[:, start + 1 : stop + 1], lengths - 1 - start))
        return np.asarray(torch.cat(parts, dim=1).cpu().numpy(), dtype=np.float64)


def batches_by_length(lengths: Sequence[int], batch: int, *, longest: int | None = None) -> Iterator[Rows]:
    """Yield the indices of sequences of two tokens or more in batches of similar length, longest first.

    Args:
        lengths: of the sequences.
        batch: the largest number of sequences in a batch.
        longest: the largest number of tokens in a batch, padding included; a single sequence may exceed it.
    """
    if batch < 1:
        raise UsageError(f"batch must be at least 1, got {batch}")
    order = [int(row) for row in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable") if lengths[row] > 1]
    start = 0
    while start < len(order):
        fitting = batch if longest is None else min(batch, max(1, longest // lengths[order[start]]))
        yield np.array(order[start : start + fitting], dtype=np.int64)
        start += fitting


def token_scores(logits: torch.Tensor, targets: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of each target in double precision, and 0 beyond the count of its row.

    Args:
        logits: scores of the next token, (rows, steps, tokens).
        targets: the next tokens, (rows, steps).
        counts: how many targets of each row count, (rows,).
    """
    scores = logits.float().log_softmax(dim=-1).gather(-1, targets[..., None])[..., 0].double()
    return scores.masked_fill(torch.arange(scores.shape[1], device=scores.device) >= counts[:, None], 0.0)


def perplexity(model: AWDLSTM, tokens: Tokens, *, batch: int = 1, dtype: torch.dtype | None = None) -> float:
    """Return exp of the mean negative log-probability of each token of a text given all tokens before it.

    With one column (the default), every token but the first is predicted from the whole text before it. More columns
    are faster: each starts from a zero state, its first token is not predicted, and up to batch - 1 tokens at the end
    are left out. Merity et al. 2018 validate with 10 columns and test with 1.
    """
    loss = mean_loss(model, columns(tokens, batch, model.device), dtype=dtype)
    if not math.isfinite(loss):
        raise DegenerateError(f"the mean loss is {loss}", hint="the weights hold NaN or infinity: train again")
    return math.exp(loss)


def mean_loss(model: AWDLSTM, text: torch.Tensor, *, dtype: torch.dtype | None = None) -> float:
    """Return the mean negative log-probability over columns of text (steps, batch), without dropout."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            state = model.start(text.shape[1], dtype=dtype)
            total = torch.zeros((), dtype=torch.float64, device=text.device)
            length = max(1, CHUNK // text.shape[1])
            for start in range(0, len(text) - 1, length):
                end = min(start + length, len(text) - 1)
                logits, state, *_ = model(text[start:end], state, dtype=dtype)
                targets = text[start + 1 : end + 1].flatten()
                total += functional.cross_entropy(logits.flatten(0, 1).float(), targets, reduction="sum")
        return float(total) / int(text[1:].numel())
    finally:
        model.train(training)


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
        draws = uniform_draws(seed, range(first_text + low, first_text + numbers.stop), 1 + burn_in + tokens)
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
            current = draw_tokens(logits[0].float() / temperature, uniform[step])
            result[step - 1] = current
        return np.ascontiguousarray(result.cpu().numpy().T)
    finally:
        model.train(training)


def _check(
    model: AWDLSTM, vocabulary: TokenVocabulary, samples: int, tokens: int, temperature: float, start: str, burn_in: int
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
