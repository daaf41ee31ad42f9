"""Virtual environments of the tools that are timed, each with what it needs and nothing else."""

import subprocess
import sys
import venv
from pathlib import Path

CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"
# WEFE 1.0.1 needs numpy below 2; genbit's own requirements name versions that do not install any more, so its few
# dependencies are named here, and its lemmatiser (stanza, which downloads a model) is replaced by nothing.
REQUIREMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "wefe": (("wefe==1.0.1",),),
    "gensim": (("gensim==4.4.0",),),
    "genbit": (("--no-deps", "genbit==2.2.0"), ("numpy", "scipy", "nltk", "stopwordsiso")),
    "concept-erasure": (("torch==2.13.0",), ("concept-erasure==0.2.4",)),
}
OURS = "evenhand"


def python_of(name: str, folder: Path) -> Path:
    """Return the interpreter of an environment, which is created where it is missing."""
    if name == OURS:
        return Path(sys.executable)
    home = folder / name
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        print(f"installing {name}", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True, clear=True)
        for requirements in REQUIREMENTS[name]:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        ready.touch()
    return python
