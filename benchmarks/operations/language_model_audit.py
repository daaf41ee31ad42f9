"""The default audit of a language model of 135 million parameters, with the data sets that are on this disk."""

import subprocess
import sys
import tempfile
from pathlib import Path

from operation import Call, DataMissingError, Operation, Sizes

MODEL = "smollm2-135m"
ABOUT = f"{MODEL} of the catalog, and the data sets of EVENHAND_DATA and of the cache"
SIZES: dict[str, int] = {}
GROWTH: dict[str, int] = {}
TINY: dict[str, int] = {}


def prepare(folder: Path, sizes: Sizes) -> None:
    """Require the model."""
    from evenhand import data

    if data.locate(MODEL) is None:
        raise DataMissingError(f"needs the model: evenhand fetch {MODEL}")


def ours(folder: Path) -> Call:
    """Audit it in a process of its own and a new folder: an audit goes on where an earlier one ended."""

    def call() -> int:
        command = [sys.executable, "-m", "evenhand", "audit", MODEL, "--out", tempfile.mkdtemp(dir=folder)]
        return subprocess.run(command, check=True, capture_output=True).returncode

    return call


OPERATIONS = {"audit-lm": Operation(f"`evenhand audit {MODEL}`, the default audit", ours, repeats=1)}
