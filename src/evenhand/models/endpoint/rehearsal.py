"""What an audit will ask of a server, counted by asking nobody: requests, tokens to read and tokens to write.

The measures run with invented answers. What they would ask is exact; the tokens are estimated from the characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from evenhand.models.endpoint.client import JSON, AnswerStore, Client, EndpointError, Request
from evenhand.models.endpoint.server import CHAT, COMPLETIONS, LLAMA_COMPLETION, LLAMA_TOKENIZE, forced_token

CHARACTERS = 4.0  # of English text in a token
AROUND_MESSAGE = 5  # tokens that a chat template puts around a message
LIKELY = ("A", "B", "C", "yes", "no")  # first tokens of an invented answer
T = TypeVar("T")


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
        return {"tokens": [{"id": 2 + number, "piece": piece} for number, piece in enumerate(pieces)]}

    def post_all(
        self,
        requests: Sequence[Request],
        *,
        model: str,
        read: Callable[[Request, JSON], T],
        store: AnswerStore | None = None,
    ) -> list[T]:
        """Return what `read` finds in kept answers, and in invented ones of requests that would be sent."""
        found: dict[str, T] = {}
        keys = [request.key(model) for request in requests]
        for key, request in zip(keys, requests, strict=True):
            if key in found:
                continue
            kept = None if store is None else store.get(key)
            found[key] = read(request, invented(request) if kept is None else kept)
            self.demand.add(Demand(kept=1) if kept is not None else demand_of(request))
        return [found[key] for key in keys]


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
        words = str(body["prompt"]).split(" ")
        tokens = [word if not number else f" {word}" for number, word in enumerate(words)]
        logs = {"tokens": tokens, "token_logprobs": [None, *([-1.0] * (len(tokens) - 1))]}
        return {"choices": [{"text": " a text", "logprobs": logs}]}
    entries = [{"token": token, "logprob": math.log(1 / (len(LIKELY) + 1))} for token in LIKELY]
    return {"choices": [{"message": {"content": "A"}, "logprobs": {"content": [{"top_logprobs": entries}]}}]}
