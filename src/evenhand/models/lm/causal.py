"""Any causal language model of `transformers` from a folder: text from it, and how well it predicts text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import DegenerateError, UsageError, require
from evenhand.models.device import resolve_device, resolve_precision, torch_dtype
from evenhand.models.huggingface import load_model, load_tokenizer, quiet
from evenhand.models.lm.settings import check_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FEW = 32  # samples side by side unless said
LONGEST = 2048  # tokens looked back at for a perplexity, where the model could look further


@dataclass(frozen=True)
class Likelihood:
    """How well texts are predicted: exp of the mean negative log probability, by token and by word.

    Perplexities by token compare only models with the same tokenizer; by word (parted by blanks) all that spell out
    every text. `token` and `word` come from the same sum over all tokens.
    """

    token: float
    word: float
    tokens: int
    words: int
    window: int
    stride: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


class CausalLM:
    """A causal language model and its tokenizer, from local files only.

    Args:
        folder: written by `save_pretrained`, with weights as safetensors; or a GGUF file of a Llama model, or a folder
            with one. Files that may run code when opened (pickles, code beside the model) are refused.
        device: cpu, cuda or auto.
        precision: float32, bfloat16, float16; `auto` is bfloat16 on a GPU and float32 elsewhere.
    """

    def __init__(self, folder: str | Path, *, device: str = "auto", precision: str = "auto") -> None:
        self.folder = Path(folder)
        self.device = resolve_device(device)
        self.precision = resolve_precision(precision, self.device)
        self.model, self.tokenizer = read_folder(self.folder, self.precision)
        self.model.to(self.device).eval()

    @property
    def window(self) -> int:
        """How many tokens the model can look at."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or LONGEST)

    def describe(self) -> dict[str, Any]:
        """What a record keeps of it."""
        kind, count = type(self.model).__name__, sum(p.numel() for p in self.model.parameters())
        return {"kind": kind, "parameters": count, "precision": self.precision, "device": self.device}

    def generate(
        self,
        samples: int = 2000,
        tokens: int = 500,
        *,
        seed: int = 0,
        batch: int = FEW,
        temperature: float = 1.0,
        start: str = "",
        progress: Callable[[int, int, str], None] | None = None,
    ) -> list[str]:
        """Draw texts from the model as it is: all tokens allowed, no nucleus, no cut to the likeliest.

        A text begins with the model's own mark of a beginning, or with `start`, which is not part of it, and has at
        most `tokens` tokens; it ends earlier where the model ends it. Text i is drawn with random numbers that depend
        on the seed and i alone.
        """
        check_seed(seed)
        first = self._first(start)
        if min(samples, tokens, batch) < 1 or not temperature > 0:
            raise UsageError(
                f"samples, tokens and batch start at 1 and a temperature lies above 0, got {samples}, {tokens}, "
                f"{batch} and {temperature}"
            )
        if len(first) + tokens > self.window:
            raise UsageError(
                f"{len(first)} + {tokens} tokens are more than the {self.window} that the model can look at",
                hint=f"ask for at most {self.window - len(first)} tokens",
            )
        texts: list[str] = []
        for low in range(0, samples, batch):
            chosen = range(low, min(low + batch, samples))
            rows = np.stack([np.random.default_rng([seed, i]).random(tokens, dtype=np.float32) for i in chosen])
            drawn = self._draw(first, rows, temperature)
            texts += self.tokenizer.batch_decode(self._until_end(drawn), skip_special_tokens=True)
            if progress:
                progress(len(texts), samples, "samples")
        return texts

    def perplexity(self, texts: Iterable[str], *, window: int = 0, stride: int = 0) -> Likelihood:
        """How well the model predicts texts, each from its beginning.

        A text that is longer than the window is read in overlapping windows, `stride` tokens further each time (half a
        window unless said); each token counts once, in the first window that holds it, so that it has at least
        window - stride tokens before it, except in the first window.
        """
        width = window or min(self.window, LONGEST)
        step = stride or max(1, width // 2)
        if not (2 <= width <= self.window and 1 <= step < width):
            raise UsageError(
                f"a window of {width} tokens that moves on by {step}",
                hint=f"the window has 2 to {self.window} tokens, and the stride is smaller",
            )
        total, tokens, words = 0.0, 0, 0
        for text in texts:
            loss, count = self._loss(text, width, step)
            total, tokens, words = total + loss, tokens + count, words + len(text.split())
        if not tokens or not words or not math.isfinite(total):
            raise DegenerateError(f"no perplexity of {tokens} tokens, {words} words with a loss of {total}")
        return Likelihood(math.exp(total / tokens), math.exp(total / words), tokens, words, width, step)

    def _first(self, start: str) -> list[int]:
        """The tokens that a text begins after."""
        mark = next((i for i in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id) if i is not None), None)
        first = [] if mark is None else [int(mark)]
        first += self.tokenizer.encode(start, add_special_tokens=False) if start else []
        if not first:
            raise UsageError("the tokenizer has no mark for the beginning of a text", hint="give start, such as 'The'")
        return first

    def _ends(self) -> set[int]:
        given = self.model.generation_config.eos_token_id if self.model.generation_config else None
        found = given if isinstance(given, list) else [given]
        return {int(i) for i in (*found, self.tokenizer.eos_token_id) if i is not None}

    def _until_end(self, drawn: Any) -> list[list[int]]:
        ends = self._ends()
        stops = [next((at for at, token in enumerate(row) if token in ends), len(row)) for row in drawn]
        return [row[:stop] for row, stop in zip(drawn, stops, strict=True)]

    def _draw(self, first: list[int], uniform: Any, temperature: float) -> list[list[int]]:
        torch: Any = require("torch", extra="models")
        draws = torch.from_numpy(np.ascontiguousarray(uniform.T)).to(self.device)
        ends = torch.tensor(sorted(self._ends()), device=self.device)
        current = torch.tensor([first] * draws.shape[1], device=self.device)
        found, past = [], None
        done = torch.zeros(draws.shape[1], dtype=torch.bool, device=self.device)
        with torch.inference_mode():
            for number in draws:
                out = self.model(input_ids=current, past_key_values=past, use_cache=True, logits_to_keep=1)
                past = out.past_key_values
                reached = torch.softmax(out.logits[:, -1].float() / temperature, dim=-1).cumsum(dim=-1)
                # The last sum is 1 but for rounding: measured against itself, no draw falls behind the last token.
                current = torch.searchsorted(reached, (number * reached[:, -1])[:, None], right=True)
                current = current.clamp_(max=reached.shape[-1] - 1)
                found.append(current)
                done |= torch.isin(current[:, 0], ends)
                if bool(done.all()):
                    break
        rows: list[list[int]] = torch.cat(found, dim=1).tolist()
        return rows

    def _loss(self, text: str, width: int, step: int) -> tuple[float, int]:
        """Summed negative log probability of a text's tokens, and how many they are."""
        torch: Any = require("torch", extra="models")
        mark = self._first("")
        ids = torch.tensor(mark + self.tokenizer.encode(text, add_special_tokens=False), device=self.device)
        total, counted = 0.0, 1
        with torch.inference_mode():
            for low in range(0, len(ids), step):
                part = ids[low : low + width]
                new = low + len(part) - counted
                if new <= 0:
                    break
                logits = self.model(input_ids=part[None, :-1]).logits[0, -new:].float()
                total += float(torch.nn.functional.cross_entropy(logits, part[-new:], reduction="sum"))
                counted += new
        return total, len(ids) - len(mark)


def read_folder(folder: Path, precision: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return model and tokenizer of a model folder or a GGUF file."""
    packed = [folder] if folder.is_file() else sorted(folder.glob("*.gguf"))
    if packed and not (folder / "config.json").is_file():
        from evenhand.models.lm.gguf import read_gguf

        with quiet(require("transformers", extra="models")):
            return read_gguf(packed[0], torch_dtype(precision))
    return load_model(folder, "causal-lm", precision=precision).model, load_tokenizer(folder)
