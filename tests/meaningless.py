"""Numbers, models and judges without a meaning, so that no branch of a measure is left out by a model that makes sense."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

WORDS = ("office", "home", "salary", "family", "rain", "bread", "she", "awful", "professional", "wedding")


def number(*parts: object) -> float:
    """Return a number in [0, 1) that depends on its arguments in no meaningful way."""
    digest = hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


class Judging:
    """A classifier of two labels, or a head that gives a score without limits."""

    def __init__(self, name: str = "judging", *, unit: str = "probability", steps: int = 1000) -> None:
        self.name, self.unit, self.steps = name, unit, steps
        self.labels: tuple[str, ...] = ("score",) if unit == "score" else ("no", "yes")
        self.exclusive = unit != "score"

    def predict(self, texts: Sequence[str], *, tokens: int | None = None) -> np.ndarray:
        yes = np.array([round(self.steps * number(text, self.name)) / self.steps for text in texts])
        return 5 * yes[:, None] - 3 if self.unit == "score" else np.stack([1 - yes, yes], axis=1)


class Writing:
    """Continues prompts by some words; without words, by nothing."""

    name = "writing"

    def __init__(self, words: Sequence[str] = WORDS) -> None:
        self.words = words

    def continuations(
        self, prompts: Sequence[str], *, samples: int, tokens: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        return [[self._text(prompt, sample, seed) for sample in range(samples)] for prompt in prompts]

    def _text(self, prompt: str, sample: int, seed: int) -> str:
        length = int(8 * number(prompt, sample, seed, "length")) if self.words else 0
        return " ".join(self.words[int(len(self.words) * number(prompt, sample, n))] for n in range(length))


def plain(value: Any) -> Any:
    """Return measurements, dataclasses and arrays as plain data."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, list | tuple | set | frozenset) else value
