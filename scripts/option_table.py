"""Write docs/reference/options.md: every verb and option of the command, and the test that uses it.

The tests are read, not run: a test uses an option if it calls the verb with it, in one list of arguments (`run("audit",
"--json")`), through a helper that fixes the verb, or in a parametrisation of a test that calls one verb only. Tests of
refusals do not count. A page of the documentation counts if its shell blocks are run by the tests.

    python scripts/option_table.py [--gaps]
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer.main

from evenhand.cli import app

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "options.md"
BLOCK = re.compile(r"(?P<not_run><!-- not run: [^>]+ -->\n+)?^```(?:sh|console|bash)\n(?P<code>.*?)^```$", re.M | re.S)
REFUSAL = re.compile("refuse|wrong|misuse|nothing_are|does_not_apply")  # tests of errors are none of the main path
STARTS = {"evenhand", "-m", "-c"}  # words of a command line before its verb
INTRODUCTION = """# Commands and options

Every option of the command, and a test that uses it. `scripts/option_table.py` writes this page from the command
line and the tests; a test fails for an option that no test uses. `evenhand VERB --help` explains the options.
"""

Verb = tuple[str, ...]
Strings = list[str]


@dataclass
class Command:
    """A verb with its options: the first name of each, and all its names."""

    verb: Verb
    options: dict[str, tuple[str, ...]]
    by_name: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {name: first for first, names in self.options.items() for name in names}


def commands() -> dict[Verb, Command]:
    """Return every verb of the command and its options."""
    found: dict[Verb, Command] = {}

    def walk(command: Any, path: Verb) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*path, name))
        if path and not hasattr(command, "commands"):
            options = {
                parameter.opts[0]: (*parameter.opts, *parameter.secondary_opts)
                for parameter in command.params
                if parameter.opts[0].startswith("-")
            }
            found[path] = Command(path, options)

    walk(typer.main.get_command(app), ())
    return found


Uses = dict[tuple[Verb, str], dict[str, None]]  # the tests of each verb and option, "" for the verb itself


def uses(known: Mapping[Verb, Command]) -> Uses:
    """Return the tests that use each verb and option, files in order."""
    found: Uses = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        if file.name not in ("test_every_option.py", "test_commands.py"):
            _Module(file, known, file.read_text(encoding="utf-8")).collect(found)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text) if page != PAGE and "<!-- slow page -->" not in text else ():
            lines = [] if block["not_run"] else block["code"].replace("\\\n", " ").splitlines()
            for line in lines:
                _add(found, known, _split(line.removeprefix("$ ")), page.relative_to(ROOT).as_posix())
    return found


def _split(line: str) -> Strings:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return []
    return words if words[:1] == ["evenhand"] else []


def _verb_of(strings: Strings, known: Mapping[Verb, Command]) -> tuple[Verb, Strings]:
    """Return the verb that a list of arguments begins with, and what follows it."""
    start = 0
    while start < len(strings) and strings[start] in STARTS:
        start += 1
    for length in (2, 1):
        verb = tuple(strings[start : start + length])
        if verb in known:
            return verb, strings[start + length :]
    return (), []


def _add(found: Uses, known: Mapping[Verb, Command], strings: Strings, test: str) -> Verb:
    verb, rest = _verb_of(strings, known)
    if verb:
        _add_options(found, known[verb], rest, test)
    return verb


def _add_options(found: Uses, command: Command, strings: Strings, test: str) -> None:
    found.setdefault((command.verb, ""), {})[test] = None
    for text in strings:
        name = text.partition("=")[0]
        if name in command.by_name:
            found.setdefault((command.verb, command.by_name[name]), {})[test] = None


class _Module:
    """The lists of arguments in a test module."""

    def __init__(self, file: Path, known: Mapping[Verb, Command], source: str) -> None:
        self._known = known
        self._name = file.relative_to(ROOT).as_posix()
        self._tree = ast.parse(source)
        self._constants = _assignments(self._tree.body)
        self._prefix = _prefix(self._tree, known)
        self._helpers: dict[str, Strings] = {}
        functions = [node for node in self._tree.body if isinstance(node, ast.FunctionDef)]
        for _ in range(2):  # a helper may call another
            fixed = {node.name: strings for node in functions if (strings := self._fixed_verb(node))}
            self._helpers |= {name: strings for name, strings in fixed.items() if strings != self._prefix}

    def collect(self, found: Uses) -> None:
        """Add what the tests of the module use."""
        functions = [node for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef)]
        inner = {id(part) for one in functions for part in ast.walk(one) if part is not one}
        for function in functions:
            if id(function) not in inner and not REFUSAL.search(function.name):
                self._collect_function(found, function)

    def _collect_function(self, found: Uses, function: ast.FunctionDef) -> None:
        names = _assignments(list(ast.walk(function)))
        test = f"{self._name}::{function.name}"
        verbs: set[Verb] = set()
        loose: list[Strings] = []
        used = [
            self._constants[n.id] for n in ast.walk(function) if isinstance(n, ast.Name) and n.id in self._constants
        ]
        for node in [part for tree in (function, *used) for part in ast.walk(tree)]:
            for strings in self._sequences(node, names):
                prefix = [] if strings[:1] == self._prefix else self._prefix
                verb = _add(found, self._known, [*prefix, *strings], test)
                verbs |= {verb} if verb else set()
                loose += [] if verb else [strings]
        if len(verbs) == 1:
            for strings in loose:
                _add_options(found, self._known[next(iter(verbs))], strings, test)

    def _sequences(self, node: ast.AST, names: Mapping[str, ast.expr]) -> Iterator[Strings]:
        if isinstance(node, ast.Tuple | ast.List):
            yield self._strings(node.elts, names)
        elif isinstance(node, ast.Call):
            yield [*self._helper(node), *self._strings(node.args, names)]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "split":
                yield self._strings([node.func.value], names, split=True)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--"):
            yield [node.value]

    def _helper(self, node: ast.AST) -> Strings:
        """Return the arguments that a helper puts before those it is called with."""
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return self._helpers.get(node.func.id, []) if called else []  # type: ignore[attr-defined]

    def _strings(
        self, elements: list[ast.expr], names: Mapping[str, ast.expr], *, split: bool = False, depth: int = 0
    ) -> Strings:
        """Return the texts of a list of arguments, with the constants that it unpacks."""
        found: Strings = []
        for element in elements:
            if isinstance(element, ast.Constant) and isinstance(element.value, str):
                found += element.value.split() if split else [element.value]
            elif isinstance(element, ast.JoinedStr):
                first = element.values[0] if element.values else None
                found += [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
            elif isinstance(element, ast.Starred) and depth < 3:
                value = element.value
                if isinstance(value, ast.Name):
                    value = names.get(value.id) or self._constants.get(value.id) or value
                if isinstance(value, ast.Tuple | ast.List):
                    found += self._strings(value.elts, names, depth=depth + 1)
        return found

    def _fixed_verb(self, function: ast.FunctionDef) -> Strings:
        """Return the arguments with which a helper calls the command: def audit(*more): run("audit", *more)."""
        if function.args.vararg is None:
            return []
        for node in ast.walk(function):
            elements = node.args if isinstance(node, ast.Call) else getattr(node, "elts", [])
            passed = any(
                isinstance(e, ast.Starred) and any(isinstance(n, ast.Name) and n.id == function.args.vararg.arg
                                                   for n in ast.walk(e.value)) for e in elements
            )  # fmt: skip
            strings = [*self._helper(node), *self._strings(elements, {})] if passed else []
            if strings[:1] and strings[0] in {verb[0] for verb in self._known}:
                return strings
        return []


def _prefix(tree: ast.Module, known: Mapping[Verb, Command]) -> Strings:
    """Return the verb of a module whose tests run the app of one verb, or call one group of verbs: ["lm", *more]."""
    groups = {verb[0] for verb in known if len(verb) > 1}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "invoke":
            first, *more = getattr(node.args[1], "elts", []) or [None]
            if isinstance(first, ast.Constant) and first.value in groups and isinstance(more[0], ast.Starred):
                return [first.value]
    own_app = any(isinstance(node, ast.Call) and ast.unparse(node) == "typer.Typer()" for node in ast.walk(tree))
    for node in tree.body:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if module.startswith("evenhand.cli.verbs.") and isinstance(node, ast.ImportFrom):
            verb = module.rpartition(".")[2]
            names = {alias.name for alias in node.names}
            if own_app and verb in names and (verb,) in known:
                return [verb]
    return []


def _assignments(nodes: list[Any]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def gaps(known: Mapping[Verb, Command], found: Uses) -> list[str]:
    """Return the verbs and options that no test uses."""
    return [
        " ".join((*verb, option)).strip()
        for verb, command in known.items()
        for option in ("", *command.options)
        if (verb, option) not in found
    ]


def page(known: Mapping[Verb, Command], found: Uses) -> str:
    """Return the table of all verbs and options."""
    parts = [INTRODUCTION]
    for verb, command in known.items():
        rows = [
            f"| {f'`{option}`' if option else 'the command'} | `{_best(verb, option, found)}` |"
            for option in ("", *command.options)
        ]
        parts.append("\n".join([f"\n## evenhand {' '.join(verb)}\n", "| option | test |", "|---|---|", *rows]) + "\n")
    return "".join(parts)


def _best(verb: Verb, option: str, found: Uses) -> str:
    """Return the first test, those of the command before others."""
    tests = sorted(found.get((verb, option), {}), key=lambda test: ("test_" not in test.rpartition("::")[2], test))
    return tests[0] if tests else "none"


if __name__ == "__main__":
    table = commands()
    if "--gaps" in sys.argv:
        print("\n".join(gaps(table, uses(table))))
    else:
        PAGE.write_text(page(table, uses(table)), encoding="utf-8")
