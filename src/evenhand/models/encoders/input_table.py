"""The input table of a model as word vectors: one row for each word of its vocabulary."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from evenhand.errors import FormatError
from evenhand.models.encoders.transformer import load_model
from evenhand.models.gguf import ARCHITECTURE, NORMAL, TABLE, USER_DEFINED, find_gguf, open_gguf
from evenhand.models.huggingface import load_tokenizer
from evenhand.models.huggingface_folder import Config, read_config, read_weight_headers, resolve_folder
from evenhand.models.model_files import TensorInfo, read_json, read_tensor
from evenhand.models.tokenizing import select_words
from evenhand.models.vectors import Case, Vectors

# Names of the tensor behind `get_input_embeddings`, the most specific first, without the prefixes of the architecture.
TABLE_NAMES = (
    "shared.weight",
    "embeddings.word_embeddings.weight",
    "embeddings.tok_embeddings.weight",
    "embeddings.token_embedding.weight",
    "word_embeddings.weight",
    "word_embedding.weight",
    "wte.weight",
    "embed_tokens.weight",
    "embed_in.weight",
    "tokens_embed.weight",
    "transformer.embeddings.weight",
    "backbone.embeddings.weight",
)
BRACKETED = re.compile(r"\[[A-Z]+\]|<[^<>\s]+>")  # special tokens of vocabularies that do not list them


class VocabularyPieces(NamedTuple):
    """The row of each piece of a vocabulary, and which pieces are special or were added."""

    rows: Mapping[str, int]
    special: frozenset[str]
    added: frozenset[str]


def input_table(
    source: str | os.PathLike[str], *, whole_words: bool = True, name: str = "", case: Case = "auto"
) -> Vectors:
    """Return the input table of a Hugging Face folder or a GGUF file as `Vectors`.

    The `source` of the vectors says which tensor was read and how many pieces were left out, by reason.

    Args:
        source: a folder, a .gguf file, a folder with one, or a Hub id in the local cache.
        whole_words: use only pieces that are whole words, as a text spells them; otherwise every piece as the
            vocabulary spells it.
        name: name of the vectors in reports; that of the folder or file by default.
        case: how words are looked up.

    Raises:
        InputMissingError: If the folder or one of its files does not exist.
        FormatError: If the files are damaged, or the tokenizer does not belong to the model.
    """
    path = Path(source)
    packed = find_gguf(path)
    if packed is not None:
        return _gguf_table(packed, whole_words=whole_words, name=name, case=case)
    return _transformer_table(resolve_folder(source), whole_words=whole_words, name=name, case=case)


def _transformer_table(folder: Path, *, whole_words: bool, name: str, case: Case) -> Vectors:
    tensor = find_table(read_weight_headers(folder), read_config(folder))
    pieces = read_pieces(folder)
    if tensor is not None:
        label, info = tensor
        rows, account = _select(pieces, info.shape[0], folder, whole_words=whole_words)
        matrix = read_tensor(info, label, list(rows.values()))
    else:
        weight = load_model(folder).model.get_input_embeddings().weight.detach()
        label = "get_input_embeddings()"
        rows, account = _select(pieces, len(weight), folder, whole_words=whole_words)
        matrix = weight[list(rows.values())].float().cpu().numpy()
    about = {"kind": "input table", "model": _architecture(folder), "tensor": label, **account}
    return Vectors(tuple(rows), matrix, name=name or folder.name, source=about, case=case)


def find_table(tensors: Mapping[str, TensorInfo], config: Config) -> tuple[str, TensorInfo] | None:
    """Return the name and place of the input table among stored tensors; None where no known name fits."""
    size = config.get("vocab_size")
    rows = size if isinstance(size, int) else 1
    for suffix in TABLE_NAMES:
        names = [name for name in tensors if name == suffix or name.endswith(f".{suffix}")]
        names = [name for name in names if len(tensors[name].shape) == 2 and tensors[name].shape[0] >= rows]
        if names:
            # In an encoder-decoder model without a shared table, the input table is that of the encoder.
            best = min(names, key=lambda name: ("decoder" in name, len(name), name))
            return best, tensors[best]
    return None


def _architecture(folder: Path) -> str:
    config = read_config(folder)
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else str(config.get("model_type", ""))


def _select(
    pieces: VocabularyPieces, available: int, where: Path, *, whole_words: bool
) -> tuple[dict[str, int], dict[str, object]]:
    """Return the row of each word, and the account of what was left out."""
    last = max(pieces.rows, key=lambda piece: pieces.rows[piece], default=None)
    if last is None:
        raise FormatError(f"{where}: the vocabulary is empty", hint="fetch the whole folder of the model")
    if pieces.rows[last] >= available or min(pieces.rows.values()) < 0:
        raise FormatError(
            f"{where}: token {last!r} has row {pieces.rows[last]:,}, and the input table has {available:,} rows",
            hint="use the model's own tokenizer, or call model.resize_token_embeddings first",
        )
    if whole_words:
        rows, left_out = select_words(pieces.rows, special=pieces.special, added=pieces.added)
    else:
        rows, left_out = dict(sorted(pieces.rows.items(), key=lambda item: item[1])), {}
    if not rows:
        raise FormatError(f"{where}: no token is a whole word", hint="use whole_words=False")
    account = {"pieces": len(pieces.rows), "words": len(rows), "whole_words": whole_words, "left_out": left_out}
    return rows, {**account, "rows_without_token": available - len(set(pieces.rows.values()))}


def read_pieces(folder: Path) -> VocabularyPieces:
    """Return the vocabulary of a model folder, from tokenizer.json, vocab.txt or vocab.json.

    Other vocabularies are read by the tokenizer itself, which needs transformers.
    """
    if (folder / "tokenizer.json").is_file():
        return _fast_pieces(folder / "tokenizer.json")
    special = _special_tokens(folder)
    if (folder / "vocab.txt").is_file():
        lines = _read_lines(folder / "vocab.txt")
        rows = {piece: row for row, piece in reversed(list(enumerate(lines)))}
    elif (folder / "vocab.json").is_file():
        rows = _checked_rows(read_json(folder / "vocab.json"), folder / "vocab.json")
    else:
        tokenizer = load_tokenizer(folder)
        special = frozenset(map(str, tokenizer.all_special_tokens))
        return VocabularyPieces(tokenizer.get_vocab(), special, frozenset(tokenizer.get_added_vocab()) - special)
    added = {}
    if (folder / "added_tokens.json").is_file():
        added = _checked_rows(read_json(folder / "added_tokens.json"), folder / "added_tokens.json")
    special |= {piece for piece in (*rows, *added) if BRACKETED.fullmatch(piece)}
    return VocabularyPieces({**rows, **added}, special, frozenset(added) - special)


def _fast_pieces(path: Path) -> VocabularyPieces:
    """Return the vocabulary in the file of a fast tokenizer."""
    content = read_json(path)
    model = content.get("model")
    stored = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(stored, list):  # Unigram: pairs of a piece and its score
        names = [item[0] if isinstance(item, list) and item else None for item in stored]
        stored = {name: row for row, name in reversed(list(enumerate(names)))}
    rows = _checked_rows(stored, path)
    extra = content.get("added_tokens") or []
    if not isinstance(extra, list) or not all(isinstance(token, dict) for token in extra):
        raise FormatError(f"{path}: added_tokens is not a list of tokens", hint="fetch the file again")
    added = _checked_rows({token.get("content"): token.get("id") for token in extra}, path)
    special = frozenset(str(token["content"]) for token in extra if token.get("special"))
    return VocabularyPieces({**rows, **added}, special, frozenset(added) - special)


def _checked_rows(rows: object, path: Path) -> dict[str, int]:
    if not isinstance(rows, dict) or not all(isinstance(key, str) and type(row) is int for key, row in rows.items()):
        raise FormatError(f"{path}: the vocabulary does not map pieces to rows", hint="fetch the file again")
    return rows


def _special_tokens(folder: Path) -> frozenset[str]:
    """Return the special tokens that the files beside a plain vocabulary name."""
    names: set[str] = set()
    for path in (folder / "special_tokens_map.json", folder / "tokenizer_config.json"):
        content = read_json(path) if path.is_file() else {}
        for role, value in content.items():
            token = value.get("content") if isinstance(value, dict) else value
            if role.endswith("_token") and isinstance(token, str):
                names.add(token)
    return frozenset(names)


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not UTF-8 text (byte {error.start:,})", hint="fetch the file again") from error


def _gguf_table(path: Path, *, whole_words: bool, name: str, case: Case) -> Vectors:
    file = open_gguf(path)
    words = file.tokens()
    special = {
        word for word, kind in zip(words, file.token_types(), strict=False) if kind not in (NORMAL, USER_DEFINED)
    }
    rows = {word: row for row, word in reversed(list(enumerate(words)))}
    table = file.array(TABLE)
    if table.ndim != 2:
        raise FormatError(f"{path}: the word table has the shape {table.shape}", hint="fetch it again")
    chosen, account = _select(
        VocabularyPieces(rows, frozenset(special), frozenset()), len(table), path, whole_words=whole_words
    )
    about = {"kind": "input table", "model": file.text(ARCHITECTURE), "tensor": TABLE, **account}
    return Vectors(tuple(chosen), table[list(chosen.values())], name=name or path.stem, source=about, case=case)
