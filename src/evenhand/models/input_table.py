"""The input table of a model as word vectors: one row for each word of its vocabulary.

The table is read straight from the model's files, without torch, where they are safetensors or GGUF. These are the
vectors before any context: a model may hold a bias that its input table does not show.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, InputMissingError
from evenhand.models.gguf import ARCHITECTURE, NORMAL, TABLE, USER_DEFINED, find_gguf, open_gguf
from evenhand.models.huggingface import load_model, load_tokenizer
from evenhand.models.huggingface_folder import Config, read_config, read_weight_headers, resolve_folder
from evenhand.models.lm.awd_lstm.corpus import EOS, UNK
from evenhand.models.lm.awd_lstm.model_folder import WEIGHTS, is_saved, read_vocabulary
from evenhand.models.model_files import TensorInfo, read_header, read_json, read_tensor
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


class Pieces(NamedTuple):
    """The row of each piece of a vocabulary, and which pieces are special or were added."""

    rows: Mapping[str, int]
    special: frozenset[str]
    added: frozenset[str]


def input_table(
    source: str | os.PathLike[str], *, whole_words: bool = True, name: str = "", case: Case = "auto"
) -> Vectors:
    """Return the input table of a Hugging Face folder, a GGUF file or an AWD-LSTM folder as `Vectors`.

    The `source` of the vectors says which tensor was read and how many pieces were left out, by reason.

    Args:
        source: a folder, a .gguf file, a folder with one, or a Hub id in the local cache.
        whole_words: use only pieces that are whole words, as a text spells them; otherwise every piece as the
            vocabulary spells it. An AWD-LSTM has whole words only.
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
    if is_saved(path):
        return _awd_lstm_table(path, name=name, case=case)
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
    pieces: Pieces, available: int, where: Path, *, whole_words: bool
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


def read_pieces(folder: Path) -> Pieces:
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
        return Pieces(tokenizer.get_vocab(), special, frozenset(tokenizer.get_added_vocab()) - special)
    added = {}
    if (folder / "added_tokens.json").is_file():
        added = _checked_rows(read_json(folder / "added_tokens.json"), folder / "added_tokens.json")
    special |= {piece for piece in (*rows, *added) if BRACKETED.fullmatch(piece)}
    return Pieces({**rows, **added}, special, frozenset(added) - special)


def _fast_pieces(path: Path) -> Pieces:
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
    return Pieces({**rows, **added}, special, frozenset(added) - special)


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
    chosen, account = _select(Pieces(rows, frozenset(special), frozenset()), len(table), path, whole_words=whole_words)
    about = {"kind": "input table", "model": file.text(ARCHITECTURE), "tensor": TABLE, **account}
    return Vectors(tuple(chosen), table[list(chosen.values())], name=name or path.stem, source=about, case=case)


def _awd_lstm_table(folder: Path, *, name: str, case: Case) -> Vectors:
    words = read_vocabulary(folder).words
    header = read_header(folder / WEIGHTS)
    info = header.get("encoder.weight")
    if info is None or len(info.shape) != 2 or info.shape[0] != len(words):
        raise FormatError(
            f"{folder / WEIGHTS}: no word table of {len(words):,} rows ('encoder.weight')", hint="write it again"
        )
    rows = [row for row, word in enumerate(words) if word not in (EOS, UNK)]
    if not rows:
        raise InputMissingError(f"{folder}: the vocabulary has no words", hint="train the model again")
    left_out = {"special": len(words) - len(rows)}
    about = {"kind": "input table", "model": "awd-lstm", "tensor": "encoder.weight", "words": len(rows)}
    matrix: NDArray[np.float32] = read_tensor(info, "encoder.weight", rows)
    chosen: Sequence[str] = tuple(words[row] for row in rows)
    return Vectors(chosen, matrix, name=name or folder.name, source={**about, "left_out": left_out}, case=case)


CONTINUATION = "##"
BYTE_LEVEL_START = "Ġ"
SENTENCEPIECE_START = "▁"
WORD_END = "</w>"
UNUSED = re.compile(r"\[unused\d*\]|<unused\d*>")


class WordRows(NamedTuple):
    """The row of each word, and how many pieces were left out, by reason."""

    rows: dict[str, int]
    left_out: dict[str, int]


def select_words(pieces: Mapping[str, int], *, special: Collection[str] = (), added: Collection[str] = ()) -> WordRows:
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
    return WordRows(rows, left_out)


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
