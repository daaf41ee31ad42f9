"""What is installed is pinned and locked by hashes; what SECURITY.md names as its tests exists."""

import importlib.util
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILDING = {"build", "cyclonedx-bom", "editables", "hatchling"}  # what a release is built with
EXTRAS = ("models", "ray", "gensim", "japanese", "web", "endpoint", "docs", "dev")  # those that `make test` installs


def test_every_direct_dependency_of_the_tests_is_pinned_above_its_floor() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *(x for extra in EXTRAS for x in project["optional-dependencies"][extra])]
    floors = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", text).groups() for text in declared)  # type: ignore[union-attr]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert set(pins) == set(floors) | BUILDING
    for name, floor in floors.items():
        assert _version(pins[name]) >= _version(floor), name


def _version(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdigit()]


def test_every_direct_dependency_is_locked_at_its_pin() -> None:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "scripts" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    lock = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lock)
    assert lock.problems() == []  # otherwise run `make lock`


def test_every_locked_package_has_hashes() -> None:
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        blocks = re.split(r"\n(?=\S)", file.read_text().strip())
        packages = [block for block in blocks if not block.startswith("#")]
        assert packages
        for block in packages:
            assert re.fullmatch(r"[a-z0-9-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", block), block[:80]


def test_the_pipelines_require_hashes_and_install_nothing_else_from_an_index() -> None:
    for name in ("Makefile", ".ci/release"):
        lines = (ROOT / name).read_text().splitlines()
        installing = [line for line in lines if re.search(r"-m pip install|\$\(PIP\)", line) and ":=" not in line]
        assert any("--require-hashes" in line for line in installing), name
    release = (ROOT / ".ci" / "release").read_text()
    assert all(
        "--require-hashes" in line or "--no-deps" in line for line in release.splitlines() if "pip install" in line
    )
    assert "REQUIRE_HASHES=1" in (ROOT / ".ci" / "run").read_text()


def test_the_licence_of_the_embedded_vectors_is_in_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0 AND PDDL-1.0"
    assert "NOTICE" in project["license-files"]
    assert "glove.safetensors" in (ROOT / "NOTICE").read_text()
    assert "PDDL" in (ROOT / "src" / "evenhand" / "data" / "embedded" / "glove.json").read_text()


def test_every_promise_names_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) >= 10
    for promise, tests in rows:
        named = re.findall(r"`(tests/[\w/.]+)`", tests)
        assert named, promise
        assert [name for name in named if not (ROOT / name).exists()] == [], promise
        assert re.findall(r"`(test_\w+\.py)`", tests) == [], "a test is named by its path from the root"
