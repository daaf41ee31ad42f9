"""A probe as a file for models that run elsewhere: JSONL, CSV or parquet, written row by row."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from evenhand.errors import UsageError
from evenhand.files import bare_name, compression_of, replacing, told_as_output, writing
from evenhand.words.probes.probe import Points, Probe
from evenhand.words.probes.sampling import stratified

ROWS_AT_ONCE = 20_000
FIXED = ("index", "premise", "hypothesis", "expected", "premise_word", "hypothesis_word", "group")
Table = dict[str, list[Any]]


def export(
    probe: Probe, path: str | os.PathLike[str], *, sample: int | None = None, seed: int = 0, rows: int = ROWS_AT_ONCE
) -> int:
    """Write the pairs, or a stratified sample of them, in the format that the file name says; returns how many.

    Row i is pair i, so that predictions in the same order can be read back with `PredictionsFile`; of a sample, the
    column `index` says which pairs it holds, and the same sample and seed draw it again.
    """
    target = Path(path)
    suffix = Path(bare_name(target)).suffix
    if suffix not in WRITERS or (suffix == ".parquet" and compression_of(target)):
        raise UsageError(f"{target}: a probe is written as {', '.join(WRITERS)}", hint=f"name it {target.stem}.jsonl")
    if sample is None:
        blocks: Iterable[Points] = probe.blocks(rows)
    else:
        drawn = stratified(probe, sample, seed=seed).points
        cuts = range(0, len(drawn.phrase), rows)
        blocks = (Points(*(part[cut : cut + rows] for part in drawn)) for cut in cuts)
    tables = (_table(probe, block) for block in blocks)
    return WRITERS[suffix](target, _names(probe), tables)


def _names(probe: Probe) -> tuple[str, ...]:
    return (*FIXED, *probe.phrases.slots)


def _table(probe: Probe, points: Points) -> Table:
    """The columns of some pairs."""
    premises, hypotheses = probe.texts(points)
    phrase_words = {t: probe.phrases.words(t) for t in np.unique(points.phrase).tolist()}
    fillers = [probe.hypothesis[h] for h in points.hypothesis]
    grouped = fillers if probe.grouped == "hypothesis" else [probe.premise[p] for p in points.premise]
    table: Table = {
        "index": np.ravel_multi_index(points, probe.shape).tolist(),
        "premise": premises,
        "hypothesis": hypotheses,
        "expected": [probe.expected] * len(premises),
        "premise_word": [probe.premise[p].word for p in points.premise],
        "hypothesis_word": [filler.word for filler in fillers],
        "group": [filler.group for filler in grouped],
    }
    for slot in probe.phrases.slots:
        table[slot] = [phrase_words[t].get(slot, "") for t in points.phrase.tolist()]
    return table


def _records(tables: Iterable[Table]) -> Iterator[tuple[Any, ...]]:
    for table in tables:
        yield from zip(*table.values(), strict=True)


def _jsonl(path: Path, names: tuple[str, ...], tables: Iterable[Table]) -> int:
    def write(out: IO[str]) -> int:
        count = 0
        for record in _records(tables):
            out.write(json.dumps(dict(zip(names, record, strict=True)), ensure_ascii=False) + "\n")
            count += 1
        return count

    return _as_text(path, write)


def _csv(path: Path, names: tuple[str, ...], tables: Iterable[Table]) -> int:
    def write(out: IO[str]) -> int:
        rows, count = csv.writer(out, lineterminator="\n"), 0
        rows.writerow(names)
        for record in _records(tables):
            rows.writerow(record)
            count += 1
        return count

    return _as_text(path, write)


def _as_text(path: Path, write: Callable[[IO[str]], int]) -> int:
    with writing(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        count = write(text)
        text.flush()
        text.detach()
    return count


def _parquet(path: Path, names: tuple[str, ...], tables: Iterable[Table]) -> int:
    """Streamed through polars, which asks for one block after the other."""
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


WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
