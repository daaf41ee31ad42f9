"""Read the input embeddings of a transformer as `Vectors`, and write a changed table back.

These are the vectors before any context: a model may hold a bias that its input table does not show, and keep it when
the table is debiased.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand.errors import EvenhandWarning, FormatError, UsageError, VocabularyError, require
from evenhand.models.encoders.input_table import input_table
from evenhand.models.encoders.transformer import load_model
from evenhand.models.lm.awd_lstm.model_folder import is_saved, word_table
from evenhand.models.tokenizing import select_words
from evenhand.models.vectors import Case, Vectors

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def input_embeddings(
    model_or_path: PreTrainedModel | str | os.PathLike[str],
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    whole_words: bool = False,
    name: str = "",
    case: Case = "auto",
) -> Vectors:
    """Return the input embedding matrix with one word for each token of the tokenizer.

    Args:
        model_or_path: a `transformers` model, a folder, a .gguf file or a Hub id in the local cache. Paths are read
            without torch where possible; nothing is downloaded.
        tokenizer: the model's tokenizer; optional for a path.
        whole_words: use only tokens that are whole words, as a text spells them.
        name: name of the vectors in reports.
        case: how words are looked up.

    Raises:
        FormatError: If the model has no input table, or the tokenizer does not belong to it.
    """
    if isinstance(model_or_path, str | os.PathLike):
        if tokenizer is None:
            if is_saved(os.fspath(model_or_path)):
                return word_table(Path(os.fspath(model_or_path)), name=name, case=case)
            return input_table(model_or_path, whole_words=whole_words, name=name, case=case)
        model = load_model(model_or_path, "encoder").model
    else:
        model = model_or_path
    if tokenizer is None:
        raise UsageError(
            "a model does not hold the words of its rows", hint="pass the tokenizer: input_embeddings(model, tokenizer)"
        )
    weight = _input_weight(model)
    rows = _word_rows(tokenizer, whole_words=whole_words, available=len(weight))
    matrix = weight.detach().float().cpu().numpy()[list(rows.values())]
    about = {"library": "transformers", "model": type(model).__name__, "whole_words": whole_words}
    about |= {"rows_left_out": len(weight) - len(rows)}
    title = name or str(getattr(model, "name_or_path", "") or type(model).__name__)
    return Vectors(tuple(rows), matrix, name=title, source=about, case=case)


def set_input_embeddings(
    model: PreTrainedModel,
    vectors: Vectors,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    whole_words: bool = False,
) -> None:
    """Write a table into the model's input embeddings, in place.

    With a tokenizer, each row is written to the token it was read from, and the model's other rows stay. Without one,
    the table must have exactly the model's rows. Where the output layer shares the matrix, as in most language models,
    it changes too.

    Args:
        model: a `transformers` model.
        vectors: the table, as `input_embeddings` returns it.
        tokenizer: the model's tokenizer.
        whole_words: the value that the table was read with.
    """
    torch = require("torch", extra="models")
    weight = _input_weight(model)
    if vectors.dim != weight.shape[1]:
        raise UsageError(f"{vectors.name} has {vectors.dim} coordinates, the model's table {weight.shape[1]}")
    if tokenizer is None and len(vectors) != len(weight):
        raise UsageError(
            f"{vectors.name} has {len(vectors):,} rows, the model's table {len(weight):,}",
            hint="pass the tokenizer, so that each row is written to its token",
        )
    rows = torch.arange(len(weight)) if tokenizer is None else _rows_of(vectors, weight, tokenizer, whole_words)
    with torch.no_grad():
        table = torch.as_tensor(np.array(vectors.matrix), dtype=weight.dtype, device=weight.device)
        weight[torch.as_tensor(rows, device=weight.device)] = table


def _rows_of(
    vectors: Vectors, weight: torch.Tensor, tokenizer: PreTrainedTokenizerBase, whole_words: bool
) -> list[int]:
    """Return the row of the model's table for each word of the vectors."""
    rows = _word_rows(tokenizer, whole_words=whole_words, available=len(weight))
    unknown = next((word for word in vectors.words if word not in rows), None)
    if unknown is not None:
        raise VocabularyError(
            f"the tokenizer has no token for {unknown!r} of {vectors.name}",
            hint="use the tokenizer, and the whole_words, that the table was read with",
        )
    return [rows[word] for word in vectors.words]


def _input_weight(model: PreTrainedModel) -> torch.Tensor:
    layer = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    weight: torch.Tensor | None = getattr(layer, "weight", None)
    if weight is None or weight.ndim != 2:
        raise FormatError(f"a {type(model).__name__} has no matrix of input embeddings", hint="pass a text model")
    return weight


def _word_rows(tokenizer: PreTrainedTokenizerBase, *, whole_words: bool, available: int) -> dict[str, int]:
    """Return the row of each word or token."""
    pieces = {str(piece): int(row) for piece, row in tokenizer.get_vocab().items()}
    beyond = [(row, piece) for piece, row in pieces.items() if row >= available]
    if beyond:
        row, piece = min(beyond)
        raise FormatError(
            f"the token {piece!r} has row {row:,}, and the model's table {available:,} rows",
            hint="use the model's own tokenizer, or call model.resize_token_embeddings first",
        )
    if not whole_words:
        return dict(sorted(pieces.items(), key=lambda item: item[1]))
    special = frozenset(tokenizer.all_special_tokens)
    rows, left_out = select_words(pieces, special=special, added=frozenset(tokenizer.get_added_vocab()) - special)
    if not rows:
        raise FormatError("the tokenizer has no token that is a whole word", hint="use whole_words=False")
    if count := left_out["repeated"]:
        message = f"{count:,} tokens spell the same word as an earlier one and were left out"
        warnings.warn(message, EvenhandWarning, stacklevel=3)
    return rows
