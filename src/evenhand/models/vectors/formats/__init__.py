"""The table of vector file formats. A new format is a new file here and a new row in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from evenhand.errors import FormatError, unknown_name
from evenhand.files import bare_name, open_bytes
from evenhand.models.vectors.formats.format import (
    SNIFFED_BYTES,
    Format,
    Parsed,
    ReadOptions,
    by_content,
    refuse_foreign,
)

__all__ = ["FORMATS", "Format", "Parsed", "ReadOptions", "format_for_reading", "format_for_writing", "get"]


def _lazy(target: str) -> Callable[..., Any]:
    """Return a function that imports its module on the first call; importing polars takes 0.25 s."""
    module, _, name = target.partition(":")

    def call(*args: object) -> Any:
        return getattr(import_module(f"{__name__}.{module}"), name)(*args)

    return call


FORMATS: dict[str, Format] = {
    row.id: row
    for row in (
        Format("glove", "GloVe text", (".txt",), _lazy("text:read"), _lazy("text:write_glove")),
        Format(
            "word2vec",
            "word2vec text, with header",
            (".w2v", ".w2v.txt"),
            _lazy("text:read"),
            _lazy("text:write_word2vec"),
        ),
        Format("fasttext", "fastText text", (".vec",), _lazy("text:read"), _lazy("text:write_word2vec")),
        Format("word2vec-bin", "word2vec binary", (".bin",), _lazy("word2vec_bin:read"), _lazy("word2vec_bin:write")),
        Format(
            "fasttext-bin",
            "fastText binary, with sub-words",
            (".ft.bin",),
            _lazy("fasttext_bin:read"),
            why_not_written="it holds sub-word weights that a table of words does not have",
            cached=False,
        ),
        Format("npy", "numpy matrix + vocabulary", (".npy",), _lazy("npy:read"), _lazy("npy:write"), cached=False),
        Format(
            "safetensors",
            "evenhand safetensors",
            (".safetensors",),
            _lazy("safetensors_file:read"),
            _lazy("safetensors_file:write"),
            cached=False,
            holds_history=True,
        ),
        Format("wink", "JSON of the wink packages", (".json",), _lazy("wink:read")),
        Format("parquet-npy", "parquet words + numpy matrix", (".parquet",), _lazy("npy:read_parquet"), cached=False),
    )
}


def get(format_id: str) -> Format:
    """Return the format with this id."""
    if format_id not in FORMATS:
        raise unknown_name("vector format", format_id, FORMATS)
    return FORMATS[format_id]


def _by_suffix(path: Path) -> Format | None:
    name = bare_name(path)
    matches = [(len(suffix), row) for row in FORMATS.values() for suffix in row.suffixes if name.endswith(suffix)]
    return max(matches, key=lambda pair: pair[0])[1] if matches else None


def format_for_reading(path: Path) -> Format:
    """Return the format of an existing file, detected from its first bytes or else from its name."""
    with open_bytes(path) as stream:
        start = stream.read(SNIFFED_BYTES)
    refuse_foreign(start, path)
    format_id = by_content(start)
    return FORMATS[format_id] if format_id else _by_suffix(path) or FORMATS["glove"]


def format_for_writing(path: Path) -> Format:
    """Return the format that matches a file name."""
    row = _by_suffix(path)
    if row is None:
        known = ", ".join(suffix for format_ in FORMATS.values() if format_.write for suffix in format_.suffixes)
        raise FormatError(f"{path}: the file name has no suffix of a vector format", hint=f"use one of {known}")
    return row
