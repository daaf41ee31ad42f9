"""Rows of a probe as a parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evenhand.files import replacing, told_as_output
from evenhand.words.probes.rows import Table


def write_parquet(path: Path, names: tuple[str, ...], tables: Iterable[Table]) -> int:
    """Streamed through polars, which asks for one block after the other; returns how many rows."""
    import polars as pl
    from polars.io.plugins import register_io_source

    schema = pl.Schema({name: pl.Int64 if name == "index" else pl.String for name in names})
    written = 0

    def frames(columns: Any, predicate: Any, rows: Any, size: Any) -> Iterator[pl.DataFrame]:
        nonlocal written
        for table in tables:
            written += len(table["index"])
            yield pl.DataFrame(table, schema=schema)

    with told_as_output(path), replacing(path) as partial:
        register_io_source(frames, schema=schema).sink_parquet(partial)
    return written
