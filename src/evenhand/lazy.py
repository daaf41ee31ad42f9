"""Public names of a package that are imported when somebody first asks for them, so that importing it costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def found(package: str, places: Mapping[str, str], name: str) -> Any:
    """What a package's `__getattr__` gives for a name.

    A place is `module:attribute`, or `module` for the module itself; a module with a leading dot is one of the package.
    """
    if name not in places:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, _, attribute = places[name].partition(":")
    read = import_module(module, package)
    return getattr(read, attribute) if attribute else read
