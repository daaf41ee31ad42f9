"""The one exception family, and the warning category.

Every error says what was wrong, with which value, and what to do about it (the hint). Each child is also the
builtin error that a caller would expect, so `except ValueError` and `except EvenhandError` both work.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import ClassVar

LISTED = 12  # names in a hint


class EvenhandWarning(UserWarning):
    """Something a reader of the numbers should know; the run goes on."""


class EvenhandError(Exception):
    """Root of every error raised on purpose."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own pickling would drop the keyword-only hint when an error crosses a process border.
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[EvenhandError], message: str, hint: str) -> EvenhandError:
    return kind(message, hint=hint)


class FormatError(EvenhandError, ValueError):
    """A file, or data handed in, does not have the form it should."""

    exit_code = 4


class InputMissingError(EvenhandError, FileNotFoundError):
    """A file or data set that the work needs is not there."""

    exit_code = 4

    def __str__(self) -> str:  # OSError brings its own __str__
        return EvenhandError.__str__(self)


class OutputError(EvenhandError, OSError):
    """A result could not be written (no space, no permission, no such folder)."""

    def __str__(self) -> str:
        return EvenhandError.__str__(self)


class FetchError(EvenhandError, OSError):
    """A data set could not be fetched from any of its sources."""

    exit_code = 4

    def __str__(self) -> str:
        return EvenhandError.__str__(self)


class VocabularyError(EvenhandError, KeyError):
    """Words that the work needs are missing from the vectors."""

    exit_code = 4

    def __str__(self) -> str:  # KeyError would print a repr
        return EvenhandError.__str__(self)


class UnknownNameError(EvenhandError, KeyError):
    """No measure, method, query, concept or data set has that id."""

    exit_code = 2

    def __str__(self) -> str:
        return EvenhandError.__str__(self)


class UsageError(EvenhandError, ValueError):
    """An argument has a value that makes no sense here."""

    exit_code = 2


class DegenerateError(EvenhandError, ArithmeticError):
    """The data leave the quantity undefined (zero direction, one class, no variance)."""


class WorkerError(EvenhandError, RuntimeError):
    """A worker process or a cluster that was to do a part of the work is gone or cannot be reached."""


class MissingExtraError(EvenhandError, ImportError):
    """An optional package is needed and not installed."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for an unknown id, with the nearest known ones as its hint."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    listing = ", ".join(close) if close else ", ".join(names[:LISTED]) + more
    told = f"list of {kind}" if kind.partition(" ")[0] == "pairs" else kind  # the one kind whose name is a plural
    return UnknownNameError(f"there is no {told} {name!r}", hint=f"{'did you mean' if close else 'known'}: {listing}")


def counted(number: int, noun: str) -> str:
    """A number with its noun, for messages: 1 file, 2 files."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say which pip line installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"this needs the package {module.partition('.')[0]!r}, which is not installed",
            hint=f'pip install "evenhand[{extra}]"',
        ) from error


def few(items: Iterable[str], *, most: int = 3) -> str:
    """The first few items, for the one line that a record shows of itself."""
    every = list(items)
    return ", ".join(every[:most]) + (", ..." if len(every) > most else "")


def shown(value: object, *, most: int = 60) -> str:
    """The value as Python writes it, cut to a readable length."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python refuses to write out integers of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."
