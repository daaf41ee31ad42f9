"""The stubs that editors read are those of the registries."""

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.mark.parametrize("package", ["measures", "mitigations"])
def test_the_stub_is_that_of_the_registry(package: str, load_script: Callable[[str], ModuleType]) -> None:
    stubs = load_script("package_stubs")
    if stubs.stub_file(package).exists():
        written = stubs.stub_file(package).read_text(encoding="utf-8")
        assert written == stubs.stub(package), "run `python scripts/package_stubs.py`"
