from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from evenhand import data
from evenhand.cli.verbs.fetch import fetch
from evenhand.errors import EvenhandError, FetchError, UnknownNameError, UsageError

APP = typer.Typer()
APP.command()(fetch)
SHARES = "occupation-shares"


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "mine"))
    monkeypatch.delenv("EVENHAND_OFFLINE", raising=False)
    return tmp_path / "mine"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(APP, list(arguments))


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / data.get(name).data_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_result_goes_to_stdout_and_the_note_to_stderr(own_folders: Path) -> None:
    path = put(own_folders, SHARES, b"{}")
    result = run(SHARES)
    assert result.exit_code == 0
    assert str(path) in result.stdout
    assert "source   EVENHAND_DATA" in result.stdout
    assert "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" in result.stdout
    assert "differs from the catalog" in result.stderr
    assert "catalogued" not in result.stdout


def test_json_is_one_document(own_folders: Path) -> None:
    path = put(own_folders, SHARES, b"{}")
    put(own_folders, "weat-sets", b"[]")
    result = run("--json", SHARES, "weat-sets", SHARES)
    first, second = json.loads(result.stdout)
    assert first["id"] == SHARES
    assert (first["path"], first["bytes"], first["source"]) == (str(path), 2, "EVENHAND_DATA")
    assert first["licence"]
    assert first["files"][0]["sha256"].startswith("44136fa3")
    assert second["id"] == "weat-sets"


def test_the_list_says_what_is_here_and_what_needs_a_folder(own_folders: Path) -> None:
    put(own_folders, SHARES, b"{}")
    result = run("--list")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if not line.startswith(" ")}
    assert set(lines) == set(data.catalog())
    assert "EVENHAND_DATA" in lines[SHARES]
    assert "by hand" in lines["hans"]
    assert "by hand: cannot be downloaded; put it into the folder EVENHAND_DATA" in result.stderr
    assert " 347.1 MB  - " in lines["glove-6b-100d"]


def test_the_list_as_json() -> None:
    rows = json.loads(run("--list", "--json", "glove-6b-100d").stdout)
    assert [row["id"] for row in rows] == ["glove-6b-100d"]
    assert rows[0]["path"] is None
    assert rows[0]["sources"] == ["https://nlp.stanford.edu/data/glove.6B.zip!glove.6B.100d.txt"]


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        ([], UsageError, 2),
        (["no-such-set"], UnknownNameError, 2),
        ([SHARES, "no-such-set"], UnknownNameError, 2),
        (["--offline", SHARES], FetchError, 4),
        (["--offline", "--force", SHARES], UsageError, 2),
        (["hans"], FetchError, 4),
    ],
)
def test_errors_carry_their_exit_code(arguments: list[str], kind: type[EvenhandError], code: int) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, kind)
    assert result.exception.exit_code == code
    assert result.exception.hint
    assert not result.stdout


def test_on_a_terminal_the_bar_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from evenhand.data import packages as registries

    def refuse(command: Sequence[str], folder: Path) -> None:
        raise FetchError("the registry is closed")

    monkeypatch.setattr(registries, "run", refuse)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(FetchError, match="the registry is closed"):
        fetch([SHARES])
    shown = capsys.readouterr()
    assert SHARES in shown.err
    assert not shown.out


def test_a_failure_does_not_stop_the_others(own_folders: Path) -> None:
    path = put(own_folders, "weat-sets", b"[]")
    result = run("--offline", SHARES, "weat-sets", "glove-6b-100d")
    assert isinstance(result.exception, FetchError)
    assert result.exception.exit_code == 4
    assert f"2 of 3 data sets could not be obtained: {SHARES}, glove-6b-100d" in result.exception.message
    assert str(path) in result.stdout
    assert SHARES in result.stderr
    assert "glove-6b-100d" in result.stderr


def test_failures_are_part_of_the_json_document(own_folders: Path) -> None:
    put(own_folders, "weat-sets", b"[]")
    result = run("--offline", "--json", SHARES, "weat-sets")
    failed, obtained = json.loads(result.stdout)
    assert failed["id"] == SHARES
    assert "offline" in failed["error"]
    assert failed["hint"]
    assert obtained["path"]
