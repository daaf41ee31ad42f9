"""A language model whose probabilities are written by hand: tokens are words and marks, scored by a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from evenhand.models.lm.likelihood import TextScores, TokenScores, fill

TOKEN = re.compile(r"\w+|[^\w\s]")
# Log-probability of the token at an index among the tokens of a text.
TokenScore = Callable[[list[str], int], float]


def uniform(size: int = 50) -> TokenScore:
    """Every token is equally probable."""
    return lambda tokens, index: -float(np.log(size))


def table(probabilities: dict[str, float], other: float = 0.01) -> TokenScore:
    """Probabilities that depend on the token alone."""
    return lambda tokens, index: float(np.log(probabilities.get(tokens[index].lower(), other)))


class ScriptedModel:
    """Implements `MaskedLikelihood`, or with `masked=False` the part of it that a causal model has."""

    mask_token = "[MASK]"
    longest = 512

    def __init__(self, score: TokenScore, *, masked: bool = False, fillers: Sequence[str] = ()) -> None:
        self.score, self.masked, self.fillers, self.name = score, masked, list(fillers), "scripted"

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        spans = [np.array([match.span() for match in TOKEN.finditer(text)]).reshape(-1, 2) for text in texts]
        return [TokenScores(np.arange(len(s)), s, np.full(len(s), np.nan)) for s in spans]

    def token_log_probabilities(
        self, texts: Sequence[str], positions: object = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        found = []
        for text, scores in zip(texts, self.token_ids(texts), strict=True):
            words = TOKEN.findall(text)
            found.append(
                TokenScores(scores.ids, scores.spans, np.array([self.score(words, i) for i in range(len(words))]))
            )
        return found

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        scores = self.token_log_probabilities(texts)
        return TextScores(np.array([s.log_probabilities.sum() for s in scores]), np.array([len(s.ids) for s in scores]))

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> np.ndarray:
        rows = []
        for context in contexts:
            row = []
            for filler in fillers:
                text, start, stop = fill(context, filler)
                (scores,) = self.token_log_probabilities([text])
                chosen = scores.covering(start, stop) if self.masked else slice(None)
                row.append(scores.log_probabilities[chosen].sum())
            rows.append(row)
        return np.array(rows, dtype=np.float64).reshape(len(contexts), len(fillers))

    def span_log_probabilities(
        self,
        texts: Sequence[str],
        spans: Sequence[tuple[int, int]],
        *,
        later: str = "masked",
        tokens: int | None = None,
    ) -> list[np.ndarray]:
        scores = self.token_log_probabilities(texts)
        return [s.log_probabilities[s.covering(*span)] for s, span in zip(scores, spans, strict=True)]

    def unmasked_log_probabilities(
        self, texts: Sequence[str], *, attention: bool = False, tokens: int | None = None
    ) -> list[TokenScores]:
        return self.token_log_probabilities(texts)

    def top_fillers(self, contexts: Sequence[str], k: int, *, tokens: int | None = None) -> list[list[str]]:
        return [self.fillers[:k] for _ in contexts]


class ScriptedCausalModel:
    """A causal model that also continues texts; it has no masks, and so is not a `MaskedLikelihood`."""

    masked = False

    def __init__(self, score: TokenScore, continuation: str = "") -> None:
        self.name, self._inner, self.continuation = "scripted-causal", ScriptedModel(score), continuation
        self.token_ids = self._inner.token_ids
        self.token_log_probabilities = self._inner.token_log_probabilities
        self.log_probabilities = self._inner.log_probabilities
        self.filler_log_probabilities = self._inner.filler_log_probabilities

    def generate(self, samples: int = 1, tokens: int = 1, *, seed: int = 0, start: str = "") -> list[str]:
        return [self.continuation.format(start=start)] * samples
