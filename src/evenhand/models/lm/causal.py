"""Causal language models from Hugging Face folders and GGUF files: sampled texts, log-probabilities and perplexity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DegenerateError, UsageError, require
from evenhand.models.lm.likelihood import TextScores, batches_by_length, check_scores, check_texts, pad, token_scores
from evenhand.models.lm.settings import check_seed
from evenhand.models.transformer import Transformer

TEXTS_AT_ONCE = 32  # texts sampled or scored side by side by default
TOKENS_AT_ONCE = {"cuda": 16_384}  # tokens scored at once; elsewhere FEW_TOKENS
FEW_TOKENS = 1_024
LONGEST = 2048  # tokens of context for a score, where the model could use more


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of texts by token and by word, both from the same sum over all tokens.

    Perplexities by token compare only models with the same tokenizer; by whitespace-separated word, they compare all
    models whose tokenizers can spell every text.
    """

    token: float
    word: float
    tokens: int
    words: int
    window: int
    stride: int

    def to_dict(self) -> dict[str, float]:
        """Return plain data for JSON."""
        return asdict(self)


class TextWindow(NamedTuple):
    """A stretch of a text's tokens, of which the last `new` ones are scored."""

    text: int
    ids: NDArray[np.int64]
    new: int


class CausalLM:
    """A causal language model and its tokenizer, from local files only; implements `Likelihood`.

    Args:
        source: a folder written by `save_pretrained`, with weights as safetensors; a GGUF file of a Llama model; or a
            folder with one. Pickled weights and code beside the model are refused. A loaded `Transformer` is used as
            it is, with its device and precision.
        device: auto, cpu, cuda or cuda:N.
        precision: float32, bfloat16, float16; `auto` is bfloat16 on a GPU and float32 elsewhere.
        name: for reports; that of the folder or file by default.
    """

    def __init__(
        self, source: str | Path | Transformer, *, device: str = "auto", precision: str = "auto", name: str = ""
    ) -> None:
        if not isinstance(source, Transformer):
            source = Transformer.load(source, "causal-lm", device=device, precision=precision)
        self.transformer = transformer = source
        self.name = name or transformer.name
        self.device, self.precision = transformer.device, transformer.precision
        self.model, self.tokenizer = transformer.model, transformer.tokenizer

    @property
    def window(self) -> int:
        """The largest number of tokens that the model can read."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or LONGEST)

    def describe(self) -> dict[str, object]:
        """Return class, size, precision and device for records."""
        kind, count = type(self.model).__name__, sum(p.numel() for p in self.model.parameters())
        return {"kind": kind, "parameters": count, "precision": self.precision, "device": self.device}

    def generate(
        self,
        samples: int = 2000,
        tokens: int = 500,
        *,
        seed: int = 0,
        batch: int = TEXTS_AT_ONCE,
        temperature: float = 1.0,
        start: str = "",
        progress: Callable[[int, int, str], None] | None = None,
    ) -> list[str]:
        """Sample texts from the full distribution of the model, without top-k or nucleus truncation.

        Text i depends on the seed and i alone, not on the number of texts or the batch.

        Args:
            samples: number of texts.
            tokens: the largest number of tokens in a text; a text is shorter where the model ends it.
            seed: seed of the samples.
            batch: texts sampled side by side.
            temperature: divisor of the logits.
            start: text that each sample continues, after the model's token for the beginning of a text. It is not part
                of the result.
            progress: called with (done, total, unit).
        """
        check_seed(seed)
        first = self._first_ids(start)
        if min(samples, tokens, batch) < 1 or not temperature > 0:
            raise UsageError(
                f"samples, tokens and batch must be at least 1 and temperature above 0, got {samples}, {tokens}, "
                f"{batch} and {temperature}"
            )
        if len(first) + tokens > self.window:
            raise UsageError(
                f"{len(first)} + {tokens} tokens are more than the {self.window} that the model can read",
                hint=f"use at most {self.window - len(first)} tokens",
            )
        texts: list[str] = []
        for low in range(0, samples, batch):
            numbers = range(low, min(low + batch, samples))
            uniform = np.stack([np.random.default_rng([seed, i]).random(tokens, dtype=np.float32) for i in numbers])
            ids = self._sample(first, uniform, temperature)
            texts += self.tokenizer.batch_decode(self._cut_at_end(ids), skip_special_tokens=True)
            if progress:
                progress(len(texts), samples, "samples")
        return texts

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the log-probability of each text, its first token included; see `Likelihood`.

        A text longer than the window is read in overlapping windows, as in `perplexity`.
        """
        width = min(self.window, LONGEST)
        return self._score(texts, width, max(1, width // 2), batch)

    def perplexity(
        self, texts: Iterable[str], *, window: int = 0, stride: int = 0, batch: int | None = None
    ) -> Perplexity:
        """Return the perplexity of texts, each predicted from its beginning.

        A text longer than the window is read in overlapping windows. Each token is scored once, in the first window
        that contains it, so it has at least window - stride tokens before it, except in the first window.

        Args:
            texts: the texts.
            window: tokens in a window; as many as the model can read, up to 2,048, by default.
            stride: tokens from one window to the next; half a window by default.
            batch: windows scored at once.
        """
        width = window or min(self.window, LONGEST)
        step = stride or max(1, width // 2)
        if not (2 <= width <= self.window and 1 <= step < width):
            raise UsageError(
                f"window {width} with stride {step} is not possible",
                hint=f"use a window of 2 to {self.window} tokens and a smaller stride",
            )
        listed = list(texts)
        scores = self._score(listed, width, step, batch)
        total, tokens = -float(scores.log_probabilities.sum()), int(scores.tokens.sum())
        words = sum(len(text.split()) for text in listed)
        if not tokens or not words:
            raise DegenerateError(f"perplexity is undefined for {tokens} tokens and {words} words")
        return Perplexity(math.exp(total / tokens), math.exp(total / words), tokens, words, width, step)

    def _score(self, texts: Sequence[str], width: int, step: int, batch: int | None) -> TextScores:
        torch = require("torch", extra="models")
        first = self._first_ids("")
        windows: list[TextWindow] = []
        counts = np.zeros(len(texts), dtype=np.int64)
        for number, text in enumerate(check_texts(texts)):
            ids = np.array(first + self.tokenizer.encode(text, add_special_tokens=False), dtype=np.int64)
            counts[number] = len(ids) - len(first)
            windows += _windows(number, ids, width, step)
        totals = np.zeros(len(texts))
        lengths = [len(window.ids) for window in windows]
        tokens = TOKENS_AT_ONCE.get(self.device.partition(":")[0], FEW_TOKENS)
        longest = tokens if batch is None else None
        with torch.inference_mode():
            for rows in batches_by_length(lengths, tokens if batch is None else batch, longest=longest):
                for row, score in zip(rows, self._score_windows([windows[row] for row in rows]), strict=True):
                    totals[windows[row].text] += score
        return TextScores(check_scores(totals, self.name), counts)

    def _score_windows(self, windows: list[TextWindow]) -> list[float]:
        """Return the log-probability of the new tokens of each window."""
        torch = require("torch", extra="models")
        ids, lengths = (torch.from_numpy(array).to(self.device) for array in pad([window.ids for window in windows]))
        logits = self.model(input_ids=ids[:, :-1]).logits
        scores = token_scores(logits, ids[:, 1:], lengths - 1)
        skipped = torch.tensor([len(window.ids) - 1 - window.new for window in windows], device=scores.device)
        before = torch.arange(scores.shape[1], device=scores.device) < skipped[:, None]
        totals: list[float] = scores.masked_fill(before, 0.0).sum(dim=1).tolist()
        return totals

    def _first_ids(self, start: str) -> list[int]:
        """Return the token for the beginning of a text, followed by those of `start`."""
        ids = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        first = [int(token) for token in ids if token is not None][:1]
        first += self.tokenizer.encode(start, add_special_tokens=False) if start else []
        if not first:
            raise UsageError("the tokenizer has no token for the beginning of a text", hint="give start, such as 'The'")
        return first

    def _end_ids(self) -> set[int]:
        """Return the tokens that end a text."""
        configured = self.model.generation_config.eos_token_id if self.model.generation_config else None
        ids = configured if isinstance(configured, list) else [configured]
        return {int(token) for token in (*ids, self.tokenizer.eos_token_id) if token is not None}

    def _cut_at_end(self, rows: list[list[int]]) -> list[list[int]]:
        ends = self._end_ids()
        stops = [next((step for step, token in enumerate(row) if token in ends), len(row)) for row in rows]
        return [row[:stop] for row, stop in zip(rows, stops, strict=True)]

    def _sample(self, first: list[int], uniform: NDArray[np.float32], temperature: float) -> list[list[int]]:
        """Return sampled token ids, one row for each row of uniform numbers."""
        torch = require("torch", extra="models")
        draws = torch.from_numpy(np.ascontiguousarray(uniform.T)).to(self.device)
        ends = torch.tensor(sorted(self._end_ids()), device=self.device)
        current = torch.tensor([first] * draws.shape[1], device=self.device)
        steps, past = [], None
        done = torch.zeros(draws.shape[1], dtype=torch.bool, device=self.device)
        with torch.inference_mode():
            for number in draws:
                out = self.model(input_ids=current, past_key_values=past, use_cache=True, logits_to_keep=1)
                past = out.past_key_values
                cumulative = torch.softmax(out.logits[:, -1].float() / temperature, dim=-1).cumsum(dim=-1)
                # The last sum is 1 only up to rounding; relative to it, no draw lies beyond the last token.
                current = torch.searchsorted(cumulative, (number * cumulative[:, -1])[:, None], right=True)
                current = current.clamp_(max=cumulative.shape[-1] - 1)
                steps.append(current)
                done |= torch.isin(current[:, 0], ends)
                if bool(done.all()):
                    break
        rows: list[list[int]] = torch.cat(steps, dim=1).tolist()
        return rows


def _windows(text: int, ids: NDArray[np.int64], width: int, step: int) -> list[TextWindow]:
    """Split a text into overlapping windows; each token but the first is new in exactly one."""
    windows, scored = [], 1
    for low in range(0, len(ids), step):
        part = ids[low : low + width]
        new = low + len(part) - scored
        if new <= 0:
            break
        windows.append(TextWindow(text, part, new))
        scored += new
    return windows
