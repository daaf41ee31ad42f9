"""A probe as a Hugging Face data set: a folder of parquet files and a card, read by `datasets.load_dataset(folder)`."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from evenhand.errors import UsageError
from evenhand.files import partial_name, told_as_output
from evenhand.words.probes.card import CARD, MARK, card
from evenhand.words.probes.parquet import write_parquet
from evenhand.words.probes.probe import Probe
from evenhand.words.probes.rows import ROWS_AT_ONCE, columns, tables

BLOCKS_IN_SHARD = 25  # half a million rows, one or two megabytes


def write_dataset(
    probe: Probe, folder: Path, *, sample: int | None = None, seed: int = 0, rows: int = ROWS_AT_ONCE
) -> int:
    """Write all pairs, or a stratified sample of them, as the split `test`; returns how many.

    The folder appears when it is complete. One that such an export made before is replaced; any other that is not
    empty is refused.
    """
    count, some = tables(probe, sample, seed, rows)
    shards = -(-count // (rows * BLOCKS_IN_SHARD))
    with _appearing(folder) as partial:
        for shard in range(shards):
            path = partial / "data" / f"test-{shard:05d}-of-{shards:05d}.parquet"
            write_parquet(path, columns(probe), islice(some, BLOCKS_IN_SHARD))
        (partial / CARD).write_text(card(probe, count, sample=sample, seed=seed), encoding="utf-8")
    return count


@contextlib.contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """A hidden folder beside the target, put into its place when the block ends well, removed otherwise."""
    target = Path(os.path.realpath(folder))
    partial = target.with_name(partial_name(target))
    with told_as_output(folder):
        _refuse_foreign(target)
        (partial / "data").mkdir(parents=True)
    try:
        yield partial
        with told_as_output(folder):
            _publish(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _publish(partial: Path, target: Path) -> None:
    """No rename replaces a full folder: the old one is set aside first, and a kill in between leaves it hidden."""
    if not target.exists():
        partial.rename(target)
        return
    old = target.with_name(partial_name(target))
    target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _refuse_foreign(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file, not a folder", hint="a file is named with a suffix, such as pairs.jsonl")
    kept = {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}
    ours = CARD in kept and MARK in (target / CARD).read_text(encoding="utf-8", errors="replace")
    foreign = sorted(name for name in kept if not ours or not (name == CARD or name.endswith(".parquet")))
    if foreign:
        raise UsageError(
            f"{target} holds other files ({', '.join(foreign[:3])})", hint="name a new folder, or empty this one"
        )
