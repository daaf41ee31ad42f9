"""A folder is replaced as a whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from evenhand import folders
from evenhand.errors import OutputError
from evenhand.folders import replacing_folder


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
        monkeypatch.setattr(folders, "_exchange", lambda one, other: False)
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
    if not hasattr(os, "fork") or not folders._exchange(*_two(tmp_path)):
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
