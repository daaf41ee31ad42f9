"""Masked language models: pseudo-log-likelihoods, fillers of a blank, nothing masked, and the next-sentence head."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, FormatError, UsageError, require
from evenhand.models.device import model_errors, run_in_batches, tokens_at_once
from evenhand.models.encoders.transformer import Transformer
from evenhand.models.huggingface_folder import read_weight_headers
from evenhand.models.lm.forward import logits_at, positions_at_once
from evenhand.models.lm.likelihood import TextScores, TokenScores, fill, warn_windowed
from evenhand.models.tokenizing import EncodedText, check_texts, encode, encode_texts, tokenizer_errors

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class MaskedInputs:
    """Inputs with masks and the tokens asked for; an input that occurs twice is kept once.

    Two sentences that differ in a single word have the same input when that word is masked, and so have all
    single-token fillers of a blank.
    """

    def __init__(self) -> None:
        self.inputs: list[Rows] = []
        self.numbers: list[int] = []
        self.positions: list[int] = []
        self.targets: list[int] = []
        self._index: dict[bytes, int] = {}

    def ask(self, ids: Rows, position: int, target: int) -> None:
        """Ask for the log-probability of a token at a position of an input."""
        key = ids.tobytes()
        if key not in self._index:
            self._index[key] = len(self.inputs)
            self.inputs.append(ids)
        self.numbers.append(self._index[key])
        self.positions.append(position)
        self.targets.append(target)


class MaskedLM:
    """A masked language model; implements `MaskedLikelihood`.

    The score of a text is its pseudo-log-likelihood: the sum over its tokens of log P(token | text with this token
    replaced by the mask). It is not the log-probability of the text, and exp of its negative mean is a
    pseudo-perplexity, which no causal model's perplexity compares with.

    A text longer than the model's window is read in windows: each token is predicted from the tokens around it that
    fit, and a warning says so. `unmasked_log_probabilities` refuses such texts.

    Args:
        transformer: the model with its tokenizer.
        next_sentence: BERT's next-sentence head, where the folder has one.

    Raises:
        FormatError: If the tokenizer has no mask token.
    """

    masked = True

    def __init__(self, transformer: Transformer, *, next_sentence: NextSentenceHead | None = None) -> None:
        self.transformer, self.next_sentence = transformer, next_sentence
        self.name = transformer.name
        if transformer.tokenizer.mask_token_id is None:
            raise FormatError(
                f"{self.name}: the tokenizer has no mask token, so no token can be masked",
                hint="use the tokenizer that the masked language model was trained with",
            )
        self.mask_token = str(transformer.tokenizer.mask_token)
        special = int(transformer.tokenizer.num_special_tokens_to_add())
        self.longest = max(1, transformer.window - special)
        self._mask = int(transformer.tokenizer.mask_token_id)

    def describe(self) -> dict[str, object]:
        """Return class, size, precision and device for records."""
        return self.transformer.describe()

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the tokens of each text; see `TokenLikelihood`."""
        return [TokenScores.unscored(text) for text in self._encode(texts)]

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the pseudo-log-likelihood of each text; `batch` is the number of masked inputs scored at once."""
        scores = self._score(self._encode(texts), None, None, batch)
        totals = np.array([score.log_probabilities.sum() for score in scores], dtype=np.float64)
        return TextScores(totals, np.array([len(score.ids) for score in scores], dtype=np.int64))

    def token_log_probabilities(
        self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the tokens with log P(token | text with this token masked); see `TokenLikelihood`."""
        return self._score(self._encode(texts), positions, tokens, None)

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> Matrix64:
        """Return the log-probability of each filler in each context; see `TokenLikelihood`."""
        filled = [fill(context, filler) for context in check_texts(contexts) for filler in check_texts(fillers)]
        spans = [(start, stop) for _, start, stop in filled]
        logs = self.span_log_probabilities([text for text, *_ in filled], spans, tokens=tokens)
        return np.array([part.sum() for part in logs], dtype=np.float64).reshape(len(contexts), len(fillers))

    def span_log_probabilities(
        self,
        texts: Sequence[str],
        spans: Sequence[tuple[int, int]],
        *,
        later: Literal["masked", "absent"] = "masked",
        tokens: int | None = None,
    ) -> list[Vector64]:
        """Return the log-probability of each token that covers a span of each text; see `MaskedLikelihood`."""
        asked, counts = MaskedInputs(), []
        encoded = self._encode(texts)
        self._warn_windowed(encoded)
        for number, (text, span) in enumerate(zip(encoded, spans, strict=True)):
            pieces = text.covering(*span)
            if not pieces:
                raise UsageError(f"no token covers the characters {span} of {texts[number]!r}")
            counts.append(len(pieces))
            for count, position in enumerate(pieces):
                if later == "masked":
                    self._ask(asked, text, position, hidden=pieces[count:])
                else:
                    kept = np.delete(np.arange(len(text.ids)), pieces[count + 1 :])
                    self._ask(asked, replace(text, ids=text.ids[kept], spans=text.spans[kept]), position, [position])
        return np.split(self._answer(asked, tokens, None), np.cumsum(counts)[:-1]) if counts else []

    def unmasked_log_probabilities(
        self, texts: Sequence[str], *, attention: bool = False, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the log-probability of each token with nothing masked; see `MaskedLikelihood`."""
        torch = require("torch", extra="models")
        encoded = self._encode(texts)
        inputs = [np.concatenate([text.before, text.ids, text.after]) for text in encoded]
        self.transformer.check_lengths([len(ids) for ids in inputs], self.transformer.window)
        scores = [TokenScores.unscored(text) for text in encoded]

        def compute(rows: Rows) -> None:
            chosen = [encoded[row] for row in rows]
            places = [len(text.before) + np.arange(len(text.ids)) for text in chosen]
            counts = [len(text.ids) for text in chosen]
            positions = np.repeat(np.arange(len(rows)), counts), np.concatenate(places)
            output = self._forward([inputs[row] for row in rows], *positions, attention)
            targets = torch.from_numpy(np.concatenate([text.ids for text in chosen])).to(output.logits.device)
            logs = output.logits.float().log_softmax(dim=-1).gather(-1, targets[:, None])[:, 0]
            if attention:
                logs = logs * self._attention(output, [len(inputs[row]) for row in rows])[positions]
            for row, part in zip(rows, np.split(logs.double().cpu().numpy(), np.cumsum(counts)[:-1]), strict=True):
                scores[row].log_probabilities[:] = part

        limit = min(tokens_at_once(self.transformer.device), positions_at_once(self.transformer.model, self._device))
        with torch.inference_mode(), eager_attention(self.transformer.model) if attention else contextlib.nullcontext():
            run_in_batches([len(ids) for ids in inputs], compute, tokens=tokens or limit)
        for score in scores:
            self._check(score.log_probabilities)
        return scores

    def top_fillers(self, contexts: Sequence[str], k: int, *, tokens: int | None = None) -> list[list[str]]:
        """Return the k most probable fillers; see `MaskedLikelihood`.

        A filler is a token that the tokenizer finds again in the filled sentence. This leaves out special tokens, and
        pieces of words that cannot stand alone.
        """
        torch = require("torch", extra="models")
        if k < 1:
            raise UsageError(f"k must be at least 1, got {k}")
        masked = [fill(context, self.mask_token) for context in check_texts(contexts)]
        encoded = self._encode([sentence for sentence, *_ in masked])
        inputs = [np.concatenate([text.before, text.ids, text.after]) for text in encoded]
        positions = [
            len(text.before) + text.covering(*span)[0] for text, (_, *span) in zip(encoded, masked, strict=True)
        ]
        fillers: list[list[str]] = [[] for _ in contexts]

        def compute(rows: Rows) -> None:
            places = np.array([positions[row] for row in rows])
            logits = self._forward([inputs[row] for row in rows], np.arange(len(rows)), places).logits.float()
            if not bool(torch.isfinite(logits).all()):
                raise self._not_finite()
            ranked = logits.argsort(dim=-1, descending=True, stable=True).cpu().numpy()
            for row, candidates in zip(rows, ranked, strict=True):
                fillers[row] = self._first_fillers(contexts[row], candidates, k)

        with torch.inference_mode():
            self._run([len(ids) for ids in inputs], compute, tokens, None)
        return fillers

    def _first_fillers(self, context: str, candidates: Rows, k: int) -> list[str]:
        """Return the first k candidates that the tokenizer finds again in the filled sentence."""
        special = set(self.transformer.tokenizer.all_special_ids)
        found: list[str] = []
        for low in range(0, len(candidates), 2 * k):
            ids = [int(token) for token in candidates[low : low + 2 * k] if int(token) not in special]
            with tokenizer_errors(self.transformer.tokenizer):
                words = [self.transformer.tokenizer.decode([token]).strip() for token in ids]
            pairs = [(token, word, fill(context, word)) for token, word in zip(ids, words, strict=True) if word]
            encoded = self._encode([sentence for *_, (sentence, _, _) in pairs])
            for (token, word, (_, start, stop)), text in zip(pairs, encoded, strict=True):
                if text.ids[text.covering(start, stop)].tolist() == [token] and len(found) < k:
                    found.append(word)
            if len(found) == k:
                break
        return found

    @property
    def _device(self) -> str:
        return self.transformer.device

    def _encode(self, texts: Sequence[str]) -> list[EncodedText]:
        return encode_texts(self.transformer.tokenizer, texts)

    def _score(
        self,
        encoded: list[EncodedText],
        positions: Sequence[Sequence[int]] | None,
        tokens: int | None,
        most: int | None,
    ) -> list[TokenScores]:
        if positions is not None and len(positions) != len(encoded):
            raise UsageError(f"there are positions for {len(positions)} texts, but {len(encoded)} texts")
        self._warn_windowed(encoded)
        asked = MaskedInputs()
        chosen: list[list[int]] = []
        for number, text in enumerate(encoded):
            wanted = list(range(len(text.ids))) if positions is None else [int(place) for place in positions[number]]
            if any(not 0 <= place < len(text.ids) for place in wanted):
                raise UsageError(f"text {number} has {len(text.ids)} tokens, and no token {max(wanted)}")
            for position in wanted:
                self._ask(asked, text, position, hidden=[position])
            chosen.append(wanted)
        logs = self._answer(asked, tokens, most)
        scores, start = [TokenScores.unscored(text) for text in encoded], 0
        for score, wanted in zip(scores, chosen, strict=True):
            score.log_probabilities[wanted] = logs[start : start + len(wanted)]
            start += len(wanted)
        return scores

    def _warn_windowed(self, encoded: list[EncodedText]) -> None:
        lengths = [len(text.ids) for text in encoded]
        warn_windowed(self.name, lengths, self.longest, "as many tokens around it as fit")

    def _ask(self, asked: MaskedInputs, text: EncodedText, position: int, hidden: list[int]) -> None:
        """Ask for a token of a text with some tokens masked; a long text is cut to the window around the token."""
        room = max(1, self.transformer.window - len(text.before) - len(text.after))
        low = min(max(0, position - room // 2), max(0, len(text.ids) - room))
        content = text.ids[low : low + room].copy()
        content[[place - low for place in hidden if low <= place < low + room]] = self._mask
        ids = np.concatenate([text.before, content, text.after])
        asked.ask(ids, len(text.before) + position - low, int(text.ids[position]))

    def _answer(self, asked: MaskedInputs, tokens: int | None, most: int | None) -> Vector64:
        """Return the log-probability of each token that was asked for."""
        torch = require("torch", extra="models")
        logs = np.zeros(len(asked.targets))
        numbers, places = np.array(asked.numbers, dtype=np.int64), np.array(asked.positions, dtype=np.int64)
        targets = np.array(asked.targets, dtype=np.int64)
        order = np.argsort(numbers, kind="stable")
        starts = np.searchsorted(numbers[order], np.arange(len(asked.inputs) + 1))

        def compute(rows: Rows) -> None:
            questions = np.concatenate([order[starts[row] : starts[row + 1]] for row in rows])
            line = np.repeat(np.arange(len(rows)), starts[rows + 1] - starts[rows])
            width = max(len(asked.inputs[row]) for row in rows)
            cells, cell = np.unique(line * width + places[questions], return_inverse=True)
            output = self._forward([asked.inputs[row] for row in rows], *np.divmod(cells, width))
            scores = output.logits.float().log_softmax(dim=-1)
            wanted = torch.from_numpy(targets[questions]).to(scores.device)
            logs[questions] = scores[torch.from_numpy(cell).to(scores.device), wanted].double().cpu().numpy()

        with torch.inference_mode():
            self._run([len(ids) for ids in asked.inputs], compute, tokens, most)
        self._check(logs)
        return logs

    def _run(self, lengths: list[int], compute: Callable[[Rows], None], tokens: int | None, most: int | None) -> None:
        limit = positions_at_once(self.transformer.model, self._device)  # one position of most inputs is predicted
        run_in_batches(
            lengths,
            compute,
            tokens=tokens_at_once(self._device) if tokens is None else tokens,
            most=limit if most is None else min(most, limit),
        )

    def _forward(self, inputs: list[Rows], rows: Rows, columns: Rows, attention: bool = False) -> Any:
        """Return the model's output with the logits at the chosen positions."""
        torch = require("torch", extra="models")
        line, column = (torch.from_numpy(array).to(self._device) for array in (rows, columns))
        options: dict[str, object] = {"output_attentions": True} if attention else {}
        return logits_at(self.transformer.model, line, column, **self.transformer.padded(inputs), **options)

    def _attention(self, output: Any, lengths: list[int]) -> torch.Tensor:
        """Return the attention that each token receives, (texts, tokens): mean over layers, heads and real tokens."""
        torch = require("torch", extra="models")
        layers = output.attentions
        if not layers or layers[0] is None:
            raise FormatError(
                f"{self.name}: {type(self.transformer.model).__name__} does not return its attention",
                hint="measure aul, which needs none",
            )
        counts = torch.tensor(lengths, device=layers[0].device)
        real = (torch.arange(layers[0].shape[-1], device=counts.device) < counts[:, None]).float()
        received = sum(torch.einsum("bhqk,bq->bk", layer.float(), real) / layer.shape[1] for layer in layers)
        return received / len(layers) / counts[:, None]

    def _check(self, logs: Vector64) -> None:
        if not np.isfinite(logs).all():
            raise self._not_finite()

    def _not_finite(self) -> DegenerateError:
        return DegenerateError(f"{self.name}: a log-probability is NaN or infinite", hint="check the weights")


@contextlib.contextmanager
def eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Compute attention so that its weights can be returned; afterwards as before."""
    before = getattr(model.config, "_attn_implementation", None)
    switch = getattr(model, "set_attn_implementation", None)
    if switch is None or before in (None, "eager"):  # before 4.53, models that return weights change by themselves
        yield
        return
    switch("eager")
    try:
        yield
    finally:
        switch(before)


POOLER, RELATION = "bert.pooler.dense", "cls.seq_relationship"
IS_NEXT = 0  # class of BERT's head: the second sentence follows the first


class NextSentenceHead:
    """BERT's next-sentence head over the body of a loaded model.

    Args:
        transformer: the model that reads the two sentences.
        weights: `bert.pooler.dense` and `cls.seq_relationship`, weight and bias of each.
    """

    def __init__(self, transformer: Transformer, weights: dict[str, torch.Tensor]) -> None:
        self.transformer, self.weights = transformer, weights

    @classmethod
    def load(cls, folder: Path, transformer: Transformer) -> NextSentenceHead | None:
        """Return the head that a model folder holds, or None if it holds none."""
        from safetensors import safe_open

        names = [f"{layer}.{part}" for layer in (POOLER, RELATION) for part in ("weight", "bias")]
        stored = read_weight_headers(folder)
        if any(name not in stored for name in names):
            return None
        weights = {}
        for name in names:
            with safe_open(str(stored[name].path), framework="pt") as file:
                weights[name] = file.get_tensor(name).float().to(transformer.device)
        return cls(transformer, weights)

    def log_probabilities(
        self, contexts: Sequence[str], sentences: Sequence[str], *, tokens: int | None = None
    ) -> Vector64:
        """Return the log-probability that each sentence follows its context; NaN for pairs beyond the window."""
        torch = require("torch", extra="models")
        tokenizer, window = self.transformer.tokenizer, self.transformer.window
        encoded = encode(tokenizer, list(check_texts(contexts)), list(check_texts(sentences)), verbose=False)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        fitting = np.flatnonzero(np.array(lengths) <= window)
        logs = np.full(len(lengths), np.nan)

        def compute(chosen: Rows) -> None:
            rows = fitting[chosen]
            batch = {name: [encoded[name][row] for row in rows] for name in encoded}
            padded = tokenizer.pad(batch, return_tensors="pt").to(self.transformer.device)
            with model_errors(self.transformer.model):
                state = self.transformer.model.base_model(**padded).last_hidden_state[:, 0].float()
            pooled = torch.tanh(state @ self.weights[f"{POOLER}.weight"].T + self.weights[f"{POOLER}.bias"])
            logits = pooled @ self.weights[f"{RELATION}.weight"].T + self.weights[f"{RELATION}.bias"]
            logs[rows] = logits.log_softmax(dim=-1)[:, IS_NEXT].double().cpu().numpy()

        with torch.inference_mode():
            run_in_batches(
                np.array(lengths, dtype=np.int64)[fitting],
                compute,
                tokens=tokens or tokens_at_once(self.transformer.device),
            )
        if not np.isfinite(logs[fitting]).all():
            raise DegenerateError(
                f"{self.transformer.name}: a log-probability is NaN or infinite", hint="check the weights"
            )
        return logs
