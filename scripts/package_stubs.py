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
    lines = sorted(_line(location) for location in own)
    return "\n".join([NOTE, "", *(line for _, _, line in lines)]) + "\n"


def _line(location: str) -> tuple[str, str, str]:
    module, _, attribute = location.partition(":")
    if not attribute:
        module, _, attribute = module.rpartition(".")
    return module, attribute, f"from {module} import {attribute} as {attribute}"


def stub_file(package: str) -> Path:
    """Return where the stub of a package lies."""
    return SOURCE / package / "__init__.pyi"


def main(packages: list[str]) -> None:
    """Write the stubs of these packages, or of all that have one."""
    for package in packages or [package for package in REGISTRIES if stub_file(package).exists()]:
        stub_file(package).write_text(stub(package), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
