"""The input embeddings of a transformer as `Vectors`, and a changed table put back.

What it does not tell you: these are the vectors before any context. A model may hold a bias that its input table does
not show, and keep it when the table is debiased.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from evenhand.errors import EvenhandWarning, FormatError, UsageError, VocabularyError, require
from evenhand.models.huggingface import load_model, load_tokenizer
from evenhand.models.vectors import Case, Vectors


def input_embeddings(
    model_or_path: Any, tokenizer: Any = None, *, whole_words: bool = False, name: str = "", case: Case = "auto"
) -> Vectors:
    """The input embedding matrix, one word for each token of the tokenizer; rows without a token are left out.

    Args:
        model_or_path: a `transformers` model, or a folder or Hub id to load one from.
        tokenizer: the model's tokenizer; may be left out when a path is given.
        whole_words: keep only tokens that are whole words, as a text would spell them.
        name: what reports call the vectors.
        case: how a word of a list is looked up.
    """
    model, own_tokenizer = _loaded(model_or_path)
    tokenizer = tokenizer if tokenizer is not None else own_tokenizer
    if tokenizer is None:
        raise UsageError("a model does not know the words of its rows", hint="input_embeddings(model, tokenizer)")
    weight = _weight(model)
    rows = _rows(tokenizer, whole_words=whole_words, available=len(weight))
    matrix = weight.detach().float().cpu().numpy()[list(rows.values())]
    account = {"library": "transformers", "model": type(model).__name__, "whole_words": whole_words}
    account |= {"rows_left_out": len(weight) - len(rows)}
    title = name or str(getattr(model, "name_or_path", "") or type(model).__name__)
    return Vectors(tuple(rows), matrix, name=title, source=account, case=case)


def set_input_embeddings(model: Any, vectors: Vectors, tokenizer: Any = None, *, whole_words: bool = False) -> None:
    """Write a table into the model's input embeddings, in place.

    With a tokenizer each row goes to the token it was read from (`whole_words` as it was then) and the model's other
    rows stay; without one the table must have exactly the model's rows. Where the output layer shares the matrix, as in
    most language models, it changes too.
    """
    torch = require("torch", extra="models")
    weight = _weight(model)
    if vectors.dim != weight.shape[1]:
        raise UsageError(f"{vectors.name} has {vectors.dim} coordinates, the model's table {weight.shape[1]}")
    if tokenizer is None and len(vectors) != len(weight):
        raise UsageError(
            f"{vectors.name} has {len(vectors):,} rows, the model's table {len(weight):,}",
            hint="hand in the tokenizer, so that each row finds its token",
        )
    places = torch.arange(len(weight)) if tokenizer is None else _places(vectors, weight, tokenizer, whole_words)
    with torch.no_grad():
        table = torch.as_tensor(np.array(vectors.matrix), dtype=weight.dtype, device=weight.device)
        weight[torch.as_tensor(places, device=weight.device)] = table


def _places(vectors: Vectors, weight: Any, tokenizer: Any, whole_words: bool) -> list[int]:
    rows = _rows(tokenizer, whole_words=whole_words, available=len(weight))
    strange = next((word for word in vectors.words if word not in rows), None)
    if strange is not None:
        raise VocabularyError(
            f"the tokenizer has no token for {strange!r} of {vectors.name}",
            hint="use the tokenizer, and the whole_words, that the table was read with",
        )
    return [rows[word] for word in vectors.words]


def _loaded(model_or_path: Any) -> tuple[Any, Any]:
    if not isinstance(model_or_path, str | os.PathLike):
        return model_or_path, None
    require("transformers", extra="models")
    return load_model(model_or_path, "encoder").model, load_tokenizer(model_or_path)


def _weight(model: Any) -> Any:
    layer = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    weight = getattr(layer, "weight", None)
    if weight is None or weight.ndim != 2:
        raise FormatError(f"a {type(model).__name__} has no matrix of input embeddings", hint="hand in a text model")
    return weight


def _rows(tokenizer: Any, *, whole_words: bool, available: int) -> Mapping[str, int]:
    """The row of each word."""
    found = whole_word_tokens(tokenizer) if whole_words else tokens(tokenizer)
    beyond = next((token for token in found if token.row >= available), None)
    if beyond is not None:
        raise FormatError(
            f"the token {beyond.text!r} has row {beyond.row:,}, and the model's table {available:,} rows",
            hint="take the model's own tokenizer, or call model.resize_token_embeddings first",
        )
    if not found:
        raise FormatError("the tokenizer has no token that is a whole word", hint="read it with whole_words=False")
    return _first_of_each(found)


def _first_of_each(found: list[Token]) -> Mapping[str, int]:
    rows: dict[str, int] = {}
    for token in found:
        rows.setdefault(token.text, token.row)
    if len(rows) < len(found):
        note = f"{len(found) - len(rows):,} tokens are spelt like an earlier one and were left out"
        warnings.warn(note, EvenhandWarning, stacklevel=4)
    return rows


CONTINUATION = "##"
BYTE_LEVEL_START = "Ġ"
SENTENCEPIECE_START = "▁"
UNDECODABLE = "\ufffd"


class Token(NamedTuple):
    """A token and the row of its embedding."""

    text: str
    row: int


def tokens(tokenizer: Any) -> list[Token]:
    """Every token as the vocabulary spells it, by row."""
    return sorted((Token(str(text), int(row)) for text, row in tokenizer.get_vocab().items()), key=lambda t: t.row)


def whole_word_tokens(tokenizer: Any) -> list[Token]:
    """The tokens that are whole words, as a text spells them, by row.

    In a vocabulary that marks beginnings, an unmarked token may be the middle of a word and is left out, even though
    the first word of a text is sometimes spelt with it. Special and unused tokens are no words.
    """
    every = tokens(tokenizer)
    mark = _mark(every)
    special = set(tokenizer.all_special_tokens)
    added = set(tokenizer.get_added_vocab()) - special
    words = (
        Token(token.text if token.text in added else _word(token.text, mark, tokenizer), token.row)
        for token in every
        if token.text not in special
    )
    return [word for word in words if word.text]


def _mark(every: list[Token]) -> str:
    """The mark that the vocabulary uses: the most frequent one, since each is also a character that a text may hold."""
    marks = (CONTINUATION, BYTE_LEVEL_START, SENTENCEPIECE_START)
    counts = {mark: sum(token.text.startswith(mark) for token in every) for mark in marks}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _word(text: str, mark: str, tokenizer: Any) -> str:
    """The word that a token spells, or nothing where it is no whole word."""
    if mark in (CONTINUATION, ""):
        return "" if text.startswith((CONTINUATION, "[unused")) else text
    if not text.startswith(mark):
        return ""
    # Byte-level tokens spell "é" as two other letters; only the tokenizer knows how to read them.
    word = str(tokenizer.convert_tokens_to_string([text])) if mark == BYTE_LEVEL_START else text[1:]
    word = word.removeprefix(" ")
    return "" if UNDECODABLE in word or word != word.strip() or word.startswith(mark) else word
