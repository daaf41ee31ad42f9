"""Verify files against the size and SHA-256 of the catalog."""

from __future__ import annotations

import hashlib
from pathlib import Path

from evenhand.data.catalog import File
from evenhand.errors import FetchError


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_intact(path: Path, expected: File) -> bool:
    """Return True if size and SHA-256 agree with the catalog, as far as they are known."""
    return not _difference(path, expected)


def check(path: Path, expected: File) -> None:
    """Raise `FetchError` if size or SHA-256 differ from the catalog."""
    if why := _difference(path, expected):
        raise FetchError(f"{expected.name}: {why}")


def _difference(path: Path, expected: File) -> str:
    size = path.stat().st_size
    if expected.size and size != expected.size:
        return f"has {size:,} bytes, expected {expected.size:,}"
    if expected.sha256 and (actual := sha256_of(path)) != expected.sha256:
        return f"its sha256 is {actual}, expected {expected.sha256}"
    return ""
