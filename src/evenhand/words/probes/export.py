"""A probe as a file or a data set for models that run elsewhere, written row by row."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from evenhand.errors import UsageError
from evenhand.files import bare_name, compression_of, writing
from evenhand.words.probes.dataset import write_dataset
from evenhand.words.probes.parquet import write_parquet
from evenhand.words.probes.probe import Probe
from evenhand.words.probes.rows import ROWS_AT_ONCE, Table, columns, records, tables


def export(
    probe: Probe, path: str | os.PathLike[str], *, sample: int | None = None, seed: int = 0, rows: int = ROWS_AT_ONCE
) -> int:
    """Write the pairs, or a stratified sample of them, in the format that the file name says; returns how many.

    A name without a suffix is a folder: a data set that `datasets.load_dataset(folder)` reads. Row i is pair i, so
    that predictions in the same order can be read back with `PredictionsFile`; of a sample, the column `index` says
    which pairs it holds, and the same sample and seed draw it again.
    """
    target = Path(path)
    suffix = Path(bare_name(target)).suffix
    if suffix not in WRITERS and (not target.suffix or target.is_dir()):
        return write_dataset(probe, target, sample=sample, seed=seed, rows=rows)
    if suffix not in WRITERS or (suffix == ".parquet" and compression_of(target)):
        raise UsageError(
            f"{target}: a probe is written as {', '.join(WRITERS)}, or as a data set into a folder",
            hint=f"name it {target.stem}.jsonl, or {target.stem} for a folder",
        )
    _, some = tables(probe, sample, seed, rows)
    return WRITERS[suffix](target, columns(probe), some)


def _jsonl(path: Path, names: tuple[str, ...], some: Iterable[Table]) -> int:
    def write(out: IO[str]) -> int:
        count = 0
        for record in records(some):
            out.write(json.dumps(dict(zip(names, record, strict=True)), ensure_ascii=False) + "\n")
            count += 1
        return count

    return _as_text(path, write)


def _csv(path: Path, names: tuple[str, ...], some: Iterable[Table]) -> int:
    def write(out: IO[str]) -> int:
        rows, count = csv.writer(out, lineterminator="\n"), 0
        rows.writerow(names)
        for record in records(some):
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


WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": write_parquet}
