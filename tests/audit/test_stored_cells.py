"""What an audit stores is believed only as it was written: cells, stages and the record carry a digest."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.audit.cells import CELLS, STAGES, CellStore
from evenhand.audit.record import from_dict, signed
from evenhand.audit.schema import UNREADABLE, content_digest
from evenhand.cli import app
from evenhand.errors import EvenhandError, FormatError
from evenhand.report.markdown import markdown

ASKED: dict[str, Any] = {"methods": ["linear"], "measures": ["weat"], "queries": ["weat-7"]}
OTHERS: tuple[object, ...] = (None, True, -1, 0.0141, "x", [], {"x": 1}, [1.0, "x"])


@pytest.fixture(scope="module")
def vectors(glove: eh.Vectors) -> eh.Vectors:
    query = eh.query("weat-7")
    asked = [word for words in (*query.targets, *query.attributes) for word in words.words]
    return glove.restrict([*asked, "she", "he", "nurse", "doctor"])


@pytest.fixture(scope="module")
def first(vectors: eh.Vectors, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, eh.Audit]:
    folder = tmp_path_factory.mktemp("run")
    audit = eh.Audit.run(vectors, folder=folder, **ASKED)
    audit.save(folder)
    return folder, audit


def places(value: object, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in plain data, leaves and containers; of long lists the first two entries."""
    if here:
        yield here
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*here, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:2]):
            yield from places(item, (*here, number))


def put(record: Any, place: tuple[str | int, ...], value: object) -> Any:
    changed = copy.deepcopy(record)
    part = changed
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return changed


def at(record: Any, place: tuple[str | int, ...]) -> object:
    for key in place:
        record = record[key]
    return record


def is_other(record: Any, place: tuple[str | int, ...], value: object) -> bool:
    return json.dumps(at(record, place)) != json.dumps(value)


@pytest.mark.parametrize("kind", [CELLS, STAGES])
def test_no_edited_cell_or_stage_is_believed(kind: str, first: tuple[Path, eh.Audit], tmp_path: Path) -> None:
    (tmp_path / kind).mkdir()
    believed, tried = [], 0
    for file in sorted((first[0] / kind).iterdir()):
        stored = json.loads(file.read_text())
        for place in places(stored):
            for value in OTHERS:
                if not is_other(stored, place, value):
                    continue
                tried += 1
                (tmp_path / kind / file.name).write_text(json.dumps(put(stored, place, value)))
                store = CellStore(tmp_path)
                found = store.cell(file.stem) if kind == CELLS else store.stage(file.stem)
                if found is not None or store.damaged != {(kind, file.stem)}:
                    believed.append((place, value))
    assert tried > 100
    assert believed == []


def test_a_wrong_type_under_a_right_digest_is_no_traceback(first: tuple[Path, eh.Audit], tmp_path: Path) -> None:
    """Whoever edits a cell and computes its digest again gets a cell of the right types, or none."""
    (tmp_path / CELLS).mkdir()
    file = max((first[0] / CELLS).iterdir(), key=lambda path: path.stat().st_size)
    content = json.loads(file.read_text())["content"]
    refused = 0
    for place in places(content):
        for value in OTHERS:
            changed = put(content, place, value)
            digest = content_digest([CELLS, file.stem, changed])
            (tmp_path / CELLS / file.name).write_text(json.dumps({"sha256": digest, "content": changed}))
            refused += CellStore(tmp_path).cell(file.stem) is None
    assert refused > 50


@pytest.mark.parametrize("text", ["", "[", "[]", "3", "null", '{"sha256": 1}', "[" * 100_000, '{"content": NaN}', "\0"])
def test_a_file_that_is_no_cell_is_measured_again(text: str, tmp_path: Path) -> None:
    (tmp_path / CELLS).mkdir()
    (tmp_path / CELLS / "k.json").write_text(text)
    store = CellStore(tmp_path)
    assert store.cell("k") is None
    assert store.damage() == "1 stored cell was damaged or edited and is computed again"


def test_a_cell_under_the_name_of_another_is_refused(first: tuple[Path, eh.Audit], tmp_path: Path) -> None:
    one, other = sorted((first[0] / CELLS).iterdir())[:2]
    (tmp_path / CELLS).mkdir()
    (tmp_path / CELLS / one.name).write_bytes(other.read_bytes())
    assert CellStore(tmp_path).cell(one.stem) is None


def test_what_was_edited_is_computed_again_and_that_is_said(vectors: eh.Vectors, tmp_path: Path) -> None:
    file = vectors.save(tmp_path / "my.vec")
    asked = ("--measure", "weat", "--query", "weat-7")
    command = ["audit", str(file), "-m", "linear", *asked, "-o", str(tmp_path / "run")]
    assert CliRunner().invoke(app, command).exit_code == 0
    before = json.loads((tmp_path / "run" / "audit.json").read_text())
    values = [row["value"] for row in before["results"]]
    cells, stages = (sorted((tmp_path / "run" / kind).iterdir()) for kind in (CELLS, STAGES))
    for path in cells[:2]:
        stored = json.loads(path.read_text())
        stored["content"]["measurements"][0]["value"] = 0.0141
        path.write_text(json.dumps(stored))
    stages[0].write_text(stages[0].read_text().replace('"warnings": []', '"warnings": 3'))
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    told = "2 stored cells and 1 stored stage were damaged or edited and are computed again"
    assert f"note: {told}" in done.stderr
    after = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert told in after["manifest"]["warnings"]
    assert after["manifest"]["cells_computed"] == 2
    assert [row["value"] for row in after["results"]] == values
    again = CliRunner().invoke(app, command)
    assert "damaged" not in again.stderr


def test_no_edited_record_is_read(first: tuple[Path, eh.Audit]) -> None:
    record = json.loads((first[0] / "audit.json").read_text())
    assert from_dict(record) == eh.Audit.load(first[0])
    record["results"] = record["results"][:1]
    record["manifest"]["concept"] = {"name": "gender", "digest": ""}  # shorter
    record = signed(record)
    from_dict(record)
    read = []
    for place in places(record):
        for value in OTHERS:
            if not is_other(record, place, value):
                continue
            try:
                from_dict(put(record, place, value))
            except UNREADABLE:  # `load` makes a FormatError of all of them
                continue
            read.append((place, value))
    assert read == []


def test_a_record_with_wrong_types_and_its_digest_is_our_error_or_a_report(
    first: tuple[Path, eh.Audit], tmp_path: Path
) -> None:
    folder = first[0]
    record = json.loads((folder / "audit.json").read_text())
    record["results"] = record["results"][:1]
    refused = 0
    for place in places(record["results"]):
        for value in OTHERS:
            changed = signed({**record, "results": put(record["results"], place, value)})
            try:
                (tmp_path / "audit.json").write_text(json.dumps(changed))
                markdown(eh.Audit.load(tmp_path))
            except EvenhandError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    "command",
    [["check", "{}", "--max", "weat-7=9"], ["show", "{}"], ["report", "{}"], ["compare", "{}", "{other}"]],
    ids=lambda command: command[0],
)
def test_every_reader_refuses_an_edited_record(
    command: list[str], first: tuple[Path, eh.Audit], tmp_path: Path
) -> None:
    record = json.loads((first[0] / "audit.json").read_text())
    for whole in (True, False):
        if not whole:
            record["results"][0]["value"] = 0.0141
        (tmp_path / "audit.json").write_text(json.dumps(record))
        done = CliRunner().invoke(app, [part.format(tmp_path, other=first[0]) for part in command])
        if whole:
            assert done.exit_code == 0, done.output
            continue
        assert done.exit_code == 4
        assert "audit.json: the record was edited or damaged after evenhand wrote it" in done.stderr


def test_a_record_whose_digest_was_removed_is_refused(first: tuple[Path, eh.Audit]) -> None:
    record = json.loads((first[0] / "audit.json").read_text())
    del record["sha256"]
    with pytest.raises(FormatError, match="missing required field `sha256`"):
        from_dict(record)
