"""What an OpenAI-compatible server can do, found by asking it, and how its answers are read.

Servers accept options that they ignore. llama.cpp takes `echo` and returns the log-probability of the token that it
wrote, so a client that trusts it scores every text alike. A capability counts only where the answer to a question with
a known form shows it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from evenhand.errors import EvenhandError, UsageError, few
from evenhand.models.endpoint.client import JSON, Client, EndpointError, RequestRefusedError, malformed
from evenhand.models.tokenizing import END_OF_TEXT

TOP = (200, 20, 5)  # likeliest tokens to ask for: llama.cpp allows 200 in a chat, the OpenAI API 20, some servers 5
CHAT, COMPLETIONS, MODELS = "/chat/completions", "/completions", "/models"
LLAMA_COMPLETION, LLAMA_TOKENIZE, LLAMA_PROPERTIES = "!/completion", "!/tokenize", "!/props"  # beside /v1, not below it
PROMPTS = ("The nurse said that", "Complete the list: red, green,")  # of the probes; what follows does not matter
SAME_END = ("My favourite colour is blue", "He opened the door and was blue")  # the last word is likelier in the first
FORCED = 1e4  # a bias that makes a token certain
HALF = "\ufffd"  # stands for a part of a character
T = TypeVar("T")
AGREE = 1e-3  # natural log; rounding of one model in two batches is below 1e-4


@dataclass(frozen=True)
class Server:
    """What one model behind a server offers.

    Attributes:
        model: the name by which requests ask for it.
        chat: whether it answers conversations.
        top: how many of the likeliest first tokens a chat answer comes with; 0 for none.
        completion: whether it continues texts.
        echo: whether it returns the log-probabilities of a prompt.
        separator: the text of the token from which the first token of a text is predicted, where the server puts none
            before a text and echoes the prompt; empty elsewhere.
        forced: whether the log-probability of any next token can be had by forcing it (llama.cpp).
        context: the most tokens that it reads and writes together; 0 where the server does not say.
        missing: for each capability that it lacks, the reason.
        about: what the server says of itself, for the record.
    """

    model: str
    chat: bool = False
    top: int = 0
    completion: bool = False
    echo: bool = False
    separator: str = ""
    forced: bool = False
    context: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def likelihood(self) -> str:
        """Where log-probabilities of texts come from, in words; empty where they cannot be had."""
        if self.echo:
            return "the server returns the log-probabilities of a prompt (echo)"
        return "each next token is asked for by forcing it (llama.cpp)" if self.forced else ""

    def to_dict(self) -> dict[str, object]:
        """Return plain data for a record."""
        return {
            "model": self.model, "chat": self.chat, "top": self.top, "completion": self.completion,
            "likelihood": self.likelihood, "separator": self.separator, "context": self.context,
            "missing": dict(self.missing), **self.about,
        }  # fmt: skip


def inspect_server(client: Client, model: str = "") -> Server:
    """Ask a server what it can do with a model.

    Args:
        client: the connection.
        model: name of the model; empty where the server has one.

    Raises:
        EndpointError: If the server cannot be reached, or offers neither chat nor completion.
        UsageError: If it has several models and none was named, or has none of this name.
    """
    entry = _model_entry(client, model)
    name = str(entry.get("id", model))
    missing: dict[str, str] = {}
    top = _try(missing, "chat", lambda: _chat(client, name))
    completion = _try(missing, "generation", lambda: _completion(client, name))
    echo, forced, separator = False, False, ""
    if completion:
        echo = _try(missing, "likelihood", lambda: _echo(client, name)) or False
        if echo:
            separator = _try({}, "separator", lambda: _separator(client, name)) or ""
        else:
            reason = missing.get("likelihood", "")
            forced = _try(missing, "likelihood", lambda: _forced(client)) or False
            missing["likelihood"] = f"{reason}; {missing.get('likelihood', '')}".strip("; ")
    if echo or forced:
        missing.pop("likelihood", None)
    if top is None and not completion:
        raise EndpointError(
            f"{client.base} offers neither chat nor completion with {name!r}: {missing['chat']}; "
            f"{missing['generation']}"
        )
    if top == 0:
        missing["log-probabilities"] = "a chat answer comes without log-probabilities; choices are counted in samples"
    return Server(
        name, top is not None, top or 0, bool(completion), echo, separator, forced, _context(entry), missing,
        {key: str(entry[key]) for key in ("owned_by", "created", "root") if key in entry},
    )  # fmt: skip


def fingerprint(client: Client, server: Server) -> str:
    """Hash what a model says to fixed prompts, at temperature 0, so that another model under its name is noticed.

    Few and short answers, because a server rounds differently when it is busy; the first words of a fixed prompt are
    seldom that close.
    """
    said: list[object] = [server.model]
    for prompt in PROMPTS:
        if server.completion:
            body = {"model": server.model, "prompt": prompt, "max_tokens": 4, "temperature": 0}
            said.append(completion_text(client.post(COMPLETIONS, body), client.base))
        else:
            body = chat_body(server.model, [{"role": "user", "content": prompt}], tokens=4, temperature=0.0)
            said.append(chat_text(client.post(CHAT, body), client.base))
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def chat_body(
    model: str, messages: list[dict[str, str]], *, tokens: int, temperature: float, seed: int | None = None
) -> JSON:
    """Return the body of a request for one answer."""
    body: JSON = {"model": model, "messages": messages, "max_tokens": tokens, "temperature": temperature}
    return body | ({} if seed is None else {"seed": seed})


def chat_text(answer: JSON, base: str) -> str:
    """Return what a chat answer says; a model that refuses by a field of its own is quoted."""
    message = _choice(answer, base).get("message")
    if not isinstance(message, Mapping):
        raise malformed(base, "a message")
    text = message.get("content")
    if text is None:
        text = message.get("refusal") or message.get("reasoning_content") or ""
    if not isinstance(text, str):
        raise malformed(base, "the text of a message")
    return _whole_characters(text)


def completion_text(answer: JSON, base: str) -> str:
    """Return what a completion says."""
    text = _choice(answer, base).get("text")
    if not isinstance(text, str):
        raise malformed(base, "the text of a completion")
    return _whole_characters(text)


def first_tokens(answer: JSON, base: str) -> list[tuple[str, float]]:
    """Return the likeliest first tokens of a chat answer with their log-probabilities; empty if it has none.

    Two tokens may have one text: SGLang writes the tokens for "A" and for " A" of Llama 2 alike. Both count.
    """
    logs = _choice(answer, base).get("logprobs")
    content = logs.get("content") if isinstance(logs, Mapping) else None
    if not isinstance(content, list) or not content or not isinstance(content[0], Mapping):
        return []
    entries = content[0].get("top_logprobs")
    if not isinstance(entries, list):
        return []
    tokens: dict[tuple[str, float], None] = {}  # an entry that is repeated counts once
    for entry in entries:
        if (
            not isinstance(entry, Mapping)
            or not isinstance(entry.get("token"), str)
            or not _is_log(entry.get("logprob"))
        ):
            raise malformed(base, "readable log-probabilities")
        tokens[entry["token"], float(entry["logprob"])] = None
    return list(tokens)


@dataclass(frozen=True)
class EchoedToken:
    """A token of a prompt: the characters that it covers, its text, and its log-probability (None for the first)."""

    start: int
    stop: int
    text: str
    log_probability: float | None


def echoed_tokens(answer: JSON, prompt: str, base: str) -> list[EchoedToken]:
    """Return the tokens of a prompt that a server echoed with log-probabilities.

    Servers write each token by itself, so the texts need not spell the prompt exactly. SGLang drops the blank before a
    word of Llama 2, vLLM adds one before the first word, and a part of a character is empty or U+FFFD.

    Raises:
        EndpointError: If the tokens do not spell the prompt, so the numbers belong to something else.
    """
    logs = _choice(answer, base).get("logprobs")
    texts = logs.get("tokens") if isinstance(logs, Mapping) else None
    values = logs.get("token_logprobs") if isinstance(logs, Mapping) else None
    if not isinstance(texts, list) or not isinstance(values, list) or len(texts) != len(values):
        raise EndpointError(f"{base} does not return log-probabilities of the prompt")
    usage = answer.get("usage")
    size = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    known = size if _is_id(size) and size else len(texts)  # what follows was written by the model
    for text, value in zip(texts, values, strict=True):
        if not isinstance(text, str) or not (value is None or _is_log(value)):
            raise malformed(base, "readable log-probabilities")
    pairs = [(text, None if value is None else float(value)) for text, value in zip(texts, values, strict=True)]
    tokens = _spelled(prompt, pairs[:known], exact=True) or _spelled(prompt, pairs[:known], exact=False)
    if tokens is None:
        raise EndpointError(f"{base} returns tokens that do not spell the prompt")
    return tokens


def _spelled(prompt: str, pairs: list[tuple[str, float | None]], *, exact: bool) -> list[EchoedToken] | None:
    """Return the tokens of a prompt with their places; None if they do not spell it.

    Args:
        prompt: the prompt.
        pairs: text and log-probability of each token.
        exact: place a whole character behind parts of others where it occurs first. Repeated characters can mislead
            this; otherwise all tokens from a part on cover the letters up to the next one of ASCII.
    """
    speller = _Speller(prompt, exact)
    for text, log in pairs:
        if speller.position >= len(prompt) and not speller.open:
            break
        if not speller.add(text, log) and speller.tokens:  # before them stand tokens for the beginning of a text
            break
    return speller.end()


class _Speller:
    """Finds the tokens of a prompt in it, one after another."""

    def __init__(self, prompt: str, exact: bool) -> None:
        self.prompt, self.exact, self.position = prompt, exact, 0
        self.tokens: list[EchoedToken] = []
        self.open, self.torn = 0, False  # the last tokens, whose end is not known; whether they are torn characters

    def add(self, text: str, log: float | None) -> bool:
        """Add a token; return whether it stands at this place."""
        start, torn = None, self.torn
        for number, whole in enumerate(text.split(HALF)):
            self.torn |= number > 0
            if not whole or (self.torn and not self.exact and not any(map(str.isascii, whole))):
                continue
            place = self._place(whole)
            if place is None:
                self.torn = torn
                return False
            self._close(place[0] if place[0] > self.position else place[1])
            start = place[0] if start is None else start
            self.position, self.torn = place[1], False
        self.tokens.append(EchoedToken(self.position if start is None else start, self.position, text, log))
        self.open += self.torn or not text
        return True

    def end(self) -> list[EchoedToken] | None:
        """Return the tokens if they spell the prompt."""
        if self.open and not any(map(str.isascii, self.prompt[self.position :])):
            self._close(len(self.prompt))
            self.position = len(self.prompt)
        return self.tokens if self.position >= len(self.prompt) else None

    def _place(self, text: str) -> tuple[int, int] | None:
        """Return where a text stands, blanks before it aside; behind torn characters, at least one further on."""
        latest = self.position
        while self.torn and latest < len(self.prompt) and not self.prompt[latest].isascii():
            latest += 1
        bare = text.lstrip(" ")
        for begin in range(self.position + self.torn, latest + 1):
            blanks = len(self.prompt) - len(self.prompt[begin:].lstrip(" "))
            if self.prompt.startswith(text, begin):
                return begin, begin + len(text)
            if bare and self.prompt.startswith(bare, blanks):
                return begin, blanks + len(bare)
        return None

    def _close(self, stop: int) -> None:
        whole = len(self.tokens) - self.open
        self.tokens[whole:] = [replace(token, stop=max(stop, token.stop)) for token in self.tokens[whole:]]
        self.open = 0


def forced_body(before: list[int], token: int) -> JSON:
    """Return a request to llama.cpp for the log-probability of one next token.

    The server reports log-probabilities of the model's own distribution, before the bias that makes it take this token.
    """
    return {
        "prompt": before, "n_predict": 1, "n_probs": 1, "temperature": 0, "logit_bias": [[token, FORCED]],
        "cache_prompt": True,
    }  # fmt: skip


def forced_token(body: JSON) -> int:
    """Return the token that a request of `forced_body` asks for."""
    token: int = body["logit_bias"][0][0]
    return token


def forced_log_probability(answer: JSON, token: int, base: str) -> float:
    """Return the log-probability of a token that the server was forced to write."""
    entry = _first_entry(answer, base)
    if entry.get("id") != token:
        raise EndpointError(f"{base} wrote another token than the one it was forced to write")
    if not _is_log(entry.get("logprob")):
        raise malformed(base, "readable log-probabilities")
    return float(entry["logprob"])


def llama_tokens(client: Client, text: str, *, special: bool) -> list[tuple[int, str]]:
    """Return the tokens of a text with their pieces, by llama.cpp's own tokenizer."""
    return tokens_of(client.post(LLAMA_TOKENIZE, tokenize_body(text, special=special)), client.base)


def tokenize_body(text: str, *, special: bool) -> JSON:
    """Return a request to llama.cpp for the tokens of a text."""
    return {"content": text, "add_special": special, "with_pieces": True, "parse_special": False}


def tokens_of(answer: JSON, base: str) -> list[tuple[int, str]]:
    """Return the tokens that llama.cpp found in a text, with their pieces."""
    tokens = answer.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(t, Mapping) and _is_id(t.get("id")) for t in tokens):
        raise malformed(base, "tokens")
    return [(token["id"], _piece(token.get("piece"), base)) for token in tokens]


def llama_beginning(client: Client) -> tuple[int, ...]:
    """Return the token that separates texts, from which the first token of one is predicted; none if there is none.

    The choice is that of `tokenizing.beginning_of`, so that a model opened from its file gives the same scores.
    """
    try:
        properties = client.get(LLAMA_PROPERTIES)
    except RequestRefusedError:
        return ()
    ends = [text for name in ("bos_token", "eos_token") if isinstance(text := properties.get(name), str) and text]
    template = str(properties.get("chat_template", ""))
    fitting = [text for text in (*ends, END_OF_TEXT) if text not in template]
    for text in (*fitting, *ends):
        body = {"content": text, "add_special": False, "parse_special": True}
        tokens = client.post(LLAMA_TOKENIZE, body).get("tokens")
        if isinstance(tokens, list) and len(tokens) == 1 and _is_id(tokens[0]):
            return (tokens[0],)
    return ()


def _piece(piece: object, base: str) -> str:
    """Return the text of a token; a list of bytes is part of a character, which is kept byte by byte."""
    if isinstance(piece, str):
        return _text(piece, base)
    try:
        return bytes(piece).decode("utf-8", errors="surrogateescape") if isinstance(piece, list) else ""
    except (TypeError, ValueError):
        raise malformed(base, "the text of a token") from None


def _is_id(value: object) -> bool:
    """Return whether a value can be the number of a token."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _whole_characters(text: str) -> str:
    """Return an answer with U+FFFD for half a character, where a server cut one at the limit of tokens."""
    return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")


def _text(text: str, base: str) -> str:
    """Return a text; JSON can spell halves of surrogate pairs, which no file, terminal or tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise malformed(base, "valid Unicode text") from None
    return text


def _model_entry(client: Client, model: str) -> JSON:
    try:
        listing = client.get(MODELS).get("data")
    except RequestRefusedError as error:
        if error.status in (401, 403) or not model:
            raise
        return {"id": model}  # not every server lists its models
    listed = listing if isinstance(listing, list) else []
    entries = [entry for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    names = [_text(entry["id"], client.base) for entry in entries]
    if model:
        named = [entry for entry in entries if entry["id"] == model]
        if entries and not named:
            raise EndpointError(f"{client.base} has no model {model!r}", hint=f"it has {few(names, most=8)}")
        return named[0] if named else {"id": model}
    if len(names) != 1:
        has = f"has {len(names)} models" if names else "does not list its models"
        raise UsageError(
            f"{client.base} {has}; name one behind #",
            hint=f"openai:{client.base}#{names[0] if names else 'MODEL'}"
            + (f"; it has {few(names, most=8)}" if names else ""),
        )
    return entries[0]


def _context(entry: JSON) -> int:
    """Return the most tokens of a conversation, where vLLM or llama.cpp says it."""
    meta = entry.get("meta")
    for value in (entry.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, Mapping) else None):
        if isinstance(value, int) and value > 0:
            return value
    return 0


def _try(missing: dict[str, str], capability: str, probe: Callable[[], T]) -> T | None:
    """Return what a probe finds; None, with the reason noted, where the server refuses."""
    try:
        return probe()
    except RequestRefusedError as error:
        if error.status in (401, 403):
            raise
        missing[capability] = error.message
    except EvenhandError as error:
        if isinstance(error, EndpointError) and "reached" in error.message:
            raise
        missing[capability] = error.message
    return None


def _chat(client: Client, model: str) -> int:
    """Return how many likeliest tokens a chat answer has; 0 if the server gives answers without them."""
    body = chat_body(model, [{"role": "user", "content": "Answer yes or no: is water wet?"}], tokens=1, temperature=0.0)
    for top in TOP:
        try:
            answer = client.post(CHAT, {**body, "logprobs": True, "top_logprobs": top})
        except RequestRefusedError as error:
            if error.status not in (400, 422):
                raise
            continue
        chat_text(answer, client.base)
        tokens = first_tokens(answer, client.base)
        if len(tokens) > 1 and sum(math.exp(log) for _, log in tokens) <= 1.01:
            return len(tokens)
        return 0
    chat_text(client.post(CHAT, body), client.base)
    return 0


def _completion(client: Client, model: str) -> bool:
    body = {"model": model, "prompt": PROMPTS[0], "max_tokens": 2, "temperature": 0}
    return isinstance(completion_text(client.post(COMPLETIONS, body), client.base), str)


def _echo(client: Client, model: str) -> bool:
    """Return whether log-probabilities of a prompt cover it and depend on it."""
    last = []
    for prompt in SAME_END:
        tokens = echoed_tokens(client.post(COMPLETIONS, echo_body(model, prompt)), prompt, client.base)
        values = [token.log_probability for token in tokens[1:]]
        if len(tokens) < 3 or any(value is None for value in values):
            raise EndpointError(f"{client.base} returns log-probabilities for a part of the prompt only")
        last.append(values[-1])
    if last[0] == last[1] or not any(last):
        raise EndpointError(f"{client.base} returns log-probabilities that do not depend on the prompt")
    return True


def _separator(client: Client, model: str) -> str:
    """Return the text of the token that separates texts, if the server reads it as one token and puts none before one.

    A prompt of a server is a text, in which special tokens are written out. `tokenizing.beginning_of` says why.
    """
    prompt = SAME_END[0]
    alone = echoed_tokens(client.post(COMPLETIONS, echo_body(model, prompt)), prompt, client.base)
    if alone[0].log_probability is not None:
        return ""
    behind = client.post(COMPLETIONS, echo_body(model, END_OF_TEXT + prompt))
    first, *rest = echoed_tokens(behind, END_OF_TEXT + prompt, client.base)
    same = [token.text for token in rest] == [token.text for token in alone]
    return END_OF_TEXT if same and first.text == END_OF_TEXT and rest[0].log_probability is not None else ""


def echo_body(model: str, prompt: str) -> JSON:
    """Return a request for the log-probabilities of a prompt; one token is written because some servers refuse none."""
    return {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}


def _forced(client: Client) -> bool:
    """Return whether forcing a token gives the log-probability that the whole vocabulary gives it."""
    tokens = [token for token, _ in llama_tokens(client, SAME_END[0], special=True)]
    if len(tokens) < 3:
        raise EndpointError(f"{client.base} cannot split a text into tokens")
    *before, token = tokens
    body = {"prompt": before, "n_predict": 1, "n_probs": 1 << 20, "temperature": 0}
    entries = _first_entry(client.post(LLAMA_COMPLETION, body), client.base).get("top_logprobs")
    listed = [e for e in entries if isinstance(e, Mapping) and _is_id(e.get("id"))] if isinstance(entries, list) else []
    logs = {entry["id"]: float(entry["logprob"]) for entry in listed if _is_log(entry.get("logprob"))}
    if token not in logs or len(logs) < len(listed):
        raise EndpointError(f"{client.base} does not return the log-probabilities of its whole vocabulary")
    if abs(sum(math.exp(log) for log in logs.values()) - 1.0) > AGREE:
        raise EndpointError(f"{client.base} returns log-probabilities that do not sum to 1")
    forced = forced_log_probability(client.post(LLAMA_COMPLETION, forced_body(before, token)), token, client.base)
    if abs(forced - logs[token]) > AGREE:
        raise EndpointError(f"{client.base} changes the log-probability of a token that it is forced to write")
    return True


def _first_entry(answer: JSON, base: str) -> JSON:
    return _first(answer, "completion_probabilities", "log-probabilities", base)


def _choice(answer: JSON, base: str) -> JSON:
    return _first(answer, "choices", "a choice", base)


def _first(answer: JSON, field: str, what: str, base: str) -> JSON:
    """Return the first object of a list in an answer; `what` says in an error what is missing."""
    entries = answer.get(field)
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        raise malformed(base, what)
    return entries[0]


def _is_log(value: object) -> bool:
    """Return whether a value can be a log-probability; servers write -9999 or so for what is impossible."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (value == -math.inf or -1e300 < value <= 1e-3)
    )
