"""What is imported is declared, and what is declared is imported."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import evenhand

SOURCE = Path(evenhand.__file__).parent
PROJECT = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = {"scikit-learn": "sklearn", "vl-convert-python": "vl_convert", "unidic-lite": "unidic_lite"}
# Brought by a declared package, or used only where they are installed.
BESIDE = {"huggingface_hub", "markupsafe", "pandas", "pip", "tokenizers", "typing_extensions"}
# Imported by a declared package for what evenhand offers: transformers.Trainer, which our callback is for.
INDIRECT = {"accelerate"}
TREES = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
NODES = [node for tree in TREES for node in ast.walk(tree)]
IMPORTS = {alias.name.partition(".")[0] for node in NODES if isinstance(node, ast.Import) for alias in node.names}
IMPORTS |= {str(node.module).partition(".")[0] for node in NODES if isinstance(node, ast.ImportFrom) and not node.level}
IMPORTS |= {
    str(node.args[0].value).partition(".")[0]
    for node in NODES
    if isinstance(node, ast.Call)
    and getattr(node.func, "id", "") in ("import_module", "require", "find_spec")
    and node.args
    and isinstance(node.args[0], ast.Constant)
}


def declared(requirements: list[str]) -> set[str]:
    names = (re.split(r"[\[<>=;\s]", requirement)[0] for requirement in requirements)
    return {MODULES.get(name, name) for name in names if name != "evenhand"}


EXTRAS = {
    name: declared(wanted) for name, wanted in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs")
}


@pytest.mark.parametrize("module", sorted(declared(PROJECT["dependencies"]).union(*EXTRAS.values()) - INDIRECT))
def test_every_declared_package_is_imported(module: str) -> None:
    assert module in IMPORTS


def test_every_imported_package_is_declared() -> None:
    own = {"evenhand", "__future__", "_typeshed", *sys.stdlib_module_names}  # _typeshed is part of type checkers
    known = declared(PROJECT["dependencies"]).union(*EXTRAS.values(), BESIDE, own)
    assert IMPORTS - known == set()
