"""The table of vector file formats. A new format is a new file here and a new row below."""

from __future__ import annotations

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


def _lazy(target: str) -> Any:
    """A function that imports its module on the first call: polars costs a quarter second and most runs map a file."""
    module, _, name = target.partition(":")

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(f"{__name__}.{module}"), name)(*args, **kwargs)

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
            "safetensors, ours",
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
    """The format of that id."""
    if format_id not in FORMATS:
        raise unknown_name("vector format", format_id, FORMATS)
    return FORMATS[format_id]


def _by_suffix(path: Path) -> Format | None:
    name = bare_name(path)
    fitting = [(len(suffix), row) for row in FORMATS.values() for suffix in row.suffixes if name.endswith(suffix)]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def format_for_reading(path: Path) -> Format:
    """The format of an existing file, by its first bytes where these tell, otherwise by its name."""
    with open_bytes(path) as stream:
        start = stream.read(SNIFFED_BYTES)
    refuse_foreign(start, path)
    told = by_content(start)
    return FORMATS[told] if told else _by_suffix(path) or FORMATS["glove"]


def format_for_writing(path: Path) -> Format:
    """The format that a file name asks for."""
    row = _by_suffix(path)
    if row is None:
        known = ", ".join(suffix for format_ in FORMATS.values() if format_.write for suffix in format_.suffixes)
        raise FormatError(f"{path}: the name does not say which format to write", hint=f"end it in one of {known}")
    return row
