"""Exceptions, the warning category, and the text of messages.

Every error says what is wrong, which value caused it and what to do (the hint). Each class also derives from the
matching builtin exception, so both `except ValueError` and `except EvenhandError` work.

A message names an argument as Python code in backquotes, `skip_bad=True`, or `format=` where the value is open. The
command line writes it as its own option (`with_arguments`), so the library names no options.

Words, file names and messages of other programs may contain characters that a terminal interprets. `printable` is the
only place that decides which ones; error messages apply it to everything they contain, and so do charts and HTML pages.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import ClassVar

LISTED = 12  # names shown in a hint
ARGUMENT = re.compile(r"`(?P<name>[a-z]\w*)=(?P<value>[^`]*)`")
# C0 and C1 controls except tab and line feed, bidirectional controls, line separators, lone surrogates, noncharacters
# that XML forbids: a carriage return overwrites a line, and U+202E reverses the text that follows.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


class EvenhandWarning(UserWarning):
    """A condition that affects how the numbers should be read; the computation continues."""


class EvenhandError(Exception):
    """Base class of all evenhand errors; messages and hints are made printable."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message, self.hint = printable(message), printable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # The default pickling of exceptions drops the keyword-only hint.
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[EvenhandError], message: str, hint: str) -> EvenhandError:
    return kind(message, hint=hint)


class FormatError(EvenhandError, ValueError):
    """A file or an argument does not have the expected format."""

    exit_code = 4


class InputMissingError(EvenhandError, FileNotFoundError):
    """A required file or data set does not exist."""

    exit_code = 4


class OutputError(EvenhandError, OSError):
    """A result could not be written (disk full, permission denied, missing folder)."""


class FetchError(EvenhandError, OSError):
    """A data set could not be fetched from any of its sources."""

    exit_code = 4


class VocabularyError(EvenhandError, KeyError):
    """Required words are missing from the vocabulary."""

    exit_code = 4


class UnknownNameError(EvenhandError, KeyError):
    """No measure, method, query, concept or data set has this id."""

    exit_code = 2


class UsageError(EvenhandError, ValueError):
    """An argument has an invalid value."""

    exit_code = 2


class TextTooLongError(UsageError):
    """A text has more tokens than a model reads at once, and cannot be read in windows."""


class DegenerateError(EvenhandError, ArithmeticError):
    """The quantity is undefined for these data (zero direction, a single class, no variance)."""


class WorkerError(EvenhandError, RuntimeError):
    """A worker process or a cluster has died or cannot be reached."""


class MissingExtraError(EvenhandError, ImportError):
    """An optional package is required but not installed."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown id, with the closest valid ids as its hint."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    listing = ", ".join(close) if close else ", ".join(names[:LISTED]) + more
    label = f"list of {kind}" if kind.partition(" ")[0] == "pairs" else kind  # the only kind with a plural name
    hint = f"{'did you mean' if close else 'known'}: {listing}"
    return UnknownNameError(f"there is no {label} {shown(name, most=200)}", hint=hint)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: "1 file", "2 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional package; if it is missing, raise an error with the pip command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"the package {module.partition('.')[0]!r} is required but not installed",
            hint=f'pip install "evenhand[{extra}]"',
        ) from error


@contextlib.contextmanager
def foreign_errors(what: str, *, hint: str) -> Iterator[None]:
    """Turn anything that a library raises over a file into a `FormatError` that begins with `what`.

    Rust libraries such as `tokenizers` and `safetensors` raise plain exceptions of many types, and panics.
    """
    try:
        yield
    except EvenhandError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise FormatError(f"{what} ({first_line(error)})", hint=hint) from error


def first_line(error: BaseException) -> str:
    """Return the first line of what a library says, with those after it where it ends in a colon; at most 300 letters.

    >>> first_line(ValueError("does not fit")), first_line(KeyError())
    ('does not fit', 'KeyError')
    """
    first, *more = str(error).strip().splitlines() or [type(error).__name__]
    return f"{first} {' '.join(more)}".strip()[:300] if first.endswith(":") else first[:300]


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a Rust library, which is a `BaseException`."""
    return type(error).__name__ == "PanicException"


def few(items: Iterable[str], *, most: int = 3) -> str:
    """Return the first few items as text, for a one-line `__repr__`."""
    every = list(items)
    return ", ".join(every[:most]) + (", ..." if len(every) > most else "")


def shown(value: object, *, most: int = 60) -> str:
    """Return the repr of a value, shortened for messages."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not print integers of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


def arguments_in(text: str) -> list[str]:
    """Return the names of the arguments in a message, each once.

    >>> arguments_in("read it with `encoding_errors='replace'`")
    ['encoding_errors']
    """
    return list(dict.fromkeys(match["name"] for match in ARGUMENT.finditer(text)))


def with_arguments(text: str, written: Callable[[str, str], str]) -> str:
    """Return a message whose arguments are written by a function of their names and values."""
    return ARGUMENT.sub(lambda match: written(match["name"], match["value"]), text)


def printable(text: str) -> str:
    r"""Return the text with unsafe characters replaced by backslash escapes.

    >>> printable("\x1b[31mred")
    '\\x1b[31mred'
    """
    return (
        UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text) if not text.isprintable() else text
    )


def escape_markup(text: str) -> str:
    """Return the text made printable, and escaped so that rich does not interpret it as markup."""
    from rich.markup import escape

    text = printable(text)
    body = text.rstrip("\\")
    # A backslash before the markup that follows the text would escape that markup.
    return escape(body) + "\\" * 2 * (len(text) - len(body))


def escape_html(text: str) -> str:
    """Return the text made printable, and escaped for HTML."""
    from html import escape

    return escape(printable(text))
