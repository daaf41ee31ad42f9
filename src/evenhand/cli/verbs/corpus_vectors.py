"""`evenhand corpus cooccur` and `evenhand corpus sgns`: from text to counts and to vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.cli.corpus_options import Documents, Encoding, Field, Files, FormatOption, Lower, SkipBad, TokenizerOption
from evenhand.cli.options import Address, EngineOption, Json, Seed, Workers, notes_on_stderr
from evenhand.cli.screens.corpus import note_bad
from evenhand.cli.screens.terminal import progress, show, show_json
from evenhand.engines import opened
from evenhand.errors import DegenerateError

Reach = Annotated[int, typer.Option("--window", help="Words on each side.")]
Least = Annotated[int, typer.Option("--min-count", help="Rarer words are taken out before windows are laid.")]


def cooccur(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="File for the counts (.safetensors).", show_default=False)],
    window: Reach = 5,
    weighting: Annotated[str, typer.Option(help="dynamic as word2vec, harmonic as GloVe, or flat.")] = "flat",
    min_count: Least = 1,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    engine: EngineOption = "local",
    address: Address = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Count which words stand near each other, for PMI, GloVe and GN-GloVe."""
    options = {**locals()}
    for name in ("files", "out", "address", "workers", "as_json"):
        options.pop(name)
    from evenhand import corpus

    found = opened(engine, address=address, workers=workers)
    with progress("co-occurrence") as bar, notes_on_stderr(), found as options["engine"]:
        counts = corpus.cooccurrence(files, **options, progress=bar)
    if not counts.words:
        raise DegenerateError(
            f"{', '.join(files)}: no word was read" + (f" {min_count} times" if min_count > 1 else ""),
            hint="give more text" + (", or a lower --min-count" if min_count > 1 else "; this one is empty or blank"),
        )
    counts.save(out)
    note_bad(counts.params)
    about = {"words": len(counts.words), "pairs": int(counts.matrix.nnz), "tokens": int(counts.occurrences.sum())}
    _tell(out, {**about, "params": dict(counts.params)}, as_json=as_json)


def sgns(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="Folder for words and contexts.", show_default=False)],
    dim: Annotated[int, typer.Option(help="Coordinates.")] = 300,
    window: Reach = 5,
    negative: Annotated[int, typer.Option(help="Negative samples for each pair.")] = 5,
    epochs: Annotated[int, typer.Option(help="Passes over the text.")] = 5,
    min_count: Least = 20,
    sample: Annotated[float, typer.Option(help="Thin out words above this frequency; 0 keeps all.")] = 0.0,
    ns_exponent: Annotated[float, typer.Option(help="Flattens the negatives: 0.75 as word2vec, 1 for PMI.")] = 0.75,
    workers: Annotated[int, typer.Option(help="Threads; only 1 gives the same bytes again.")] = 1,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train word2vec (skip-gram, negative sampling) and keep word and context vectors; needs gensim."""
    options = {name: value for name, value in locals().items() if name not in ("files", "out", "as_json")}
    from evenhand.interop.sgns import train_sgns

    with progress("sgns") as bar, notes_on_stderr():
        model = train_sgns(files, **options, progress=bar)
    model.save(out)
    note_bad(model.manifest)
    about = {"words": len(model.words), "dimensions": model.words.dim, "tokens": model.manifest["tokens"]}
    _tell(out, {**about, "params": dict(model.params), "manifest": dict(model.manifest)}, as_json=as_json)


def _tell(out: Path, about: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json({"path": str(out), **about})
        return
    show(str(out), *(f"  {name:<12}{value:,}" for name, value in about.items() if isinstance(value, int)))
