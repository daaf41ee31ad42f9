"""Output that cannot be written: our error with exit code 1, and nothing half written."""

import errno
import importlib
import io
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from typer.testing import CliRunner, Result

import evenhand as eh
from evenhand import files
from evenhand.cli import app, terminal
from evenhand.cli.verbs import corpus
from evenhand.errors import OutputError

cli_app = importlib.import_module("evenhand.cli.app")  # the module, not the app of the same name
probe = importlib.import_module("evenhand.cli.verbs.probe")
AUDIT = ("audit", "--no-methods", "--measure", "direct-bias", "-q", "bolukbasi2016-professions", "-o")
PROBE = ("probe", "embedded", "--probe", "mab-explicit", "--sample", "60", "-o")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("she is a nurse and he is a doctor .\n" * 120, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    assert run(*AUDIT, folder).exit_code == 0
    return folder


def commands(text: Path, saved: Path) -> dict[str, tuple[str | Path, ...]]:
    return {"audit": AUDIT, "probe": PROBE, "corpus": ("corpus", "bias", text, "-o"), "report": ("report", saved, "-o")}


VERBS = ("audit", "probe", "corpus", "report")


@pytest.mark.parametrize("verb", VERBS)
def test_the_commands_of_these_tests_write_where_they_can(verb: str, text: Path, saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "run"
    assert run(*commands(text, saved)[verb], target).exit_code == 0
    assert target.exists()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("where", ["/dev/full", "file/inside"])
def test_a_place_that_is_not_a_folder(verb: str, where: str, text: Path, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.iterdir())
    result = run(*commands(text, saved)[verb], tmp_path / where if not where.startswith("/") else where)
    assert result.exit_code == 1
    assert "could not be written" in result.stderr
    assert isinstance(result.exception, SystemExit)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_without_permission(
    verb: str, text: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    if os.access(locked, os.W_OK):  # the superuser may write everywhere
        create = os.open

        def denied(path: str, *arguments: int, **options: int) -> int:
            if str(path).startswith(str(locked)):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return create(path, *arguments, **options)

        monkeypatch.setattr(files.os, "open", denied)
        monkeypatch.setattr(
            files.os, "access", lambda path, mode: not (mode & os.W_OK and str(path).startswith(str(locked)))
        )
    result = run(*commands(text, saved)[verb], locked / "run.html" if verb == "report" else locked)
    assert result.exit_code == 1
    assert "could not be written" in result.stderr
    assert list(locked.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk(verb: str, text: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command = commands(text, saved)[verb]
    monkeypatch.setattr(files.os, "fsync", full)
    result = run(*command, tmp_path / "run")
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    left = [path for path in (tmp_path / "run").rglob("*") if path.is_file()] if (tmp_path / "run").exists() else []
    assert left == []


def test_a_full_disk_keeps_the_earlier_record(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    audit = eh.Audit.load(saved)

    def full(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        audit.save(saved)
    with pytest.raises(OutputError, match="No space left"):
        audit.to_html(saved / "report.html")
    assert {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()} == before


def test_the_folder_is_checked_before_the_work(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.corpus.score_corpus", lambda *a, **k: pytest.fail("the corpus was read"))
    assert run("corpus", "bias", text, "-o", text / "inside").exit_code == 1


class _Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_tables_for_a_reader_that_went_away_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Closed())
    with pytest.raises(BrokenPipeError):  # which ends a verb with 0; rich alone would exit with 1
        terminal.show("a table")


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (corpus, ("corpus", "bias", "text.txt", "--bootstrap", "0", "--permutations", "0", "--json", "-o", "run")),
        (probe, ("probe", "embedded", "--probe", "gender-occupation", "--sample", "20", "--json", "-o", "run")),
    ],
)
def test_a_record_is_written_before_the_output_whose_reader_may_go_away(
    module: ModuleType, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def show(document: object) -> None:
        raise BrokenPipeError

    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("she is a nurse and he is a doctor\n" * 5)
    monkeypatch.setattr(module, "show_json", show)
    monkeypatch.setattr(cli_app, "_discard_stdout", lambda: None)
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    assert Path("run/audit.json").exists()


@pytest.mark.parametrize(("number", "code"), [(15, 143), (1, 129), (0, 130)])
def test_an_interruption_outside_of_a_verb_has_the_exit_code_of_its_signal(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise SystemExit(130)  # what typer does

    monkeypatch.setattr(cli_app, "app", stop)
    monkeypatch.setattr(cli_app, "_ended_by", number)
    monkeypatch.setattr(cli_app, "_is_whole_process", False)
    monkeypatch.setattr(cli_app.signal, "signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as stopped:
        cli_app.main()
    assert stopped.value.code == code
