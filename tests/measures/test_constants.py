"""The constants of measures and the defaults of all their functions, also of those that are not public, are the recorded ones.

A changed threshold or number of draws gives everybody other numbers. Which value is right is tested beside each module.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import pytest

from evenhand.measures.registry import Info
from recorded_numbers import check_whole

FOLDERS = ("likelihood", "inference", "chat", "text", "outcomes", "labels")
DIRECT = ("call", "groups", "measurement", "numbers", "registry")


pytest.importorskip("torch")


def modules() -> Iterator[ModuleType]:
    for folder in FOLDERS:
        package = importlib.import_module(f"evenhand.measures.{folder}")
        for found in pkgutil.iter_modules(package.__path__):
            yield importlib.import_module(f"evenhand.measures.{folder}.{found.name}")
    for name in DIRECT:
        yield importlib.import_module(f"evenhand.measures.{name}")


def is_plain(value: object) -> bool:
    """Whether a value is made of numbers and texts alone."""
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(part) for key, part in value.items())
    if isinstance(value, tuple | frozenset):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | int | float | re.Pattern)


def shown(value: object) -> str:
    """Return a value as a text, sets in order."""
    if isinstance(value, dict):
        return repr({key: shown(part) for key, part in value.items()})
    return repr(sorted(value, key=repr)) if isinstance(value, frozenset) else repr(value)


def defaults(thing: Any) -> str:
    if isinstance(thing, type) and not is_dataclass(thing):
        return ""
    call = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
    parameters = inspect.signature(inspect.unwrap(call)).parameters.values()
    given = [(p.name, p.default) for p in parameters if p.default is not p.empty and is_plain(p.default)]
    return ", ".join(f"{name}={shown(value)}" for name, value in given)


def compared(thing: type) -> str:
    """Say what decides whether two records are equal, and what is not shown of one."""
    if not is_dataclass(thing):
        return ""
    hidden = [
        f"{field.name} {field.compare} {field.repr}" for field in fields(thing) if not (field.compare and field.repr)
    ]
    return "; ".join(["equal by identity" if thing.__eq__ is object.__eq__ else "equal by fields", *hidden])


def declared(info: Info) -> str:
    values = [(field.name, getattr(info, field.name)) for field in fields(info)]
    return ", ".join(f"{name}={shown(value)}" for name, value in values if is_plain(value) and name not in TOLD)


TOLD = ("title", "formula", "reading", "limits", "definition")  # texts for a reader, and what other tests compare


def written(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the constants and defaults that a module defines."""
    for name, value in vars(module).items():
        if isinstance(value, Info):
            yield name, declared(value)
        elif inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, defaults(value)
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            yield name, f"{defaults(value)} {compared(value)}".strip()
            for method, call in vars(value).items():
                if inspect.isfunction(call) or isinstance(call, classmethod | staticmethod):
                    yield f"{name}.{method}", defaults(call)
        elif name.strip("_").isupper() and is_plain(value):
            yield name, shown(value)


MODULES = list(modules())  # imported with this file, so that the test is quick


def test_constants_and_defaults_are_the_recorded_ones() -> None:
    found = {}
    for module in MODULES:
        short = module.__name__.removeprefix("evenhand.measures.")
        found |= {f"{short} {name}": text for name, text in sorted(written(module)) if text}
    assert len(found) > 300
    check_whole("constants and defaults", found)
