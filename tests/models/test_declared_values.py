"""Every constant and every default of the encoders and language models, recorded.

Another value gives other numbers, other files or other limits to everybody, though no test of small inputs may see it.
`python tests/models/test_declared_values.py` writes `declared_values.json` again; read the difference before you commit it.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

RECORD = Path(__file__).with_name("declared_values.json")
SOURCE = Path(__file__).parents[2] / "src" / "evenhand"
FOLDERS = ("models/encoders", "models/lm")
AT_ONCE = "_AT_ONCE"  # how much is computed at once: the numbers are the same


def plain(value: object) -> bool:
    """Whether a value is a number, a text, None, or a short collection of these."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and plain(part) for key, part in value.items())
    if isinstance(value, tuple):
        return all(map(plain, value))
    if is_dataclass(value) and not isinstance(value, type):
        return True
    return isinstance(value, str | int | float | None)


def modules() -> Iterator[ModuleType]:
    """Yield the modules of the folders."""
    for path in sorted(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py")):
        if path.stem != "__init__":
            yield import_module(".".join(("evenhand", *path.relative_to(SOURCE).with_suffix("").parts)))


def defaults(call: object) -> str:
    """Return the parameters with a plain default."""
    try:
        parameters = inspect.signature(call).parameters.values()  # type: ignore[arg-type]
    except ValueError:
        return ""
    given = [(p.name, p.default) for p in parameters if p.default is not p.empty and plain(p.default)]
    return ", ".join(f"{name}={value!r}" for name, value in given)


def of_class(name: str, thing: type) -> Iterator[tuple[str, str]]:
    """Yield what a class declares: the defaults of its methods, its constants, and how its objects are compared."""
    own_fields = {field.name for field in fields(thing)} if is_dataclass(thing) else set()
    for own, value in vars(thing).items():
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function):
            if not (own_fields and own == "__init__"):
                yield f"{name}.{own}", defaults(function)
        elif own not in own_fields and not own.startswith("_") and plain(value):
            yield f"{name}.{own}", repr(value)
    if own_fields:
        left_out = [field.name for field in fields(thing) if not field.compare]
        equal = "are equal" if thing.__eq__ is not object.__eq__ else "are compared by identity"
        yield f"{name}()", f"{defaults(thing)}; {equal}{', whatever ' if left_out else ''}{', '.join(left_out)}"


def names_in(module: ModuleType) -> set[str]:
    """Return the names that a module gives a value itself."""
    assigned = [
        part for part in ast.parse(inspect.getsource(module)).body if isinstance(part, ast.Assign | ast.AnnAssign)
    ]
    return {part.id for statement in assigned for part in ast.walk(statement) if isinstance(part, ast.Name)}


def recorded() -> dict[str, str]:
    """Return everything that the modules declare, by its place."""
    found = {}
    for module in modules():
        assigned = names_in(module)
        for name, thing in vars(module).items():
            place = f"{module.__name__.removeprefix('evenhand.models.')}.{name}"
            if getattr(thing, "__module__", module.__name__) != module.__name__:
                continue
            if isinstance(thing, type):
                found |= dict(of_class(place, thing))
            elif inspect.isfunction(thing):
                found[place] = defaults(inspect.unwrap(thing))
            elif name in assigned and not name.endswith(AT_ONCE) and plain(thing):
                found[place] = repr(thing)
    return {place: text for place, text in sorted(found.items()) if text}


def test_constants_and_defaults_are_the_recorded_ones() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    found, known = recorded(), json.loads(RECORD.read_text(encoding="utf-8"))
    changed = sorted(place for place in found.keys() | known.keys() if found.get(place) != known.get(place))
    assert {place: found.get(place) for place in changed} == {place: known.get(place) for place in changed}


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
