"""One table of a word file, read key by key: every wrong type, missing or unknown key is an error at its line."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evenhand.errors import EvenhandError, FormatError, shown
from evenhand.words.document import Document

_PLAIN = {str: "a text", bool: "true or false", int: "a whole number", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class Entry:
    """A table inside a document, and the keys that lead to it."""

    document: Document
    keys: tuple[str, ...]
    table: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return key in self.table

    @property
    def id(self) -> str:
        """The last of the keys that lead here: the id of a record."""
        return self.keys[-1]

    def error(self, key: str, message: str, *, hint: str = "") -> FormatError:
        """An error about one key of this table, or about the table itself when the key is empty."""
        return self.document.error((*self.keys, key) if key else self.keys, message, hint=hint)

    @contextlib.contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Whatever is raised about the value of a key inside gets the place in the file in front."""
        try:
            yield
        except FormatError:
            raise
        except EvenhandError as error:
            raise self.error(key, error.message, hint=error.hint) from error

    def only(self, *known: str) -> None:
        """Refuse keys that nobody reads: they are nearly always misspelt."""
        for key in self.table:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
                raise self.error(key, "unknown key", hint=hint)

    def value(self, key: str, kind: type, default: Any = None) -> Any:
        """The value of a key, of the type it must have; without a default the key must be there."""
        if key not in self.table:
            if default is None:
                raise self.error("", f"the key {key!r} is missing", hint=f"add {key} = {_PLAIN[kind]}")
            return default
        value = self.table[key]
        # bool is a kind of int in Python, not in a word file
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"must be {_PLAIN[kind]}, got {shown(value)}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text, exactly as it stands in the file."""
        return str(self.value(key, str, default))

    def prose(self, key: str) -> str:
        """A text for readers: line breaks and runs of blanks become one blank; empty when absent."""
        return " ".join(self.text(key, "").split())

    def flag(self, key: str) -> bool:
        """True or false; false when absent."""
        return bool(self.value(key, bool, False))

    def items(self, key: str) -> list[Any]:
        """A list that is not empty."""
        items: list[Any] = self.value(key, list)
        if not items:
            raise self.error(key, "the list is empty", hint="fill it or leave the key out")
        return items

    def texts(self, key: str) -> list[str]:
        """A list of texts that is not empty."""
        for item in self.items(key):
            if not isinstance(item, str):
                raise self.error(key, f"must hold texts, got {shown(item)}")
        return self.items(key)

    def child(self, key: str) -> Entry:
        """The table under a key; an absent one is empty."""
        return Entry(self.document, (*self.keys, key), self.value(key, dict, {}))
