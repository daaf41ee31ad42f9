"""On which line of a file a key stands, so that an error can point there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]\]?[ \t]*(?:#.*)?$")
ASSIGNMENT = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")


def toml_line(text: str, keys: Sequence[str]) -> int:
    """The line of the key, or of the nearest key above it that has a line of its own (inline tables have none)."""
    table: tuple[str, ...] = ()
    depth, found = 0, 1
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = here = _parts(header[1])
        elif assignment := ASSIGNMENT.match(line):
            here = table + _parts(assignment[1])
        else:
            continue
        if len(here) > depth and here == tuple(keys[: len(here)]):
            depth, found = len(here), number
    return found


def json_line(text: str, keys: Sequence[str]) -> int:
    """The line of the key in JSON text: each key is sought after the one above it."""
    place = 0
    for key in keys:
        spelling = re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:"
        hit = re.compile(spelling).search(text, place)
        if hit is None:
            break
        place = hit.start()
    return line_at(text, place)


def line_at(text: str, place: int) -> int:
    """The number of the line that holds a position in the text."""
    return text.count("\n", 0, place) + 1


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
