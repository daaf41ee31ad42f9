"""Chat models whose answers a test writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evenhand.models.lm.chat import Choices, Conversation


class TextChat:
    """A chat model whose shares of the options, and whose written answers, are functions of the last message."""

    name = "scripted"

    def __init__(
        self,
        choose: Callable[[str, Sequence[str]], Sequence[float]] | None = None,
        answer: Callable[[str], str] | None = None,
        *,
        samples: int = 0,
    ) -> None:
        self.rule, self.writer, self.samples = choose, answer, samples
        self.asked: list[str] = []

    def choose(
        self, conversations: Sequence[Conversation], options: Sequence[str], *, samples: int = 20, seed: int = 0
    ) -> Choices:
        texts = [conversation[-1]["content"] for conversation in conversations]
        self.asked += texts
        assert self.rule is not None
        shares = np.array([self.rule(text, options) for text in texts], dtype=float)
        read = "sampled answers" if self.samples else "log-probabilities"
        return Choices(shares, 1 - shares.sum(axis=1), read, self.samples)

    def answer(self, conversations: Sequence[Conversation], *, samples: int = 1, **settings: object) -> list[list[str]]:
        texts = [conversation[-1]["content"] for conversation in conversations]
        self.asked += texts
        assert self.writer is not None
        return [[self.writer(text) for _ in range(samples)] for text in texts]


def sigmoid(z: float, clear: float = 1.0) -> list[float]:
    """Shares of yes and no with a logit, of which `clear` is the share that says either."""
    p = 1 / (1 + float(np.exp(-z)))
    return [clear * p, clear * (1 - p)]
