"""What the modules of corpora declare, recorded: constants, defaults of functions, and fields and kinds of records.

Numbers of texts depend on some of them, memory and speed on others. `python tests/corpus/test_declared_in_corpus.py` writes
`declared.json` again; read the difference before you commit it.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np

import evenhand.corpus

USUAL = {"default": None, "init": True, "repr": True}
LONGEST = 32  # of the lists that are recorded
RECORD = Path(__file__).with_name("declared.json")


def plain(value: object) -> object:
    """Return a number, or numbers in a list or a table; None for anything else."""
    if isinstance(value, bool | int | float):
        return value if abs(value) < 1 << 50 else str(value)
    if isinstance(value, np.generic):
        return str(value)
    if isinstance(value, np.ndarray | tuple | list) and len(value) > LONGEST:
        return None
    if isinstance(value, np.ndarray):
        return [str(one) for one in value.ravel()]
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, tuple | list) else ()
    return {str(key): found for key, part in parts if (found := plain(part)) is not None} or None


def defaults(function: FunctionType) -> dict[str, object]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: found for p in parameters if (found := plain(p.default)) is not None}


def of_class(kind: type) -> dict[str, object]:
    found: dict[str, object] = {
        f"{name}()": given
        for name, thing in vars(kind).items()
        if isinstance(thing, FunctionType)
        and thing.__code__.co_filename == inspect.getfile(kind)
        and (given := defaults(thing))
    }
    if is_dataclass(kind):
        flags = kind.__dataclass_params__  # type: ignore[attr-defined]
        found["flags"] = [name for name in ("init", "repr", "eq", "frozen") if getattr(flags, name)]
        for field in fields(kind):
            given = {"default": plain(field.default), "init": field.init, "repr": field.repr}
            found[field.name] = {name: value for name, value in given.items() if value is not None and given != USUAL}
    elif hasattr(kind, "__total__"):
        found["total"] = kind.__total__
    else:
        found |= {name: value for name, value in vars(kind).items() if type(value) in (int, float)}
    return found


def declared(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield what is defined in a module itself."""
    for name, thing in vars(module).items():
        if isinstance(thing, FunctionType) and thing.__module__ == module.__name__:
            yield f"{name}()", defaults(thing)
        elif isinstance(thing, type) and thing.__module__ == module.__name__:
            yield name, {key: value for key, value in of_class(thing).items() if value or value == 0}
        elif name.lstrip("_").isupper() and plain(thing) is not None:
            yield name, plain(thing)


def recorded() -> dict[str, dict[str, object]]:
    names = [
        name for _, name, folder in pkgutil.walk_packages(evenhand.corpus.__path__, "evenhand.corpus.") if not folder
    ]
    return {
        name.removeprefix("evenhand.corpus."): {
            key: value for key, value in sorted(declared(import_module(name))) if value
        }
        for name in names
    }


def test_constants_defaults_and_fields_are_the_recorded_ones() -> None:
    found, known = json.loads(json.dumps(recorded())), json.loads(RECORD.read_text(encoding="utf-8"))
    assert found.keys() == known.keys()
    for module, values in known.items():
        differing = {name for name in values.keys() | found[module] if values.get(name) != found[module].get(name)}
        assert {name: found[module].get(name) for name in differing} == {name: values.get(name) for name in differing}


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(), indent=0, ensure_ascii=True) + "\n", encoding="utf-8")
