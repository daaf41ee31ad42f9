"""Vector file formats. A new format is one file here, which registers its reader and writer."""

from __future__ import annotations

from pathlib import Path

from evenhand.errors import FormatError
from evenhand.files import bare_name, open_bytes
from evenhand.models.vectors.formats.format import (
    FORMATS,
    SNIFFED_BYTES,
    Format,
    Parsed,
    ReadOptions,
    by_content,
    refuse_foreign,
    register_format,
)

__all__ = [
    "FORMATS",
    "Format",
    "Parsed",
    "ReadOptions",
    "format_for_reading",
    "format_for_writing",
    "get",
    "register_format",
]


def get(format_id: str) -> Format:
    """Return the format with this id."""
    return FORMATS.get(format_id)


def _by_suffix(path: Path) -> Format | None:
    name = bare_name(path)
    matches = [
        (len(suffix), format) for format in FORMATS.values() for suffix in format.suffixes if name.endswith(suffix)
    ]
    return max(matches, key=lambda pair: pair[0])[1] if matches else None


def format_for_reading(path: Path) -> Format:
    """Return the format of an existing file, detected from its first bytes or else from its name."""
    with open_bytes(path) as stream:
        start = stream.read(SNIFFED_BYTES)
    refuse_foreign(start, path)
    return by_content(start) or _by_suffix(path) or get("glove")


def format_for_writing(path: Path) -> Format:
    """Return the format that matches a file name."""
    format = _by_suffix(path)
    if format is None:
        known = ", ".join(suffix for format in FORMATS.values() if format.write for suffix in format.suffixes)
        raise FormatError(f"{path}: the file name has no suffix of a vector format", hint=f"use one of {known}")
    return format
