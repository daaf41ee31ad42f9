"""Virtual environments of the tools that are timed, each with what it needs and nothing else."""

import json
import subprocess
import sys
import venv
from pathlib import Path

OURS = "evenhand"
# WEFE 1.0.1 needs numpy below 2. The requirements of genbit name versions that cannot be installed any more, so its
# few dependencies are named here; its lemmatiser (stanza, which downloads a model) is replaced by nothing.
REQUIREMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "wefe": (("wefe==1.0.1",),),
    "gensim": (("gensim==4.4.0",),),
    "genbit": (("--no-deps", "genbit==2.2.0"), ("numpy", "scipy", "nltk", "stopwordsiso")),
    "lm-eval": (("lm-eval[api]==0.4.11",),),
    "concept-erasure": (("torch==2.13.0",), ("numpy", "concept-erasure==0.2.4")),
}
REPORTED = ("numpy", "scipy", "scikit-learn", "polars", "torch", "transformers", "gensim", "wefe", "genbit")


def python_of(name: str, folder: Path) -> Path:
    """Return the interpreter of an environment, which is created where it is missing."""
    if name == OURS:
        return Path(sys.executable)
    home = folder / name
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        print(f"installing {name} into {home}", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True, clear=True)
        for requirements in REQUIREMENTS[name]:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        ready.touch()
    return python


def versions_of(python: Path) -> dict[str, str]:
    """Return the versions of Python and of the packages that matter."""
    code = (
        "import json, platform; from importlib.metadata import distributions; "
        "print(json.dumps({'python': platform.python_version(), "
        "**{d.metadata['Name'].lower(): d.version for d in distributions()}}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return {name: found[name] for name in ("python", "evenhand", "concept-erasure", *REPORTED) if name in found}
