"""Write the stubs `__init__.pyi` of the packages whose public names are those of a registry.

    python scripts/package_stubs.py

An editor completes `eh.mitigations.LEACE`, a type checker knows it, and `import evenhand` does not import it: the stub
is also what the package reads to find a name on first use. Run the script after a measure or a method is added, renamed
or moved; a test compares the stubs with the registries. A package without a stub is left alone, unless it is named:

    python scripts/package_stubs.py measures
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from evenhand.measures.registry import MEASURES
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.registry import Registry

SOURCE = Path(__file__).resolve().parents[1] / "src" / "evenhand"
REGISTRIES: dict[str, Registry[Callable[..., object]]] = {"measures": MEASURES, "mitigations": MITIGATIONS}
NOTE = "# Written by scripts/package_stubs.py from the registry; do not edit."


def stub(package: str) -> str:
    """Return the stub of a package: what its registry has, and the names it lists in `UNREGISTERED`."""
    name = f"evenhand.{package}"
    others: Iterable[str] = import_module(name).UNREGISTERED
    registered = [f"{item.__module__}:{item.__name__}" for item in REGISTRIES[package].values()]
    own = [location for location in {*registered, *others} if location.startswith(f"{name}.")]
    names = sorted(map(_split, own), key=_order)
    return "\n".join([NOTE, "", *(f"from {module} import {name} as {name}" for module, name in names)]) + "\n"


def _split(location: str) -> tuple[str, str]:
    """Return where a name is imported from, and the name; a location without a colon is a module."""
    module, _, name = location.partition(":")
    if name:
        return module, name
    package, _, name = module.rpartition(".")
    return package, name


def _order(location: tuple[str, str]) -> tuple[str, int, str]:
    """Sort as the linter does: within a module constants, classes, functions."""
    module, name = location
    return module, 0 if name.isupper() else 1 if name[0].isupper() else 2, name


def stub_file(package: str) -> Path:
    """Return where the stub of a package lies."""
    return SOURCE / package / "__init__.pyi"


def main(packages: list[str]) -> None:
    """Write the stubs of these packages, or of all that have one."""
    for package in packages or [package for package in REGISTRIES if stub_file(package).exists()]:
        stub_file(package).write_text(stub(package), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
