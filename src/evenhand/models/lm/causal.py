"""Causal language models from Hugging Face folders and GGUF files: sampled texts, log-probabilities and perplexity."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, TextTooLongError, UsageError, require
from evenhand.files import require_inside, write_text
from evenhand.models.device import run_in_batches, tokens_at_once
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.lm.forward import logits_at, positions_at_once
from evenhand.models.lm.likelihood import (
    TextScores,
    TokenScores,
    check_scores,
    check_seed,
    score_fillers,
    warn_windowed,
)
from evenhand.models.lm.sampling import batches_of, sample, uniform_draws
from evenhand.models.shared_beginnings import LONGEST_ROW, TokenTree, plant, reads_trees, tree_inputs
from evenhand.models.tokenizing import Beginning, beginning_of, check_texts, encode_one, encode_texts, tokenizer_errors
from evenhand.progress import tell

if TYPE_CHECKING:
    import torch

MOST_TEXTS, FEWEST_TEXTS = 100, 32  # sampled side by side by default; the weights are read once for all of them
CACHE_BYTES = 1 << 30  # that the keys and values of these texts may take
COLDEST = 1e-6  # divisor of the logits that leaves the most probable token alone
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


class CausalLM:
    """A causal language model and its tokenizer, from local files only; implements `TokenLikelihood`.

    The first token of a text is predicted from the tokenizer's token for the beginning of a text, or for its end if it
    has none for the beginning (GPT-2). See `beginning_of` for models that read texts without such a token (Qwen).

    Args:
        source: a folder written by `save_pretrained`, with weights as safetensors; a GGUF file; or a folder
            with one. Pickled weights and code beside the model are refused. A loaded `Transformer` is used as
            it is, with its device and precision.
        device: auto, cpu, cuda or cuda:N.
        precision: float32, bfloat16, float16; `auto` is bfloat16 on a GPU and float32 elsewhere.
        name: for reports; that of the folder or file by default.
    """

    masked = False

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
        """The largest number of tokens that the model can read; see `Transformer.window`."""
        return self.transformer.window

    @property
    def chat_template(self) -> str | None:
        """The template that makes one text of a conversation, where the tokenizer has one."""
        template = getattr(self.tokenizer, "chat_template", None)
        return template if isinstance(template, str) else None

    def describe(self) -> dict[str, object]:
        """Return class, size, precision and device for records."""
        kind, count = type(self.model).__name__, sum(p.numel() for p in self.model.parameters())
        return {"kind": kind, "parameters": count, "precision": self.precision, "device": self.device}

    def texts_at_once(self, tokens: int) -> int:
        """Return how many texts of a number of tokens are sampled side by side by default."""
        config = self.model.config.get_text_config()
        names = ("num_hidden_layers", "num_attention_heads", "hidden_size")
        layers, heads, width = (int(getattr(config, name, None) or 0) for name in names)
        groups = int(getattr(config, "num_key_value_heads", None) or heads)
        each = 2 * layers * width * groups // max(1, heads) * self.model.dtype.itemsize * max(1, tokens)
        return max(FEWEST_TEXTS, min(MOST_TEXTS, CACHE_BYTES // each)) if each else FEWEST_TEXTS

    def generate(
        self,
        samples: int = 2000,
        tokens: int = 500,
        *,
        seed: int = 0,
        batch: int | None = None,
        temperature: float = 1.0,
        start: str = "",
        first_text: int = 0,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> list[str]:
        """Sample texts from the full distribution of the model, without top-k or nucleus truncation.

        Text i depends on the seed and i alone, not on the number of texts or the batch.

        Args:
            samples: number of texts.
            tokens: the largest number of tokens in a text; a text is shorter where the model ends it.
            seed: seed of the samples.
            batch: texts sampled side by side; `texts_at_once` by default.
            temperature: divisor of the logits.
            start: text that each sample continues, after the model's token for the beginning of a text. It is not part
                of the result.
            first_text: number of the first text, to go on where an earlier call ended.
            progress: called with (done, total, unit).
        """
        check_seed(seed)
        first = self._first_ids(start)
        batch = self.texts_at_once(len(first) + tokens) if batch is None else batch
        if min(samples, tokens, batch) < 1 or not temperature > 0:
            raise UsageError(
                f"samples, tokens and batch must be at least 1 and temperature above 0, got {samples}, {tokens}, "
                f"{batch} and {temperature}"
            )
        self._check_room(len(first), tokens)
        texts: list[str] = []
        for low in range(0, samples, batch):
            numbers = range(first_text + low, first_text + min(low + batch, samples))
            uniform = uniform_draws(seed, numbers, tokens)
            texts += self._texts([first] * len(numbers), uniform, temperature)
            if progress:
                progress(len(texts), samples, "samples")
        return texts

    def continuations(
        self,
        prompts: Sequence[str],
        *,
        samples: int,
        tokens: int,
        temperature: float = 1.0,
        batch: int | None = None,
        seed: int = 0,
    ) -> list[list[str]]:
        """Sample continuations of prompts; see `PromptWriter`. Prompts are sampled side by side."""
        first = [self._first_ids(prompt) for prompt in check_texts(prompts)]
        settings = ["continuations", list(prompts)]
        return self._continued(first, settings, samples, tokens, temperature, batch, seed)

    def continue_ids(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        samples: int,
        tokens: int,
        temperature: float = 1.0,
        batch: int | None = None,
        seed: int = 0,
    ) -> list[list[str]]:
        """Sample continuations of token ids, such as a rendered chat template; see `continuations`.

        A temperature of 0 takes the most probable token at each step.
        """
        first = [list(prompt) for prompt in prompts]
        if temperature == 0:
            temperature = COLDEST
        return self._continued(first, ["ids", first], samples, tokens, temperature, batch, seed)

    def _continued(
        self,
        first: list[list[int]],
        settings: Sequence[object],
        samples: int,
        tokens: int,
        temperature: float,
        batch: int | None,
        seed: int,
    ) -> list[list[str]]:
        """Return sampled continuations of rows of token ids."""
        check_seed(seed)
        longest = max(map(len, first), default=0)
        batch = self.texts_at_once(longest + tokens) if batch is None else batch
        if min(samples, tokens, batch) < 1 or not temperature > 0:
            raise UsageError(
                f"{samples} samples of {tokens} tokens, {batch} at once, at temperature {temperature} are not possible",
                hint="use at least 1 of each, and a temperature above 0",
            )
        self._check_room(longest, tokens)
        uniform = uniform_draws(seed, range(samples), tokens)
        texts: list[list[str]] = [[""] * samples for _ in first]
        cells = [(row, i) for row in range(len(first)) for i in range(samples)]
        parts = batches_of([len(first[row]) for row, _ in cells], batch, mixed=self._repeats(longest + tokens))
        settings = [*settings, samples, tokens, temperature, batch, seed, self.describe(), parts]
        done = 0
        for number, part in enumerate(parts):
            starts, draws = [first[cells[text][0]] for text in part], uniform[[cells[text][1] for text in part]]
            written = written_once(settings, number, partial(self._texts, starts, draws, temperature))
            for (row, i), text in zip((cells[text] for text in part), written, strict=True):
                texts[row][i] = text
            done += len(part)
            tell(done, len(cells), "texts")
        return texts

    def _check_room(self, prompt: int, tokens: int) -> None:
        """Raise `TextTooLongError` for more tokens than the model can read."""
        if prompt + tokens > self.window:
            raise TextTooLongError(
                f"{prompt} + {tokens} tokens are more than the {self.window} that the model can read",
                hint=f"use at most {self.window - prompt} tokens",
            )

    def _texts(self, first: list[list[int]], uniform: NDArray[np.float32], temperature: float) -> list[str]:
        """Return sampled texts; see `sample`."""
        longest = max(map(len, first)) + uniform.shape[1]
        plain = not self.transformer.reserved  # other passes of the model may have caches of their own
        rows = sample(
            self.model, first, uniform, temperature, ends=self._end_ids(), repeats=self._repeats(longest), drops=plain
        )
        return self._decode(rows)

    def _repeats(self, longest: int) -> bool:
        """Return whether texts can share the reading of a prompt, and prompts of different lengths a batch."""
        return not self.transformer.reserved and reads_trees(self.model, longest)

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the log-probability of each text, its first token included; see `Likelihood`.

        A text longer than the window is read in overlapping windows, as in `perplexity`, and a warning says so.
        """
        return self._sums(self._score_whole(self._encode(texts), most=batch))

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the tokens of each text; see `TokenLikelihood`."""
        return [TokenScores.unscored(text) for text in encode_texts(self.tokenizer, texts, special=False)]

    def token_log_probabilities(
        self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the tokens of each text with their log-probabilities, all from one pass; see `TokenLikelihood`."""
        scores = self.token_ids(texts)
        logs = self._score_whole([score.ids for score in scores], positions, tokens=tokens)
        return [TokenScores(score.ids, score.spans, part) for score, part in zip(scores, logs, strict=True)]

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> Matrix64:
        """Return the log-probability of each filled context; see `TokenLikelihood`."""
        return score_fillers(self, contexts, fillers, tokens and max(1, tokens // min(self.window, LONGEST)))

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
        scores = self._sums(self._score(self._encode(listed), width, step, most=batch))
        total, tokens = -float(scores.log_probabilities.sum()), int(scores.tokens.sum())
        words = sum(len(text.split()) for text in listed)
        if not tokens or not words:
            raise DegenerateError(f"perplexity is undefined for {tokens} tokens and {words} words")
        return Perplexity(math.exp(total / tokens), math.exp(total / words), tokens, words, width, step)

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens that the model can predict and the tokenizer can write."""
        return min(int(self.model.config.get_text_config().vocab_size), len(self.tokenizer))

    def next_token_shares(self, prompts: Sequence[Sequence[int]], groups: Sequence[Rows]) -> Matrix64:
        """Return the probability that the next token of each prompt is in each group of tokens, (prompts, groups).

        Args:
            prompts: token ids, of one token at least.
            groups: token ids of each group.

        Raises:
            TextTooLongError: If a prompt is longer than the model can read.
        """
        torch = require("torch", extra="models")
        shares = np.zeros((len(prompts), len(groups)))
        longest = max(map(len, prompts), default=0)
        if longest > self.window:
            raise TextTooLongError(
                f"a prompt of {longest:,} tokens is longer than the {self.window:,} that {self.name} reads",
                hint="use shorter texts",
            )

        limit, trees = tokens_at_once(self.device), self._trees([np.array(row, dtype=np.int64) for row in prompts])

        def compute(rows: Rows) -> None:
            chosen = [trees[row] for row in rows]
            numbers = [number for tree in chosen for number in tree.paths]
            places = [np.array([path[-1] for path in tree.paths.values()], dtype=np.int64) for tree in chosen]
            probabilities = self._logits(chosen, places).softmax(dim=-1)
            for column, group in enumerate(groups):
                wanted = torch.from_numpy(group).to(self.device)
                shares[numbers, column] = probabilities[:, wanted].sum(dim=-1).double().cpu().numpy()

        each = max(1, limit // positions_at_once(self.model, self.device))
        sizes = [max(len(tree.ids), each * len(tree.paths)) for tree in trees]
        with torch.inference_mode():
            run_in_batches(sizes, compute, tokens=limit, unit="groups of texts")
        if not np.isfinite(shares).all():
            raise DegenerateError(
                f"{self.name}: a probability of the next token is not a number", hint="check the weights"
            )
        return shares

    def _encode(self, texts: Sequence[str]) -> list[Rows]:
        return [np.array(encode_one(self.tokenizer, text), dtype=np.int64) for text in check_texts(texts)]

    def _decode(self, ids: list[list[int]]) -> list[str]:
        with tokenizer_errors(self.tokenizer):
            texts: list[str] = self.tokenizer.batch_decode(self._cut_at_end(ids), skip_special_tokens=True)
        return texts

    def _sums(self, logs: list[Vector64]) -> TextScores:
        totals = np.array([part.sum() for part in logs], dtype=np.float64)
        return TextScores(totals, np.array([len(part) for part in logs], dtype=np.int64))

    def _score_whole(
        self,
        texts: list[Rows],
        positions: Sequence[Sequence[int]] | None = None,
        *,
        tokens: int | None = None,
        most: int | None = None,
    ) -> list[Vector64]:
        """Return the log-probability of each token of each text, with the largest window."""
        width = min(self.window, LONGEST)
        longest = width - len(self._first_ids(""))
        warn_windowed(self.name, [len(ids) for ids in texts], longest, "those before it in overlapping windows")
        return self._score(texts, width, max(1, width // 2), positions, tokens=tokens, most=most)

    def _score(
        self,
        texts: list[Rows],
        width: int,
        step: int,
        positions: Sequence[Sequence[int]] | None = None,
        *,
        tokens: int | None = None,
        most: int | None = None,
    ) -> list[Vector64]:
        """Return the log-probability of each token of each text; NaN where it is not in the positions."""
        torch = require("torch", extra="models")
        first = np.array(self._first_ids(""), dtype=np.int64)
        self.transformer.check_ids(np.concatenate([first, *texts]))  # the last token of a text is asked for, not read
        every = [range(len(ids)) for ids in texts]
        asked = [np.unique(np.array(rows, dtype=np.int64)) for rows in (every if positions is None else positions)]
        windows: list[TextWindow] = []
        for number, (ids, rows) in enumerate(zip(texts, asked, strict=True)):
            windows += self._windows(number, ids, width, step, rows)
        limit = tokens_at_once(self.device) if tokens is None else tokens
        trees = self._trees([window.read for window in windows], longest=limit if most is None else 0)
        logs = [np.full(len(ids), np.nan) for ids in texts]

        def compute(rows: Rows) -> None:
            chosen = [trees[row] for row in rows]
            for number, part in self._score_trees(chosen, windows):
                window = windows[number]
                logs[window.text][window.places + window.start] = part

        # The matrix of logits stays small as well: a position counts as many tokens.
        each = max(1, limit // positions_at_once(self.model, self.device))
        sizes = [max(len(tree.ids), each * len(predictors(tree, windows))) for tree in trees]
        with torch.inference_mode():
            run_in_batches(sizes, compute, tokens=limit, most=most, unit="groups of texts")
        check_scores(np.array([part[rows].sum() for part, rows in zip(logs, asked, strict=True)]), self.name)
        return logs

    def _windows(self, text: int, ids: Rows, width: int, step: int, asked: Rows) -> list[TextWindow]:
        """Return the windows in which a text is scored; its first token has one of its own if nothing stands before."""
        before = np.array(self.reading.before, dtype=np.int64)
        windows = windows_of(text, np.concatenate([before, ids]), width, step, asked, before=len(before))
        if not len(before) and 0 in asked:
            first = np.array([*self._first_ids(""), ids[0]], dtype=np.int64)
            windows.insert(0, TextWindow(text, first, -1, np.array([1])))
        return windows

    def _trees(self, texts: list[Rows], longest: int = LONGEST_ROW) -> list[TokenTree]:
        """Return texts as trees of up to a number of tokens, or one by one where the model cannot read trees."""
        most = max(map(len, texts), default=0)
        return plant(texts, longest=min(longest, LONGEST_ROW) if self._repeats(most) else 0)

    def _logits(self, trees: list[TokenTree], places: list[Rows]) -> torch.Tensor:
        """Return the logits at places of each tree, one row each."""
        torch = require("torch", extra="models")
        self.transformer.check_ids(np.concatenate([tree.ids for tree in trees]))
        rows = np.repeat(np.arange(len(trees)), [len(chosen) for chosen in places])
        where = [torch.from_numpy(array).to(self.device) for array in (rows, np.concatenate(places))]
        inputs = tree_inputs(trees, self.model.dtype, self.device)
        output = logits_at(self.model, *where, use_cache=False, **inputs)
        return output.logits.float()

    def _score_trees(self, trees: list[TokenTree], windows: list[TextWindow]) -> Iterator[tuple[int, Vector64]]:
        """Yield each window of the trees by its number, with the log-probabilities of its tokens."""
        torch = require("torch", extra="models")
        chosen = [predictors(tree, windows) for tree in trees]
        logs = self._logits(trees, chosen).log_softmax(dim=-1)
        above = 0
        for tree, places in zip(trees, chosen, strict=True):
            for number, path in tree.paths.items():
                window = windows[number]
                found = above + np.searchsorted(places, path[window.places - 1])
                targets = window.ids[window.places]
                index = [torch.from_numpy(array).to(self.device) for array in (found, targets)]
                yield number, logs[index[0], index[1]].double().cpu().numpy()
            above += len(places)

    @cached_property
    def reading(self) -> Beginning:
        """The tokens that stand before every text, and the one from which its first token is predicted."""
        return beginning_of(self.tokenizer)

    @property
    def beginning(self) -> list[int]:
        """The token from which the first token of a text is predicted."""
        return self._first_ids("")

    def _first_ids(self, start: str) -> list[int]:
        """Return the tokens before a text and those of `start`; the separator of texts if there are none."""
        first = [*self.reading.before, *(encode_one(self.tokenizer, start) if start else [])]
        first = first or list(self.reading.separator)
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


class TextWindow(NamedTuple):
    """A stretch of a text and what stands before it; tokens at `places` are scored: `place + start` in the text."""

    text: int
    ids: Rows
    start: int
    places: Rows

    @property
    def read(self) -> Rows:
        """The tokens that the model must read: those before the last one that is scored."""
        return self.ids[: self.places[-1]]


def predictors(tree: TokenTree, windows: Sequence[TextWindow]) -> Rows:
    """Return the places of the tokens of a tree from which tokens are predicted, in their order."""
    return np.unique(np.concatenate([path[windows[number].places - 1] for number, path in tree.paths.items()]))


def windows_of(text: int, ids: Rows, width: int, step: int, asked: Rows, *, before: int) -> list[TextWindow]:
    """Split a text behind some tokens into overlapping windows; each token that is asked for is scored in one."""
    windows, scored = [], max(1, before)
    for low in range(0, len(ids), step):
        part = ids[low : low + width]
        if low + len(part) <= scored:
            break
        places = asked[(asked + before >= scored) & (asked + before < low + len(part))] + before - low
        if len(places):
            windows.append(TextWindow(text, part, low - before, places))
        scored = low + len(part)
    return windows


_kept: ContextVar[tuple[Path, str] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_texts(folder: Path | None, owner: str) -> Iterator[None]:
    """Keep what models write meanwhile, in this thread.

    Args:
        folder: where the texts are kept; None keeps none.
        owner: what decides the texts apart from the settings of a call: the model and its changes.
    """
    token = _kept.set((folder, owner) if folder else None)
    try:
        yield
    finally:
        _kept.reset(token)


def written_once(settings: object, number: int, write: Callable[[], list[str]]) -> list[str]:
    """Return a batch of texts: the one kept by an earlier run, or a new one, which is kept.

    A batch is a whole file with a digest of its texts and of everything that decides them. A file that is damaged,
    edited or of other settings is written again.

    Args:
        settings: everything that decides the texts of the call, as plain data; batches of one call share it.
        number: which batch of the call this is.
        write: samples the texts.
    """
    kept = _kept.get()
    if kept is None:
        return write()
    folder, owner = kept
    key = hashlib.sha256(json.dumps([owner, settings], sort_keys=True, default=str).encode()).hexdigest()[:32]
    file = folder / key / f"{number:06}.json"
    found = _read(file, key, number)
    if found is not None:
        return found
    texts = write()
    record = {"texts": texts, "sha256": _digest(key, number, texts)}
    write_text(require_inside(file, folder), json.dumps(record, ensure_ascii=False) + "\n")
    return texts


def _read(file: Path, key: str, number: int) -> list[str] | None:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        texts = record["texts"]
        whole = all(isinstance(text, str) for text in texts) and record["sha256"] == _digest(key, number, texts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return list(texts) if whole else None


def _digest(key: str, number: int, texts: list[str]) -> str:
    return hashlib.sha256(json.dumps([key, number, texts]).encode()).hexdigest()
