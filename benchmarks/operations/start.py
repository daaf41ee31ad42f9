"""What a user waits for first: import, help, and the audit of the embedded vectors."""

import subprocess
import sys
import tempfile
from pathlib import Path

from operation import Call, Operation, Sizes, Work

ABOUT = "processes without input, and the audit of the embedded GloVe vectors"
SIZES: dict[str, int] = {}
GROWTH: dict[str, int] = {}
TINY: dict[str, int] = {}


def prepare(folder: Path, sizes: Sizes) -> None:
    """Nothing is needed."""


def _process(*command: str):  # type: ignore[no-untyped-def]
    def setup(folder: Path) -> Call:
        def call() -> int:
            # A new folder each time: an audit goes on where an earlier one in the same folder ended.
            words = [part.replace("FOLDER", tempfile.mkdtemp(dir=folder)) for part in command]
            return subprocess.run([sys.executable, *words], check=True, capture_output=True).returncode

        return call

    return setup


_START = Work(starts=1, why="start Python and numpy")
_BARE = Work(bare_starts=1, why="start Python")
_NUMPY = _process("-c", "import numpy")
OPERATIONS = {
    "import": Operation(
        "`import evenhand`, whole process",
        _process("-c", "import evenhand"),
        _NUMPY,
        peer_name="`import numpy`",
        work=lambda _: _BARE,
        warm=True,
    ),
    "import-vectors": Operation(
        "`from evenhand import Vectors`, whole process",
        _process("-c", "from evenhand import Vectors"),
        _NUMPY,
        peer_name="`import numpy`",
        work=lambda _: _START,
        warm=True,
    ),
    "help": Operation(
        "`evenhand --help`, whole process",
        _process("-m", "evenhand", "--help"),
        _NUMPY,
        peer_name="`import numpy`",
        work=lambda _: _BARE,
        warm=True,
    ),
    "audit": Operation(
        "`evenhand audit`, the default audit of the embedded vectors",
        _process("-m", "evenhand", "audit", "--out", "FOLDER/run"),
    ),
}
