"""`evenhand serve` prints its address, answers there, warns when others can reach it, and stops at Ctrl-C."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn", reason="the extra [web] is not installed")

from evenhand.cli import app
from evenhand.errors import OutputError
from evenhand.web import server
from evenhand.web.audits import _methods, _ticked
from evenhand.web.server import RequestGuard

PATIENCE = 60.0


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[RequestGuard]:
    """Do not serve: keep the applications that would be."""
    kept: list[RequestGuard] = []

    def keep(app: RequestGuard, listening: object, *, browser: str = "") -> None:
        kept.append(app)
        listening.close()
        assert browser == ""

    monkeypatch.setattr(server, "serve", keep)
    return kept


def test_the_address_is_printed_answered_and_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evenhand", "serve", str(tmp_path), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                text = urllib.request.urlopen(f"{address}explore", timeout=PATIENCE).read().decode()
                break
            except urllib.error.URLError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert "glove-embedded" in text
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in errors
    assert "serving" in errors


def test_only_this_machine_is_let_in_by_default(served: list[RequestGuard], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve", str(tmp_path), "--no-browser"])
    assert result.exit_code == 0
    assert "warning" not in result.stderr
    assert served[0].hosts == {"127.0.0.1", "localhost", "::1"}


def test_a_table_and_a_classifier_are_opened_with_their_columns(
    served: list[RequestGuard], tmp_path: Path, tiny_folder: Callable[..., Path]
) -> None:
    table, texts = tmp_path / "t.csv", tmp_path / "said.csv"
    table.write_text("sex,race,y,yhat,p\nf,a,good,good,0.9\nm,b,bad,bad,0.2\n")
    texts.write_text("said,sex,y\nhello,f,good\nno,m,bad\n")
    base = (
        "serve",
        tmp_path,
        "--no-browser",
        "--device",
        "cpu",
        "--group",
        "sex",
        "--label",
        "y",
        "--positive",
        "good",
    )
    for more in (
        ("-s", f"table:{table}", "--prediction", "yhat"),
        ("-s", f"table:{table}", "--score", "p", "--threshold", "0.5"),
        ("-s", f"hf:{tiny_folder('BertForSequenceClassification', num_labels=2)}", "--texts", texts, "--text-column", "said",
         "--positive-label", "LABEL_1"),
    ):  # fmt: skip
        line = (
            [*base, *more]
            if "--texts" in more
            else [part for part in (*base, *more) if part not in ("--device", "cpu")]
        )
        result = CliRunner().invoke(app, list(map(str, line)))
        assert result.exit_code == 0, result.output
        site = served[-1].app.state.site
        assert "outcomes" in site.served.subject("s1").offers
        ticked = _ticked(site)["measure"]
        assert {"group-metrics", "decision-accuracy"} <= set(ticked)
        assert "equalised-odds" in _methods(site)


def test_another_interface_is_warned_of(served: list[RequestGuard], tmp_path: Path) -> None:
    arguments = ["serve", str(tmp_path), "--no-browser", "--host", "0.0.0.0", "--allow-host", "Lab.example"]
    result = CliRunner().invoke(app, arguments)
    assert "no password" in result.stderr
    assert result.stdout.startswith("http://127.0.0.1:")
    assert served[0].hosts == {"127.0.0.1", "localhost", "::1", "lab.example"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 4, "there is no folder"),
        (["--subject", "nothing.vec"], 4, "nothing.vec"),
        (["--host", "192.0.2.1"], 1, "cannot listen"),
    ],
)
def test_what_cannot_be_served_is_said(
    served: list[RequestGuard], arguments: list[str], code: int, message: str
) -> None:
    result = CliRunner().invoke(app, ["serve", "--no-browser", *arguments])
    assert result.exit_code == code
    assert message in result.stderr


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 1
    assert 'pip install "evenhand[web]"' in result.stderr


@pytest.mark.parametrize(("display", "opens"), [("", False), (":0", True)])
def test_a_browser_is_opened_on_a_desktop_only(monkeypatch: pytest.MonkeyPatch, display: str, opens: bool) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert server.has_desktop() == opens


def test_a_port_in_use_is_an_error() -> None:
    with server.listen("127.0.0.1", 0) as first, pytest.raises(OutputError, match="cannot listen"):
        server.listen("127.0.0.1", first.getsockname()[1])


def test_a_port_can_be_chosen_and_the_address_printed_as_json(served: list[RequestGuard], tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = CliRunner().invoke(app, ["serve", str(tmp_path), "--no-browser", "--port", str(port), "--json"])
    assert result.exit_code == 0, result.output
    assert f":{port}/" in json.dumps(json.loads(result.stdout))
