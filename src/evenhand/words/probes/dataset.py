"""The pairs of a probe as a file or a data set, all of them or a stratified sample, for models that run elsewhere."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Literal

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import UsageError
from evenhand.files import bare_name, compression_of, output_errors, replacing, writing
from evenhand.outputs import replacing_folder
from evenhand.words.probes.probe import Points, Probe

ROWS_AT_ONCE = 20_000
FIXED = ("index", "premise", "hypothesis", "expected", "premise_word", "hypothesis_word", "group")
PairTable = dict[str, Sequence[int | str]]


def columns(probe: Probe) -> tuple[str, ...]:
    """Return the names of the columns: those of every probe, then its slots."""
    return (*FIXED, *probe.phrases.slots)


def tables(probe: Probe, sample: int | None, seed: int, rows: int) -> tuple[int, Iterator[PairTable]]:
    """Return the number of rows, and the rows in blocks: all pairs, or a stratified sample of them."""
    if sample is None:
        count, blocks = probe.n_pairs, iter(probe.blocks(rows))
    else:
        points = stratified(probe, sample, seed=seed).points
        count, blocks = len(points.phrase), _split(points, rows)
    return count, (_table(probe, block) for block in blocks)


def records(blocks: Iterable[PairTable]) -> Iterator[tuple[int | str, ...]]:
    """Yield the rows of all blocks."""
    for table in blocks:
        yield from zip(*table.values(), strict=True)


def _split(points: Points, rows: int) -> Iterator[Points]:
    starts = range(0, len(points.phrase), rows)
    return (Points(*(part[start : start + rows] for part in points)) for start in starts)


def _table(probe: Probe, points: Points) -> PairTable:
    """Return the columns of some pairs."""
    premises, hypotheses = probe.texts(points)
    phrase_words = {t: probe.phrases.words(t) for t in np.unique(points.phrase).tolist()}
    fillers = [probe.hypothesis[h] for h in points.hypothesis]
    grouped = fillers if probe.grouped == "hypothesis" else [probe.premise[p] for p in points.premise]
    table: PairTable = {
        "index": np.ravel_multi_index(points, probe.shape).tolist(),
        "premise": premises,
        "hypothesis": hypotheses,
        "expected": [str(probe.expected)] * len(premises),
        "premise_word": [probe.premise[p].word for p in points.premise],
        "hypothesis_word": [filler.word for filler in fillers],
        "group": [filler.group for filler in grouped],
    }
    for slot in probe.phrases.slots:
        table[slot] = [phrase_words[t].get(slot, "") for t in points.phrase.tolist()]
    return table


StratifiedBy = Literal["word pair", "hypothesis", "probe"]


@dataclass(frozen=True)
class Sample:
    """Sampled pairs in the order of the probe, and the stratum of each."""

    points: Points
    stratum: Rows
    by: StratifiedBy
    per_stratum: int
    stratum_size: int  # pairs of the probe in each stratum

    def __len__(self) -> int:
        return len(self.stratum)

    @property
    def strata(self) -> int:
        """Number of strata."""
        return len(self) // self.per_stratum


def stratified(probe: Probe, size: int, *, seed: int = 0) -> Sample:
    """Draw a stratified sample of at most `size` pairs, without replacement within a stratum.

    A stratum is a pair of fillers, or a hypothesis filler or the whole probe if `size` is too small for two draws per
    stratum, the fewest that give a variance. All strata have the same number of pairs and draws, so the mean over the
    sample estimates the mean over the probe without weights.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"the seed must be a non-negative integer, got {seed!r}")
    if size < 2:
        raise UsageError(f"a sample needs at least 2 pairs, got {size}", hint="use a few thousand")
    if size >= probe.n_pairs:
        raise UsageError(
            f"a sample of {size:,} is not smaller than the probe's {probe.n_pairs:,} pairs", hint="leave out sample"
        )
    by, strata = _strata(probe, size)
    each, inside = size // strata, probe.n_pairs // strata
    rng = np.random.default_rng(seed)
    draws = np.stack([rng.choice(inside, each, replace=False, shuffle=False) for _ in range(strata)])
    stratum = np.repeat(np.arange(strata), each)
    points = _locate(probe, by, stratum, draws.ravel())
    order = np.ravel_multi_index(points, probe.shape).argsort()
    return Sample(Points(*(part[order] for part in points)), stratum[order], by, each, inside)


def _strata(probe: Probe, size: int) -> tuple[StratifiedBy, int]:
    _, premises, hypotheses = probe.shape
    choices: tuple[tuple[StratifiedBy, int], ...] = (("word pair", premises * hypotheses), ("hypothesis", hypotheses))
    return next(((by, count) for by, count in choices if 2 * count <= size), ("probe", 1))


def _locate(probe: Probe, by: StratifiedBy, stratum: Rows, inside: Rows) -> Points:
    phrases, premises, hypotheses = probe.shape
    if by == "word pair":
        premise, hypothesis = np.unravel_index(stratum, (premises, hypotheses))
        return Points(inside, premise, hypothesis)
    if by == "hypothesis":
        phrase, premise = np.unravel_index(inside, (phrases, premises))
        return Points(phrase, premise, stratum)
    return Points(*np.unravel_index(inside, probe.shape))


def write_parquet(path: Path, names: tuple[str, ...], tables: Iterable[PairTable]) -> int:
    """Write a Parquet file, streamed through polars block by block; return the number of rows."""
    import polars as pl
    from polars.io.plugins import register_io_source

    schema = pl.Schema({name: pl.Int64 if name == "index" else pl.String for name in names})
    written = 0

    def frames(columns: object, predicate: object, rows: object, size: object) -> Iterator[pl.DataFrame]:
        nonlocal written
        for table in tables:
            written += len(table["index"])
            yield pl.DataFrame(table, schema=schema)

    with output_errors(path), replacing(path) as partial:
        try:
            register_io_source(frames, schema=schema).sink_parquet(partial)
        except pl.exceptions.PolarsError as error:  # a full disk is no OSError here
            raise OSError(str(error).partition("\n")[0]) from error
    return written


def export(
    probe: Probe, path: str | os.PathLike[str], *, sample: int | None = None, seed: int = 0, rows: int = ROWS_AT_ONCE
) -> int:
    """Write the pairs, or a stratified sample of them, in the format of the file name; return the number of rows.

    A name without a suffix is a folder for a data set that `datasets.load_dataset(folder)` reads. Row i is pair i, so
    that `PredictionsFile` can read predictions in the same order. In a sample, the column `index` identifies the pairs;
    the same sample and seed draw the same pairs.
    """
    target = Path(path)
    suffix = Path(bare_name(target)).suffix
    if suffix not in WRITERS and (not target.suffix or target.is_dir()):
        return write_dataset(probe, target, sample=sample, seed=seed, rows=rows)
    if suffix not in WRITERS or (suffix == ".parquet" and compression_of(target)):
        raise UsageError(
            f"{target}: a probe can be exported as {', '.join(WRITERS)}, or as a folder",
            hint=f"use {target.stem}.jsonl, or {target.stem} for a folder",
        )
    _, blocks = tables(probe, sample, seed, rows)
    return WRITERS[suffix](target, columns(probe), blocks)


def _jsonl(path: Path, names: tuple[str, ...], blocks: Iterable[PairTable]) -> int:
    def write(out: IO[str]) -> int:
        count = 0
        for record in records(blocks):
            out.write(json.dumps(dict(zip(names, record, strict=True)), ensure_ascii=False) + "\n")
            count += 1
        return count

    return _write_text(path, write)


def _csv(path: Path, names: tuple[str, ...], blocks: Iterable[PairTable]) -> int:
    def write(out: IO[str]) -> int:
        rows, count = csv.writer(out, lineterminator="\n"), 0
        rows.writerow(names)
        for record in records(blocks):
            rows.writerow(record)
            count += 1
        return count

    return _write_text(path, write)


def _write_text(path: Path, write: Callable[[IO[str]], int]) -> int:
    with writing(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        count = write(text)
        text.flush()
        text.detach()
    return count


WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": write_parquet}


BLOCKS_PER_SHARD = 25  # half a million rows, one or two megabytes


def write_dataset(
    probe: Probe, folder: Path, *, sample: int | None = None, seed: int = 0, rows: int = ROWS_AT_ONCE
) -> int:
    """Write all pairs, or a stratified sample of them, as the split `test`; return the number of rows.

    The folder appears when it is complete. A previous export is replaced; any other folder that is not empty raises an
    error.
    """
    count, blocks = tables(probe, sample, seed, rows)
    shards = -(-count // (rows * BLOCKS_PER_SHARD))
    _require_own_folder(Path(os.path.realpath(folder)))
    with replacing_folder(folder) as partial:
        (partial / "data").mkdir()
        for shard in range(shards):
            path = partial / "data" / f"test-{shard:05d}-of-{shards:05d}.parquet"
            write_parquet(path, columns(probe), islice(blocks, BLOCKS_PER_SHARD))
        (partial / CARD).write_text(card(probe, count, sample=sample, seed=seed), encoding="utf-8")
    return count


def _require_own_folder(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file, not a folder", hint="for a file, use a suffix such as pairs.jsonl")
    names = {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}
    own = CARD in names and MARK in (target / CARD).read_text(encoding="utf-8", errors="replace")
    others = sorted(name for name in names if not own or not (name == CARD or name.endswith(".parquet")))
    if others:
        raise UsageError(
            f"{target} holds other files ({', '.join(others[:3])})", hint="use a new folder, or empty this one"
        )


CARD = "README.md"
MARK = "evenhand-probe"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LARGE = "1M<n<10M"


def card(probe: Probe, count: int, *, sample: int | None, seed: int) -> str:
    """Return the data card in Markdown, with the front matter that `datasets` reads."""
    extent = f"a stratified sample (size {sample:,}, seed {seed}) of" if sample else "all of"
    surface = ", ".join(f"{name} {value!r}" for name, value in asdict(probe.surface).items())
    paragraphs = [
        f"# {probe.name}",
        f"Pairs of sentences that differ only in `{probe.differs}`. A model without bias labels all of them "
        f"{probe.expected}. {count:,} rows, {extent} the probe's {probe.n_pairs:,} pairs. Surface form: {surface}.",
        probe.note,
        "`index` is the index of the pair in the probe, `expected` the label of a model without bias, `premise_word` "
        "and `hypothesis_word` the differing words, `group` the group of people they belong to. The other columns are "
        "the slots of the templates.",
        "```python\nfrom datasets import load_dataset\n\npairs = load_dataset('this/folder', split='test')\n```",
        "What it does not tell you: anything about people outside the word lists, nor whether a model with these "
        "answers is unbiased elsewhere.",
        *_source(probe),
    ]
    return _front_matter(probe, count) + "\n" + "\n\n".join(filter(None, paragraphs)) + "\n"


def _front_matter(probe: Probe, count: int) -> str:
    features = [
        f"  - name: {json.dumps(name)}\n    dtype: {'int64' if name == 'index' else 'string'}"
        for name in columns(probe)
    ]
    size = next((label for limit, label in SIZES if count < limit), LARGE)
    lines = [
        "---",
        f"pretty_name: {json.dumps(probe.name)}",  # JSON strings are YAML strings
        "task_categories:\n- text-classification",
        "task_ids:\n- natural-language-inference",
        f"tags:\n- {MARK}\n- bias",
        f"size_categories:\n- {size}",
        "configs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/test-*.parquet",
        "dataset_info:\n  features:",
        *features,
        "---",
    ]
    return "\n".join(lines) + "\n"


def _source(probe: Probe) -> list[str]:
    if probe.source is None:
        return []
    terms = f" Terms: {probe.source.licence}." if probe.source.licence else ""
    cited = f"```bibtex\n{probe.citation.strip()}\n```" if probe.citation else ""
    return [f"Source: {probe.source.reference} {probe.source.url}".rstrip() + terms, cited]
