"""Every default of a public function, class, measure or method, recorded: another default gives other numbers to everybody.

Of some packages also every number that a module declares: constants, settings of data classes and types, defaults of
internal functions. `python tests/test_defaults.py` writes `defaults.json` and `declared_numbers.json` again; read the
difference before you commit it.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import msgspec
import pytest

import evenhand as eh
from evenhand.measures.registry import MEASURES, Info

RECORD = Path(__file__).with_name("defaults.json")
DECLARED = Path(__file__).with_name("declared_numbers.json")
DECLARING = ("audit", "mitigations")  # packages whose modules are recorded with every number
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


def numbers(value: object) -> list[object]:
    """Return the numbers and flags in plain data, in order."""
    if isinstance(value, bool | int | float):
        return [value]
    if isinstance(value, Mapping):
        return [number for part in value.items() for number in numbers(part)]
    return [number for part in value for number in numbers(part)] if isinstance(value, tuple | list) else []


def numbers_of_call(call: Callable[..., object]) -> list[object]:
    """Return the names and values of the parameters whose default is a number."""
    parameters = inspect.signature(call).parameters.values()
    return [part for one in parameters if numbers(one.default) for part in (one.name, *numbers(one.default))]


def numbers_of_class(kind: type) -> Iterator[tuple[str, object]]:
    """Yield what a class declares: how it is compared and shown, its fields, constants, methods, and checks of types."""
    if issubclass(kind, msgspec.Struct):
        yield "schema", numbers(msgspec.json.schema(kind)["$defs"][kind.__name__])
        return
    own = {one.name: one for one in fields(kind)} if is_dataclass(kind) else {}
    if is_dataclass(kind):
        settings = kind.__dataclass_params__  # type: ignore[attr-defined]
        yield "eq, repr", [] if settings.eq and settings.repr else [settings.eq, settings.repr]
    for name, field in own.items():
        yield name, numbers(field.default) + ([] if field.repr and field.compare else [field.repr, field.compare])
    for name, value in vars(kind).items():
        call = getattr(value, "__func__", value)
        if inspect.isfunction(call):
            yield name, [] if is_dataclass(kind) and name == "__init__" else numbers_of_call(call)
        elif not name.startswith("__") and name not in own:
            yield name, numbers(value)


def declared_in(modules: Iterable[ModuleType]) -> dict[str, object]:
    """Return every number that modules declare, by its place."""
    found: dict[str, object] = {}
    for module in modules:
        names = [part for part in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(part, ast.Name)]
        assigned = {part.id for part in names if isinstance(part.ctx, ast.Store)}
        for name, value in vars(module).items():
            place = f"{module.__name__.removeprefix('evenhand.')}.{name}"
            if getattr(value, "__module__", None) == module.__name__:
                if inspect.isclass(value):
                    found |= {f"{place}.{part}": content for part, content in numbers_of_class(value)}
                elif inspect.isfunction(value):
                    found[place] = numbers_of_call(value)
            elif name.isupper() and name in assigned:
                found[place] = numbers(value)
    return {name: content for name, content in sorted(found.items()) if content}


def declaring() -> Iterator[ModuleType]:
    """Yield the modules whose numbers are recorded."""
    for name in DECLARING:
        package = import_module(f"evenhand.{name}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            yield import_module(module.name)


def test_every_declared_number_is_the_recorded_one() -> None:
    found = json.loads(json.dumps(declared_in(declaring())))
    known = json.loads(DECLARED.read_text(encoding="utf-8"))
    changed = sorted(name for name in found.keys() | known.keys() if found.get(name) != known.get(name))
    assert {name: found.get(name) for name in changed} == {name: known.get(name) for name in changed}


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
    lines = [f"{json.dumps(name)}: {json.dumps(content)}" for name, content in declared_in(declaring()).items()]
    DECLARED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
