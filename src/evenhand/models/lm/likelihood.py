"""How well language models predict texts: the `Likelihood` protocols, their scores, and texts with a blank.

A score is the sum of the natural log-probabilities of a text's tokens, with the number of tokens. A causal model
predicts each token from those before it, a masked model from all others (a pseudo-log-likelihood). Scores per token
compare only models with the same tokenizer, and never a causal with a masked model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, EvenhandWarning, UsageError
from evenhand.models.tokenizing import EncodedText, check_texts, covering


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
        spans: first and one past the last character of the text that each token covers, without leading white space,
            (tokens, 2).
        log_probabilities: of each token; NaN where it was not asked for, and where the model predicts no first token.
    """

    ids: Rows
    spans: Rows
    log_probabilities: Vector64

    def covering(self, start: int, stop: int) -> list[int]:
        """Return the tokens that cover a character from `start` to `stop`, the last excluded."""
        return covering(self.spans, start, stop)

    @classmethod
    def unscored(cls, text: EncodedText) -> TokenScores:
        """Return the tokens of a text with NaN for their log-probabilities."""
        return cls(text.ids, text.spans, np.full(len(text.ids), np.nan))


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
        comparable between fillers of one context only. `filler_tokens` counts the tokens of the fillers.
        """


@runtime_checkable
class MaskedLikelihood(TokenLikelihood, Protocol):
    """A masked language model.

    Attributes:
        mask_token: the text of the mask; a context that contains it is read with that token masked.
        longest: how many tokens a text can have, special tokens not counted.
    """

    mask_token: str
    longest: int

    def span_log_probabilities(
        self,
        texts: Sequence[str],
        spans: Sequence[tuple[int, int]],
        *,
        later: Literal["masked", "absent"] = "masked",
        tokens: int | None = None,
    ) -> list[Vector64]:
        """Return the log-probability of each token that covers a span of each text.

        The tokens are masked together and predicted from left to right with the earlier ones shown.

        Args:
            texts: the texts.
            spans: first and one past the last character of the part that is predicted.
            later: whether the tokens after the predicted one are masked too, or left out so that a single mask stands
                for the rest of the span (StereoSet).
            tokens: the largest number of tokens in a batch.
        """

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


def conditional_log_probabilities(
    view: TokenLikelihood, contexts: Sequence[str], texts: Sequence[str], *, separator: str = " "
) -> TextScores:
    """Return the log-probability of each text after its context, and the number of the text's tokens.

    Context and text are read as one text. A causal model gives log P(text | context), a masked model the
    pseudo-log-likelihood of the text's tokens beside the context. A token that covers characters of both, which a
    separator usually prevents, counts as part of the text.

    Args:
        view: the model.
        contexts: what precedes each text.
        texts: the texts, as many as contexts.
        separator: what stands between the two.
    """
    if len(check_texts(contexts)) != len(check_texts(texts)):
        raise UsageError(f"there are {len(contexts)} contexts, but {len(texts)} texts")
    starts = [len(context) + len(separator) for context in contexts]
    joined = [f"{context}{separator}{text}" for context, text in zip(contexts, texts, strict=True)]
    spans = [scores.spans for scores in view.token_ids(joined)]
    chosen = [covering(span, start, len(text)) for span, start, text in zip(spans, starts, joined, strict=True)]
    scores = view.token_log_probabilities(joined, chosen)
    totals = [score.log_probabilities[rows].sum() for score, rows in zip(scores, chosen, strict=True)]
    return TextScores(np.array(totals, dtype=np.float64), np.array([len(rows) for rows in chosen], dtype=np.int64))


def filler_tokens(view: TokenLikelihood, contexts: Sequence[str], fillers: Sequence[str]) -> Rows:
    """Return the number of tokens of each filler in each context, (contexts, fillers)."""
    filled = [fill(context, filler) for context in check_texts(contexts) for filler in check_texts(fillers)]
    tokens = view.token_ids([sentence for sentence, *_ in filled])
    counts = [len(text.covering(start, stop)) for text, (_, start, stop) in zip(tokens, filled, strict=True)]
    return np.array(counts, dtype=np.int64).reshape(len(contexts), len(fillers))


def fill(context: str, filler: str) -> tuple[str, int, int]:
    """Return a context with its `{}` replaced, and the first and one past the last character of the filler.

    >>> fill("{} is a nurse", "She")
    ('She is a nurse', 0, 3)
    """
    before, *rest = context.split("{}")
    if len(rest) != 1:
        raise UsageError(f"the context {context!r} has {len(rest)} blanks", hint="write {} once, where the filler goes")
    if not filler.strip():
        raise UsageError(f"the filler {filler!r} is empty")
    return f"{before}{filler}{rest[0]}", len(before), len(before) + len(filler)


def score_fillers(view: Likelihood, contexts: Sequence[str], fillers: Sequence[str], batch: int | None) -> Matrix64:
    """Return the log-probability of each filled context under a causal model, (contexts, fillers)."""
    texts = [fill(context, filler)[0] for context in check_texts(contexts) for filler in check_texts(fillers)]
    return view.log_probabilities(texts, batch=batch).log_probabilities.reshape(len(contexts), len(fillers))


def warn_windowed(name: str, lengths: Sequence[int], longest: int, context: str) -> None:
    """Warn if texts have more tokens than a model can read at once, so that a record says how they were scored.

    Args:
        name: of the model.
        lengths: tokens of each text.
        longest: how many tokens a text can have.
        context: what each token of a longer text is predicted from.
    """
    if count := sum(length > longest for length in lengths):
        warnings.warn(
            f"{name}: {count:,} of {len(lengths):,} texts have more than the {longest:,} tokens that the model reads "
            f"at once; each of their tokens is predicted from {context}",
            EvenhandWarning,
            stacklevel=4,
        )


def check_scores(totals: Vector64, name: str) -> Vector64:
    """Return the scores; raise an error where the model gives NaN or infinity."""
    if not np.isfinite(totals).all():
        row = int(np.argmin(np.isfinite(totals)))
        raise DegenerateError(f"{name}: the log-probability of text {row} is {totals[row]}", hint="check the weights")
    return totals


def check_seed(seed: int) -> None:
    """Raise an error unless the seed is an integer of at least 0."""
    if not isinstance(seed, int) or seed < 0:
        raise UsageError(f"seed must be an integer of at least 0, got {seed!r}")
