"""Records that earlier versions wrote are still read, shown and compared.

`old_runs/` holds records as `Audit.save` wrote them, with fewer results and shorter lists: `schema-2.json` by the first
version with views, `schema-3.json` by the first version that
kept a digest (made again after it was shortened).
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import evenhand as eh
from evenhand.audit.schema import SCHEMA, AuditEntry, record_schema, type_problem
from evenhand.cli import app
from evenhand.errors import FormatError

PLAN = '[[question]]\nmeasure = "direct-bias"\nquery = "bolukbasi2016-professions"\n'
OLD = sorted((Path(__file__).parent / "old_runs").glob("*.json"))


def test_every_schema_has_a_stored_record() -> None:
    assert [path.stem for path in OLD] == [f"schema-{number}" for number in (SCHEMA - 1, SCHEMA)]


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


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("manifest", "seconds"), -1, "manifest.seconds: expected `float` >= 0"),
        (("manifest", "subjects"), [], "length >= 1"),
        (("manifest", "concept"), None, "expected `object`, got `null`"),
        (("stages",), [{"name": "x"}], "missing required field `subject`"),
        (("results", 0, "n"), True, "expected `int`, got `bool`"),
        (("results", 0, "value"), 10**400, "number out of range"),
        (("results", 0, "coverage", "found"), 10**9, "<= 10000000"),
        (("results", 0, "label"), "a, b", "matching regex"),
        (("results", 0, "more"), 1, "unknown field `more`"),
        (("results", 0, "interval"), [1], "length 2, got 1"),
        (("results", 3, "status"), "undefined", "the status is undefined"),
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
            assert (type_problem(changed, AuditEntry) == "") == validator.is_valid(changed)


def test_a_record_of_another_schema_is_refused(tmp_path: Path) -> None:
    for schema in (1, 4, None, [3], True):
        (tmp_path / "audit.json").write_text(json.dumps({"schema": schema, "manifest": {}}))
        with pytest.raises(FormatError, match="this version reads 2 and 3"):
            eh.Audit.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("question = [1]", "question: [0]: expected `object`, got `int`"),
        (f"{PLAN}options = {{how = 1}}", "options.how: expected `str`, got `int`"),
        (f"{PLAN}options = {{wat = 1}}", "there is no option 'wat'"),
        (f"{PLAN}options = 1", "options: must be a table"),
        (f"{PLAN}variant = 1", "variant: must be a string"),
        (f"methods = 1\n{PLAN}", "methods: must be a list"),
        (f"seed = 'x'\n{PLAN}", "seed: must be"),
        (f"budget = [1]\n{PLAN}", "budget"),
    ],
)
def test_a_plan_of_wrong_types_is_one_sentence(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(text)
    done = CliRunner().invoke(app, ["audit", "glove-embedded", "--plan", str(tmp_path / "plan.toml")])
    assert done.exit_code in (2, 4), done.output
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.output


def test_a_name_that_is_too_long_is_one_sentence() -> None:
    for command in (["audit", "x" * 300], ["show", "x" * 300]):
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, "too long" in done.stderr) == (4, True), done.output
