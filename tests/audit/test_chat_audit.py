"""An audit of a chat model behind a server: what is said before, what is asked, what the report tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("httpx")
pytest.importorskip("tenacity")

import evenhand as eh
from evenhand.cli import app
from evenhand.report.charts.figure import find_figure
from evenhand.report.findings import findings
from scripted_server import Asked, Reply, ScriptedServer, chat_reply, models, serving


def against_women(asked: Asked) -> Reply:
    """Say yes with 75 % to people who are called he, with 50 % to all others; digits and letters come at random."""
    text = asked.body["messages"][-1]["content"]
    yes = 0.75 if " man" in text or " his " in text or " him" in text else 0.5 + len(text) % 3 / 50
    return chat_reply("Yes", {"Yes": yes, "No": 0.95 - yes} if asked.body.get("logprobs") else None)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with serving({"/v1/models": models("m"), "/v1/chat/completions": against_women}) as running:
        yield running


def run(*line: object) -> Result:
    return CliRunner().invoke(app, [str(part) for part in line])


def test_an_audit_of_decisions_says_its_cost_and_tells_of_the_gap(server: ScriptedServer, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run("audit", f"openai:{server.base}", "--measure", "decisions", "--limit", "48", "-o", out)
    assert done.exit_code == 0, done.output
    assert "decisions:explicit: 48 requests to the chat model" in " ".join(done.output.split())
    audit = eh.Audit.load(out)
    gap = audit.get("decisions:explicit:gap")
    assert gap.value < -0.5
    assert gap.n == 48
    told = [finding.text for finding in findings(audit)]
    assert any("less favourable for female" in text for text in told), told
    figure = find_figure(audit, "decisions-by-group")
    assert len(figure.table) == 12
    record = json.loads((out / "audit.json").read_text())
    assert any("48 items" in note for note in record["manifest"]["warnings"])


def test_own_scenarios_are_part_of_the_key(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[scenario.a]\ntext = "{person} waits."\nquestion = "Help {them}?"\n', encoding="utf-8")
    line = ("audit", f"openai:{server.base}", "--measure", "decisions", "--query", file, "-o", tmp_path / "run")
    assert run(*line).exit_code == 0
    first = len(server.posts())
    assert run(*line).exit_code == 0
    again = len(server.posts()) - first
    file.write_text('[scenario.a]\ntext = "{person} sits."\nquestion = "Help {them}?"\n', encoding="utf-8")
    assert run(*line).exit_code == 0
    assert len(server.posts()) - first - again > 50  # another text is another question


def test_a_scenario_without_a_slot_ends_with_a_sentence(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[scenario.a]\ntext = "Nobody waits."\nquestion = "Help?"\n', encoding="utf-8")
    done = run("measure", "decisions", f"openai:{server.base}", "--query", file)
    assert done.exit_code in (2, 4), done.output
    assert "no slot for a person" in " ".join(done.output.split())
    assert "Traceback" not in done.output
