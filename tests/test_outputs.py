"""Only files that evenhand wrote are replaced, and folders are replaced as a whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import evenhand as eh
from evenhand import outputs
from evenhand.cli import app
from evenhand.errors import OutputError
from evenhand.outputs import output_file, replacing_folder, require_own_folder, require_run_folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    words = ["she", "he", "woman", "man", "girl", "boy", "nurse", "doctor", "the"]
    path = tmp_path / "my.vec"
    eh.Vectors(words, np.random.default_rng(0).normal(size=(len(words), 5))).save(path)
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("She is a nurse and he is a doctor.\nThe woman met the man.\n" * 20, encoding="utf-8")
    return path


@pytest.fixture
def saved_run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    assert run("audit", "--no-methods", "--measure", "weat", "--query", "weat-6", "-o", folder).exit_code == 0
    shutil.copytree(folder, tmp_path / "second")
    return folder


def commands(vectors: Path, text: Path, saved_run: Path, out: Path) -> dict[str, tuple[str | Path, ...]]:
    return {
        "convert": ("convert", vectors, f"{out}.txt"),
        "debias": ("debias", vectors, "-m", "linear", "-o", f"{out}.vec"),
        "debias a corpus": ("debias", f"corpus:{text}", "--documents", "line", "-m", "cda", "-o", f"{out}.txt"),
        "save-map": ("debias", vectors, "-m", "linear", "-o", f"{out}.ignored.vec", "--save-map", f"{out}.safetensors"),
        "corpus compare": ("corpus", "compare", text, text, "--html", f"{out}.html"),
        "corpus cooccur": ("corpus", "cooccur", text, "--out", f"{out}.safetensors"),
        "probe": ("probe", "--export", f"{out}.jsonl", "--sample", "100"),
        "report": ("report", saved_run, "-o", f"{out}.html"),
        "report several": ("report", saved_run, saved_run.parent / "second", "-o", f"{out}.html"),
        "report figure": ("report", saved_run, "--figure", "effect-sizes", "-o", f"{out}.svg"),
    }


VERBS = tuple(commands(*[Path()] * 4))


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_is_replaced_only_if_evenhand_wrote_it(
    verb: str, vectors: Path, text: Path, saved_run: Path, tmp_path: Path
) -> None:
    command = commands(vectors, text, saved_run, tmp_path / "out")[verb]
    out = Path(next(str(part) for part in reversed(command) if str(part).startswith(f"{tmp_path}/out")))
    out.write_text("mine", encoding="utf-8")
    refused = run(*command)
    assert refused.exit_code == 1, refused.output
    assert "--overwrite" in refused.stderr
    assert out.read_text() == "mine"
    done = run(*command, "--overwrite")
    assert done.exit_code == 0, done.output
    content = out.read_bytes()
    assert content != b"mine"
    again = run(*command)
    assert again.exit_code == 0, again.output
    out.write_bytes(content + b"edited")
    assert run(*command).exit_code == 1
    assert out.read_bytes() == content + b"edited"


def test_what_is_read_is_never_replaced_unasked(vectors: Path, tmp_path: Path) -> None:
    before = vectors.read_bytes()
    for command in (("convert", vectors, vectors), ("debias", vectors, "-m", "linear", "-o", vectors)):
        result = run(*command)
        assert result.exit_code == 1
        assert "is read by this command" in result.stderr.replace("\n", " ")
    link = tmp_path / "link.vec"
    link.symlink_to(vectors)
    assert run("convert", vectors, link).exit_code == 1
    own = tmp_path / "own.vec"
    assert run("convert", vectors, own).exit_code == 0
    assert run("debias", own, "-m", "linear", "-o", own).exit_code == 1  # evenhand wrote it, and reads it now
    assert vectors.read_bytes() == before
    assert run("debias", vectors, "-m", "linear", "-o", vectors, "--overwrite").exit_code == 0
    assert vectors.read_bytes() != before


def test_a_failure_keeps_the_earlier_file(vectors: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text("mine", encoding="utf-8")
    (tmp_path / "bad.vec").write_text("she 1 2\nhe x y\n", encoding="utf-8")
    assert run("convert", tmp_path / "bad.vec", out, "--overwrite").exit_code == 4
    assert out.read_text() == "mine"


def test_several_figures_are_checked_before_the_first_is_written(saved_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    assert run("report", saved_run, "--figures", folder).exit_code == 0
    files = sorted(folder.iterdir())
    files[-1].write_text("mine", encoding="utf-8")
    for file in files[:-1]:
        file.unlink()
    assert run("report", saved_run, "--figures", folder).exit_code == 1
    assert sorted(folder.iterdir()) == files[-1:]


@pytest.mark.parametrize("verb", ["audit", "probe", "corpus bias", "compare", "debias --sweep"])
def test_a_record_does_not_replace_a_page_of_the_user(verb: str, vectors: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine", encoding="utf-8")
    command = {
        "audit": ("audit", vectors, "--no-methods"),
        "probe": ("probe", "--sample", "50"),
        "corpus bias": ("corpus", "bias", text),
        "compare": ("compare", vectors, vectors),
        "debias --sweep": ("debias", vectors, "--sweep"),
    }[verb]
    result = run(*command, "-o", tmp_path)
    assert result.exit_code == 1, result.output
    assert "'report.html' that evenhand did not write" in result.stderr.replace("\n", " ")
    assert (tmp_path / "report.html").read_text() == "mine"


def test_the_folder_of_a_run_is_used_again(saved_run: Path) -> None:
    require_run_folder(saved_run)
    (saved_run / "audit.json").write_text("damaged", encoding="utf-8")
    require_run_folder(saved_run)  # its cells tell
    with pytest.raises(OutputError, match=r"'audit.json' that evenhand did not write"):
        require_own_folder(saved_run, ["audit.json"], lambda folder: False)


def test_training_does_not_replace_another_model(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")
    result = run("lm", "train", text, "--valid", text, "-o", folder)
    assert result.exit_code == 1
    assert "'config.json' that evenhand did not write" in result.stderr.replace("\n", " ")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"premise": "a", "hypothesis": "b", "label": "neutral"}\n', encoding="utf-8")
    (folder / "seed-0.safetensors").write_text("mine", encoding="utf-8")
    result = run("nli", "train", "--train", pairs, "--dev", pairs, "--out", folder)
    assert "'seed-0.safetensors' that evenhand did not write" in result.stderr.replace("\n", " ")


def test_without_a_writable_cache_the_command_asks(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "file" / "cache"))
    out = tmp_path / "out.txt"
    assert run("convert", vectors, out).exit_code == 0
    assert run("convert", vectors, out).exit_code == 1
    assert run("convert", vectors, out, "--overwrite").exit_code == 0


def test_a_moved_file_is_not_known(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with output_file(first):
        first.write_text("x", encoding="utf-8")
    os.rename(first, second)  # noqa: PTH104
    with pytest.raises(OutputError, match="evenhand did not write it"), output_file(second):
        pass


def content(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def write(folder: Path, text: str, **options: bool) -> None:
    with replacing_folder(folder, **options) as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "a").write_text(text)
        assert not (folder / "sub" / "a").exists() or (folder / "sub" / "a").read_text() != text


@pytest.mark.parametrize("atomic", [True, False])
def test_the_new_folder_takes_the_place_of_the_old_one(
    atomic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not atomic:
        monkeypatch.setattr(outputs, "_exchange", lambda one, other: False)
    target = tmp_path / "x" / "model"
    write(target, "old")
    (target / "note").write_text("mine")
    write(target, "new")
    assert content(target) == {"sub/a": "new"}
    assert [entry.name for entry in target.parent.iterdir()] == ["model"]


def test_other_entries_of_the_old_folder_are_kept_if_asked(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write(target, "old")
    (target / "note").write_text("mine")
    (target / "link").symlink_to("note")
    (target / "more").mkdir()
    (target / "more" / "deep").write_text("deep")
    (target / ".x.0123456789ab.partial").write_text("half")
    write(target, "new", keep_others=True)
    assert content(target) == {"sub/a": "new", "note": "mine", "link": "mine", "more/deep": "deep"}
    assert (target / "link").is_symlink()


def test_the_exchange_leaves_no_moment_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "fork") or not outputs._exchange(*_two(tmp_path)):
        pytest.skip("this system cannot exchange two folders")
    target = tmp_path / "model"
    write(target, "old")
    calls: list[str] = []
    for name in ("rename", "replace", "rmdir"):
        plain = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, plain=plain, name=name, **more: (calls.append(name), plain(*args, **more))[1]
        )
    write(target, "new")
    assert "rename" not in calls
    assert "replace" not in calls


def _two(folder: Path) -> tuple[Path, Path]:
    one, other = folder / "one", folder / "other"
    one.mkdir()
    other.mkdir()
    return one, other


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write(target, "old")

    def fail() -> None:
        with replacing_folder(target) as partial:
            (partial / "half").write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space"):
        fail()
    assert content(target) == {"sub/a": "old"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_file_in_the_way_is_reported(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    with pytest.raises(OutputError, match="it is a file"), replacing_folder(tmp_path / "model"):
        pass


def test_a_signal_during_the_removal_of_the_old_folder_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    signals = [KeyboardInterrupt()]

    def remove(folder: Path, ignore_errors: bool) -> None:
        if signals:
            raise signals.pop()
        whole(folder, ignore_errors=ignore_errors)

    whole = shutil.rmtree
    target = tmp_path / "model"
    target.mkdir()
    monkeypatch.setattr(shutil, "rmtree", remove)
    with pytest.raises(KeyboardInterrupt), replacing_folder(target) as partial:
        (partial / "new").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (target / "new").exists()
