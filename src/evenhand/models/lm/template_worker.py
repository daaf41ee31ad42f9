"""Renders chat templates in a process of its own; see `templates`. It reads and writes one line of JSON at a time.

A template is a program that comes with a model. The sandbox keeps it away from files and objects, but not from a loop
without end or from a text that fills the memory, so the process has a limit for both. evenhand is not imported here.
"""

import json
import sys
from typing import Any

MEMORY = 2 << 30  # bytes of address space; rendering takes 60 MB
MOST_CHARACTERS = 1_000_000  # that a template may make of a conversation


def main() -> None:
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
    main()
