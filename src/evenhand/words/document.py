"""Parse TOML and JSON word files; errors name the file, the key and the line."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evenhand.errors import EvenhandError, FormatError, shown
from evenhand.files import existing

SUFFIXES = (".toml", ".json")
T = TypeVar("T")


@dataclass(frozen=True)
class Document:
    """The text of a word file and its parsed content."""

    path: Path
    text: str
    data: Mapping[str, object]

    def error(self, keys: Sequence[str], message: str, *, hint: str = "") -> FormatError:
        """Return an error about a key of this file."""
        find = json_line if self.path.suffix.lower() == ".json" else toml_line
        where = f"{self.path}:{find(self.text, keys)}"
        return FormatError(": ".join(filter(None, (where, ".".join(keys), message))), hint=hint)


def read_document(path: Path) -> Document:
    """Read and parse a word file; raise `FormatError` with the position of any problem."""
    if path.suffix.lower() not in SUFFIXES:
        raise FormatError(
            f"{path}: a word file must be TOML or JSON", hint=f"name it {path.stem}.toml or {path.stem}.json"
        )
    text = _decoded(existing(path, what="word file"))
    try:
        data = _parse_json(path, text) if path.suffix.lower() == ".json" else _parse_toml(path, text)
    except RecursionError as error:
        raise FormatError(f"{path}: nested too deeply", hint="a word file needs at most four levels") from error
    if not isinstance(data, dict):
        raise FormatError(
            f"{path}:1: a word file contains named records", hint='begin with {"wordset": {"my-list": ...}}'
        )
    return Document(path, text, data)


def _decoded(path: Path) -> str:
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{path}:{line}: not UTF-8 text ({error.reason})", hint="save the file as UTF-8") from error


def _parse_toml(path: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        position = re.search(r"at line (\d+)", str(error))
        line = int(position[1]) if position else line_at(text, len(text))
        twice = re.search("twice|overwrite|already", str(error))
        hint = "each id and each key may occur only once" if twice else "see https://toml.io for the syntax"
        raise FormatError(f"{path}:{line}: not valid TOML: {error}", hint=hint) from error


class _DuplicateKeyError(ValueError):
    """Two members of a JSON object have the same name."""


def _parse_json(path: Path, text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        message = f"{path}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno})"
        raise FormatError(message, hint="lists and objects need commas between items and none at the end") from error
    except _DuplicateKeyError as error:
        key = str(error)
        last = max(text.rfind(json.dumps(key, ensure_ascii=False)), 0)
        message = f"{path}:{line_at(text, last)}: {key}: occurs twice in one object"
        raise FormatError(message, hint="each id and each key may occur only once") from error
    except ValueError as error:  # an integer with too many digits
        raise FormatError(f"{path}: not valid JSON: {error}") from error


def _unique(members: list[tuple[str, object]]) -> dict[str, object]:
    seen: dict[str, object] = {}
    for key, value in members:
        if key in seen:
            raise _DuplicateKeyError(key)
        seen[key] = value
    return seen


_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]\]?[ \t]*(?:#.*)?$")
ASSIGNMENT = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")


def toml_line(text: str, keys: Sequence[str]) -> int:
    """Return the line of a key, or of its nearest parent that has a line of its own (inline tables have none)."""
    table: tuple[str, ...] = ()
    depth, result = 0, 1
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = path = _parts(header[1])
        elif assignment := ASSIGNMENT.match(line):
            path = table + _parts(assignment[1])
        else:
            continue
        if len(path) > depth and path == tuple(keys[: len(path)]):
            depth, result = len(path), number
    return result


def json_line(text: str, keys: Sequence[str]) -> int:
    """Return the line of a key in JSON text, searching each key after its parent."""
    position = 0
    for key in keys:
        spelling = re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:"
        match = re.compile(spelling).search(text, position)
        if match is None:
            break
        position = match.start()
    return line_at(text, position)


def line_at(text: str, position: int) -> int:
    """Return the line number of a position in the text."""
    return text.count("\n", 0, position) + 1


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


_PLAIN = {str: "a string", bool: "true or false", int: "an integer", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class TomlTable:
    """A table of a document and its key path."""

    document: Document
    keys: tuple[str, ...]
    table: Mapping[str, object]

    def __contains__(self, key: str) -> bool:
        return key in self.table

    @property
    def id(self) -> str:
        """The last key of the path: the id of a record."""
        return self.keys[-1]

    def error(self, key: str, message: str, *, hint: str = "") -> FormatError:
        """Return an error about a key of this table, or about the table if the key is empty."""
        return self.document.error((*self.keys, key) if key else self.keys, message, hint=hint)

    @contextlib.contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Prefix errors raised inside the block with the position of a key in the file."""
        try:
            yield
        except FormatError:
            raise
        except EvenhandError as error:
            raise self.error(key, error.message, hint=error.hint) from error

    def only(self, *known: str) -> None:
        """Raise `FormatError` for unknown keys, which are usually misspelt."""
        for key in self.table:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
                raise self.error(key, "unknown key", hint=hint)

    def value(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Return the value of a key and check its type; without a default the key is required."""
        if key not in self.table:
            if default is None:
                raise self.error("", f"the key {key!r} is missing", hint=f"add {key} = {_PLAIN[kind]}")
            return default
        value = self.table[key]
        # bool is a subclass of int
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"must be {_PLAIN[kind]}, got {shown(value)}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string, unchanged."""
        return self.value(key, str, default)

    def prose(self, key: str) -> str:
        """Return a string with runs of white space collapsed; empty if absent."""
        return " ".join(self.text(key, "").split())

    def flag(self, key: str) -> bool:
        """Return a boolean; False if absent."""
        return self.value(key, bool, False)

    def items(self, key: str) -> list[Any]:
        """Return a non-empty list."""
        items: list[Any] = self.value(key, list)
        if not items:
            raise self.error(key, "the list is empty", hint="fill it or remove the key")
        return items

    def texts(self, key: str) -> list[str]:
        """Return a non-empty list of strings."""
        for item in self.items(key):
            if not isinstance(item, str):
                raise self.error(key, f"must contain strings, got {shown(item)}")
        return self.items(key)

    def child(self, key: str) -> TomlTable:
        """Return the table under a key; empty if absent."""
        return TomlTable(self.document, (*self.keys, key), self.value(key, dict, {}))

    def numbered(self, key: str) -> TomlTable:
        """Return the items of a list as a table, in which an error names an item by its place."""
        places = map(str, itertools.count(1))
        return TomlTable(self.document, (*self.keys, key), dict(zip(places, self.items(key), strict=False)))
