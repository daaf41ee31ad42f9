"""Chat models: the `Chat` protocol, how a choice between options is read, and models that come with a chat template.

A choice is read from the first token of the answer. Its probability is summed over the spellings of an option: with and
without a blank in front, in lower and upper case, with a mark behind. What falls on no option is kept as a share of its
own: a model that refuses, explains or says something else is counted, never dropped.
"""

from __future__ import annotations

import atexit
import json
import mmap
import os
import queue
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from evenhand.arrays import Matrix64, Rows, Vector64
from evenhand.errors import DegenerateError, FormatError, UsageError, require
from evenhand.models.model_files import read_json
from evenhand.models.tokenizing import check_texts, encode_one, tokenizer_errors

if TYPE_CHECKING:
    from evenhand.models.lm.causal import CausalLM

GGUF_TEMPLATE = b"tokenizer.chat_template"  # the key of the template in the header of a GGUF file
GGUF_HEADER = 64 << 20  # bytes; vocabularies of 260,000 tokens take 6 MB
MEMORY = 2 << 30  # bytes of address space; rendering takes 60 MB
MOST_CHARACTERS = 1_000_000  # that a template may make of a conversation
STARTING = 120.0  # seconds; importing transformers takes 1 to 10
COMPUTING = 10.0  # seconds that a line of conversations may take
RENDERING = 60.0  # seconds by the clock, where the worker's own limit of computing time does not end it
AT_ONCE = 64  # conversations in one line
# The worker needs to find Python's libraries; keys and other secrets of the environment stay out of its reach.
ENVIRONMENT = ("PATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT", "HOME", "TMPDIR")
SCRIPT = "from evenhand.models.lm.chat import serve; serve()"
SAMPLES = 20  # answers that are counted where a model gives no log-probabilities
Message = Mapping[str, str]
"""`role` (system, user or assistant) and `content`."""
Conversation = Sequence[Message]
ReadFrom = Literal["log-probabilities", "sampled answers"]


@dataclass(frozen=True, eq=False)
class Choices:
    """How probable each option is as the answer to each conversation.

    Attributes:
        probabilities: (conversations, options). With `none` each row sums to 1.
        none: the share of probability, or of answers, that falls on no option.
        read_from: what the probabilities were read from.
        samples: answers to each conversation that were counted; 0 for log-probabilities.
    """

    probabilities: Matrix64
    none: Vector64
    read_from: ReadFrom
    samples: int = 0

    def __len__(self) -> int:
        return len(self.none)

    def among_options(self) -> Matrix64:
        """Return the probabilities of the options given that one of them is chosen; NaN where none ever is."""
        total = self.probabilities.sum(axis=1, keepdims=True)
        empty = np.full_like(self.probabilities, np.nan)
        return np.asarray(np.divide(self.probabilities, total, out=empty, where=total > 0))


@runtime_checkable
class Chat(Protocol):
    """What the view `chat` offers: a model that answers conversations."""

    name: str

    def answer(
        self,
        conversations: Sequence[Conversation],
        *,
        samples: int = 1,
        tokens: int = 256,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> list[list[str]]:
        """Return `samples` answers to each conversation.

        Args:
            conversations: the conversations; the model speaks next.
            samples: answers to each.
            tokens: the largest number of tokens in an answer.
            temperature: divisor of the logits; 0 for the most probable token at each step.
            seed: seed of the samples, where the model takes one.
        """

    def choose(
        self, conversations: Sequence[Conversation], options: Sequence[str], *, samples: int = SAMPLES, seed: int = 0
    ) -> Choices:
        """Return how probable each option is as the answer to each conversation.

        Args:
            conversations: the conversations; each asks for one of the options.
            options: short answers that begin differently, such as "yes" and "no" or "A", "B" and "C".
            samples: answers that are counted where the model gives no log-probabilities.
            seed: seed of these answers.
        """


def user(text: str, *, system: str = "") -> list[dict[str, str]]:
    """Return a conversation of one message of the user, behind a system prompt if there is one.

    >>> user("Hello", system="Be brief.")
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hello'}]
    """
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": text}]


def with_system(conversation: Conversation, system: str) -> list[Message]:
    """Return a conversation with a system prompt, in front of the one that it has."""
    if not system:
        return list(conversation)
    head, *rest = conversation
    if head["role"] == "system":
        return [{"role": "system", "content": f"{system}\n\n{head['content']}"}, *rest]
    return [{"role": "system", "content": system}, *conversation]


def check_options(options: Sequence[str]) -> list[str]:
    """Return the options as they are compared; raise if two of them cannot be told apart by how they begin."""
    if isinstance(options, str) or len(options) < 2:
        raise UsageError("a choice needs at least two options", hint='such as ["yes", "no"]')
    plain = [_plain(option) for option in options]
    if "" in plain:
        raise UsageError(f"the option {options[plain.index('')]!r} has no letter or digit")
    for row, option in enumerate(plain):
        for other in plain[row + 1 :]:
            if option.startswith(other) or other.startswith(option):
                raise UsageError(
                    f"the options {options[row]!r} and {other!r} begin alike: the first token cannot tell them apart",
                    hint="let the model choose a letter for each option",
                )
    return plain


def option_of(token: str, options: Sequence[str]) -> int | None:
    """Return the option that an answer with this first token chooses, or None.

    A token chooses an option if it is the option, with or without a mark behind it, or begins this option alone.

    >>> [option_of(token, ["yes", "no"]) for token in (" Yes", "NO.", "y", "n", "None", "", "-")]
    [0, 1, 0, 1, None, None, None]

    Args:
        token: the text of the token.
        options: what `check_options` returned.
    """
    text = _plain(token)
    if not text:
        return None
    begun = [row for row, option in enumerate(options) if option.startswith(text)]
    return begun[0] if len(begun) == 1 else None


def option_in(answer: str, options: Sequence[str]) -> int | None:
    """Return the option that a written answer chooses: the one that its first word is, or None.

    >>> [option_in(text, ["yes", "no"]) for text in ("Yes, they should.", "**No**", "Nobody knows", "I cannot say")]
    [0, 1, None, None]
    """
    first = next(iter(_words(answer)), "")
    return next((row for row, option in enumerate(options) if next(iter(_words(option)), "") == first), None)


def from_log_probabilities(
    rows: Sequence[Iterable[tuple[str, float]]], options: Sequence[str], *, name: str
) -> Choices:
    """Sum the probabilities of first tokens over the spellings of each option.

    Args:
        rows: for each conversation, tokens with their log-probabilities; they need not be all tokens of the model.
        options: the options.
        name: the model, for messages.
    """
    plain = check_options(options)
    sums = np.zeros((len(rows), len(plain)))
    for row, tokens in enumerate(rows):
        for token, log_probability in tokens:
            chosen = option_of(token, plain)
            if chosen is not None:
                sums[row, chosen] += np.exp(log_probability)
    if not np.isfinite(sums).all() or (sums.sum(axis=1) > 1.01).any():
        raise DegenerateError(f"{name}: the probabilities of the first token are not probabilities")
    none = np.clip(1.0 - sums.sum(axis=1), 0.0, 1.0)
    return Choices(sums, none, "log-probabilities")


def from_answers(answers: Sequence[Sequence[str]], options: Sequence[str]) -> Choices:
    """Count written answers by the option that they choose."""
    plain = check_options(options)
    counts = np.zeros((len(answers), len(plain)))
    for row, texts in enumerate(answers):
        for text in texts:
            chosen = option_in(text, plain)
            if chosen is not None:
                counts[row, chosen] += 1
    totals = np.array([max(1, len(texts)) for texts in answers], dtype=np.float64)
    shares = counts / totals[:, None]
    samples = max((len(texts) for texts in answers), default=0)
    return Choices(shares, 1.0 - shares.sum(axis=1), "sampled answers", samples)


class TemplateChat:
    """A causal language model and the chat template of its tokenizer, as a `Chat`.

    The template is rendered by `transformers`, in a sandbox without access to files, modules or attributes of objects,
    in a process with a limit of time and memory.

    Args:
        model: the language model.
        system: system prompt of every conversation.
    """

    def __init__(self, model: CausalLM, *, system: str = "") -> None:
        self.model, self.system, self.name = model, system, model.name
        if not model.chat_template:
            raise UsageError(f"{model.name} has no chat template", hint="use its views likelihood and generation")
        self._groups: dict[tuple[str, ...], list[Rows]] = {}

    def answer(
        self,
        conversations: Sequence[Conversation],
        *,
        samples: int = 1,
        tokens: int = 256,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> list[list[str]]:
        """Return answers; see `Chat`."""
        prompts = self.prompts(conversations)
        return self.model.continue_ids(prompts, samples=samples, tokens=tokens, temperature=temperature, seed=seed)

    def choose(
        self, conversations: Sequence[Conversation], options: Sequence[str], *, samples: int = SAMPLES, seed: int = 0
    ) -> Choices:
        """Return the probabilities of options, summed over the whole vocabulary; see `Chat`."""
        plain = tuple(check_options(options))
        if plain not in self._groups:
            self._groups[plain] = self._tokens_of(plain)
        prompts = self.prompts(conversations)
        shares = self.model.next_token_shares(prompts, self._groups[plain])
        return Choices(shares, np.clip(1.0 - shares.sum(axis=1), 0.0, 1.0), "log-probabilities")

    def prompts(self, conversations: Sequence[Conversation]) -> list[list[int]]:
        """Return the tokens of each conversation up to where the model speaks.

        Raises:
            UsageError: If the template refuses a conversation, such as one with a system prompt.
            FormatError: If the template takes too long or makes too long a text.
        """
        tokenizer = self.model.tokenizer
        messages = [[dict(message) for message in with_system(part, self.system)] for part in conversations]
        texts = render(self.model.chat_template or "", messages, dict(tokenizer.special_tokens_map), name=self.name)
        return [encode_one(tokenizer, text) for text in texts]

    def _tokens_of(self, options: Sequence[str]) -> list[Rows]:
        """Return the tokens that choose each option; each token of the vocabulary is read once."""
        tokenizer = self.model.tokenizer
        special = set(tokenizer.all_special_ids)
        ids = [token for token in range(self.model.vocabulary_size) if token not in special]
        with tokenizer_errors(tokenizer):
            texts = tokenizer.batch_decode([[token] for token in ids])
        chosen = np.array([-1 if (row := option_of(text, options)) is None else row for text in texts], dtype=np.int64)
        return [np.array(ids, dtype=np.int64)[chosen == row] for row in range(len(options))]


CONTINUE = "Continue this text. Write only the continuation, without repeating the text.\n\n{prompt}"
PromptForm = Literal["plain", "chat", "message"]
"""How a prompt is put: as the beginning of a text, in a message that asks for its continuation, or as the message."""
MESSAGES: dict[PromptForm, str] = {"chat": CONTINUE, "message": "{prompt}"}


def check_prompt_form(form: str) -> PromptForm:
    """Return how prompts are put; raise if it is no such form."""
    found = next((known for known in get_args(PromptForm) if known == form), None)
    if found is None:
        raise UsageError(f"prompts can be put as {', '.join(map(repr, get_args(PromptForm)))}, not {form!r}")
    chosen: PromptForm = found
    return chosen


class ChatWriter:
    """A chat model that continues texts because it is asked to: the view `generation` of models without another.

    Args:
        chat: the model.
        form: the message; {prompt} stands for the text.
    """

    def __init__(self, chat: Chat, form: str = CONTINUE) -> None:
        self.chat, self.form, self.name = chat, form, chat.name

    def continuations(
        self, prompts: Sequence[str], *, samples: int, tokens: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        """Return continuations of prompts; see `PromptWriter`."""
        asked = [user(self.form.format(prompt=prompt)) for prompt in check_texts(prompts)]
        return self.chat.answer(asked, samples=samples, tokens=tokens, temperature=temperature, seed=seed)


def has_chat_template(path: Path) -> bool:
    """Return whether a model folder or a GGUF file comes with a chat template; nothing is loaded."""
    if path.is_dir():
        if (path / "chat_template.jinja").is_file():
            return True
        file = path / "tokenizer_config.json"
        return bool(read_json(file).get("chat_template")) if file.is_file() else False
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(GGUF_TEMPLATE, 0, GGUF_HEADER) >= 0


def _plain(text: str) -> str:
    """Return the text as spellings are compared: composed, in lower case, without marks and blanks at its ends."""
    folded = unicodedata.normalize("NFKC", text.replace("\u2581", " ").replace("\u0120", " ")).casefold()
    start, stop = 0, len(folded)
    while start < stop and not folded[start].isalnum():
        start += 1
    while stop > start and not folded[stop - 1].isalnum():
        stop -= 1
    return folded[start:stop]


def _words(text: str) -> list[str]:
    spaced = "".join(c if c.isalnum() else " " for c in unicodedata.normalize("NFKC", text).casefold())
    return spaced.split()


# Templates. A template is a program that comes with a model. The sandbox of transformers keeps it away from files and
# objects, but not from a loop without end or from a text that fills the memory, so it is rendered in a process of its
# own, which reads and writes one line of JSON at a time.


def render(
    template: str, conversations: Sequence[Sequence[dict[str, str]]], special: dict[str, Any], *, name: str
) -> list[str]:
    """Return the text that a chat template makes of each conversation, up to where the model speaks.

    Args:
        template: the template, in jinja.
        conversations: lists of messages.
        special: names and texts of the tokenizer's special tokens, which templates may use.
        name: the model, for messages.

    Raises:
        UsageError: If the template refuses a conversation, such as one with a system prompt.
        FormatError: If it fails, takes too long, or makes too long a text.
    """
    require("jinja2", extra="models")
    texts: list[str] = []
    for low in range(0, len(conversations), AT_ONCE):
        part = [list(conversation) for conversation in conversations[low : low + AT_ONCE]]
        answer = _worker().ask({"template": template, "conversations": part, "special": special})
        if "refused" in answer:
            raise UsageError(
                f"the chat template of {name} refuses a conversation: {answer['refused']}",
                hint="some models take no system prompt",
            )
        if "texts" not in answer:
            raise FormatError(f"the chat template of {name} {answer['failed']}", hint="use the template of the authors")
        texts += answer["texts"]
    return texts


class _Worker:
    """The process, started on first use and again after it was ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of the process to one line; an answer that does not come is a failure of the template."""
        with self._lock:
            process = self._started()
            try:
                if process.stdin is None:  # pragma: no cover (it is a pipe)
                    raise OSError
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                line = self._lines.get(timeout=RENDERING)
            except (queue.Empty, OSError):
                line = ""
            if not line:
                self.close()
                return {"failed": f"takes more than {COMPUTING:g} seconds, or too much memory"}
            answer: dict[str, Any] = json.loads(line)
            return answer

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        # -P: the working folder is not searched for modules.
        command = [sys.executable, "-P", "-c", SCRIPT, str(COMPUTING)]
        environment = {key: os.environ[key] for key in ENVIRONMENT if key in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            encoding="utf-8", env=environment,
        )  # fmt: skip
        self._process, self._lines = process, queue.Queue()
        threading.Thread(target=_collect, args=(process, self._lines), daemon=True).start()
        try:
            ready = self._lines.get(timeout=STARTING)
        except queue.Empty:
            ready = ""
        if not ready:
            self.close()
            raise FormatError("the process that renders chat templates does not start", hint="is transformers whole?")
        return process


def _collect(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Put each line of a process into a queue, and an empty one at its end."""
    try:
        for line in process.stdout or ():
            lines.put(line)
    except (OSError, ValueError):  # closed meanwhile
        pass
    lines.put("")


@cache
def _worker() -> _Worker:
    return _Worker()


# The process that renders. ------------------------------------------------------------------------------------------


def serve() -> None:
    """Answer each line of standard input until it ends; the argument is the seconds of computing for one line."""
    from transformers.utils import chat_template_utils

    _limit_memory()
    _reply({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        _allow_seconds(float(sys.argv[1]))
        answer = _rendered(chat_template_utils, request)
        _allow_seconds(0)
        _reply(answer)


def _rendered(library: Any, request: dict[str, Any]) -> dict[str, Any]:
    from jinja2 import TemplateError

    settings = {"add_generation_prompt": True, "tools": None, "documents": None, **request["special"]}
    texts = []
    try:
        compiled = library._compile_jinja_template(request["template"])
        for messages in request["conversations"]:
            text = compiled.render(messages=messages, **settings)
            if len(text) > MOST_CHARACTERS:
                return {"failed": f"makes a text of more than {MOST_CHARACTERS:,} characters"}
            texts.append(text)
    except TemplateError as error:
        return {"refused": str(error)[:300] or type(error).__name__}
    except MemoryError:
        return {"failed": f"needs more than {MEMORY >> 30} GB of memory"}
    except Exception as error:  # whatever a template runs into is its own fault
        return {"failed": f"fails ({type(error).__name__}: {str(error)[:200]})"}
    return {"texts": texts}


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _allow_seconds(seconds: float) -> None:
    """Let the system end the process after some seconds of computing; 0 lifts the limit."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def _reply(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
