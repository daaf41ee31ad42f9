"""The package starts light, and its public names are what they say."""

import subprocess
import sys

import pytest

import evenhand as eh

HEAVY = ("torch", "transformers", "sklearn", "scipy.stats", "polars", "vl_convert", "jinja2", "rich", "typer")


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(' '.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_import_loads_numpy_at_most() -> None:
    modules = loaded_by("import evenhand")
    assert not modules & {*HEAVY, "importlib.metadata"}


def test_help_loads_no_numerical_library() -> None:
    code = "import sys; sys.argv = ['evenhand', '--help']\nfrom evenhand.cli import main\ntry: main()\nexcept SystemExit: pass"
    modules = loaded_by(code)
    assert "typer" in modules
    assert not modules & {"numpy", "torch", "scipy.stats", "sklearn", "transformers", "polars"}
    assert not [name for name in modules if name.startswith("evenhand.cli.verbs.")]


@pytest.mark.parametrize("name", eh.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(eh, name) is not None
    assert name in dir(eh)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = eh.nonsense
