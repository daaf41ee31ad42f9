"""Keys and stored cells: which files are part of a question, and what is said of those that are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand.audit import Question
from evenhand.audit.cells import CELLS, STAGES, Cell, CellStore, _files_of, _key, query_digest, resolve_query
from evenhand.words.wordset import digest_of
from made_audits import measured

GENDER = eh.concept("gender")


def test_what_is_asked_is_the_record_behind_an_id() -> None:
    neutral = eh.Concept("c", {"a": ["x"], "b": ["y"]}, neutral=["n", "m"])
    assert resolve_query(Question("weat", "weat-6"), GENDER) == eh.query("weat-6")
    assert resolve_query(Question("mab", "mab-explicit"), GENDER) == eh.words.probes.probe("mab-explicit")
    assert resolve_query(Question("mweat", "occupation-forms-de"), GENDER) == eh.words.pairs("occupation-forms-de")
    assert resolve_query(Question("sembias", "sembias"), GENDER) == eh.words.table("sembias")
    assert resolve_query(Question("direct-bias", "neutral"), neutral) == neutral.neutral
    professions = Question("direct-bias", "bolukbasi2016-professions")
    assert resolve_query(professions, GENDER) == eh.words.wordset("bolukbasi2016-professions")
    assert resolve_query(Question("gipe", "vocabulary"), GENDER) == "vocabulary"
    assert resolve_query(Question("similarity", "neutral"), neutral) == "neutral"
    assert resolve_query(Question("similarity", "rg-65"), GENDER) == "rg-65"


def test_files_of_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words" / "deep").mkdir(parents=True)
    files = [tmp_path / "words" / name for name in ("b.txt", "deep/a.txt")]
    for file in files:
        file.write_text(file.name)
    assert _files_of(str(files[0])) == [files[0]]
    assert _files_of(str(tmp_path / "words")) == files
    assert _files_of("./words") == [Path("words/b.txt"), Path("words/deep/a.txt")]
    assert _files_of("words") == []
    assert _files_of("gone.txt") == _files_of("x" * 5_000) == []


def test_the_content_of_files_is_part_of_the_digest(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    plain = Question("similarity", "rg-65")
    given = Question("similarity", "rg-65", {"file": str(file), "n": 3})
    assert query_digest(plain, GENDER) == query_digest(Question("similarity", "rg-65", {"n": 3}), GENDER)
    assert query_digest(Question("weat", "weat-6"), GENDER) == eh.query("weat-6").digest
    first = query_digest(given, GENDER)
    assert first != query_digest(plain, GENDER)
    assert first == query_digest(Question("similarity", "rg-65", {"file": file}), GENDER)
    file.write_text("two!")
    assert query_digest(given, GENDER) != first
    own = Question("weat", "weat-6", {"file": str(file)})
    assert query_digest(own, GENDER) not in (eh.query("weat-6").digest, query_digest(given, GENDER))
    assert digest_of(["a"]) != digest_of(["b"])


def test_keys_are_short_hashes_of_plain_data() -> None:
    assert _key(["a", 1]) == _key(["a", 1]) != _key(["a", 2])
    assert len(_key([Path("x")])) == 32
    assert _key([{"a": 1, "b": 2}]) == _key([{"b": 2, "a": 1}])


CELL = Cell((measured("weat", 1.0, 0.5, query="weat-6"),), ("take care",))


def test_a_cell_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    assert Cell.from_dict(CELL.to_dict()) == CELL
    assert CELL.to_dict()["warnings"] == ["take care"]
    for store in (CellStore(tmp_path), CellStore(None)):
        assert (store.cell("k"), store.stage("k"), store.finished()) == (None, None, "0 finished cells")
        store.put_cell("k", CELL)
        assert (store.cell("k"), store.stage("k"), store.finished()) == (CELL, None, "1 finished cell")
        store.put_stage("s", {"warnings": [], "method": "x"})
        assert store.stage("s") == {"warnings": [], "method": "x"}
        assert store.damage() == ""
    assert CellStore(tmp_path).cell("k") == CELL
    assert sorted(file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.json")) == [
        "cells/k.json",
        "stages/s.json",
    ]


def damaged(folder: Path, *places: tuple[str, str]) -> CellStore:
    store = CellStore(folder)
    for kind, key in places:
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / f"{key}.json").write_text("{")
        assert (store.cell(key) if kind == CELLS else store.stage(key)) is None
    return store


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([(CELLS, "a")], "1 stored cell was damaged or edited and is computed again"),
        ([(STAGES, "a")], "1 stored stage was damaged or edited and is computed again"),
        ([(CELLS, "a"), (CELLS, "b")], "2 stored cells were damaged or edited and are computed again"),
        (
            [(CELLS, "a"), (STAGES, "b")],
            "1 stored cell and 1 stored stage were damaged or edited and are computed again",
        ),
    ],
)
def test_damage_in_words(places: list[tuple[str, str]], text: str, tmp_path: Path) -> None:
    assert damaged(tmp_path, *places).damage() == text


def test_what_counts_as_damage(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    store.put_cell("k", CELL)
    file = tmp_path / "cells" / "k.json"
    record: dict[str, Any] = json.loads(file.read_text())
    other = tmp_path / "cells" / "other.json"
    other.write_text(file.read_text())
    assert store.cell("other") is None
    (tmp_path / "cells" / "folder.json").mkdir()
    assert store.cell("folder") is None
    record["content"]["warnings"] = ["edited"]
    file.write_text(json.dumps(record))
    assert store.cell("k") is None
    assert store.damaged == {(CELLS, "other"), (CELLS, "folder"), (CELLS, "k")}
    assert CellStore(None).damaged == set()
