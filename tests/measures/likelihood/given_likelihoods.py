"""Language models with given scores, so that what a measure makes of them can be computed by hand."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from evenhand.models.lm.likelihood import TextScores, TokenScores

Score = Callable[[str, str], float]  # text and token to log-probability


def hashed(text: str, token: str) -> float:
    """Return a number that depends on text and token in no meaningful way."""
    return -zlib.crc32(f"{text}|{token}".encode()) / 2**32 * 5 - 0.1


class GivenTokens:
    """Whitespace-separated tokens with the log-probabilities of a function."""

    longest = 100
    mask_token = "[MASK]"

    def __init__(self, score: Score = hashed, *, masked: bool = True) -> None:
        self.score, self.masked, self.name = score, masked, "given"

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        tokens = []
        for text in texts:
            words = text.split()
            ids = np.array([zlib.crc32(word.encode()) for word in words], dtype=np.int64)
            starts = [text.index(word) for word in words]
            spans = np.array([(start, start + len(word)) for start, word in zip(starts, words, strict=True)])
            tokens.append(TokenScores(ids, spans.reshape(-1, 2), np.full(len(ids), np.nan)))
        return tokens

    def token_log_probabilities(
        self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        scores = self.token_ids(texts)
        for number, (text, score) in enumerate(zip(texts, scores, strict=True)):
            for row in range(len(score.ids)) if positions is None else positions[number]:
                score.log_probabilities[row] = self.score(text, text.split()[row])
        return scores

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        scores = self.token_log_probabilities(texts)
        totals = [score.log_probabilities.sum() for score in scores]
        return TextScores(np.array(totals), np.array([len(score.ids) for score in scores]))

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> np.ndarray:
        return np.array([[self.score(context, filler) for filler in fillers] for context in contexts])

    def span_log_probabilities(
        self,
        texts: Sequence[str],
        spans: Sequence[tuple[int, int]],
        *,
        later: str = "masked",
        tokens: int | None = None,
    ) -> list[np.ndarray]:
        return [np.array([self.score(text, text[slice(*span)])]) for text, span in zip(texts, spans, strict=True)]

    def unmasked_log_probabilities(
        self, texts: Sequence[str], *, attention: bool = False, tokens: int | None = None
    ) -> list[TokenScores]:
        return self.token_log_probabilities(texts)

    def top_fillers(self, contexts: Sequence[str], k: int, *, tokens: int | None = None) -> list[list[str]]:
        return [["nurse", "doctor", "teacher"][:k] for _ in contexts]
