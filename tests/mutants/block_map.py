"""Which tests run a block of code: every default test run once on instrumented modules."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mutations import SOURCE, Loader, Mutant, modules

ROOT = SOURCE.parents[1]
MAP = ROOT / ".mutants"
FOLDERS = (
    *("measures", "mitigations", "stats", "subspaces", "audit"),
    *("corpus", "models/encoders", "models/lm"),
)
# The folders of tests that are run: those that mirror the sources above, then those that use them.
TESTED = (
    *(f"tests/{folder}" for folder in FOLDERS),
    *("tests/subjects", "tests/report", "tests/models", "tests/interop", "tests/reproduce", "tests/cli", "tests"),
)
LEFT_OUT = ("architecture", "benchmarks", "docs", "faults", "fuzz", "mutants", "rivals", "scripts", "web")
BUDGET = 10  # seconds of processor time of the tests that one mutant runs at most
# Tests that read what is declared, such as defaults of parameters, without running it.
DECLARED = ("tests/docs/test_registry_pages.py", "tests/test_defaults.py", "tests/measures/test_constants.py")
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--capture=sys",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)


class Instrument(ast.NodeTransformer):
    """Lets each block of a function report its first line when it runs."""

    def __init__(self) -> None:
        self.inside = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the parts, then put the report in front of each list of statements of a function."""
        outside = self.inside
        self.inside = not isinstance(node, ast.ClassDef) and (outside or isinstance(node, FUNCTION))
        super().generic_visit(node)
        for name, value in ast.iter_fields(node):
            if self.inside and isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                report = ast.parse(f"__ran__({value[0].lineno})").body[0]
                for part in ast.walk(report):
                    ast.copy_location(part, value[0])
                documented = isinstance(node, FUNCTION) and ast.get_docstring(node, clean=False) is not None
                getattr(node, name).insert(int(documented), report)
        self.inside = outside
        return node


FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


class Tracer:
    """Notes for each test that passes its processor time and the blocks that it ran."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.failed = False
        self.tests: dict[str, dict[str, Any]] = {}
        self.by_fixture: dict[object, dict[str, set[int]]] = {}

    def _taken(self) -> dict[str, set[int]]:
        taken = {module: set(lines) for module, lines in self.loader.ran.items() if lines}
        for lines in self.loader.ran.values():
            lines.clear()
        return taken

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Count what a shared fixture runs for every test that uses it."""
        before = self._taken()
        try:
            return (yield)
        finally:
            during = self._taken()
            if fixturedef.scope != "function":
                self.by_fixture[fixturedef] = during
            for part in (before, during):
                for module, lines in part.items():
                    self.loader.ran[module] |= lines

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember whether the test failed or was skipped."""
        self.failed |= not report.passed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Run one test; write the results of the file after its last."""
        self._taken()
        self.failed, started = False, time.process_time()
        result = yield
        ran = self._taken()
        for definitions in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
            for definition in definitions:
                for module, lines in self.by_fixture.get(definition, {}).items():
                    ran.setdefault(module, set()).update(lines)
        if not self.failed:
            seconds = round(time.process_time() - started, 3)
            blocks = {module: sorted(lines) for module, lines in ran.items()}
            self.tests[item.nodeid] = {"seconds": seconds, "ran": blocks}
        if nextitem is None or nextitem.path != item.path:
            write_entry(item.path, self.tests)
            self.tests = {}
        return result


def digest(path: Path) -> str:
    """Return a digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def entry_of(path: Path) -> Path:
    """Return the file of the map for a file of tests."""
    return MAP / (path.relative_to(ROOT).as_posix().replace("/", "+") + ".json")


def write_entry(path: Path, tests: dict[str, dict[str, Any]]) -> None:
    """Keep what the tests of a file ran."""
    used = {module for test in tests.values() for module in test["ran"]}
    digests = {module: digest(SOURCE / f"{module}.py") for module in sorted(used)}
    entry_of(path).write_text(json.dumps({"stamp": digest(path), "modules": digests, "tests": tests}))


def is_current(path: Path) -> bool:
    """Say whether neither the tests of a file nor the modules that they run have changed since they were traced."""
    kept = entry_of(path)
    if not kept.exists():
        return False
    entry = json.loads(kept.read_text())
    unchanged = all(digest(SOURCE / f"{module}.py") == known for module, known in entry["modules"].items())
    return entry["stamp"] == digest(path) and unchanged


def test_files() -> list[Path]:
    """Return the files of default tests, those that mirror the sources first."""
    found: dict[Path, None] = {}
    for folder in TESTED:
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            if path.relative_to(ROOT / "tests").parts[0] not in LEFT_OUT and not path.stem.endswith("_ray"):
                found[path] = None
    return list(dict.fromkeys([*found, *(ROOT / name for name in DECLARED)]))


def trace(files: Sequence[Path]) -> None:
    """Run tests on instrumented modules and keep the map of what they ran."""
    loader = Loader(modules(FOLDERS), Instrument().visit)
    sys.meta_path.insert(0, loader)
    code = pytest.main([*OPTIONS, *map(str, files)], plugins=[Tracer(loader)])
    print(f"traced {len(files)} files of tests; pytest ended with {int(code)}", flush=True)  # noqa: T201
    for path in files:  # no test of it ran
        if not is_current(path):
            write_entry(path, {})


class Index:
    """The map, read the other way: the tests that run a block, in the order in which they are tried."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.seconds: dict[str, float] = {}
        self.by_block: dict[tuple[str, int], list[str]] = defaultdict(list)
        self.by_module: dict[str, list[str]] = defaultdict(list)
        for path in files:
            for name, test in json.loads(entry_of(path).read_text())["tests"].items():
                self.seconds[name] = test["seconds"]
                for module, lines in test["ran"].items():
                    self.by_module[module].append(name)
                    for line in lines:
                        self.by_block[module, line].append(name)

    def tests(self, mutant: Mutant, budget: float = BUDGET) -> list[str]:
        """Return the tests that may notice a mutant: the mirrored ones first, the fastest first, as far as the budget goes."""
        mirrored = mirrors(mutant.module)
        if mutant.block:
            names = self.by_block[mutant.module, mutant.block]
        else:
            names = self.by_module[mutant.module] or [name for name in self.seconds if file_of(name) in mirrored]
            names = sorted({*names, *(name for name in self.seconds if name.startswith(DECLARED))})
        chosen: list[str] = []
        total = 0.0
        for name in sorted(names, key=lambda name: (file_of(name) not in mirrored, self.seconds[name])):
            total += self.seconds[name]
            if total > budget and chosen:
                break
            chosen.append(name)
        return chosen


def file_of(test: str) -> Path:
    """Return the file of a test."""
    return ROOT / test.partition("::")[0]


@functools.cache
def mirrors(module: str) -> frozenset[Path]:
    """Return the files of tests that mirror a module."""
    place = Path(module)
    folder = ROOT / "tests" / place.parent
    while not folder.is_dir():
        folder = folder.parent
    return frozenset({*folder.glob(f"test_{place.name}.py"), *folder.glob(f"test_{place.name}_*.py")})
