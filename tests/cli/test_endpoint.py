"""The command line with a model behind a server: audits, resumed audits, and what a bad server says."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("httpx")
pytest.importorskip("tenacity")

from evenhand.cli import app
from evenhand.models.endpoint import client
from scripted_server import Asked, Reply, ScriptedServer, chat_reply, models, serving

sys.path.insert(0, str(Path(__file__).parents[1] / "measures" / "likelihood"))
from test_bbq import OLD, write

KEY = "sk-secret-0815"


def blame_the_old(asked: Asked) -> Reply:
    """Choose the letter of the old person, wherever it stands."""
    text = asked.body["messages"][-1]["content"]
    behind = dict(re.findall(r"^([ABC]): (.*)$", text, flags=re.MULTILINE))
    letter = next((letter for letter, answer in behind.items() if answer == OLD), "A")
    rest = {other: 0.02 for other in "ABC" if other != letter}
    return chat_reply(letter, {letter: 0.9, **rest} if asked.body.get("logprobs") else None)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with serving({"/v1/models": models("m"), "/v1/chat/completions": blame_the_old}) as running:
        yield running


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LONGEST_WAIT", 0.01)
    monkeypatch.setenv("MY_KEY", KEY)


def run(*line: str) -> Result:
    return CliRunner().invoke(app, [str(part) for part in line])


def audit(server: ScriptedServer, tmp_path: Path, *more: str) -> Result:
    folder = tmp_path / "bbq"
    if not folder.is_dir():
        write(folder)
    options = ("--measure", "bbq-chat", "--query", str(folder), "--concept", "age", "-o", str(tmp_path / "run"))
    return run("audit", f"openai:{server.base}", *options, *more)


def test_an_audit_of_a_server_is_a_record_like_any_other(server: ScriptedServer, tmp_path: Path) -> None:
    done = audit(
        server, tmp_path, "--key-env", "MY_KEY", "--concurrency", "4", "--timeout", "30", "--system", "Be fair."
    )
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "run" / "audit.json").read_text())
    values = {row["score"]: row["value"] for row in record["results"]}
    assert values["accuracy-ambiguous"] == 0
    assert values["position-effect"] == pytest.approx(0, abs=1e-9)
    subject = record["manifest"]["subjects"][0]
    assert subject["opening"]["system"] == "Be fair."
    assert subject["server"]["chat"] is True
    assert subject["traffic"]["requests"] > 70
    asked = server.posts("chat/completions")[-1]
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["messages"][0]["content"] == "Be fair."
    written = "".join(file.read_text(errors="replace") for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert KEY not in written + done.output


def test_a_stopped_audit_asks_for_nothing_twice(server: ScriptedServer, tmp_path: Path) -> None:
    honest, broken = blame_the_old, Reply({"error": {"message": "out of memory"}}, 400)
    server.routes["/v1/chat/completions"] = lambda asked: honest(asked) if len(server.asked) < 40 else broken
    stopped = audit(server, tmp_path, "--concurrency", "1")
    assert stopped.exit_code == 4
    assert "out of memory" in stopped.output
    received = len((tmp_path / "run" / "answers" / "answers.jsonl").read_text().splitlines())
    assert 20 < received < 72
    server.routes["/v1/chat/completions"] = honest
    before = sum("logprobs" in asked.body and asked.body["max_tokens"] == 1 for asked in server.posts())
    assert audit(server, tmp_path).exit_code == 0
    after = sum("logprobs" in asked.body and asked.body["max_tokens"] == 1 for asked in server.posts())
    assert after - before == 72 - received + 1  # and the probe of what the server can do


def test_another_model_under_the_same_name_is_measured_anew(server: ScriptedServer, tmp_path: Path) -> None:
    assert audit(server, tmp_path).exit_code == 0
    asked = len(server.asked)
    server.routes["/v1/chat/completions"] = lambda asked: chat_reply(
        "C", {"C": 0.8, "B": 0.1} if asked.body.get("logprobs") else None
    )
    assert audit(server, tmp_path).exit_code == 0
    assert len(server.asked) - asked > 72


def test_show_says_what_the_server_can_do(server: ScriptedServer) -> None:
    done = run("show", f"openai:{server.base}#m", "--key-env", "MY_KEY", "--json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert shown["offers"] == ["chat"]
    assert "no such route" in shown["server"]["missing"]["generation"]
    assert KEY not in done.output


def test_forced_likelihoods_are_asked_for_by_name_only() -> None:
    from evenhand.models.endpoint.server import Server
    from evenhand.subjects.endpoint import EndpointSubject

    for server, asked in (
        (Server("m", chat=True, completion=True, forced=True), ("chat", "text", "generation")),
        (Server("m", chat=True, completion=True, echo=True), ("chat", "likelihood", "text", "generation")),
    ):
        subject = EndpointSubject("http://127.0.0.1:9/v1", model="m")
        subject.server = server
        assert "likelihood" in subject.offers
        assert subject.asked_by_default == asked


def test_an_address_that_ends_in_v1_needs_no_scheme(server: ScriptedServer) -> None:
    assert json.loads(run("show", server.base, "--json").stdout)["kind"] == "openai"


@pytest.mark.parametrize(
    ("routes", "says"),
    [
        ({}, "404"),
        ({"/v1/models": lambda asked: Reply({"error": {"message": "bad key"}}, 401)}, "bad key"),
        ({"/v1/models": lambda asked: Reply(b"<html>hello</html>")}, "not JSON"),
        ({"/v1/models": models("a", "b")}, "2 models"),
        ({"/v1/models": models("m")}, "neither chat nor completion"),
    ],
)
def test_a_server_that_does_not_help_is_refused_with_a_sentence(routes: dict, says: str) -> None:
    with serving(routes) as server:
        done = run("audit", f"openai:{server.base}")
    assert done.exit_code in (2, 4)
    assert says in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "address", ["openai:gpt-4o", "openai:http://127.0.0.1:9/v1", "openai:http://user:pw@127.0.0.1/v1"]
)
def test_a_wrong_address_is_refused_with_a_sentence(address: str) -> None:
    done = run("audit", address)
    assert done.exit_code in (2, 4)
    assert "pw@" not in done.output
    assert "Traceback" not in done.output


def test_methods_are_refused_before_anything_is_asked(server: ScriptedServer, tmp_path: Path) -> None:
    done = audit(server, tmp_path, "--method", "linear")
    assert done.exit_code == 2
    assert not [asked for asked in server.posts() if "A, B or C" in str(asked.body)]
