"""Texts to tokens and back, with errors that name the tokenizer; the whole words of a vocabulary.

The Rust part of `tokenizers` raises plain exceptions for what a file lacks (an unknown token), and panics, which Python
sees as a `BaseException`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import EvenhandWarning, FormatError, UsageError, foreign_errors, shown
from evenhand.models.model_files import read_json
from evenhand.tokenizer_files import HINT, MANY_ADDED, check_tokenizer

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

Ids = list[int]
Tokenize = Callable[[Sequence[str]], list[Ids]]
END_OF_TEXT = "<|endoftext|>"  # separates texts in GPT-2 and in many models after it
TEXT_READING = "by the rule of the tokenizer"  # what stands before a text, for the keys of cells: 0.4 had another
WORD_OR_MARK = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")


def split_words(sentence: str) -> list[str]:
    """Split a sentence into words, with inner hyphens and apostrophes, and punctuation marks.

    >>> split_words("The vice-president can afford a SUV.")
    ['The', 'vice-president', 'can', 'afford', 'a', 'SUV', '.']
    """
    return WORD_OR_MARK.findall(sentence)


def sentence_tokenizer(tokenizer: PreTrainedTokenizerBase) -> Tokenize:
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


def encode(tokenizer: PreTrainedTokenizerBase, *texts: str | Sequence[str], **options: object) -> BatchEncoding:
    """Return what a tokenizer makes of texts.

    Raises:
        FormatError: If it fails, which is a fault of its files.
    """
    with tokenizer_errors(tokenizer):
        return tokenizer(*texts, **options)


def check_ids(ids: Rows, model: PreTrainedModel, name: str) -> None:
    """Raise `FormatError` for ids beyond the embedding table; on a GPU they would make the device unusable."""
    rows, largest = int(model.get_input_embeddings().weight.shape[0]), int(ids.max(initial=0))
    if largest >= rows:
        raise FormatError(
            f"the tokenizer gives the id {largest:,}, but {name} has {rows:,} embeddings",
            hint="use the model's own tokenizer",
        )


def encode_one(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the ids of a text without special tokens, with the errors of `encode`."""
    with tokenizer_errors(tokenizer):
        return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a tokenizer into a folder, with its rule for the beginning of a text, which transformers leaves out."""
    tokenizer.save_pretrained(folder)
    rule, settings = tokenizer.init_kwargs.get("add_bos_token"), folder / "tokenizer_config.json"
    if isinstance(rule, bool):
        settings.write_text(json.dumps(read_json(settings) | {"add_bos_token": rule}, indent=2), encoding="utf-8")


class Beginning(NamedTuple):
    """What a causal language model reads before a text.

    Attributes:
        before: the tokens before every text.
        separator: where there are none, the token from which the first token of a text is predicted; may be empty.
    """

    before: tuple[int, ...]
    separator: tuple[int, ...] = ()


def beginning_of(tokenizer: PreTrainedTokenizerBase) -> Beginning:
    """Return what stands before a text by the rule of its tokenizer.

    A tokenizer that says nothing of a rule begins with its token for the beginning of a text, or for its end (GPT-2).
    One that says that no token is added (`add_bos_token: false`, as of Qwen and SmolLM2) is followed: the model reads
    the text alone, as servers do. Qwen2.5-Coder-0.5B gives ordinary sentences 1.3 nats a token less behind its
    <|endoftext|>. Nothing predicts the first token then, so it is predicted from the token that separates texts in
    training, in a reading of its own. A token of the chat template marks turns, and separates no texts.
    """
    rule = tokenizer.init_kwargs.get("add_bos_token")
    ends = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None]
    if rule is not False:
        return Beginning(tuple(int(token) for token in ends[:1]))
    named = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    known = (
        [] if named is None or named == tokenizer.unk_token_id != tokenizer.get_vocab().get(END_OF_TEXT) else [named]
    )
    template = getattr(tokenizer, "chat_template", None) or ""
    fitting = [t for t in (*ends, *known) if str(tokenizer.convert_ids_to_tokens(int(t))) not in str(template)]
    return Beginning((), tuple(int(token) for token in (fitting or ends)[:1]))


def tokenizer_errors(tokenizer: PreTrainedTokenizerBase) -> AbstractContextManager[None]:
    """Turn what a tokenizer raises while it reads or writes text into a `FormatError` that names it."""
    where = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    return foreign_errors(f"the tokenizer of {where} fails", hint=HINT)


def check_files(folder: Path) -> None:
    """Raise `FormatError` for a tokenizer whose files would exhaust time or memory."""
    path = folder / "tokenizer.json"
    if path.is_file():
        check_tokenizer(path, read_json(path))
    settings = folder / "tokenizer_config.json"
    added = read_json(settings).get("added_tokens_decoder") if settings.is_file() else None
    if isinstance(added, dict | list) and len(added) > MANY_ADDED:
        raise FormatError(f"{settings}: adds {len(added):,} tokens, at most {MANY_ADDED:,} are supported", hint=HINT)


def settle(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Make a loaded tokenizer split a text in one way, and check what it says of itself.

    Raises:
        FormatError: If its longest length is not a number.
    """
    longest = tokenizer.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not longest > 0:
        raise FormatError(f"{folder}: model_max_length of the tokenizer is {shown(longest)}, not a length", hint=HINT)
    settings = folder / "tokenizer_config.json"
    rule = read_json(settings).get("add_bos_token") if settings.is_file() else None
    if isinstance(rule, bool):  # transformers forgets whether the file states a rule; see `beginning_of`
        tokenizer.init_kwargs["add_bos_token"] = rule
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if model is not None and getattr(model, "dropout", None):
        warnings.warn(
            f"{folder}: its tokenizer splits words at random (dropout {model.dropout:g}); the dropout is set to none, "
            "so that a text has one score",
            EvenhandWarning,
            stacklevel=3,
        )
        model.dropout = None


CONTINUATION = "##"
BYTE_LEVEL_START = "Ġ"
SENTENCEPIECE_START = "▁"
WORD_END = "</w>"
UNUSED = re.compile(r"\[unused\d*\]|<unused\d*>")


class WholeWords(NamedTuple):
    """The row of each word, and how many pieces were left out, by reason."""

    rows: dict[str, int]
    left_out: dict[str, int]


def select_words(
    pieces: Mapping[str, int], *, special: Collection[str] = (), added: Collection[str] = ()
) -> WholeWords:
    """Return the whole words of a vocabulary as a text spells them, in the order of their rows.

    In a vocabulary that marks beginnings, an unmarked piece is left out, although the first word of a text is sometimes
    spelt with it. Of several pieces that spell the same word, the first is used.

    Args:
        pieces: the row of each piece.
        special: pieces that do not stand for text, such as `[CLS]`.
        added: words that were added to the vocabulary without a marker.
    """
    marker = find_marker(pieces)
    rows: dict[str, int] = {}
    left_out = dict.fromkeys(("special", "word pieces", "undecodable", "repeated"), 0)
    for piece, row in sorted(pieces.items(), key=lambda item: item[1]):
        if piece in special or UNUSED.fullmatch(piece):
            left_out["special"] += 1
            continue
        word = piece if piece in added else decode_word(piece, marker)
        if word is None or not _is_text(word):
            left_out["undecodable"] += 1
        elif not word or word != word.strip() or (marker and word.startswith(marker)):
            left_out["word pieces"] += 1
        elif rows.setdefault(word, row) != row:
            left_out["repeated"] += 1
    return WholeWords(rows, left_out)


def find_marker(pieces: Iterable[str]) -> str:
    """Return the marker that a vocabulary uses: the most frequent one, as each may also occur in text."""
    counts = dict.fromkeys((CONTINUATION, BYTE_LEVEL_START, SENTENCEPIECE_START, WORD_END), 0)
    for piece in pieces:
        for marker in counts:
            counts[marker] += piece.endswith(marker) if marker == WORD_END else piece.startswith(marker)
    best = max(counts, key=lambda marker: counts[marker])
    return best if counts[best] else ""


def decode_word(piece: str, marker: str) -> str | None:
    """Return the word that a piece spells: empty for part of a word, None where the bytes are not UTF-8."""
    if marker in (CONTINUATION, ""):
        return "" if piece.startswith(CONTINUATION) else piece
    if marker == WORD_END:
        return piece.removesuffix(WORD_END) if piece.endswith(WORD_END) else ""
    if not piece.startswith(marker):
        return ""
    return decode_bytes(piece[1:]) if marker == BYTE_LEVEL_START else piece[1:]


def decode_bytes(piece: str) -> str | None:
    """Return the text of a byte-level piece, in which each letter stands for one byte; None if it is not UTF-8.

    >>> decode_bytes("cafÃ©")
    'café'
    """
    try:
        return bytes(BYTES[letter] for letter in piece).decode()
    except (KeyError, UnicodeDecodeError):
        return None


def _byte_letters() -> dict[str, int]:
    """Return the byte of each letter: printable Latin-1 stands for itself, the other bytes are numbered from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTES = _byte_letters()


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
