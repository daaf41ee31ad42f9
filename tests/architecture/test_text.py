"""Rules that a reader of the code relies on, held by reading the code."""

import ast
from pathlib import Path

import pytest

import evenhand

SOURCE = Path(evenhand.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_stay_silent(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_input_is_never_checked_by_assert(path: Path) -> None:
    assert not [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Assert)]


def test_no_module_is_a_drawer_for_everything() -> None:
    assert not [path for path in FILES if path.stem in ("utils", "helpers", "common", "misc")]
