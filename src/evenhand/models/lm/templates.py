"""Texts from chat templates, rendered by transformers in a separate process with a limit of time and memory.

A template is a program that comes with a model. The sandbox keeps it away from files and objects, but not from a loop
without end or from a text that fills the memory. This file is also the script of the process, which reads and writes
one line of JSON at a time.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.errors import FormatError, UsageError, require

MEMORY = 2 << 30  # bytes of address space; rendering takes 60 MB
MOST_CHARACTERS = 1_000_000  # that a template may make of a conversation
STARTING = 120.0  # seconds; importing transformers takes 1 to 10
COMPUTING = 10.0  # seconds that a line of conversations may take
RENDERING = 60.0  # seconds by the clock, where the worker's own limit of computing time does not end it
AT_ONCE = 64  # conversations in one line
# The worker needs to find Python's libraries; keys and other secrets of the environment stay out of its reach.
ENVIRONMENT = ("PATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT", "HOME", "TMPDIR")


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
        # -P: the folder of the script is not searched for modules.
        command = [sys.executable, "-P", str(Path(__file__)), str(COMPUTING)]
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


# The process ----------------------------------------------------------------------------------------------------


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


if __name__ == "__main__":
    serve()
