"""Records that earlier versions wrote are still read, shown and compared.

`old_runs/` holds records as `Audit.save` wrote them, with fewer results and shorter lists: `schema-1.json` by version
0.1 before subjects had views, `schema-2.json` by the first version with views, `schema-3.json` by the first version that
kept a digest (made again after it was shortened).
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.audit.record import SCHEMA
from evenhand.audit.validation import ANNOTATIONS, CHECKS, problems, record_schema
from evenhand.cli import app
from evenhand.errors import FormatError

OLD = sorted((Path(__file__).parent / "old_runs").glob("*.json"))


def test_every_schema_has_a_stored_record() -> None:
    assert [path.stem for path in OLD] == [f"schema-{number}" for number in range(1, SCHEMA + 1)]


@pytest.fixture(params=OLD, ids=lambda path: path.stem)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "audit.json").write_bytes(request.param.read_bytes())
    return tmp_path


def test_an_old_record_keeps_its_numbers(folder: Path) -> None:
    stored = json.loads((folder / "audit.json").read_text())
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        audit = eh.Audit.load(folder)
    assert [("kept no digest" in str(note.message)) for note in notes] == [True] * ("sha256" not in stored)
    assert [result.measurement.value for result in audit.results] == [row["value"] for row in stored["results"]]
    assert audit.labels == ("weat-6", "weat-8", "direct-bias:old-direction", "direct-bias:new-direction")
    assert audit.stage_names == ("original", "linear")
    assert audit.get("direct-bias, old direction").value is not None
    again = folder / "again"
    audit.save(again)
    assert eh.Audit.load(again) == audit


def test_an_old_record_is_shown_and_checked(folder: Path) -> None:
    for command in (
        ["show", str(folder)],
        ["report", str(folder), "--out", str(folder / "r.html")],
        ["check", str(folder), "--max", "direct-bias:old-direction@linear=0.9"],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert ("kept no digest" in done.stderr) == ("sha256" not in json.loads((folder / "audit.json").read_text()))


def test_the_reader_implements_every_keyword_of_the_schema() -> None:
    def keywords(schema: object) -> set[str]:
        if not isinstance(schema, dict):
            return set()
        named = [part for key in ("properties", "$defs") for part in schema.get(key, {}).values()]
        nested = [schema.get(key) for key in ("items", "additionalProperties", "if", "then", "else")]
        return set(schema).union(*(keywords(part) for part in [*named, *nested, *schema.get("oneOf", [])]))

    assert keywords(record_schema()) <= {*CHECKS, *ANNOTATIONS}


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("manifest", "seconds"), -1, "seconds is -1, below 0"),
        (("manifest", "subjects"), [], "at least 1"),
        (("manifest", "concept"), None, "expected object"),
        (("stages",), [{"name": "x"}], "has no 'subject'"),
        (("results", 0, "n"), True, "expected integer"),
        (("results", 0, "value"), 10**400, "expected number or null"),
        (("results", 0, "coverage", "found"), 10**9, "above 10000000"),
        (("results", 0, "label"), "a, b", "does not match"),
        (("results", 0, "more"), 1, "unknown entry 'more'"),
        (("results", 0, "interval"), [1], "none of the allowed forms"),
        (("results", 3, "status"), "undefined", "expected null"),
    ],
)
def test_a_damaged_record_is_refused_and_the_value_named(
    place: tuple[str | int, ...], value: object, told: str
) -> None:
    record = json.loads(OLD[-1].read_text())
    part = record
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    from evenhand.audit.record import from_dict

    with pytest.raises(FormatError, match=told):
        from_dict(record)


def test_the_reader_agrees_with_jsonschema() -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(record_schema())
    record = json.loads(OLD[-1].read_text())
    for place in ("schema", "stages", "results", "manifest"):
        for value in (None, [], {}, 2, "x"):
            changed = {**record, place: value}
            assert (next(problems(changed, record_schema()), None) is None) == validator.is_valid(changed)
