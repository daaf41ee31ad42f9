"""Change the code a little and see whether the tests notice: `python tests/mutants/campaign.py [--sample N] [FOLDER]...`.

A mutant is one small change of one module: an operator, a comparison, a constant, a condition. The tests that mirror the
module run on it, then all tests of their folder. A mutant that no test notices survives. It points to a missing test,
or it is equivalent: nothing that a user sees depends on it. `tests/mutants/equivalent.json` lists such mutants with the
reason; they are not counted.

The sample is drawn from all mutants by a seed, so the same command runs the same mutants. `results.json` keeps every mutant
that was run, with the text of its change, and `RESULTS.md` states the numbers.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "evenhand"
RECORD, PAGE, EQUIVALENT = HERE / "results.json", HERE / "RESULTS.md", HERE / "equivalent.json"
FOLDERS = (
    *("measures", "mitigations", "stats", "subspaces", "audit"),
    *("corpus", "models/encoders", "models/lm"),
)
GOAL, FEW = 0.85, 80
SECONDS = 300  # of processor time of the tests of one mutant; one that takes longer is noticed
PRELOADED = ("numpy", "scipy.stats", "sklearn.linear_model", "sklearn.svm", "polars", "pytest", "torch")

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# What decides no value: the number of a definition is compared by other tests, and these name positions in messages.
SKIPPED_ARGUMENTS = frozenset({"definition", "stacklevel", "hint", "indent", "places", "slots", "frozen", "kw_only"})


@dataclass(frozen=True)
class Mutant:
    """One change: the module, the line, and the code before and after."""

    module: str
    number: int
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """The module and the change, without the line, which moves when other code changes."""
        return f"{self.module}: {self.before} -> {self.after}"


class Mutations(ast.NodeTransformer):
    """Counts the places that can be changed, and changes the one with a number."""

    def __init__(self, chosen: int = -1) -> None:
        self.chosen, self.count = chosen, 0
        self.found: list[tuple[int, str, str]] = []

    def _offer(self, node: ast.expr, changed: ast.expr) -> ast.expr:
        number, self.count = self.count, self.count + 1
        self.found.append((node.lineno, ast.unparse(node), ast.unparse(changed)))
        return ast.copy_location(changed, node) if number == self.chosen else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Visit the body alone: annotations and decorators decide no value."""
        node.body = [self.visit(statement) for statement in node.body]
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [self.visit(default) if default else None for default in node.args.kw_defaults]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Visit the value alone."""
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Leave messages alone."""
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Leave texts alone."""
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """Visit arguments that decide a value."""
        if node.arg not in SKIPPED_ARGUMENTS:
            node.value = self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Another operator."""
        text = isinstance(node.left, ast.JoinedStr) or isinstance(getattr(node.left, "value", None), str)
        self.generic_visit(node)
        if text or type(node.op) not in OPERATORS:
            return node
        return self._offer(node, ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Another comparison."""
        self.generic_visit(node)
        others = [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        return self._offer(node, ast.Compare(node.left, others, node.comparators))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`or` for `and`."""
        self.generic_visit(node)
        return self._offer(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Without the sign or the negation."""
        self.generic_visit(node)
        return self._offer(node, node.operand) if isinstance(node.op, ast.USub | ast.Not) else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Another number."""
        if isinstance(node.value, bool):
            return self._offer(node, ast.Constant(not node.value))
        if isinstance(node.value, int):
            return self._offer(node, ast.Constant(node.value + 1))
        if isinstance(node.value, float):
            return self._offer(node, ast.Constant(node.value * 1.5 if node.value else 1.0))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """The other branch."""
        self.generic_visit(node)
        return self._offer(node, ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse))

    def visit_If(self, node: ast.If) -> ast.AST:
        """The other branch; not of `if TYPE_CHECKING`."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        self.generic_visit(node)
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            node.test = self._offer(node.test, ast.UnaryOp(ast.Not(), node.test))
        return node


def mutants(path: Path) -> list[Mutant]:
    """Return all mutants of a module."""
    search = Mutations()
    search.visit(ast.parse(path.read_text(encoding="utf-8")))
    module = path.relative_to(SOURCE).with_suffix("").as_posix()
    return [Mutant(module, number, *found) for number, found in enumerate(search.found)]


class MutantLoader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the changed module in place of the one on disk."""

    def __init__(self, mutant: Mutant) -> None:
        self.path = SOURCE / f"{mutant.module}.py"
        self.name = "evenhand." + mutant.module.replace("/", ".")
        tree = Mutations(mutant.number).visit(ast.parse(self.path.read_text(encoding="utf-8")))
        self.code = compile(ast.fix_missing_locations(tree), str(self.path), "exec")

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> object:
        """Claim the changed module."""
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        exec(self.code, module.__dict__)


def tests_of(mutant: Mutant) -> Iterator[list[str]]:
    """Yield the tests that mirror a module, then those of the folder."""
    place = Path(mutant.module)
    folder = ROOT / "tests" / place.parent
    while not folder.is_dir():
        folder = folder.parent
    mirrored = sorted({*folder.glob(f"test_{place.name}.py"), *folder.glob(f"test_{place.name}_*.py")})
    if mirrored:
        yield [str(path) for path in mirrored]
    others = sorted({*folder.glob("test_*.py"), *folder.glob("*/test_*.py")} - set(mirrored))
    if others:
        yield [str(path) for path in others]


def noticed(mutant: Mutant, tests: list[str]) -> bool:
    """Run tests on a mutant in a process of its own; a failure or a time-out notices it."""
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        import pytest

        sys.meta_path.insert(0, MutantLoader(mutant))
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        os._exit(int(pytest.main([*options, *tests])))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (3, 4):  # an internal error of pytest, or misuse
        raise SystemExit(f"pytest ended with {code} on {mutant.key}")
    return code not in (0, 5)


@cache
def require_green(module: str, tests: tuple[str, ...]) -> None:
    """End the campaign if tests fail on the module as it is, because they would notice every mutant."""
    if noticed(Mutant(module, -1, 0, "", ""), list(tests)):
        raise SystemExit(f"the tests fail without a change of {module}: {' '.join(tests)}")


def run(mutant: Mutant) -> dict[str, object]:
    """Return the record of one mutant."""
    started, outcome = time.monotonic(), "survived"
    for number, tests in enumerate(tests_of(mutant)):
        if noticed(mutant, tests):
            require_green(mutant.module, tuple(tests))
            outcome = "noticed by the folder" if number else "noticed by the mirrored tests"
            break
    return {**asdict(mutant), "outcome": outcome, "seconds": round(time.monotonic() - started, 1)}


def page(records: Sequence[dict[str, object]], equivalent: dict[str, str]) -> str:
    """Return the results in words and tables."""
    by_folder: dict[str, Counter[str]] = {}
    survivors = []
    for record in records:
        key = f"{record['module']}: {record['before']} -> {record['after']}"
        module = str(record["module"])
        folder = next(name for name in FOLDERS if module.startswith(f"{name}/"))
        outcome = "noticed" if record["outcome"] != "survived" else "equivalent" if key in equivalent else "survived"
        by_folder.setdefault(folder, Counter())[outcome] += 1
        if outcome == "survived":
            survivors.append(f"- `{module}:{record['line']}`: `{record['before']}` became `{record['after']}`")
    total = sum(by_folder.values(), Counter())
    lines = [
        "# Do the tests notice?",
        "",
        "Small changes of the code (an operator, a comparison, a constant, a condition), drawn at random, each run against the tests of",
        "its module and folder. `python tests/mutants/campaign.py --sample 40` runs a sample; `results.json` has every change.",
        "",
        "| folder | changes | noticed | equivalent | not noticed | share |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, counts in [*sorted(by_folder.items()), ("all", total)]:
        share = counts["noticed"] / max(1, counts["noticed"] + counts["survived"])
        cells = [sum(counts.values()), counts["noticed"], counts["equivalent"], counts["survived"]]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} | {100 * share:.0f} % |")
    lines += [
        "",
        "The share leaves out equivalent changes, which `equivalent.json` lists with the reason. Changes that survived a first run",
        "and have had a test written for them since count as noticed, so the share of a fresh sample is lower.",
        "",
    ]
    if sum(total.values()) < FEW:
        lines += [f"**Too few changes for a rate**: the aim of {100 * GOAL:.0f} % has not been tested yet.", ""]
    lines += ["## Not noticed", "", *(survivors or ["None."]), ""]
    return "\n".join(lines)


def main() -> None:
    """Draw, run, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=list(FOLDERS), metavar="FOLDER", help="of the package")
    parser.add_argument("--sample", type=int, default=40, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after this time")
    parser.add_argument("--again", action="store_true", help="run the survivors of the record again")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    records = json.loads(RECORD.read_text()) if RECORD.exists() else []
    equivalent = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    paths = sorted(path for name in given.folders for path in (SOURCE / name).rglob("*.py") if path.stem != "__init__")
    every = [mutant for path in paths for mutant in mutants(path)]
    if given.again:
        keys = {f"{r['module']}: {r['before']} -> {r['after']}" for r in records if r["outcome"] == "survived"}
        chosen = [mutant for mutant in every if mutant.key in keys - set(equivalent)]
    else:
        chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    if not given.page:
        for name in PRELOADED:  # once, before the forks; never evenhand itself
            if importlib.util.find_spec(name.split(".")[0]):
                importlib.import_module(name)
        sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
        deadline = time.monotonic() + given.seconds
        done = {(r["module"], r["before"], r["after"], r["number"]) for r in records} if not given.again else set()
        for mutant in chosen:
            if time.monotonic() > deadline:
                break
            if (mutant.module, mutant.before, mutant.after, mutant.number) in done:
                continue
            record = run(mutant)
            print(f"{record['outcome']}: {mutant.key} (line {mutant.line}, {record['seconds']} s)", flush=True)  # noqa: T201
            same = [r for r in records if (r["module"], r["number"]) != (mutant.module, mutant.number)]
            records = [*same, record]
            partial = RECORD.with_suffix(".unfinished")
            partial.write_text(json.dumps(sorted(records, key=lambda r: (r["module"], r["number"])), indent=1) + "\n")
            partial.replace(RECORD)
    PAGE.write_text(page(records, equivalent))


if __name__ == "__main__":
    main()
