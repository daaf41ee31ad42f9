"""Every default of a public function, class, measure or method, recorded: another default gives other numbers to everybody.

`python tests/test_defaults.py` writes `defaults.json` again; read the difference before you commit it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import evenhand as eh
from evenhand.measures.registry import MEASURES, Info

RECORD = Path(__file__).with_name("defaults.json")
PACKAGES = ("audit", "corpus", "measures", "mitigations", "models.lm", "stats", "subspaces")


def plain(value: object) -> bool:
    """Whether a default is a number, a text, a flag, None, or a short tuple of these."""
    if isinstance(value, tuple):
        return len(value) <= 8 and all(map(plain, value))
    return isinstance(value, str | int | float | None) and len(str(value)) <= 80


def defaults(call: Callable[..., object]) -> str:
    """Return the parameters with a plain default."""
    parameters = inspect.signature(call).parameters.values()
    given = [(p.name, p.default) for p in parameters if p.default is not p.empty]
    return ", ".join(f"{name}={value!r}" for name, value in given if plain(value))


def public(package: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public functions of a package, its classes and their methods."""
    for name in package.__all__:
        thing = getattr(package, name)
        if isinstance(thing, type) or inspect.isfunction(thing):
            yield name, thing
        for method in vars(thing) if isinstance(thing, type) else ():
            if not method.startswith("_") and callable(getattr(thing, method)):
                yield f"{name}.{method}", getattr(thing, method)


def declared(info: Info) -> str:
    """Return what is not of the usual kind in the declaration of a measure, without texts."""
    values = [(field.name, getattr(info, field.name), field.default) for field in fields(info)]
    numbers = [(name, value) for name, value, usual in values if value != usual and not isinstance(value, str)]
    return ", ".join(f"{name}={value!r}" for name, value in numbers if plain(value))


def recorded() -> dict[str, str]:
    """Return the defaults of everything public."""
    found = {}
    for package in PACKAGES:
        for name, thing in public(import_module(f"evenhand.{package}")):
            found[f"{package}.{name}"] = defaults(thing)
    shipped = [id for id in MEASURES.ids() if id.replace("-", "_") in eh.measures.__all__]
    for id in shipped:
        found[f"declaration of {id}"] = declared(eh.measures.get(id).info)
    return {name: text for name, text in sorted(found.items()) if text}


def test_the_defaults_are_the_recorded_ones() -> None:
    pytest.importorskip("torch")
    found, known = recorded(), json.loads(RECORD.read_text(encoding="utf-8"))
    changed = sorted(name for name in found.keys() | known.keys() if found.get(name) != known.get(name))
    assert {name: found.get(name) for name in changed} == {name: known.get(name) for name in changed}


def test_a_default_seed_is_zero_or_that_of_the_paper() -> None:
    known = json.loads(RECORD.read_text(encoding="utf-8"))
    seeds = {name: part for name, text in known.items() for part in text.split(", ") if part.startswith("seed=")}
    others = {name: part for name, part in seeds.items() if part not in ("seed=0", "seed=None")}
    assert others == {"models.lm.train": "seed=1111"}
    assert len(seeds) > 100


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
