"""What the manifest says: calls and arguments as text, commands that repeat a run, and groups that a table names."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evenhand as eh
from evenhand.audit import Plan, Question
from evenhand.audit.manifest import (
    OWN_GROUPS,
    SEVERAL,
    Invocation,
    call_text,
    equivalent_command,
    manifest,
    name_own_groups,
    with_command,
)

GENDER = eh.concept("gender")


class LocalEngine:
    """An engine of a kind that is not the usual one."""


def stub(name: str = "v", **more: Any) -> Any:
    about = {
        "address": f"{name}.vec",
        "opened_with": {},
        "options": (),
        "own_groups": {},
        "offers": ("vectors",),
        "engine": None,
    }
    about |= {
        "likelihood_of": "",
        "asked_by_default": ("vectors",),
        "changed_by_default": True,
        "rehearsal": lambda: None,
    }
    return SimpleNamespace(name=name, describe=lambda: {"name": name}, **(about | more))


def table(name: str = "t", **groups: tuple[str, ...]) -> Any:
    return stub(name, own_groups=groups, offers=("outcomes",), asked_by_default=("outcomes",))


def test_a_call_as_text() -> None:
    assert call_text("f", "a.vec", {"x": 1, "y": ["b"]}) == "f('a.vec', x=1, y=['b'])"
    assert call_text("f", "x" * 198, {}) == f"f('{'x' * 198}')"
    assert call_text("f", "x" * 199, {"y": [1] * 99}) == "f(<str>, y=<list>)"


def test_an_invocation_as_plain_data() -> None:
    class Thing:
        def __repr__(self) -> str:
            return "Thing()"

    given = {"a": 1, "b": (Path("x"), None, 2.5), "c": {3: True, "d": Thing()}, "e": [Thing()], "f": "g"}
    assert Invocation(given=given).to_dict() == {
        "given": {"a": 1, "b": ["x", None, 2.5], "c": {"3": True, "d": "Thing()"}, "e": ["Thing()"], "f": "g"}, "command": "",
    }  # fmt: skip
    assert Invocation("run", {}, "call()", "none").to_dict() == {
        "given": {}, "command": "run", "call": "call()", "no_command": "none"
    }  # fmt: skip


def command(*subjects: Any, plan: Plan | None = None, concept: eh.Concept = GENDER, **more: Any) -> tuple[str, str]:
    made = plan or Plan.default(subjects, methods=("hard",), only=["gipe"], seed=3)
    return equivalent_command(subjects, made, concept, **more)


def test_the_command_that_asks_the_same() -> None:
    rest = "--concept gender --seed 3"
    assert command(stub()) == (f"evenhand audit v.vec --method hard --measure gipe {rest}", "")
    assert command(stub("a b"), stub("w")) == (
        f"evenhand audit 'a b.vec' w.vec --method hard --measure gipe {rest}",
        "",
    )
    assert command(stub(), skipped=[("v", "hard")]) == (f"evenhand audit v.vec --no-methods --measure gipe {rest}", "")
    whole = Plan.default([stub()], seed=3)
    assert command(stub(), plan=whole)[0] == f"evenhand audit v.vec --method linear --method span {rest}"
    narrow = Plan.default([stub()], methods=[], only=["weat", "ect"], queries=["weat-7"], seed=3)
    asked = "--measure weat --measure ect --query weat-7"
    assert command(stub(), plan=narrow)[0] == f"evenhand audit v.vec --no-methods {asked} {rest}"
    inference = stub(offers=("inference",), asked_by_default=("inference",))
    full = Plan.default([inference], methods=[], only=["mab"], full_probes=True, seed=3)
    assert command(inference, plan=full)[0] == f"evenhand audit v.vec --no-methods --measure mab --full-probes {rest}"
    groups = table(sex=("f", "m"))
    assert command(groups, plan=Plan.default([groups], methods=[]))[0] == "evenhand audit t.vec --no-methods --seed 0"


def test_options_of_opening_are_part_of_the_command() -> None:
    def opened(name: str = "v", **given: Any) -> Any:
        return stub(name, opened_with=given, options=tuple(given))

    def options(*subjects: Any) -> str:
        text, why = command(*subjects)
        return text.partition("--seed 3")[2].strip() or why

    assert (
        options(opened(device="cpu", allow_pickle=True, case=False, group="a b"))
        == "--device cpu --allow-pickle --group 'a b'"
    )
    assert options(opened(key_env="K")) == "--key-env K"
    assert options(opened(name="v", samples=3)) == "`evenhand audit` has no option for samples=3"
    assert options(opened(), opened("w", device="cpu")) == "--device cpu"
    assert (
        options(opened(device="cuda"), opened("w", device="cpu"))
        == "the subjects were opened with different values of device"
    )
    assert options(opened(vectors=object())) == "vectors is only in memory"


def test_why_there_is_no_command() -> None:
    assert command(stub(address=""))[1] == "v is only in memory"
    assert command(stub(changes=(1,)))[1] == "v is only in memory"
    assert command(stub(), stub("w"), skipped=[("v", "hard")])[1] == "hard could be fitted to some of the subjects only"
    assert command(stub(), stub("w"), skipped=[("v", "hard"), ("w", "hard")])[1] == ""
    own = eh.Concept("gender", {"a": ["x"], "b": ["y"]})
    assert command(stub(), concept=own) == ("", "the concept gender is an object, not an id or a file")
    unknown = Plan((Question("gipe", "vocabulary"),), concept="mine")
    assert command(stub(), plan=unknown, concept=own)[1] == "the concept gender is an object, not an id or a file"
    odd = Plan((Question("gipe", "vocabulary", {"theta": 0.1}),))
    assert command(stub(), plan=odd)[1].startswith("its questions are those of a plan")


def test_a_command_that_is_known_stays() -> None:
    plan = Plan.default([stub()], methods=[], only=["gipe"])
    known = Invocation("evenhand x", {"a": 1}, "call()")
    assert with_command(known, [stub()], plan, GENDER) is known
    added = with_command(Invocation(given={"a": 1}, call="call()"), [stub()], plan, GENDER)
    text = "evenhand audit v.vec --no-methods --measure gipe --concept gender --seed 0"
    assert added == Invocation(text, {"a": 1}, "call()", "")
    none = with_command(Invocation(), [stub(address="")], plan, GENDER)
    assert (none.command, none.no_command) == ("", "v is only in memory")


def test_what_a_manifest_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    made = manifest([stub()], GENDER, {"seed": 3}, seconds=1.23456, warnings=("a",), skipped={"hard": "no"})
    assert made["arguments"] == {"given": {}, "command": "", "effective": {"seed": 3, "engine": "local"}}
    assert made["concept"] == {**GENDER.to_dict(), "digest": GENDER.digest}
    picked = ("subjects", "threads", "status", "seconds", "warnings", "skipped", "cells_computed")
    assert [made[name] for name in picked] == [[{"name": "v"}], "5", "done", 1.235, ["a"], {"hard": "no"}, 0]
    assert (len(made["run"]), made["evenhand"], made["created"][-6:]) == (12, eh.__version__, "+00:00")
    assert made["python"].count(".") == 2
    assert "numpy" in made["packages"]
    engines = [stub(engine=LocalEngine()), stub("w", engine=SimpleNamespace())]
    other = manifest(engines, None, {}, running={"jobs": 2}, cells_computed=4)
    assert other["arguments"]["effective"] == {"jobs": 2, "engine": "local, simplenamespace"}
    assert (other["concept"], other["cells_computed"], other["skipped"]) == (SEVERAL, 4, {})


def test_tables_name_their_groups_themselves() -> None:
    one, two = table(sex=("f", "m")), table("u", age=("o", "y"))
    assert [name_own_groups(some) for some in ([], [one], [one, two], [one, stub()], [stub()])] == [
        False, True, True, False, False,
    ]  # fmt: skip
    both = stub(own_groups={"sex": ("f",)}, offers=("outcomes", "labels"))
    assert not name_own_groups([both])
    groups = {"sex": ["f", "m"], "age": ["o", "y"]}
    digest = hashlib.sha256(repr(sorted(groups.items())).encode()).hexdigest()
    assert manifest([one, two], GENDER, {})["concept"] == {
        "name": "sex, age", "groups": groups, "limits": OWN_GROUPS, "digest": digest
    }  # fmt: skip
