"""Typed access to a table of a word file; errors name the file, the key and the line."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.errors import EvenhandError, FormatError, shown
from evenhand.words.document import Document

_PLAIN = {str: "a string", bool: "true or false", int: "an integer", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class TomlTable:
    """A table of a document and its key path."""

    document: Document
    keys: tuple[str, ...]
    table: Mapping[str, Any]

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

    def value(self, key: str, kind: type, default: object = None) -> Any:
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
        return str(self.value(key, str, default))

    def prose(self, key: str) -> str:
        """Return a string with runs of white space collapsed; empty if absent."""
        return " ".join(self.text(key, "").split())

    def flag(self, key: str) -> bool:
        """Return a boolean; False if absent."""
        return bool(self.value(key, bool, False))

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
