"""The views of a model behind a server: `chat`, `generation` and `likelihood`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from evenhand.arrays import Matrix64
from evenhand.errors import TextTooLongError, UsageError
from evenhand.models.endpoint.client import JSON, AnswerStore, Client, EndpointError, Request, current_store
from evenhand.models.endpoint.server import (
    CHAT,
    COMPLETIONS,
    LLAMA_COMPLETION,
    LLAMA_TOKENIZE,
    EchoedToken,
    Server,
    chat_body,
    chat_text,
    completion_text,
    echo_body,
    echoed_tokens,
    first_tokens,
    forced_body,
    forced_log_probability,
    forced_token,
    llama_beginning,
    llama_tokens,
    tokenize_body,
    tokens_of,
)
from evenhand.models.lm.chat import SAMPLES, Choices, Conversation, from_answers, from_log_probabilities, with_system
from evenhand.models.lm.likelihood import TextScores, TokenScores, check_scores, score_fillers
from evenhand.models.tokenizing import END_OF_TEXT, check_texts

CHARACTERS = 4.0  # of English text in a token
AROUND_MESSAGE = 5  # tokens that a chat template puts around a message
LIKELY = ("A", "B", "C", "yes", "no")  # first tokens of an invented answer
MOST_CHARACTERS_OF_TOKEN = 10  # on average, in any text that people write
FIRST_WORDS = 16  # tokens of an answer that is only read for the option it begins with
T = TypeVar("T")
SEEDS = 1 << 31  # servers take seeds of 31 bits


class RemoteModel:
    """A model behind a server, and what decides its answers.

    Args:
        client: the connection.
        server: what the server can do.
        digest: the fingerprint of the model.
        system: the system prompt of every conversation.
        name: for reports.
    """

    def __init__(self, client: Client, server: Server, digest: str, *, system: str = "", name: str = "") -> None:
        self.client, self.server, self.digest, self.system = client, server, digest, system
        self.name = name or server.model

    def check_length(self, text: str, tokens: int) -> None:
        """Raise before anything is sent if a text and its answer are surely longer than the server reads.

        Its tokens are not known here; a shorter text that is still too long is refused by the server, in its words.
        """
        limit, least = self.server.context, len(text) // MOST_CHARACTERS_OF_TOKEN + tokens
        if limit and least > limit:
            raise TextTooLongError(
                f"a text of {len(text):,} characters and an answer of {tokens:,} tokens are longer than the {limit:,} "
                f"tokens that {self.name} reads: {text[:40]!r}...",
                hint="start the server with a longer context, or use shorter texts",
            )

    def ask(self, requests: Sequence[Request], read: Callable[[Request, JSON], T]) -> list[T]:
        """Return what `read` finds in the answer to each request; see `Client.post_all`."""
        return self.client.post_all(requests, model=self.digest, read=read, store=current_store())


class RemoteChat:
    """A model behind a server as a `Chat`."""

    def __init__(self, model: RemoteModel) -> None:
        self.model, self.name = model, model.name

    def answer(
        self,
        conversations: Sequence[Conversation],
        *,
        samples: int = 1,
        tokens: int = 256,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> list[list[str]]:
        """Return answers; see `Chat`. Each answer is a request with a seed of its own."""
        if samples < 1 or tokens < 1 or temperature < 0:
            raise UsageError(
                f"samples and tokens must be at least 1 and temperature at least 0, got {samples}, {tokens} and "
                f"{temperature}"
            )
        base = self.model.client.base
        requests = [
            Request(CHAT, chat_body(self.model.server.model, self._messages(conversation, tokens), tokens=tokens,
                                    temperature=temperature, seed=sample_seed(seed, number)), number)
            for conversation in conversations
            for number in range(samples)
        ]  # fmt: skip
        texts = self.model.ask(requests, lambda _, answer: chat_text(answer, base))
        return [texts[low : low + samples] for low in range(0, len(texts), samples)]

    def choose(
        self, conversations: Sequence[Conversation], options: Sequence[str], *, samples: int = SAMPLES, seed: int = 0
    ) -> Choices:
        """Return the probabilities of options; see `Chat`."""
        if not self.model.server.top:
            return from_answers(self.answer(conversations, samples=samples, tokens=FIRST_WORDS, seed=seed), options)
        model, base = self.model.server, self.model.client.base
        requests = [
            Request(
                CHAT,
                chat_body(model.model, self._messages(conversation, 1), tokens=1, temperature=0.0)
                | {"logprobs": True, "top_logprobs": model.top},
            )
            for conversation in conversations
        ]

        def read(_: Request, answer: JSON) -> list[tuple[str, float]]:
            tokens = first_tokens(answer, base)
            if not tokens:
                raise EndpointError(f"{base} gave an answer without log-probabilities, which it gave before")
            return tokens

        return from_log_probabilities(self.model.ask(requests, read), options, name=self.name)

    def _messages(self, conversation: Conversation, tokens: int) -> list[dict[str, str]]:
        messages = [dict(message) for message in with_system(conversation, self.model.system)]
        self.model.check_length("".join(message["content"] for message in messages), tokens)
        return messages


class RemoteWriter:
    """A model behind a server that continues texts: the view `generation`."""

    def __init__(self, model: RemoteModel) -> None:
        self.model, self.name = model, model.name

    def continuations(
        self, prompts: Sequence[str], *, samples: int, tokens: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        """Return continuations of prompts; see `PromptWriter`."""
        if samples < 1 or tokens < 1 or temperature < 0:
            raise UsageError(f"samples and tokens must be at least 1, got {samples} and {tokens}")
        for prompt in prompts:
            self.model.check_length(prompt, tokens)
        requests = [
            Request(
                COMPLETIONS,
                {
                    "model": self.model.server.model, "prompt": prompt, "max_tokens": tokens,
                    "temperature": temperature, "seed": sample_seed(seed, number),
                },
                number,
            )
            for prompt in check_texts(prompts)
            for number in range(samples)
        ]  # fmt: skip
        texts = self.model.ask(requests, lambda _, answer: completion_text(answer, self.model.client.base))
        return [texts[low : low + samples] for low in range(0, len(texts), samples)]


class RemoteLikelihood:
    """Log-probabilities of texts from a server: echoed with the prompt, or one forced token at a time.

    The tokens are the server's own. The first token of a text has a log-probability where the model reads a token for
    the beginning of a text before it, or where the server knows one that separates texts, from which it is predicted in
    a request of its own; elsewhere it is NaN, and left out of the sum.
    """

    masked = False

    def __init__(self, model: RemoteModel) -> None:
        self.model, self.name = model, model.name
        self._tokens: dict[str, tuple[list[int], TokenScores]] = {}

    def log_probabilities(self, texts: Sequence[str], *, batch: int | None = None) -> TextScores:
        """Return the log-probability of each text; see `Likelihood`."""
        scores = self.token_log_probabilities(texts)
        known = [score.log_probabilities[np.isfinite(score.log_probabilities)] for score in scores]
        totals = np.array([part.sum() for part in known], dtype=np.float64)
        return TextScores(check_scores(totals, self.name), np.array([len(part) for part in known], dtype=np.int64))

    def token_ids(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the tokens of each text; see `TokenLikelihood`."""
        if self.model.server.echo:
            return [_unscored(score) for score in self.token_log_probabilities(texts)]
        return [score for _, score in self._encode(check_texts(texts))]

    def token_log_probabilities(
        self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None = None, *, tokens: int | None = None
    ) -> list[TokenScores]:
        """Return the tokens of each text with their log-probabilities; see `TokenLikelihood`."""
        if self.model.server.echo:
            return self._echoed(check_texts(texts))
        return self._forced(check_texts(texts), positions)

    def filler_log_probabilities(
        self, contexts: Sequence[str], fillers: Sequence[str], *, tokens: int | None = None
    ) -> Matrix64:
        """Return the log-probability of each filled context; see `TokenLikelihood`."""
        return score_fillers(self, contexts, fillers, None)

    def _echoed(self, texts: Sequence[str]) -> list[TokenScores]:
        server, base = self.model.server, self.model.client.base
        asked = [text for text in texts if text]
        for text in asked:
            self.model.check_length(text, 1)
        requests = [Request(COMPLETIONS, echo_body(server.model, text)) for text in asked]
        separator = server.separator
        behind = [Request(COMPLETIONS, echo_body(server.model, separator + text)) for text in asked if separator]

        def read(request: Request, answer: JSON) -> list[EchoedToken]:
            return echoed_tokens(answer, request.body["prompt"].removeprefix(separator), base)

        tokens = dict(zip(asked, found := self.model.ask([*requests, *behind], read), strict=False))
        for text, (first, *_) in zip(asked, found[len(requests) :], strict=bool(separator)):
            tokens[text] = [replace(tokens[text][0], log_probability=first.log_probability), *tokens[text][1:]]
        return [self._from_echo(text, tokens[text] if text else []) for text in texts]

    def _from_echo(self, text: str, tokens: list[EchoedToken]) -> TokenScores:
        ids = [_text_id(token.text) for token in tokens]
        logs = [np.nan if token.log_probability is None else token.log_probability for token in tokens]
        spans = [_span(token.start, text[token.start : token.stop]) for token in tokens]
        return _scores(ids, spans, logs)

    def _encode(self, texts: Sequence[str]) -> list[tuple[list[int], TokenScores]]:
        """Return the tokens that stand before each text, and those of the text."""
        new = list(dict.fromkeys(text for text in texts if text and text not in self._tokens))
        requests = [Request(LLAMA_TOKENIZE, tokenize_body(text, special=False)) for text in new]
        client = self.model.client
        tokenised = client.post_all(requests, model="", read=lambda _, answer: tokens_of(answer, client.base))
        for text, pieces in zip(["", *new], [[], *tokenised], strict=True):
            self._check_length(len(pieces) + len(self._first), text)
            spans, position = [], 0
            encoded = text.encode()
            characters = _characters(encoded)
            for _, piece in pieces:
                size = len(piece.encode("utf-8", errors="surrogateescape"))
                low, high = characters(position), characters(min(position + size, len(encoded)))
                spans.append(_span(low, text[low:high]))
                position += size
            ids = [token for token, _ in pieces]
            self._tokens[text] = (list(self._first), _scores(ids, spans, [np.nan] * len(ids)))
        return [self._tokens[text] for text in texts]

    @cached_property
    def _first(self) -> tuple[int, ...]:
        """The tokens that the server puts before every text, which may be none; see `tokenizing.beginning_of`."""
        client = self.model.client
        with_first = [token for token, _ in llama_tokens(client, "a", special=True)]
        without = [token for token, _ in llama_tokens(client, "a", special=False)]
        extra = len(with_first) - len(without)
        return tuple(with_first[:extra]) if extra > 0 and with_first[extra:] == without else ()

    @cached_property
    def _separator(self) -> tuple[int, ...]:
        """The token from which the first token of a text is predicted where none stands before it."""
        return llama_beginning(self.model.client)

    def _check_length(self, tokens: int, text: str) -> None:
        limit = self.model.server.context
        if limit and tokens + 1 > limit:
            raise TextTooLongError(
                f"a text of {tokens:,} tokens is longer than the {limit:,} that {self.name} reads: {text[:40]!r}...",
                hint="start the server with a longer context, or use shorter texts",
            )

    def _forced(self, texts: Sequence[str], positions: Sequence[Sequence[int]] | None) -> list[TokenScores]:
        base = self.model.client.base
        encoded = self._encode(texts)
        wanted: list[tuple[int, int]] = []
        requests: list[Request] = []
        for row, (first, score) in enumerate(encoded):
            for place in range(len(score.ids)) if positions is None else positions[row]:
                before = [*first, *score.ids[:place].tolist()] or list(self._separator)
                if before:  # nothing predicts the first token of a model without a token between texts
                    wanted.append((row, place))
                    requests.append(Request(LLAMA_COMPLETION, forced_body(before, int(score.ids[place]))))

        def read(request: Request, answer: JSON) -> float:
            return forced_log_probability(answer, forced_token(request.body), base)

        values = [np.full(len(score.ids), np.nan) for _, score in encoded]
        for (row, place), log in zip(wanted, self.model.ask(requests, read), strict=True):
            values[row][place] = log
        return [TokenScores(score.ids, score.spans, part) for (_, score), part in zip(encoded, values, strict=True)]


def sample_seed(seed: int, number: int) -> int:
    """Return the seed of one sample: it depends on the seed of the call and the number of the sample alone."""
    return int(np.random.default_rng([seed, number]).integers(SEEDS))


def _scores(ids: Sequence[int], spans: Sequence[tuple[int, int]], logs: Sequence[float]) -> TokenScores:
    shaped = np.array(spans, dtype=np.int64).reshape(len(ids), 2)
    return TokenScores(np.array(ids, dtype=np.int64), shaped, np.array(logs, dtype=np.float64))


def _unscored(score: TokenScores) -> TokenScores:
    return TokenScores(score.ids, score.spans, np.full(len(score.ids), np.nan))


def _span(start: int, text: str) -> tuple[int, int]:
    """Return where a token begins and ends, without leading white space."""
    return start + len(text) - len(text.lstrip()), start + len(text)


def _text_id(text: str) -> int:
    """Return a number for a token that a server names by its text: equal tokens have equal numbers."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", errors="replace"), digest_size=7).digest(), "big")


def _characters(encoded: bytes) -> Callable[[int], int]:
    """Return a function from a byte of a UTF-8 text to the character that it belongs to."""
    starts = np.cumsum([(byte & 0xC0) != 0x80 for byte in encoded]) if encoded else np.zeros(0, dtype=np.int64)

    def character(byte: int) -> int:
        if byte >= len(encoded):
            return int(starts[-1]) if len(starts) else 0
        inside = (encoded[byte] & 0xC0) == 0x80
        return int(starts[byte]) - 1 + (1 if inside else 0)

    return character


# Rehearsal: what an audit will ask, counted by asking nobody. Measures run with invented answers. What they would ask
# is exact; the tokens are estimated from the characters.


@dataclass
class Demand:
    """What is asked of a server: requests that are sent, answers kept before, and estimated tokens."""

    requests: int = 0
    kept: int = 0
    read: float = 0.0
    written: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens that are billed: read and, at most, written."""
        return math.ceil(self.read + self.written)

    def add(self, other: Demand) -> None:
        """Add what something else asks."""
        self.requests += other.requests
        self.kept += other.kept
        self.read += other.read
        self.written += other.written

    def to_dict(self) -> dict[str, int]:
        """Return plain data for a record."""
        return {
            "requests": self.requests, "answers_reused": self.kept, "prompt_tokens": math.ceil(self.read),
            "most_written_tokens": math.ceil(self.written),
        }  # fmt: skip


class RehearsalClient(Client):
    """Counts requests and invents their answers. Nothing is sent."""

    def __init__(self, client: Client) -> None:
        self.base, self.traffic = client.base, client.traffic
        self.demand = Demand()

    def get(self, route: str) -> JSON:
        """Return nothing; a server that says nothing of itself is possible."""
        return {}

    def post(self, route: str, body: JSON) -> JSON:
        """Return invented tokens; other single requests are probes, which are not rehearsed."""
        if route != LLAMA_TOKENIZE:
            raise EndpointError(f"{route} is not rehearsed")
        if body.get("parse_special"):
            return {"tokens": [1]}
        text = str(body["content"])
        pieces = [text[low : low + 4] for low in range(0, len(text), 4)]
        return {"tokens": [{"id": 2 + _text_id(piece) % 50_000, "piece": piece} for piece in pieces]}

    def post_all(
        self,
        requests: Sequence[Request],
        *,
        model: str,
        read: Callable[[Request, JSON], T],
        store: AnswerStore | None = None,
    ) -> list[T]:
        """Return what `read` finds in kept answers, and in invented ones of requests that would be sent."""
        contents: dict[str, T] = {}
        keys = [request.key(model) for request in requests]
        for key, request in zip(keys, requests, strict=True):
            if key in contents:
                continue
            if request.route == LLAMA_TOKENIZE:  # it is not billed
                contents[key] = read(request, self.post(request.route, request.body))
                continue
            kept = None if store is None else store.get(key)
            contents[key] = read(request, invented(request) if kept is None else kept)
            self.demand.add(Demand(kept=1) if kept is not None else demand_of(request))
        return [contents[key] for key in keys]


def demand_of(request: Request) -> Demand:
    """Return what one request costs: its prompt, and the most tokens of its answer."""
    body = request.body
    if request.route == CHAT:
        read = sum(len(message["content"]) / CHARACTERS + AROUND_MESSAGE for message in body["messages"])
    else:
        prompt = body["prompt"]
        read = len(prompt) / CHARACTERS if isinstance(prompt, str) else len(prompt)
    return Demand(1, 0, read, float(body.get("max_tokens") or body.get("n_predict") or 0))


def invented(request: Request) -> JSON:
    """Return an answer of the form that a server gives."""
    body = request.body
    if request.route == LLAMA_COMPLETION:
        return {"completion_probabilities": [{"id": forced_token(body), "logprob": -1.0}]}
    if request.route == COMPLETIONS:
        words = str(body["prompt"]).removeprefix(END_OF_TEXT).split(" ")
        tokens = [word if not number else f" {word}" for number, word in enumerate(words)]
        logs = {"tokens": tokens, "token_logprobs": [None, *([-1.0] * (len(tokens) - 1))]}
        return {"choices": [{"text": " a text", "logprobs": logs}]}
    entries = [{"token": token, "logprob": math.log(1 / (len(LIKELY) + 1))} for token in LIKELY]
    return {"choices": [{"message": {"content": "A"}, "logprobs": {"content": [{"top_logprobs": entries}]}}]}
