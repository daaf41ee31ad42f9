"""A language model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, ...) as a subject."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from evenhand.corpus.readers.source import Texts
from evenhand.errors import UsageError
from evenhand.models.endpoint.client import ATTEMPTS, CONCURRENCY, TIMEOUT, Client, note_model
from evenhand.models.endpoint.server import Server, fingerprint, inspect_server
from evenhand.models.endpoint.views import (
    Demand,
    RehearsalClient,
    RemoteChat,
    RemoteLikelihood,
    RemoteModel,
    RemoteWriter,
)
from evenhand.models.lm.chat import MESSAGES, ChatWriter, PromptForm, check_prompt_form
from evenhand.models.tokenizing import TEXT_READING
from evenhand.subjects.subject import SUBJECTS, Address, Change, PromptWriter, Subject, TextView, ViewName, join_prompts

SAMPLES, TOKENS = 200, 100  # texts and tokens that it writes unless told otherwise; each is paid for
START = "The"  # what sampled texts begin with: a server continues a prompt, and refuses an empty one


@SUBJECTS.register("openai")
class EndpointSubject(Subject):
    """A model behind a server. It offers what the server was seen to give: chat, generation and likelihood.

    Args:
        base: address of the API.
        model: name of the model; empty where the server has one.
        key_env: name of the environment variable that holds the key.
        system: system prompt of every conversation.
        concurrency: requests under way at a time.
        timeout: seconds without a byte before a request is repeated.
        attempts: how often a request is sent at most.
        samples, tokens, seed: texts that the model writes, tokens of each, and their seed.
        temperature: divisor of the logits of these texts.
        prompts: how prompts are put: `plain`, as the beginning of a text, `chat`, as a message that asks to continue
            it, or `message`, as the message itself, so that texts are answers. The default is `plain` where the server
            continues texts, and `chat` where it only answers conversations.
    """

    kind = "openai"
    title = "a language model behind a server"
    opens = "openai:URL#MODEL"
    likelihood_of = "causal-lm"
    instead_of_changes = "a model behind a server can be changed by a prompt only: `evenhand audit -m system-prompt`"
    options: ClassVar[tuple[str, ...]] = (
        "key_env", "system", "concurrency", "timeout", "attempts", "samples", "tokens", "seed",
        "temperature", "prompts",
    )  # fmt: skip

    def __init__(
        self,
        base: str,
        address: str = "",
        *,
        model: str = "",
        key_env: str | None = None,
        system: str | None = None,
        concurrency: int | None = None,
        timeout: float | None = None,
        attempts: int | None = None,
        samples: int | None = None,
        tokens: int | None = None,
        seed: int | None = None,
        temperature: float | None = None,
        prompts: str | None = None,
    ) -> None:
        self.client = Client(
            base, key_env=key_env or "", concurrency=concurrency or CONCURRENCY, timeout=timeout or TIMEOUT,
            attempts=attempts or ATTEMPTS,
        )  # fmt: skip
        super().__init__(model or base, address)
        self.system, self._model, self._seed = system or "", model, seed
        self.sampling: dict[str, Any] = {"samples": samples or SAMPLES, "tokens": tokens or TOKENS}
        self.sampling |= {} if temperature is None else {"temperature": temperature}
        self._prompts = None if prompts is None else check_prompt_form(prompts)

    @cached_property
    def server(self) -> Server:
        """What the server can do, found by asking it once."""
        server = inspect_server(self.client, self._model)
        self.name = self._model or server.model.replace("\\", "/").rsplit("/", 1)[-1]
        return server

    @cached_property
    def remote(self) -> RemoteModel:
        """The model, with the fingerprint under which its answers are kept."""
        return RemoteModel(self.client, self.server, fingerprint(self.client, self.server), system=self.system)

    @property
    def offers(self) -> tuple[ViewName, ...]:
        """What the server was seen to give."""
        views: list[ViewName] = ["chat"] if self.server.chat else []
        views += ["likelihood"] if self.server.likelihood else []
        views += ["text", "generation"] if self.server.completion or self.server.chat else []
        return tuple(views)

    @property
    def prompts(self) -> PromptForm:
        """How prompts are put to the model."""
        return self._prompts or ("plain" if self.server.completion else "chat")

    @property
    def asked_by_default(self) -> tuple[ViewName, ...]:
        """All but likelihoods by forced tokens, which take a request for every token: name their measures."""
        return tuple(view for view in self.offers if view != "likelihood" or self.server.echo)

    @property
    def changeable(self) -> tuple[str, ...]:
        """The prompt alone: the weights are behind the server."""
        return ("prompt",) if self.server.chat else ()

    def _apply(self, change: Change) -> None:
        self.system = join_prompts(self.system, getattr(change, "system", ""))
        if self._before is not None:
            self.__dict__["server"] = self._before.server  # what it can do does not depend on the prompt

    def _open_view(self, name: ViewName) -> object:
        if name == "text":
            return self.text()
        if name == "generation":
            form = MESSAGES.get(self.prompts)
            if not (self.server.chat if form else self.server.completion):
                lacking = self.server.missing.get("chat" if form else "generation", "")
                raise UsageError(f"{self.name} cannot be asked with `prompts={self.prompts}`: {lacking}")
            return ChatWriter(RemoteChat(self.remote), form) if form else RemoteWriter(self.remote)
        return RemoteChat(self.remote) if name == "chat" else RemoteLikelihood(self.remote)

    def text(self, *, samples: int | None = None, tokens: int | None = None, seed: int = 0) -> TextView:
        """Return texts that the model writes after a first word."""
        settings = {"samples": samples or self.sampling["samples"], "tokens": tokens or self.sampling["tokens"]}
        seed = seed if self._seed is None else self._seed
        settings |= {"temperature": self.sampling.get("temperature", 1.0)}
        writer: PromptWriter = self.view("generation")
        if self.prompts == "message":  # an answer to the first word of a text would be about the word
            writer = ChatWriter(RemoteChat(self.remote))
        written = writer.continuations([START], **settings, seed=seed)[0]
        about = settings | {"seed": seed, "start": START}
        texts = Texts([f"{START}{text}" if self.prompts == "plain" else f"{START} {text.lstrip()}" for text in written])
        return TextView(f"text by {self.name}", texts, {"tokenizer": "words"}, about)

    def rehearsal(self) -> tuple[Subject, Demand]:
        """Return a subject that asks nobody and invents its answers, and what it would have asked so far."""
        client = RehearsalClient(self.client)
        counted = object.__new__(type(self))  # a copy would be opened again, and ask the server
        counted.__dict__ |= self.__dict__ | {"_views": {}}
        counted.__dict__["remote"] = RemoteModel(client, self.server, self.remote.digest, system=self.system)
        return counted, client.demand

    @property
    def tokens_spent(self) -> int:
        """Tokens that the server read and wrote for this subject, as it counts them."""
        return self.client.traffic.prompt_tokens + self.client.traffic.written_tokens

    def change_since(self, folder: Path) -> str:
        """Return a sentence where the model that was asked before in this folder was another one."""
        return note_model(folder, self._identity, self.remote.digest)

    @property
    def _identity(self) -> str:
        return f"{self.client.base}#{self.server.model}"

    def _content_digest(self) -> str:
        parts = [self.client.base, self.server.model, self.remote.digest, self.system, sorted(self.sampling.items())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def opening(self) -> dict[str, object]:
        """The system prompt, how prompts are put, and how texts are sampled; the pace of asking decides no answer."""
        asked = {"prompts": self.prompts} | ({"message": MESSAGES[self.prompts]} if self.prompts in MESSAGES else {})
        first = {"separator": self.server.separator} if self.server.separator else {}
        return {"system": self.system, "beginning": TEXT_READING, **first, **asked, **self.sampling}

    def describe(self) -> dict[str, object]:
        """Address without secrets, model, what the server gives, and when it was asked."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        server = {"server": self.server.to_dict(), "fingerprint": self.remote.digest, "asked": now}
        return super().describe() | server | {"traffic": self.client.traffic.to_dict()}

    @classmethod
    def recognise(cls, address: Address) -> str:
        """An http address whose path is that of an API."""
        text = address.text.partition("#")[0].rstrip("/")
        is_api = text.startswith(("http://", "https://")) and text.endswith("/v1")
        return "it is the address of an API" if is_api else ""

    @classmethod
    def from_address(cls, address: Address, **options: Any) -> EndpointSubject:
        """Open a server; it is asked what it can do at once, so a wrong address is noticed before anything else."""
        base, _, model = address.rest.partition("#")
        if not base.startswith(("http://", "https://")):
            raise UsageError(
                f"{address.text!r} names no server",
                hint="write the address of its API: openai:http://127.0.0.1:8000/v1#MODEL",
            )
        subject = cls(base, address.text, model=model, **options)
        _ = subject.server
        return subject
