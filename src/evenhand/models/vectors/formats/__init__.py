"""Vector file formats. A new format is one file here, which registers its reader and writer."""

from evenhand.models.vectors.formats.format import (
    FORMATS,
    Format,
    Parsed,
    ReadOptions,
    format_for_reading,
    format_for_writing,
    get,
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
