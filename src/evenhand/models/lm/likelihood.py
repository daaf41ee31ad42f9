"""How well language models predict texts: the `Likelihood` protocol, its scores, and perplexity.

A score is the sum of the natural log-probabilities of a text's tokens, each given the tokens before it, with the number
of tokens. Scores per token compare only models with the same tokenizer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, UsageError
from evenhand.models.lm.corpus import columns
from evenhand.models.lm.vocabulary import EOS, Tokens, TokenVocabulary, line_tokens

if TYPE_CHECKING:
    import torch

    from evenhand.models.lm.awd_lstm import AWDLSTM

CHUNK = 4096  # predictions scored at a time; bounds memory and does not change the result
SCORES_AT_ONCE = 1 << 25  # numbers in the matrix of scores of one batch
TEXTS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class TextScores:
    """The log-probability of each text, and the number of its tokens."""

    log_probabilities: Vector64
    tokens: Rows

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def perplexity(self) -> float:
        """Exp of the mean negative log-probability of a token, over all texts.

        Raises:
            DegenerateError: If the texts have no tokens, or the model gives NaN or infinity.
        """
        total, count = float(self.log_probabilities.sum()), int(self.tokens.sum())
        if not count or not math.isfinite(total):
            raise DegenerateError(f"perplexity is undefined for {count} tokens with a log-probability of {total}")
        return math.exp(-total / count)


@runtime_checkable
class Likelihood(Protocol):
    """A model that gives texts a probability."""

    name: str

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the log-probability of each text.

        The result does not depend on the order of the texts, nor, up to rounding, on `batch`.

        Args:
            texts: the texts; an empty one has no tokens and the log-probability 0.
            batch: how many texts are scored at once; chosen by the model by default.
        """


@dataclass(frozen=True, eq=False)
class TokenScores:
    """The tokens of one text, special tokens excluded, with their log-probabilities.

    Attributes:
        ids: token ids.
        spans: first and one past the last character of the text that each token covers, (tokens, 2).
        log_probabilities: of each token; NaN where it was not asked for.
    """

    ids: Rows
    spans: Rows
    log_probabilities: Vector64


@runtime_checkable
class TokenLikelihood(Likelihood, Protocol):
    """A model that gives each token of a text a probability.

    Attributes:
        masked: whether a token is predicted from both sides (a masked model: the token alone is replaced by the mask)
            or from the tokens before it (a causal model).
    """

    masked: bool

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the tokens of each text, with NaN for the log-probabilities."""

    def token_log_probabilities(
        self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the tokens of each text with their log-probabilities.

        Args:
            texts: the texts.
            positions: for each text, the tokens to score; all of them by default. A causal model may score more.
            tokens: the largest number of tokens in a batch.
        """

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> Matrix64:
        """Return the log-probability of each filler in each context, (contexts, fillers).

        A context holds `{}` once. A masked model sums over the tokens of the filler, masked together, and predicted
        from left to right with the earlier ones shown; a causal model scores the whole sentence. A causal score is
        comparable between fillers of one context only.
        """


@runtime_checkable
class MaskedLikelihood(TokenLikelihood, Protocol):
    """A masked language model."""

    def unmasked_log_probabilities(
        self, texts: Sequence[str], *, attention: bool = False, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the log-probability of each token with nothing masked (AUL), from one pass for each text.

        Args:
            texts: the texts.
            attention: multiply by the attention that each token receives (AULA).
            tokens: the largest number of tokens in a batch.
        """

    def top_fillers(self, contexts: Sequence[str], k: int, *, tokens: int | None = None) -> list[list[str]]:
        """Return the k most probable single-token fillers of each context, most probable first."""


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

    def __init__(self, model: AWDLSTM, vocabulary: TokenVocabulary, *, name: str = "awd-lstm") -> None:
        if model.words != len(vocabulary):
            raise UsageError(f"the model has {model.words:,} words, the vocabulary {len(vocabulary):,}")
        self.model, self.vocabulary, self.name = model, vocabulary, name

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the log-probability of each text; see `Likelihood`."""
        import torch

        first = [self.vocabulary.index[EOS]] if EOS in self.vocabulary else []
        sequences = [
            np.concatenate([np.array(first, np.int64), self.vocabulary.encode(line_tokens(text))])
            for text in check_texts(texts)
        ]
        lengths = [len(ids) for ids in sequences]
        totals = np.zeros(len(sequences))
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                for rows in batches_by_length(lengths, TEXTS_AT_ONCE if batch is None else batch):
                    totals[rows] = self._score([sequences[row] for row in rows])
        finally:
            self.model.train(training)
        counts = np.array([max(0, length - 1) for length in lengths], dtype=np.int64)
        return TextScores(check_scores(totals, self.name), counts)

    def _score(self, sequences: list[np.ndarray]) -> Vector64:
        """Return the log-probabilities of sequences, read side by side with their states carried along."""
        import torch

        ids, lengths = (torch.from_numpy(array).to(self.model.device) for array in pad(sequences))
        totals = torch.zeros(len(sequences), dtype=torch.float64, device=ids.device)
        step = max(1, SCORES_AT_ONCE // (self.model.words * len(sequences)))
        state = self.model.start(len(sequences))
        for start in range(0, ids.shape[1] - 1, step):
            stop = min(start + step, ids.shape[1] - 1)
            logits, state, *_ = self.model(ids[:, start:stop].T, state)
            totals += token_scores(logits.transpose(0, 1), ids[:, start + 1 : stop + 1], lengths - 1 - start).sum(dim=1)
        return np.asarray(totals.cpu().numpy(), dtype=np.float64)


def check_texts(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts; raise an error for a single text or for items that are not valid text."""
    if isinstance(texts, str):
        raise UsageError("texts is a single text", hint="pass a list of texts")
    for number, text in enumerate(texts):
        try:
            text.encode()
        except (AttributeError, UnicodeEncodeError) as error:  # not a string, or half of a surrogate pair
            raise UsageError(f"item {number} is not a text that can be encoded: {text!r:.60}") from error
    return texts


def check_scores(totals: Vector64, name: str) -> Vector64:
    """Return the scores; raise an error where the model gives NaN or infinity."""
    if not np.isfinite(totals).all():
        row = int(np.argmin(np.isfinite(totals)))
        raise DegenerateError(f"{name}: the log-probability of text {row} is {totals[row]}", hint="check the weights")
    return totals


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


class Padded(NamedTuple):
    """Token ids (sequences, longest length), and the length of each sequence."""

    ids: Rows
    lengths: Rows


def pad(sequences: Sequence[np.ndarray]) -> Padded:
    """Return sequences as one array, each continued with its own last token; a causal model does not look there."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ids = np.empty((len(sequences), int(lengths.max())), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        ids[row, len(sequence) :] = sequence[-1]
    return Padded(ids, lengths)


def token_scores(logits: torch.Tensor, targets: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of each target in double precision, and 0 beyond the count of its row.

    Args:
        logits: scores of the next token, (rows, steps, tokens).
        targets: the next tokens, (rows, steps).
        counts: how many targets of each row count, (rows,).
    """
    import torch

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
    import torch
    from torch.nn import functional

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
