"""Load the scripts that write the pages of reproductions."""

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Return a function that imports a script by name; an import error fails the test."""

    def load(name: str) -> ModuleType:
        spec = spec_from_file_location(name, SCRIPTS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and named tuples look their module up
        spec.loader.exec_module(module)
        return module

    return load
