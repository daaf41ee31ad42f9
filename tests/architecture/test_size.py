"""The size and the order of the package, measured. The limits may only be lowered."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import evenhand

SOURCE = Path(evenhand.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}

# Lower these numbers when the package shrinks. Raising one needs a decision record.
MAX_MODULES = 349
MAX_IN_FOLDER = 15
MAX_LINES = 600
MAX_CODE_LINES = 63_560
MAX_ANY = 285
MAX_REPEATED_NAMES = 0
MAX_MUTUAL_IMPORTS = 0

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(path: Path) -> int:
    """Count the lines that are neither blank, comment nor docstring."""
    documented = [node for node in ast.walk(TREES[path]) if isinstance(node, DOCUMENTED)]
    first = [node.body[0] for node in documented if node.body and ast.get_docstring(node, clean=False) is not None]
    docstrings = {line for node in first for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    code = {line for t in tokens if t.type not in LAYOUT for line in range(t.start[0], t.end[0] + 1)}
    return len(code - docstrings)


def public_names(tree: ast.Module) -> list[str]:
    """Return the public classes and type aliases that a module declares."""
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper():
            names.append(target.id)
    return [name for name in names if not name.startswith("_")]


def folder_of(module: str) -> str:
    """Return the folder of a module, relative to the package."""
    parts = module.split(".")[1:]
    while parts and not SOURCE.joinpath(*parts).is_dir():
        parts.pop()
    return "/".join(parts) or "."


def imports(path: Path) -> set[str]:
    """Return the other folders that a module imports, wherever the import stands."""
    here = path.parent.relative_to(SOURCE).as_posix()
    nodes = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.ImportFrom) and node.module]
    return {folder_of(node.module or "") for node in nodes if str(node.module).startswith("evenhand")} - {here}


def test_the_number_of_modules() -> None:
    modules = [path for path in FILES if path.name != "__init__.py"]
    assert len(modules) <= MAX_MODULES
    fullest, count = Counter(path.parent for path in modules).most_common(1)[0]
    assert count <= MAX_IN_FOLDER, fullest


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_too_long(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= MAX_LINES


def test_the_number_of_code_lines() -> None:
    assert sum(map(code_lines, FILES)) <= MAX_CODE_LINES


def test_how_often_types_are_left_open() -> None:
    assert sum(isinstance(n, ast.Name) and n.id == "Any" for tree in TREES.values() for n in ast.walk(tree)) <= MAX_ANY


def test_no_public_name_is_declared_twice() -> None:
    declared = Counter(name for tree in TREES.values() for name in public_names(tree))
    assert len([name for name, count in declared.items() if count > 1]) <= MAX_REPEATED_NAMES


def test_folders_do_not_import_each_other() -> None:
    edges: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        # `__init__` lists what its folder offers, and `__main__` starts the command.
        if path.name not in ("__init__.py", "__main__.py"):
            edges[path.parent.relative_to(SOURCE).as_posix()] |= imports(path)
    mutual = sorted((a, b) for a in edges for b in edges[a] if a < b and a in edges.get(b, ()))
    assert len(mutual) <= MAX_MUTUAL_IMPORTS, mutual


def test_code_lines_leave_out_blank_lines_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '"""Doc.\n\nMore.\n"""\n\n# comment\nx = """a\nb"""\n\n\ndef f():\n    """Doc."""\n    return x  # why\n'
    )
    TREES[path] = ast.parse(path.read_text())
    assert code_lines(path) == 4  # two lines of the text, def, return
