"""What the tests install is pinned, and the pins satisfy what the package declares."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = ("models", "ray", "gensim", "japanese", "web", "endpoint", "docs", "dev")  # those that `make test` installs


def test_every_direct_dependency_of_the_tests_is_pinned_above_its_floor() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *(x for extra in EXTRAS for x in project["optional-dependencies"][extra])]
    floors = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", text).groups() for text in declared)  # type: ignore[union-attr]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert set(pins) == set(floors)
    for name, floor in floors.items():
        assert _version(pins[name]) >= _version(floor), name


def _version(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdigit()]
