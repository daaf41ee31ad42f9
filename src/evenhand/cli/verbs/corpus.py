"""`evenhand corpus`: bias of the words of a text, and comparison of two texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenhand.cli.options import (
    MEGABYTE,
    Address,
    Bootstrap,
    Decay,
    Documents,
    Encoding,
    EngineOption,
    Field,
    Files,
    FormatOption,
    Groups,
    Json,
    Least,
    Lower,
    MaxRecord,
    MinCount,
    Normalisation,
    OrderOption,
    Overwrite,
    Permutations,
    RecordFolder,
    Seed,
    SkipBad,
    Smoothing,
    SpecialTokens,
    StopWords,
    TokenizerOption,
    Top,
    Window,
    Workers,
    invocation,
    notes_on_stderr,
)
from evenhand.cli.screens.corpus import note_skipped, show_bias, show_comparison
from evenhand.cli.screens.terminal import note, progress, show, show_json, write_record
from evenhand.engines import open_engine
from evenhand.errors import DegenerateError, UsageError
from evenhand.files import require_folder
from evenhand.outputs import output_file, require_run_folder

if TYPE_CHECKING:
    from evenhand.audit.manifest import Invocation
    from evenhand.corpus import Comparison, CorpusBias, CorpusOptions
    from evenhand.corpus.result import Order


def bias(
    context: typer.Context,
    files: Files,
    groups: Groups = None,
    window: Window = None,
    decay: Decay = None,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    stop_words: StopWords = "none",
    special_tokens: SpecialTokens = None,
    min_count: MinCount = 1,
    smoothing: Smoothing = 0.0,
    normalisation: Normalisation = "conditional",
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    max_record: MaxRecord = 128,
    bootstrap: Bootstrap = None,
    permutations: Permutations = None,
    order: OrderOption = "evidence",
    top: Top = 10,
    least: Least = 1,
    seed: Seed = 0,
    engine: EngineOption = "local",
    address: Address = None,
    workers: Workers = None,
    out: RecordFolder = None,
    as_json: Json = False,
) -> None:
    """Score every word by the group it co-occurs with more (Bordia & Bowman 2019)."""
    from evenhand.corpus import Corpus, CorpusOptions, score_corpus

    if order not in ("evidence", "ratio"):
        raise UsageError(f"unknown order {order!r}", hint="use --order evidence or --order ratio")
    if out:
        require_folder(out)
        require_run_folder(out)
    own, lists = parse_groups(groups or [])
    options = CorpusOptions(
        groups=own, lists=lists, window=window, decay=decay, tokenizer=tokenizer, lower=lower, stop_words=stop_words,
        special_tokens=special_tokens, min_count=min_count, smoothing=smoothing, normalisation=normalisation,
        bootstrap=bootstrap, permutations=permutations, seed=seed,
    )  # fmt: skip
    source = Corpus(
        files, documents=documents, field=field, format=format, encoding_errors=encoding_errors, skip_bad=skip_bad,
        max_record=max_record * MEGABYTE,
    )  # fmt: skip
    with (
        open_engine(engine, address=address, workers=workers, protect_stdout=True) as opened,
        progress("corpus") as bar,
        notes_on_stderr(),
    ):
        result = score_corpus(source, options, engine=opened, progress=bar)
    note_skipped(result.read_log)
    if out:  # before the output, whose reader may go away
        _write_record(files, result, options, out, invocation(context))
    if as_json:
        show_json(result.to_dict())
    else:
        show_bias(result, top, least, cast("Order", order))


def _write_record(files: list[str], result: CorpusBias, options: CorpusOptions, out: Path, started: Invocation) -> None:
    """Write the scores as an audit, so that `check`, `compare` and `report` read them."""
    from evenhand import words
    from evenhand.audit import Question
    from evenhand.audit.record import record_measured
    from evenhand.measures.text.corpus_bias import measurements
    from evenhand.subjects.corpora import CorpusSubject

    concept = words.Concept("groups", {name: list(group) for name, group in options.group_words.items()})
    subject = CorpusSubject(tuple(files), f"corpus:{' '.join(files)}")
    measured = measurements(result, model=subject.name, seed=options.seed)
    rows = [(Question("corpus-bias", "words", only_query=True), measured)]
    write_record(record_measured(subject, rows, concept, seed=options.seed, invocation=started), out)


def compare(
    first: Annotated[str, typer.Argument(help="The text to compare with, such as training text.", show_default=False)],
    second: Annotated[str, typer.Argument(help="The other text, such as generated text.", show_default=False)],
    groups: Groups = None,
    window: Window = None,
    decay: Decay = None,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    stop_words: StopWords = "none",
    special_tokens: SpecialTokens = None,
    min_count: MinCount = 1,
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    max_record: MaxRecord = 128,
    top: Top = 10,
    least: Least = 10,
    seed: Seed = 0,
    engine: EngineOption = "local",
    address: Address = None,
    workers: Workers = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the regression and a scatter.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Regress the scores of the second text on those of the first."""
    from evenhand.corpus import Corpus, CorpusOptions, compare_corpora

    own, lists = parse_groups(groups or [])
    options = CorpusOptions(
        groups=own, lists=lists, window=window, decay=decay, tokenizer=tokenizer, lower=lower, stop_words=stop_words,
        special_tokens=special_tokens, min_count=min_count, seed=seed,
    )  # fmt: skip
    sources = [
        Corpus(
            [text], documents=documents, field=field, format=format, encoding_errors=encoding_errors,
            skip_bad=skip_bad, max_record=max_record * MEGABYTE,
        )
        for text in (first, second)
    ]  # fmt: skip
    with output_file(html, sources=[first, second], overwrite=overwrite):
        with (
            open_engine(engine, address=address, workers=workers, protect_stdout=True) as opened,
            progress("corpus") as bar,
            notes_on_stderr(),
        ):
            comparison = compare_corpora(sources[0], sources[1], options, engine=opened, progress=bar)
        for text in (comparison.first, comparison.second):
            note_skipped(text.read_log)
        if html is not None:
            _write_page(html, comparison, (first, second))
    if as_json:
        show_json(comparison.to_dict())
    else:
        show_comparison(comparison, top, least)


def sub_app(guarded: Callable[[Callable[..., None]], Callable[..., None]] = lambda verb: verb) -> typer.Typer:
    """Return the verbs as an app; `guarded` turns errors into messages and exit codes."""
    app = typer.Typer(
        name="corpus", help="Bias in text: which words co-occur more with which group.", no_args_is_help=True
    )
    for verb in (bias, compare, cooccur, sgns):
        app.command(verb.__name__)(guarded(verb))
    return app


def parse_groups(values: list[str]) -> tuple[dict[str, list[str]] | None, str | None]:
    """Return the words of own groups, written name=word,word, or else the id or file of lists."""
    if not values:
        return None, None
    if len(values) == 1 and "=" not in values[0]:
        return None, values[0]
    parts = [text.partition("=") for text in values]
    if any(not name or not sign for name, sign, _ in parts):
        raise UsageError(
            f"--groups {' '.join(values)}: neither one id nor groups of words",
            hint="write --groups gender, or --groups old=old,elderly --groups young=young,youth",
        )
    return {name.strip(): [w.strip() for w in words.split(",") if w.strip()] for name, _, words in parts}, None


def _write_page(path: Path, comparison: Comparison, names: tuple[str, str]) -> None:
    from evenhand.report.text_comparison import write_comparison

    context = "infinite" if comparison.second.params["decay"] else "fixed"
    short = Path(names[0]).name, Path(names[1]).name
    write_comparison({context: comparison}, path, names=names if short[0] == short[1] else short)
    note(f"page: {path}")


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
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Count which words occur near each other, for PMI, GloVe and GN-GloVe."""
    from evenhand import corpus

    source = corpus.Corpus(
        files, documents=documents, field=field, format=format, encoding_errors=encoding_errors, skip_bad=skip_bad,
        max_record=max_record * MEGABYTE,
    )  # fmt: skip
    with (
        output_file(out, sources=files, overwrite=overwrite),
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
                hint="give more text"
                + (", or a lower --min-count" if min_count > 1 else "; this one is empty or blank"),
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
    overwrite: Overwrite = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train word2vec (skip-gram, negative sampling) and save word and context vectors; needs gensim."""
    from evenhand.interop.gensim import CONTEXTS, WORDS, train_sgns

    written = [output_file(out / name, sources=files, overwrite=overwrite) for name in (WORDS, CONTEXTS)]
    with written[0], written[1], progress("sgns") as bar, notes_on_stderr():
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
