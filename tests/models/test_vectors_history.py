from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from vector_strategies import COMPRESSIONS

from evenhand import Vectors
from evenhand.errors import EvenhandWarning, FormatError

V = Vectors(["he", "she"], [[1.0, 2.0], [3.0, 4.5]])
STEPS = [{"method": "linear", "concept": "gender", "k": 1}, {"method": "span", "words": ["he", "Zoë"]}]
DONE = V.with_matrix(V.matrix, step=STEPS[0]).with_matrix(V.matrix, step=STEPS[1])
SUFFIXES = [".txt", ".vec", ".bin", ".npy", ".safetensors"]


def beside(path: Path) -> Path:
    return path.with_name(path.name + ".history.json")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_keeps_the_history(suffix: str, compression: str, tmp_path: Path) -> None:
    path = DONE.save(tmp_path / f"x{suffix}{compression}")
    for again in (Vectors.load(path), Vectors.load(path), Vectors.load(path, cache=False), Vectors.load(path, limit=1)):
        assert list(again.history) == STEPS
    assert beside(path).exists() == (suffix != ".safetensors")


def test_vectors_without_a_history_have_no_file_beside_them(tmp_path: Path) -> None:
    path = V.save(tmp_path / "x.txt")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]
    assert Vectors.load(path).history == ()


def test_the_file_beside_names_what_it_belongs_to(tmp_path: Path) -> None:
    account = json.loads(beside(DONE.save(tmp_path / "x.vec")).read_text())
    assert (account["file"], account["words"], account["dim"], len(account["sha256"])) == ("x.vec", 2, 2, 64)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_saving_again_replaces_or_removes_the_history(suffix: str, tmp_path: Path) -> None:
    path = DONE.save(tmp_path / f"x{suffix}")
    V.with_matrix(V.matrix, step={"method": "other"}).save(path)
    assert [step["method"] for step in Vectors.load(path).history] == ["other"]
    V.save(path)
    assert Vectors.load(path).history == ()
    assert not beside(path).exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"layout": "evenhand-history-1"}', "[" * 99_999, "\udcff"])
def test_a_damaged_history_is_left_out_and_reported(content: str, tmp_path: Path) -> None:
    path = DONE.save(tmp_path / "x.txt")
    beside(path).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.warns(EvenhandWarning, match=r"x\.txt\.history\.json was ignored.*remove it"):
        assert Vectors.load(path).history == ()


@pytest.mark.parametrize("steps", [None, {}, [1]])
def test_a_history_that_is_not_a_list_of_steps_is_left_out_and_reported(steps: object, tmp_path: Path) -> None:
    path = DONE.save(tmp_path / "x.txt")
    account = json.loads(beside(path).read_text())
    beside(path).write_text(json.dumps({**account, "history": steps}))
    with pytest.warns(EvenhandWarning, match="ignored"):
        assert Vectors.load(path).history == ()


def test_the_history_of_another_file_is_left_out_and_reported(tmp_path: Path) -> None:
    path = DONE.save(tmp_path / "x.txt")
    path.write_text("he 9 2\nshe 3 4.5\n")
    with pytest.warns(EvenhandWarning, match=r"describes a different version of x\.txt"):
        assert Vectors.load(path).history == ()


def test_numbers_of_numpy_paths_and_frozen_mappings_become_plain_data(tmp_path: Path) -> None:
    step = MappingProxyType({"k": np.int64(2), "basis": np.eye(2), "from": Path("a"), "share": np.float32(0.5)})
    for suffix in SUFFIXES:
        again = Vectors.load(V.with_matrix(V.matrix, step=step).save(tmp_path / f"x{suffix}"))
        assert again.history == ({"k": 2, "basis": [[1, 0], [0, 1]], "from": "a", "share": 0.5},)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_history_that_cannot_be_written_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"JSON.*object"):
        V.with_matrix(V.matrix, step={"map": object()}).save(tmp_path / f"x{suffix}")
    assert not list(tmp_path.iterdir())
