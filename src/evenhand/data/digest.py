"""Whether a file is the one that the catalog means."""

from __future__ import annotations

import hashlib
from pathlib import Path

from evenhand.data.catalog import File
from evenhand.errors import FetchError


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_intact(path: Path, expected: File) -> bool:
    """Whether the content is the catalogued one, as far as the catalog knows it."""
    return not _difference(path, expected)


def check(path: Path, expected: File) -> None:
    """Refuse a file whose size or sha256 is not the catalogued one."""
    if why := _difference(path, expected):
        raise FetchError(f"{expected.name}: {why}")


def _difference(path: Path, expected: File) -> str:
    size = path.stat().st_size
    if expected.size and size != expected.size:
        return f"has {size:,} bytes, expected {expected.size:,}"
    if expected.sha256 and (found := sha256_of(path)) != expected.sha256:
        return f"its sha256 is {found}, expected {expected.sha256}"
    return ""
