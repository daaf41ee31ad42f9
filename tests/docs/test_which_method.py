"""The tutorial on methods shows what reproductions/which-method.json has, which its plan asked for."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from evenhand import measures, mitigations
from evenhand.audit.plan import step_parts
from evenhand.words import concept

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("which_method")


def test_the_table_is_that_of_the_record(script: ModuleType) -> None:
    audits = json.loads(script.KEPT.read_text(encoding="utf-8"))["audits"]
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.table(audits) in page
    assert script.PICTURE.read_text(encoding="utf-8").startswith("<svg")


def test_every_audit_of_the_plan_is_in_the_record(script: ModuleType) -> None:
    plan = tomllib.loads(script.PLAN.read_text(encoding="utf-8"))
    audits = json.loads(script.KEPT.read_text(encoding="utf-8"))["audits"]
    wanted = [(entry["view"], about) for entry in plan["audit"] for about in entry["concepts"]]
    assert [(found["view"], found["concept"]) for found in audits] == wanted
    for entry in plan["audit"]:
        known = {*mitigations.ids(), script.TrainedAgain.id}
        assert all(step_parts(method)[0] in known for method in entry["methods"])
        assert all(name in measures.ids() for name in entry["measures"])
        assert all(concept(about) and about in entry["shown"] for about in entry["concepts"])


def test_other_seeds_are_those_of_the_plan(script: ModuleType) -> None:
    plan = tomllib.loads(script.PLAN.read_text(encoding="utf-8"))
    wanted = {(e["view"], about): set(seeds) for e in plan["audit"] for about, seeds in e.get("seeds", {}).items()}
    audits = json.loads(script.KEPT.read_text(encoding="utf-8"))["audits"]
    found = {(a["view"], a["concept"]): {seed["seed"] for seed in a["seeds"]} for a in audits if "seeds" in a}
    assert found == wanted


def test_recorded_rows_are_those_of_their_file(script: ModuleType) -> None:
    plan = tomllib.loads(script.PLAN.read_text(encoding="utf-8"))
    audits = {(a["view"], a["concept"]): a for a in json.loads(script.KEPT.read_text(encoding="utf-8"))["audits"]}
    for entry in plan["audit"]:
        for about in entry["concepts"] if "recorded" in entry else ():
            assert script.recorded(entry, about) == audits[entry["view"], about]


def test_the_row_that_is_shown_is_measured_and_has_a_manifest(script: ModuleType) -> None:
    for found in json.loads(script.KEPT.read_text(encoding="utf-8"))["audits"]:
        assert script.shown_cell(found, "original") is not None, (found["view"], found["concept"])
        assert {"evenhand", "created", "subjects", "seed"} <= set(found["manifest"])
        assert all("sha256" in subject for subject in found["manifest"]["subjects"])
