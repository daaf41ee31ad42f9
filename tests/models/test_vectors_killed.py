"""A writer that is killed leaves the old result or the new one: never none, never half, never a mixed pair."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from evenhand import Vectors
from evenhand.errors import OutputError
from evenhand.models.vectors import files

SIZE, DIM = 20_000, 50
OLD = Vectors([f"old{row}" for row in range(SIZE)], np.full((SIZE, DIM), 0.25, np.float32))
WRITER = f"""
import sys
import numpy as np
from pathlib import Path
from evenhand import Vectors
new = Vectors([f"new{{row}}" for row in range({SIZE})], np.random.default_rng(0).standard_normal(({SIZE}, {DIM})))
new = new.with_matrix(new.matrix, step={{"method": "new"}})
for name in sys.argv[2:]:
    new.save(Path(sys.argv[1]) / name)
print("ready", flush=True)
sys.stdin.readline()
while True:
    for name in sys.argv[2:]:
        new.save(Path(sys.argv[1]) / name)
        Path(sys.argv[1], "rounds").write_text("one more")
"""
NAMES = ["x.txt", "x.bin", "y.npy", "x.safetensors", "z.vec.zst"]


def start(folder: Path) -> subprocess.Popen[str]:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), *NAMES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def is_old_or_new(path: Path) -> str:
    found = Vectors.load(path, cache=False)
    assert len(found) == SIZE
    kind = found.words[0].removesuffix("0")
    assert all(word.startswith(kind) for word in found.words)
    assert (found.matrix == 0.25).all() == (kind == "old")
    assert [step["method"] for step in found.history] == ([] if kind == "old" else ["new"])
    return kind


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_whole_files(tmp_path: Path) -> None:
    chance = random.Random(0)
    clean = tmp_path / "clean"
    for name in NAMES:
        OLD.save(clean / name)
    for round_ in range(6):
        folder = tmp_path / str(round_)
        folder.mkdir()
        writer = start(folder)
        for entry in folder.iterdir():
            entry.unlink()
        shutil.copytree(clean, folder, dirs_exist_ok=True)
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        time.sleep(chance.uniform(0.0, 0.25))
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        found = [is_old_or_new(folder / name) for name in NAMES]
        assert set(found) <= {"old", "new"}


class Killed(BaseException):
    """Stands for the moment at which the process is gone: nothing after it runs."""


@pytest.mark.parametrize("suffix", [".npy", ".txt", ".bin", ".safetensors"])
@pytest.mark.parametrize("history", [True, False])
def test_a_stop_before_each_step_of_publishing(
    suffix: str, history: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop before the first, second, ... system call that changes a folder, and look at what is there."""
    old = Vectors(["a", "b"], [[1.0], [2.0]], history=[{"method": "old"}] if history else [])
    new = Vectors(["c", "d"], [[3.0], [4.0]], history=[{"method": "new"}])
    seen: set[str] = set()
    for stop in range(40):
        folder = tmp_path / str(stop)
        path = old.save(folder / f"x{suffix}")
        steps = iter(range(100))
        with monkeypatch.context() as patch:

            def counted(plain: object, steps: object = steps, stop: int = stop) -> object:
                def call(*args: object, **kwargs: object) -> object:
                    if next(steps) >= stop:  # type: ignore[call-overload]
                        raise Killed
                    return plain(*args, **kwargs)  # type: ignore[operator]

                return call

            for name in ("replace", "unlink", "rename"):
                patch.setattr(os, name, counted(getattr(os, name)))
            patch.setattr(files.shutil, "rmtree", counted(shutil.rmtree))
            try:
                new.save(path)
            except Killed:
                finished = False
            else:
                finished = True
        assert path.exists()  # for programs that do not complete what was interrupted
        if suffix == ".npy" and (folder / "x.vocab").exists():
            words = (folder / "x.vocab").read_text().split()
            assert (words[0], np.load(path)[0, 0]) in (("a", 1), ("c", 3))
        seen.add(state(path, old, new))
        if finished:
            break
    assert finished
    assert seen == {"old", "new"}


def state(path: Path, old: Vectors, new: Vectors) -> str:
    found = Vectors.load(path, cache=False)
    assert found in (old, new)
    kind = "old" if found == old else "new"
    assert found.history == (old.history if kind == "old" else new.history)
    return kind


def test_an_unchanged_vocabulary_is_left_alone_so_that_the_old_matrix_is_never_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Vectors(["a", "b"], [[1.0], [2.0]])
    path = made.save(tmp_path / "x.npy")
    before = (tmp_path / "x.vocab").stat().st_ino
    gone: list[bool] = []
    plain = os.replace
    monkeypatch.setattr(os, "replace", lambda *args: (gone.append(not path.exists()), plain(*args))[1])
    made.with_matrix(made.matrix * 2).save(path)
    assert (tmp_path / "x.vocab").stat().st_ino == before
    assert not any(gone)


def test_a_linked_matrix_stays_linked_and_its_words_lie_beside_the_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real, link = tmp_path / "disk" / "real.npy", tmp_path / "x.npy"
    made = Vectors(["a", "b"], [[1.0], [2.0]])
    real.write_bytes(b"")
    link.symlink_to(real)
    made.save(link)
    assert link.is_symlink()
    assert Vectors.load(link) == made
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["disk", "x.npy", "x.vocab"]
    assert [entry.name for entry in (tmp_path / "disk").iterdir()] == ["real.npy"]


def test_modes_of_files_that_are_replaced_are_kept(tmp_path: Path) -> None:
    path = OLD.head(3).save(tmp_path / "x.npy")
    path.chmod(0o604)
    (tmp_path / "x.vocab").chmod(0o640)
    OLD.restrict(["old7", "old8"]).save(path)
    assert [entry.stat().st_mode & 0o777 for entry in (path, tmp_path / "x.vocab")] == [0o604, 0o640]


@pytest.mark.parametrize("suffix", [".npy", ".txt"])
def test_a_second_save_completes_the_interrupted_one_first(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (
        Vectors([name], [[float(row)]], history=[{"method": name}]) for row, name in enumerate("abc", 1)
    )
    path = first.save(tmp_path / f"x{suffix}")

    def stop(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "_move", stop)
        with pytest.raises(Killed):
            second.save(path)
    assert path.exists()
    third.save(path)
    assert Vectors.load(path) == third
    assert not [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_old_leftovers_of_killed_writers_are_removed(tmp_path: Path) -> None:
    old, recent, other = (tmp_path / f".{name}.0123456789ab.partial" for name in ("x.npy", "x.npy.1", "y.npy"))
    for folder in (old, recent, other):
        folder.mkdir()
        (folder / "x.npy").write_bytes(b"half")
    for folder in (old, other):
        os.utime(folder, (1_600_000_000, 1_600_000_000))
    OLD.head(2).save(tmp_path / "x.npy")
    assert not old.exists()
    assert recent.exists()
    assert other.exists()


def test_a_matrix_that_does_not_fit_on_the_disk_is_an_error(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")  # limits the size of files as a full disk does
    few = OLD.head(10)
    few.save(tmp_path / "x.npy")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"x\.npy: could not be written"):
            OLD.head(8).save(tmp_path / "x.npy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert Vectors.load(tmp_path / "x.npy") == few
