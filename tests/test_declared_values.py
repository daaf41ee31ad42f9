"""Every constant, and every default of a function or a class, of the modules that compute numbers, recorded.

Another threshold, number of draws or seed gives everybody other numbers, also where no test on small inputs can see it.
Which value is right is tested where it is used. `python tests/test_declared_values.py` writes `declared_values.json`
again; read the difference before you commit it.
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

import msgspec
import numpy as np
import pytest

import evenhand

RECORD = Path(__file__).with_name("declared_values.json")
SOURCE = Path(evenhand.__file__).parent
FOLDERS = ("audit", "corpus", "measures", "mitigations", "models/encoders", "models/lm", "stats", "subspaces")
AT_ONCE = "_AT_ONCE"  # how much is computed at once: the numbers are the same
LONGEST = 40  # characters of a text: longer ones are sentences for readers
TEXTS_OF_INFO = ("title", "formula", "reading", "limits", "definition")  # other tests compare these


def plain(value: object) -> object:
    """Return numbers, texts and what is made of them as JSON can write it; None for anything else."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else None
    if isinstance(value, bool | int | float):
        return value if np.isfinite(value) else str(value)
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist() if value.size <= 32 else None
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.name not in TEXTS_OF_INFO}
    return None


def defaults(call: object) -> object:
    """Return the parameters that have a default."""
    try:
        parameters = inspect.signature(inspect.unwrap(call)).parameters.values()  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return {}
    return {p.name: plain(p.default) for p in parameters if p.default is not p.empty and plain(p.default) is not None}


def of_class(kind: type) -> Iterator[tuple[str, object]]:
    """Yield the fields, constants and methods of a class, and whether its objects are compared by their fields."""
    if issubclass(kind, msgspec.Struct):
        yield "schema", msgspec.json.schema(kind)["$defs"][kind.__name__]
        return
    own = {one.name: one for one in fields(kind)} if is_dataclass(kind) else {}
    if own:
        yield "equal by fields", "__eq__" in vars(kind)
    if hasattr(kind, "__total__"):
        yield "total", kind.__total__
    for field in own.values():
        hidden = [name for name in ("init", "repr", "compare") if not getattr(field, name)]
        yield field.name, [plain(field.default), *hidden] if plain(field.default) is not None or hidden else None
    for name, value in vars(kind).items():
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function):
            yield f"{name}()", None if own and name == "__init__" else defaults(function)
        elif not name.startswith("__") and name not in own:
            yield name, plain(value)


def of_module(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield what a module declares itself."""
    statements = [
        part for part in ast.parse(inspect.getsource(module)).body if isinstance(part, ast.Assign | ast.AnnAssign)
    ]
    assigned = {part.id for one in statements for part in ast.walk(one) if isinstance(part, ast.Name)}
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from ((f"{name}.{part}", content) for part, content in of_class(value))
        elif hasattr(value, "cache_parameters") and value.__module__ == module.__name__:
            yield f"{name}()", {"cache": plain(value.cache_parameters()), "defaults": defaults(value)}
        elif inspect.isfunction(value) and value.__module__ == module.__name__:
            yield f"{name}()", defaults(value)
        elif name in assigned and not name.endswith(AT_ONCE):
            yield name, plain(value)


def recorded() -> dict[str, object]:
    """Return everything that the modules declare, by its place."""
    paths = [path for folder in FOLDERS for path in sorted((SOURCE / folder).rglob("*.py")) if path.stem != "__init__"]
    found = {}
    for path in paths:
        place = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        found |= {f"{place} {name}": value for name, value in of_module(import_module(f"evenhand.{place}"))}
    return {place: value for place, value in found.items() if value not in (None, {}, [])}


def test_constants_and_defaults_are_the_recorded_ones() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    found, known = json.loads(json.dumps(recorded())), json.loads(RECORD.read_text(encoding="utf-8"))
    changed = sorted(place for place in found.keys() | known.keys() if found.get(place) != known.get(place))
    assert {place: found.get(place) for place in changed} == {place: known.get(place) for place in changed}


def test_a_default_seed_is_zero_or_that_of_the_paper() -> None:
    known = json.loads(RECORD.read_text(encoding="utf-8"))
    given = {place: value for place, value in known.items() if isinstance(value, dict) and place.endswith("()")}
    seeds = {place: value["seed"] for place, value in given.items() if value.get("seed") is not None}
    assert {place: seed for place, seed in seeds.items() if seed != 0} == {"models.lm.awd_lstm.training train()": 1111}
    assert len(seeds) > 100


if __name__ == "__main__":
    lines = [f"{json.dumps(place)}: {json.dumps(value)}" for place, value in recorded().items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
