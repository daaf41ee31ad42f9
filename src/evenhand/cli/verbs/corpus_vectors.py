"""`evenhand corpus cooccur` and `evenhand corpus sgns`: co-occurrence counts and vectors of a text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.corpus_options import (
    MEGABYTE,
    Documents,
    Encoding,
    Field,
    Files,
    FormatOption,
    Lower,
    MaxRecord,
    SkipBad,
    TokenizerOption,
)
from evenhand.cli.options import Address, EngineOption, Json, Seed, Workers, notes_on_stderr
from evenhand.cli.screens.corpus import note_skipped
from evenhand.cli.screens.terminal import progress, show, show_json
from evenhand.engines import open_engine
from evenhand.errors import DegenerateError

WindowSize = Annotated[int, typer.Option("--window", help="Words on each side.")]
MinWordCount = Annotated[int, typer.Option("--min-count", help="Remove rarer words before windows are applied.")]


def cooccur(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="File for the counts (.safetensors).", show_default=False)],
    window: WindowSize = 5,
    weighting: Annotated[str, typer.Option(help="dynamic (as word2vec), harmonic (as GloVe) or flat.")] = "flat",
    min_count: MinWordCount = 1,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    max_record: MaxRecord = 128,
    engine: EngineOption = "local",
    address: Address = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Count which words occur near each other, for PMI, GloVe and GN-GloVe."""
    from evenhand import corpus

    source = corpus.Corpus(
        files, documents=documents, field=field, format=format, encoding_errors=encoding_errors, skip_bad=skip_bad,
        max_record=max_record * MEGABYTE,
    )  # fmt: skip
    with (
        open_engine(engine, address=address, workers=workers, protect_stdout=True) as opened,
        progress("co-occurrence") as bar,
        notes_on_stderr(),
    ):
        counts = corpus.cooccurrence(
            source, window, weighting=weighting, min_count=min_count, tokenizer=tokenizer, lower=lower, engine=opened,
            progress=bar,
        )  # fmt: skip
    if not counts.words:
        raise DegenerateError(
            f"{', '.join(files)}: no word was read" + (f" {min_count} times" if min_count > 1 else ""),
            hint="give more text" + (", or a lower --min-count" if min_count > 1 else "; this one is empty or blank"),
        )
    counts.save(out)
    note_skipped(counts.params)
    numbers = {"words": len(counts.words), "pairs": int(counts.matrix.nnz), "tokens": int(counts.occurrences.sum())}
    _show_summary(out, {**numbers, "params": dict(counts.params)}, as_json=as_json)


def sgns(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="Folder for word and context vectors.", show_default=False)],
    dim: Annotated[int, typer.Option(help="Dimensions.")] = 300,
    window: WindowSize = 5,
    negative: Annotated[int, typer.Option(help="Negative samples for each pair.")] = 5,
    epochs: Annotated[int, typer.Option(help="Passes over the text.")] = 5,
    min_count: MinWordCount = 20,
    sample: Annotated[float, typer.Option(help="Subsample words above this frequency; 0 for none.")] = 0.0,
    ns_exponent: Annotated[
        float, typer.Option(help="Exponent of the negative distribution: 0.75 as word2vec, 1 for PMI.")
    ] = 0.75,
    workers: Annotated[int, typer.Option(help="Threads; only 1 is reproducible.")] = 1,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    max_record: MaxRecord = 128,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train word2vec (skip-gram, negative sampling) and save word and context vectors; needs gensim."""
    from evenhand.interop.sgns import train_sgns

    with progress("sgns") as bar, notes_on_stderr():
        model = train_sgns(
            files, dim, window=window, negative=negative, epochs=epochs, min_count=min_count, sample=sample,
            ns_exponent=ns_exponent, seed=seed, workers=workers, tokenizer=tokenizer, lower=lower, progress=bar,
            documents=documents, field=field, format=format, encoding_errors=encoding_errors, skip_bad=skip_bad,
            max_record=max_record * MEGABYTE,
        )  # fmt: skip
    model.save(out)
    note_skipped(model.manifest)
    numbers = {"words": len(model.words), "dimensions": model.words.dim, "tokens": model.manifest["tokens"]}
    _show_summary(out, {**numbers, "params": dict(model.params), "manifest": dict(model.manifest)}, as_json=as_json)


def _show_summary(out: Path, summary: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        show_json({"path": str(out), **summary})
        return
    show(str(out), *(f"  {name:<12}{value:,}" for name, value in summary.items() if isinstance(value, int)))
