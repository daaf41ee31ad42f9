"""Scripts that write the pages of reproductions, and a server that answers where a page names one."""

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from scripted_server import Asked, Reply, chat_reply, echo_reply, models, serving

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Return a function that imports a script by name; an import error fails the test."""

    def load(name: str) -> ModuleType:
        spec = spec_from_file_location(name, SCRIPTS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and named tuples look their module up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def server() -> Iterator[dict[str, str]]:
    """A server that prefers the first option, and the addresses of the documentation that it stands for."""

    def converse(asked: Asked) -> Reply:
        tokens = {"A": 0.4, "B": 0.2, "C": 0.1, "Yes": 0.2, "No": 0.1} if asked.body.get("logprobs") else None
        return chat_reply("A", tokens)

    def complete(asked: Asked) -> Reply:
        return echo_reply(asked, lambda tokens, index: -1.0 - len(tokens[index]) / 10)

    routes = {"/v1/models": models("m"), "/v1/chat/completions": converse, "/v1/completions": complete}
    with serving(routes) as running:
        yield {
            r"http://127\.0\.0\.1:8\d+/v1": running.base,
            r"https?://HOST(:8000)?/v1#MODEL": f"{running.base}#m",
        }
