"""The small changes of a module, and how a changed module is imported or put in place of one that is imported already."""

from __future__ import annotations

import ast
import functools
import gc
import importlib.abc
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "evenhand"

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
# What decides no value: the number of a definition is compared by other tests, `strict` is for lists that are made with the
# same length, and the others name positions in messages or how a class is stored.
SKIPPED_ARGUMENTS = frozenset(
    {"definition", "stacklevel", "hint", "indent", "places", "slots", "frozen", "kw_only", "strict"}
)
SIZES = "_AT_ONCE"  # the end of the names of constants that say how much is computed at once: the numbers are the same
OPEN_SIZE = "reshape"  # takes any negative length as the one that is left open


@dataclass(frozen=True)
class Mutant:
    """One change: the module, its place, and the code before and after."""

    module: str
    number: int
    line: int
    block: int  # the first line of the block that must run; 0 where the module itself must
    imported: bool  # whether the code runs on import
    before: str
    after: str

    @property
    def path(self) -> Path:
        """The file of the module."""
        return SOURCE / f"{self.module}.py"

    @property
    def key(self) -> str:
        """The module, the text of the line and the change, without the number of the line, which moves."""
        return f"{self.module}: {source_line(self.path, self.line)}: {self.before} -> {self.after}"


@functools.cache
def source_lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


def source_line(path: Path, line: int) -> str:
    """Return the text of one line."""
    return source_lines(path)[line - 1].strip()


class Mutations(ast.NodeTransformer):
    """Counts the places that can be changed, and changes the one with a number."""

    def __init__(self, chosen: int = -1) -> None:
        self.chosen, self.count = chosen, 0
        self.block, self.imported = 0, True
        self.found: list[tuple[int, int, bool, str, str]] = []

    def _offer(self, node: ast.expr, changed: ast.expr) -> ast.expr:
        number, self.count = self.count, self.count + 1
        self.found.append((node.lineno, self.block, self.imported, ast.unparse(node), ast.unparse(changed)))
        return ast.copy_location(changed, node) if number == self.chosen else node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the parts, each list of statements of a function as a block of its own."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                outside = self.block
                if not self.imported and value and isinstance(value[0], ast.stmt):
                    self.block = value[0].lineno
                value[:] = [self.visit(part) if isinstance(part, ast.AST) else part for part in value]
                self.block = outside
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Visit the body and the defaults: annotations and decorators decide no value."""
        outside = self.block, self.imported
        self.block = node.body[0].lineno
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [self.visit(default) if default else None for default in node.args.kw_defaults]
        self.imported = False
        node.body = [self.visit(statement) for statement in node.body]
        self.block, self.imported = outside
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Leave alone how much is computed at once."""
        target = node.targets[0]
        return node if isinstance(target, ast.Name) and target.id.endswith(SIZES) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave the open length of a shape alone."""
        opened = isinstance(node.func, ast.Attribute) and node.func.attr == OPEN_SIZE
        node.func = self.visit(node.func)
        node.args = [one if opened and ast.unparse(one) == "-1" else self.visit(one) for one in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
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


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(folders: Iterable[str]) -> list[Path]:
    """Return the files of folders of the package."""
    return sorted(path for name in folders for path in (SOURCE / name).rglob("*.py") if path.stem != "__init__")


def mutants(path: Path) -> list[Mutant]:
    """Return all mutants of a module."""
    search = Mutations()
    search.visit(parsed(path))
    module = path.relative_to(SOURCE).with_suffix("").as_posix()
    return [Mutant(module, number, *found) for number, found in enumerate(search.found)]


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports changed modules in place of those on disk."""

    def __init__(self, paths: Iterable[Path], change: Callable[[ast.Module], ast.Module]) -> None:
        self.paths = {name_of(path): path for path in paths}
        self.change = change
        self.ran: dict[str, set[int]] = defaultdict(set)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Claim the changed modules."""
        known = self.paths.get(name)
        return importlib.util.spec_from_file_location(name, known, loader=self) if known else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        path = self.paths[module.__name__]
        module.__dict__["__ran__"] = self.ran[path.relative_to(SOURCE).with_suffix("").as_posix()].add
        exec(changed_code(path, self.change), module.__dict__)


def name_of(path: Path) -> str:
    """Return the name under which a module is imported."""
    return ".".join(("evenhand", *path.relative_to(SOURCE).with_suffix("").parts))


def changed_code(path: Path, change: Callable[[ast.Module], ast.Module] = lambda tree: tree) -> CodeType:
    """Compile a module with a change."""
    return compile(ast.fix_missing_locations(change(parsed(path))), str(path), "exec")


def mutation(mutant: Mutant) -> Callable[[ast.Module], ast.Module]:
    """Return the change of a syntax tree that makes the mutant."""
    return Mutations(mutant.number).visit


def apply(mutant: Mutant) -> None:
    """Give the functions of an imported module the changed code, or let a module that is not yet imported load it."""
    if name_of(mutant.path) not in sys.modules:
        sys.meta_path.insert(0, Loader([mutant.path], mutation(mutant)))
        return
    before = functions(changed_code(mutant.path))
    after = functions(changed_code(mutant.path, mutation(mutant)))
    for thing in live():
        if type(thing) is CACHE:
            thing.cache_clear()
        elif thing.__code__.co_filename == str(mutant.path):
            place = (thing.__code__.co_qualname, thing.__code__.co_firstlineno)
            if place in after and after[place] != before[place]:
                thing.__code__ = after[place]


@functools.cache
def live() -> list[Any]:
    """Return the functions of the package that exist, and its caches."""
    gc.unfreeze()
    things = gc.get_objects()
    ours = [f for f in things if type(f) is FunctionType and f.__code__.co_filename.startswith(str(SOURCE))]
    caches = [cache for cache in things if type(cache) is CACHE and str(cache.__module__).startswith("evenhand")]
    gc.freeze()
    return ours + caches


CACHE = type(functools.cache(len))


def functions(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the code of every function in a module by its name and line."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return {(part.co_qualname, part.co_firstlineno): part for part in inner} | {
        place: found for part in inner for place, found in functions(part).items()
    }
