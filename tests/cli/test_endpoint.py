"""The command line with a model behind a server: audits, resumed audits, and what a bad server says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
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


WITHOUT_LOGS = chat_reply("A")
SILENT = Reply({}, wait=1.0)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (Reply({"error": {"message": "out of memory"}}, 500), "answered 500 6 times: out of memory"),
        (Reply({"error": {"message": "slow down"}}, 429, {"retry-after": "0.001"}), "answered 429 6 times: slow down"),
        (Reply({"error": {"message": "bad key"}}, 401), "no key was sent"),
        (Reply({"error": {"message": "no model m"}}, 404), "no model m"),
        (Reply({"error": {"message": "maximum context length is 64"}}, 400), "maximum context length is 64"),
        (Reply(b"<html>"), "not JSON"),
        (Reply({"choices": []}), "without a choice"),
        (WITHOUT_LOGS, "without log-probabilities, which it gave before"),
        (Reply(b"", close=True), "cannot be reached"),
        (SILENT, "sent nothing for 0.2 seconds"),
    ],
)
def test_a_server_that_fails_halfway_is_one_sentence_and_what_arrived_is_kept(
    server: ScriptedServer, tmp_path: Path, bad: Reply, says: str
) -> None:
    server.routes["/v1/chat/completions"] = lambda asked: blame_the_old(asked) if len(server.asked) < 40 else bad
    timeout = ("--timeout", "0.2") if bad is SILENT else ()
    stopped = audit(server, tmp_path, "--concurrency", "1", *timeout)
    assert stopped.exit_code == 4, stopped.output
    assert says in " ".join(stopped.output.split())
    assert "Traceback" not in stopped.output
    assert 20 < kept_bodies(tmp_path / "run") < 72
    server.routes["/v1/chat/completions"] = blame_the_old
    assert audit(server, tmp_path).exit_code == 0


def test_another_model_under_the_same_name_is_measured_anew(server: ScriptedServer, tmp_path: Path) -> None:
    assert audit(server, tmp_path).exit_code == 0
    asked = len(server.asked)
    server.routes["/v1/chat/completions"] = lambda asked: chat_reply(
        "C", {"C": 0.8, "B": 0.1} if asked.body.get("logprobs") else None
    )
    again = audit(server, tmp_path)
    assert again.exit_code == 0
    assert "is not the one that was asked before" in again.output
    assert len(server.asked) - asked > 72
    record = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert any("is not the one that was asked before" in note for note in record["manifest"]["warnings"])
    last = audit(server, tmp_path)  # the change stays in the record of this folder
    assert "is not the one that was asked before" in last.output


def test_an_audit_says_before_it_starts_what_it_will_ask(server: ScriptedServer, tmp_path: Path) -> None:
    done = audit(server, tmp_path)
    found = re.search(
        r"(\d+) requests to the server; billed are about ([\d,]+) tokens read and at most (\d+)", done.output
    )
    assert found, done.output
    assert (int(found[1]), int(found[3])) == (72, 72)
    record = json.loads((tmp_path / "run" / "audit.json").read_text())
    foreseen = record["manifest"]["arguments"]["effective"]["foreseen"]
    assert foreseen["requests"] == 72
    characters = sum(len(str(a.body["messages"][-1]["content"])) for a in server.posts() if "A, B or C" in str(a.body))
    assert foreseen["prompt_tokens"] == pytest.approx(characters / 4 + 72 * 5, abs=2)
    asked = len(server.asked)
    again = audit(server, tmp_path, "--seed", "1")  # other cells, the same requests: the whole set is asked
    assert "0 requests to the server" in again.output
    assert "72 answers of an earlier run will be reused" in again.output
    assert not [a for a in server.asked[asked:] if "A, B or C" in str(a.body)]


def test_a_budget_in_tokens_leaves_out_what_it_cannot_pay(server: ScriptedServer, tmp_path: Path) -> None:
    small = audit(server, tmp_path, "--budget", "500 tokens")
    assert small.exit_code == 0, small.output
    assert not [asked for asked in server.posts() if "A, B or C" in str(asked.body)]
    record = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert record["manifest"]["arguments"]["effective"]["most_tokens"] == 500
    assert any("the budget of 500 tokens left out 1 cell" in note for note in record["manifest"]["warnings"])
    assert "left out" in json.dumps(record["results"])
    assert audit(server, tmp_path, "--budget", "100k tokens").exit_code == 0
    assert len([asked for asked in server.posts() if "A, B or C" in str(asked.body)]) == 72


@pytest.mark.parametrize("budget", ["5 apples", "0 tokens", "-3min"])
def test_a_budget_that_is_none_is_misuse(server: ScriptedServer, tmp_path: Path, budget: str) -> None:
    assert audit(server, tmp_path, "--budget", budget).exit_code == 2


def test_a_budget_in_tokens_needs_a_server(tmp_path: Path) -> None:
    done = run("audit", "--budget", "500 tokens", "-o", tmp_path / "run")
    assert done.exit_code == 2
    assert "behind servers" in done.output


def kept_bodies(folder: Path) -> int:
    file = folder / "answers" / "answers.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_killed_audit_asks_for_nothing_twice(server: ScriptedServer, tmp_path: Path) -> None:
    def slow(asked: Asked) -> Reply:
        reply = blame_the_old(asked)
        reply.wait = 0.05
        return reply

    server.routes["/v1/chat/completions"] = slow
    folder = tmp_path / "bbq"
    write(folder)
    options = ("--measure", "bbq-chat", "--query", str(folder), "--concept", "age", "-o", str(tmp_path / "run"))
    command = [sys.executable, "-m", "evenhand", "audit", f"openai:{server.base}", *options, "--concurrency", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while kept_bodies(tmp_path / "run") < 20:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()  # SIGKILL: nothing can be tidied up
        process.wait()
    kept = kept_bodies(tmp_path / "run")
    assert 20 <= kept < 72
    before = [json.dumps(asked.body, sort_keys=True) for asked in server.posts() if "A, B or C" in str(asked.body)]
    server.routes["/v1/chat/completions"] = blame_the_old
    done = audit(server, tmp_path)
    assert done.exit_code == 0, done.output
    every = [json.dumps(asked.body, sort_keys=True) for asked in server.posts() if "A, B or C" in str(asked.body)]
    again = set(before) & set(every[len(before) :])
    assert len(again) <= 2  # those under way when the process was killed
    assert len(every) == 72 + len(again)
    record = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert record["manifest"]["subjects"][0]["traffic"]["answers_reused"] >= kept - 1


def test_a_chat_model_alone_continues_prompts_and_writes_texts(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Reply:
        return chat_reply(" nurse and she sings.", {"A": 0.5, "B": 0.4} if asked.body.get("logprobs") else None)

    with serving({"/v1/models": models("m"), "/v1/chat/completions": answer}) as server:
        options = ("--measure", "counterfactual-text", "--limit", "4", "-o", str(tmp_path / "run"))
        done = run("audit", f"openai:{server.base}", "--measure", "corpus-bias", "--samples", "3", "--tokens", "9",
                   "--system", "Be brief.", "-o", str(tmp_path / "run"))  # fmt: skip
        assert done.exit_code == 0, (done.output, options)
        written = [asked.body for asked in server.posts() if asked.body["max_tokens"] == 9]
        assert len(written) == 3
        assert written[0]["messages"][0] == {"role": "system", "content": "Be brief."}
        assert written[0]["messages"][1]["content"].startswith("Continue this text.")
    record = json.loads((tmp_path / "run" / "audit.json").read_text())
    opening = record["manifest"]["subjects"][0]["opening"]
    assert opening["prompts"] == "chat"
    assert "{prompt}" in opening["message"]


def test_prompts_cannot_be_put_as_a_server_does_not_take_them(server: ScriptedServer, tmp_path: Path) -> None:
    done = run("audit", f"openai:{server.base}", "--measure", "corpus-bias", "--prompts", "plain", "-o", tmp_path / "r")
    assert done.exit_code == 2
    assert "no such route" in done.output
    assert run("audit", f"openai:{server.base}", "--prompts", "loud", "-o", tmp_path / "r").exit_code == 2


def test_show_says_what_the_server_can_do(server: ScriptedServer) -> None:
    done = run("show", f"openai:{server.base}#m", "--key-env", "MY_KEY", "--json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert shown["offers"] == ["chat", "text", "generation"]  # a chat model is asked to continue texts
    assert shown["opening"]["prompts"] == "chat"
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
