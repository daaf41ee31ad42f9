"""Texts to tokens and back: the same every time, in bounded memory, and with errors that name the tokenizer.

The Rust part of `tokenizers` raises plain exceptions for what a file lacks (an unknown token), and panics, which Python
sees as a `BaseException`.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, shown
from evenhand.models.model_files import read_json

Ids = list[int]
Tokenize = Callable[[Sequence[str]], list[Ids]]
MOST_GROWTH = 1000  # characters that one character may become; Unicode's own normal forms make 18 of one
HINT = "use the tokenizer that was saved with the model"


def encode(tokenizer: Any, *texts: str | Sequence[str], **options: Any) -> Any:
    """Return what a tokenizer makes of texts.

    Raises:
        FormatError: If it fails, which is a fault of its files.
    """
    with tokenizer_errors(tokenizer):
        return tokenizer(*texts, **options)


def encode_one(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text without special tokens, with the errors of `encode`."""
    with tokenizer_errors(tokenizer):
        return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]


@contextlib.contextmanager
def tokenizer_errors(tokenizer: Any) -> Iterator[None]:
    """Turn what a tokenizer raises while it reads or writes text into a `FormatError` that names it."""
    try:
        yield
    except EvenhandError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        where = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise FormatError(f"the tokenizer of {where} fails ({reason})", hint=HINT) from error


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a Rust library."""
    return type(error).__name__ == "PanicException"


def check_files(folder: Path) -> None:
    """Raise `FormatError` for a tokenizer.json whose replacements would make a short text fill the memory."""
    path = folder / "tokenizer.json"
    content = read_json(path) if path.is_file() else {}
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        if _growth(content.get(part)) > MOST_GROWTH:
            raise FormatError(
                f"{path}: the replacements of its {part} make more than {MOST_GROWTH:,} characters of one", hint=HINT
            )


def _growth(part: object) -> int:
    """Return how many characters a character can become in a step of a tokenizer and the steps inside it."""
    growth, left = 1, [part]
    while left and growth <= MOST_GROWTH:
        value = left.pop()
        if isinstance(value, dict):
            added = value.get("content", value.get("prepend"))
            growth *= (
                max(1, len(added)) if value.get("type") in ("Replace", "Prepend") and isinstance(added, str) else 1
            )
            left += value.values()
        elif isinstance(value, list):
            left += value
    return growth


def settle(tokenizer: Any, folder: Path) -> None:
    """Make a loaded tokenizer split a text in one way, and check what it says of itself.

    Raises:
        FormatError: If its longest length is not a number.
    """
    longest = tokenizer.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not longest > 0:
        raise FormatError(f"{folder}: model_max_length of the tokenizer is {shown(longest)}, not a length", hint=HINT)
    model: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if getattr(model, "dropout", None):
        warnings.warn(
            f"{folder}: its tokenizer splits words at random (dropout {model.dropout:g}); the dropout is set to none, "
            "so that a text has one score",
            EvenhandWarning,
            stacklevel=3,
        )
        model.dropout = None


WORD_OR_MARK = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")


def split_words(sentence: str) -> list[str]:
    """Split a sentence into words, with inner hyphens and apostrophes, and punctuation marks.

    >>> split_words("The vice-president can afford a SUV.")
    ['The', 'vice-president', 'can', 'afford', 'a', 'SUV', '.']
    """
    return WORD_OR_MARK.findall(sentence)


def sentence_tokenizer(tokenizer: Any) -> Tokenize:
    """Return a function from sentences to their ids, without special tokens.

    It uses the tokenizer's Rust part if there is one, which runs on all cores. It is copied, because the Python wrapper
    sets truncation and padding on the original.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return lambda texts: encode(tokenizer, list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    copy = type(backend).from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()

    def tokenize(texts: Sequence[str]) -> list[Ids]:
        with tokenizer_errors(tokenizer):
            return [encoding.ids for encoding in copy.encode_batch_fast(list(texts), add_special_tokens=False)]

    return tokenize
