"""Texts to tokens and back: the same every time, in bounded memory, and with errors that name the tokenizer.

The Rust part of `tokenizers` raises plain exceptions for what a file lacks (an unknown token), and panics, which Python
sees as a `BaseException`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import EvenhandError, EvenhandWarning, FormatError, UsageError, shown
from evenhand.models.model_files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MOST_GROWTH = 1000  # characters that one character may become; Unicode's own normal forms make 18 of one
HINT = "use the tokenizer that was saved with the model"


def covering(spans: Rows, start: int, stop: int) -> list[int]:
    """Return the rows of `spans` that cover a character from `start` to `stop`, the last excluded."""
    rows: list[int] = np.flatnonzero((spans[:, 0] < stop) & (spans[:, 1] > start)).tolist()
    return rows


def check_texts(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts; raise an error for a single text or for items that are not valid text."""
    if isinstance(texts, str):
        raise UsageError("texts is a single text", hint="pass a list of texts")
    for number, text in enumerate(texts):
        try:
            text.encode()
        except (AttributeError, UnicodeEncodeError) as error:  # not a string, or half of a surrogate pair
            raise UsageError(f"item {number} is not a text that can be encoded: {text!r:.60}") from error
    return texts


@dataclass(frozen=True, eq=False)
class EncodedText:
    """A text as token ids.

    Attributes:
        before, after: the special tokens that the tokenizer puts around a text.
        ids: the tokens of the text itself.
        spans: first and one past the last character of each token, without leading white space, (tokens, 2).
    """

    before: Rows
    ids: Rows
    after: Rows
    spans: Rows

    def covering(self, start: int, stop: int) -> list[int]:
        """Return the tokens that cover a character from `start` to `stop`, the last excluded."""
        return covering(self.spans, start, stop)


def encode_texts(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, special: bool = True
) -> list[EncodedText]:
    """Return the tokens of texts with the characters that they cover.

    Args:
        tokenizer: a tokenizer that knows the characters of its tokens.
        texts: the texts.
        special: add the tokenizer's special tokens around each text.

    Raises:
        FormatError: If the tokenizer does not know the characters of its tokens.
    """
    if not len(check_texts(texts)):
        return []
    if not tokenizer.is_fast:
        raise FormatError(
            f"{type(tokenizer).__name__} does not say which characters a token covers",
            hint="use a folder with a tokenizer.json",
        )
    encoded = encode(
        tokenizer,
        list(texts),
        add_special_tokens=special,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    columns = (encoded["input_ids"], encoded["offset_mapping"], encoded["special_tokens_mask"])
    return [_encoded_text(text, *row) for text, *row in zip(texts, *columns, strict=True)]


def _encoded_text(text: str, ids: list[int], spans: list[tuple[int, int]], special: list[int]) -> EncodedText:
    inner = [position for position, flag in enumerate(special) if not flag]
    start, stop = (inner[0], inner[-1] + 1) if inner else (len(ids), len(ids))
    if not inner and len(ids) > 1:  # an empty text between its special tokens
        start = stop = 1
    trimmed = []
    for first, last in spans[start:stop]:
        while first < last and text[first].isspace():
            first += 1
        trimmed.append((first, last))
    array = np.array(ids, dtype=np.int64)
    return EncodedText(
        array[:start], array[start:stop], array[stop:], np.array(trimmed, dtype=np.int64).reshape(len(trimmed), 2)
    )


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
