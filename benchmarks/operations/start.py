"""What a user waits for first: import, help, and the audit of the embedded vectors."""

import subprocess
import sys
from pathlib import Path

from operation import Call, Operation


def prepare(folder: Path, scale: int) -> None:
    """Nothing is needed."""


def _process(*command: str):  # type: ignore[no-untyped-def]
    def setup(folder: Path) -> Call:
        words = [part.replace("FOLDER", str(folder)) for part in command]

        def call() -> int:
            return subprocess.run([sys.executable, *words], check=True, capture_output=True).returncode

        return call

    return setup


OPERATIONS = {
    "import": Operation(
        "import evenhand, whole process",
        _process("-c", "import evenhand"),
        _process("-c", "import numpy"),
        peer_name="import numpy",
    ),
    "help": Operation("evenhand --help, whole process", _process("-m", "evenhand", "--help")),
    "default-audit": Operation(
        "evenhand audit, the README's first command",
        _process("-m", "evenhand", "audit", "--fresh", "--out", "FOLDER/run"),
        repeats=1,
    ),
}
