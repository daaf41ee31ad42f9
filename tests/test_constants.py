"""Every constant of the statistics, the subspaces and the measures of vectors and sentences, and every default of their functions.

`test_defaults.py` has what is public. A published constant is also tested where it is used; this record says of all of them
that they were not changed by accident. `python tests/test_constants.py` writes `constants.json` again.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from evenhand.measures.registry import Info

RECORD = Path(__file__).with_name("constants.json")
PACKAGES = (
    *("measures.association", "measures.geometry", "measures.quality", "measures.sentences"),
    *("stats", "subspaces"),
)
SIZES = "_AT_ONCE"  # how much is computed at once changes no number


def plain(value: object) -> bool:
    """Whether a value is a number, a text, a flag, None, or made of these."""
    if isinstance(value, tuple | frozenset):
        return all(map(plain, value))
    if isinstance(value, Mapping):
        return all(plain(key) and plain(part) for key, part in value.items())
    return isinstance(value, str | int | float | None)


def declared(value: object) -> bool:
    """Whether a field of the description of a measure decides something: texts have tests of their own."""
    return plain(value) and not isinstance(value, str)


def written(value: object) -> str:
    return repr(sorted(value)) if isinstance(value, frozenset) else repr(value)


def defaults(function: object) -> str:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return ", ".join(f"{p.name}={p.default!r}" for p in parameters if p.default is not p.empty and plain(p.default))


def of_class(kind: type) -> Iterator[tuple[str, str]]:
    """Yield how a class compares, the defaults of its fields, and those of its methods."""
    if is_dataclass(kind):
        yield "equal by its fields", f"{'__eq__' in vars(kind)}, with a hash: {kind.__hash__ is not None}"
    for name, member in vars(kind).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("__")):
            yield name, defaults(function)
        elif plain(member) and not name.startswith("_"):
            yield name, written(member)


def of_module(name: str) -> Iterator[tuple[str, str]]:
    """Yield the constants of a module and the defaults of its functions, public or not."""
    module = import_module(f"evenhand.{name}")
    for key, value in vars(module).items():
        elsewhere = getattr(value, "__module__", module.__name__) != module.__name__
        if key.startswith("__") or (elsewhere and not isinstance(value, Info)):
            continue
        if isinstance(value, Info):
            given = {field.name: getattr(value, field.name) for field in fields(value) if field.name != "definition"}
            usual = {field.name: field.default for field in fields(value)}
            yield key, written({name: part for name, part in given.items() if declared(part) and part != usual[name]})
        elif isinstance(value, type):
            yield from ((f"{key}.{part}", text) for part, text in of_class(value))
        elif callable(value) and hasattr(value, "cache_parameters"):
            yield key, written(value.cache_parameters())
        elif inspect.isfunction(value):
            yield key, defaults(value)
        elif key.isupper() and plain(value) and not key.endswith(SIZES):
            yield key, written(value)


def recorded() -> dict[str, dict[str, str]]:
    found = {}
    for package in PACKAGES:
        for module in iter_modules(import_module(f"evenhand.{package}").__path__):
            name = f"{package}.{module.name}"
            found[name] = {key: text for key, text in of_module(name) if text}
    return found


def test_constants_and_defaults_are_the_recorded_ones() -> None:
    known = json.loads(RECORD.read_text(encoding="utf-8"))
    found = recorded()
    assert list(found) == list(known)
    for name, constants in known.items():
        assert found[name] == constants, name


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
