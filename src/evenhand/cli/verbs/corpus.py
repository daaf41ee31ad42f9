"""`evenhand corpus`: bias of the words of a text, comparison of two texts, counts and vectors of words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenhand.cli.options import (
    Counting,
    EngineChoice,
    Files,
    Json,
    Lower,
    Overwrite,
    Reading,
    RecordFolder,
    Seed,
    TokenizerOption,
    invocation,
    with_groups,
)
from evenhand.cli.terminal import (
    escape,
    note,
    notes_on_stderr,
    plain_table,
    progress,
    show,
    show_json,
    write_record,
)
from evenhand.errors import DegenerateError, UsageError, counted
from evenhand.outputs import output_file, require_run_folder

if TYPE_CHECKING:
    from rich.table import Table

    from evenhand.audit.manifest import Invocation
    from evenhand.corpus import Comparison, CorpusBias, CorpusOptions
    from evenhand.corpus.readers.stream import BadFile
    from evenhand.corpus.result import Order


Top = Annotated[int, typer.Option(help="Words shown for each group.")]
Least = Annotated[int, typer.Option("--least", help="Occurrences that a word needs to be shown; all are scored.")]
WindowSize = Annotated[int, typer.Option("--window", help="Words on each side.")]
MinWordCount = Annotated[int, typer.Option("--min-count", help="Remove rarer words before windows are applied.")]


@with_groups
def bias(
    context: typer.Context,
    files: Files,
    *,
    counting: Counting,
    smoothing: Annotated[
        float, typer.Option(help="Added to every count, so that words near one group only are scored too.")
    ] = 0.0,
    normalisation: Annotated[str, typer.Option(help="conditional, literal (as printed in the paper) or joint.")] = (
        "conditional"
    ),
    reading: Reading,
    bootstrap: Annotated[
        int | None,
        typer.Option(help="Resamples for the interval of each word; 0 for none.", show_default="1000 up to 256 MB"),
    ] = None,
    permutations: Annotated[
        int | None,
        typer.Option(
            help="Permuted labellings for the baseline, at most (fewer if p is clear before); 0 for none.",
            show_default="1999 up to 256 MB",
        ),
    ] = None,
    order: Annotated[
        str,
        typer.Option("--order", help="evidence (z of the log-odds) or ratio (raw score, which favours rare words)."),
    ] = "evidence",
    top: Top = 10,
    least: Least = 1,
    seed: Seed = 0,
    engine: EngineChoice,
    out: RecordFolder = None,
    as_json: Json = False,
) -> None:
    """Score every word by the group it co-occurs with more (Bordia & Bowman 2019)."""
    from evenhand.corpus import score_corpus

    if order not in ("evidence", "ratio"):
        raise UsageError(f"unknown order {order!r}", hint="use --order evidence or --order ratio")
    if out:
        require_run_folder(out)
    options = counting.options(
        smoothing=smoothing, normalisation=normalisation, bootstrap=bootstrap, permutations=permutations, seed=seed
    )
    source = reading.corpus(files)
    with engine.open() as opened, progress("corpus") as bar, notes_on_stderr():
        result = score_corpus(source, options, engine=opened, progress=bar)
    _note_skipped(result.read_log)
    if out:  # before the output, whose reader may go away
        _write_record(files, result, options, out, invocation(context))
    if as_json:
        show_json(result.to_dict())
    else:
        _show_bias(result, top, least, cast("Order", order))


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


@with_groups
def compare(
    first: Annotated[str, typer.Argument(help="The text to compare with, such as training text.", show_default=False)],
    second: Annotated[str, typer.Argument(help="The other text, such as generated text.", show_default=False)],
    *,
    counting: Counting,
    reading: Reading,
    top: Top = 10,
    least: Least = 10,
    seed: Seed = 0,
    engine: EngineChoice,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the regression and a scatter.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Regress the scores of the second text on those of the first."""
    from evenhand.corpus import compare_corpora

    options, sources = counting.options(seed=seed), [reading.corpus([text]) for text in (first, second)]
    with output_file(html, sources=[first, second], overwrite=overwrite):
        with engine.open() as opened, progress("corpus") as bar, notes_on_stderr():
            comparison = compare_corpora(sources[0], sources[1], options, engine=opened, progress=bar)
        for text in (comparison.first, comparison.second):
            _note_skipped(text.read_log)
        if html is not None:
            _write_page(html, comparison, (first, second))
    if as_json:
        show_json(comparison.to_dict())
    else:
        _show_comparison(comparison, top, least)


def _write_page(path: Path, comparison: Comparison, names: tuple[str, str]) -> None:
    from evenhand.report.text_comparison import write_comparison

    context = "infinite" if comparison.second.params["decay"] else "fixed"
    short = Path(names[0]).name, Path(names[1]).name
    write_comparison({context: comparison}, path, names=names if short[0] == short[1] else short)
    note(f"page: {path}")


@with_groups
def cooccur(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="File for the counts (.safetensors).", show_default=False)],
    *,
    window: WindowSize = 5,
    weighting: Annotated[str, typer.Option(help="dynamic (as word2vec), harmonic (as GloVe) or flat.")] = "flat",
    min_count: MinWordCount = 1,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    reading: Reading,
    engine: EngineChoice,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Count which words occur near each other, for PMI, GloVe and GN-GloVe."""
    from evenhand.corpus import cooccurrence

    source = reading.corpus(files)
    with (
        output_file(out, sources=files, overwrite=overwrite),
        engine.open() as opened,
        progress("co-occurrence") as bar,
        notes_on_stderr(),
    ):
        counts = cooccurrence(
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
    _note_skipped(counts.params)
    numbers = {"words": len(counts.words), "pairs": int(counts.matrix.nnz), "tokens": int(counts.occurrences.sum())}
    _show_summary(out, {**numbers, "params": dict(counts.params)}, as_json=as_json)


@with_groups
def sgns(
    files: Files,
    out: Annotated[Path, typer.Option("--out", help="Folder for word and context vectors.", show_default=False)],
    *,
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
    reading: Reading,
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
            **reading.arguments(),
        )  # fmt: skip
        model.save(out)
    _note_skipped(model.manifest)
    numbers = {"words": len(model.words), "dimensions": model.words.dim, "tokens": model.manifest["tokens"]}
    _show_summary(out, {**numbers, "params": dict(model.params), "manifest": dict(model.manifest)}, as_json=as_json)


VERBS = {"bias": bias, "compare": compare, "cooccur": cooccur, "sgns": sgns}


def _show_summary(out: Path, summary: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        show_json({"path": str(out), **summary})
        return
    show(str(out), *(f"  {name:<12}{value:,}" for name, value in summary.items() if isinstance(value, int)))


def _show_bias(result: CorpusBias, top: int, least: int, order: Order) -> None:
    """Show mean, deviation and baseline, and the leading words of each group."""
    from evenhand.corpus.result import bias_tables

    spread = f"[bold]mean |bias| {result.mu:z.3f}[/]   sd {result.sigma:z.3f}   words scored {result.n:,}"
    show(*_describe_text(result), spread, *_describe_baseline(result))
    for table in bias_tables(result, top, min_occurrences=least, order=order):
        show("", table)
    show("", *_explanations(result, least, order))
    for text in result.notes:
        note(f"note: {text}")


def _describe_baseline(result: CorpusBias) -> list[str]:
    base = result.baseline
    if not base:
        return []
    low, high = base.interval
    among = f"{base.mu:z.3f} \\[{low:z.3f}, {high:z.3f}] over {base.permutations:,} labellings"
    p_value = "" if base.p_value is None else f", p = {base.p_value:.2g}"
    lines = [f"labels permuted between documents: mean |bias| {among}{p_value}"]
    if base.p_value is None:
        lines.append(
            "No p-value: the text is one document, whose labels can only be rotated. Mark documents (--documents line, "
            "or a file for each)."
        )
    elif result.mu <= high:
        lines.append("The mean |bias| is not above that of permuted labels: the scores may be noise.")
    return lines


def _describe_text(result: CorpusBias) -> list[str]:
    window, decay = cast("int | None", result.params["window"]), result.params["decay"]
    reach = f"decay {decay}" if decay else f"window of {counted(window or 0, 'word')} on each side"
    documents = f"{counted(result.documents, 'document')} ({result.empty_documents:,} empty)"
    size = f"{counted(result.tokens, 'token')}, {counted(result.vocabulary, 'distinct word')}"
    lines = [f"{documents}, {size}; {reach}"]
    for name, words in result.groups.items():
        absent = result.missing[name]
        never = f", never seen: {', '.join(absent[:6])}{' ...' if len(absent) > 6 else ''}" if absent else ""
        seen = f"{counted(result.hits[name], 'occurrence')} of {counted(len(words), 'word')}"
        lines.append(escape(f"{name}: {seen}{never}"))
    return lines


def _explanations(result: CorpusBias, least: int, order: Order) -> list[str]:
    lost = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in result.lost.items())
    params = result.params
    if len(result.groups) == 2:
        meaning = f"Above 0: co-occurs more with {result.positive}; below 0: with {result.other}."
    else:
        meaning = "Each group is compared with all others together; above 0: co-occurs more with it."
    sorting = {
        "evidence": "Words are in order of evidence: z of the log-odds with an informative prior (--order ratio for "
        "the raw score).",
        "ratio": "Words are in order of the raw score, which favours rare words (--order evidence).",
    }[order]
    shown = f" Only words with at least {counted(least, 'occurrence')}." if least > 1 else ""
    lines = [
        f"{meaning} Bias: natural log of the ratio, {params['normalisation']}. near: co-occurrences with each group; "
        f"count: occurrences. {sorting}{shown}",
        _describe_intervals(result),
        f"Not scored: {lost}.",
        f"tokenizer {params['tokenizer']}, lower-cased {'yes' if params['lower'] else 'no'}, lists {params['lists']}, "
        f"seed {result.seed}",
    ]
    return [f"[dim]{escape(line)}[/]" for line in lines if line]


def _describe_intervals(result: CorpusBias) -> str:
    if result.intervals is None:
        return ""
    return (
        f"Intervals: {result.params['bootstrap']} bootstrap resamples of documents, or of stretches of 5,000 tokens of "
        "longer documents; none for a word that too many resamples lose."
    )


def _note_skipped(read_log: Mapping[str, object]) -> None:
    """Note on stderr what was skipped because it could not be read."""
    for bad in cast("list[BadFile]", read_log["bad_files"]):
        note(f"note: {bad['reason']} (read up to the damage: {counted(bad['documents_before'], 'document')})")
    if records := cast(int, read_log["bad_records"]):
        first = cast("list[str]", read_log["first_bad_records"])[0]
        note(f"note: {counted(records, 'record')} skipped; the first: {first}")


def _show_comparison(comparison: Comparison, top: int, least: int) -> None:
    """Show the regression of two texts, and the words that moved most."""
    one, other, beta = comparison.first, comparison.second, comparison.beta
    table = plain_table("", "first", "second", left=[""])
    table.add_row("tokens", f"{one.tokens:,}", f"{other.tokens:,}")
    table.add_row("words scored", f"{one.n:,}", f"{other.n:,}")
    table.add_row("mean |bias|", escape(comparison.text("first_mu", 2)), escape(comparison.text("mu", 2)))
    table.add_row("sd", escape(comparison.text("first_sigma", 2)), escape(comparison.text("sigma", 2)))
    low, high = beta.theil_sen_interval
    show(
        table,
        f"[bold]beta {escape(comparison.text('beta', 2))}[/] over {counted(beta.words - beta.removed, 'word')} scored "
        f"in both ({counted(beta.removed, 'outlier')} removed)",
        f"beta {beta.untrimmed:z.3f} with outliers, {beta.theil_sen:z.3f} \\[{low:z.3f}, {high:z.3f}] Theil-Sen",
        *_corrected_lines(comparison),
        _moved_table(comparison, top, least),
        f"[dim]beta: slope of the second text's scores on the first's; 1 equally biased, above 1 amplified. Above 0 is "
        f"{escape(one.positive)}. Noise in the first text pulls beta towards 0. {_describe_errors(comparison)} seed "
        f"{other.seed}[/]",
    )
    if not 0.8 <= one.tokens / max(other.tokens, 1) <= 1.25:
        note("note: the texts differ in size, on which mean |bias|, sd and beta depend: compare equal sizes")


def _corrected_lines(comparison: Comparison) -> list[str]:
    if not comparison.corrected:
        return []
    texts = [escape(comparison.corrected_text(name)) for name in ("beta", "first_sigma", "sigma")]
    words = counted(comparison.corrected["beta"].words, "word")
    return [
        f"[bold]beta corrected for noise {texts[0]}[/] over {words} of 20 co-occurrences or more; sd corrected for "
        f"noise {texts[1]} in the first text, {texts[2]} in the second"
    ]


def _describe_errors(comparison: Comparison) -> str:
    if all(comparison.interval(name) for name in ("first_mu", "beta")):
        return (
            "In brackets: 95 % intervals over documents at this corpus size (that of mean |bias| covers 99 % in "
            "simulation, more than it needs to); of Theil-Sen, over words."
        )
    return "Intervals over documents need two documents or more in each text (--documents line)."


def _moved_table(comparison: Comparison, top: int, least: int) -> Table:
    from evenhand.corpus.result import signed

    table = plain_table("word", "first", "second", "change", left=["word"], title="moved most")
    for point in comparison.moved(top, min_occurrences=least):
        before, after = point["first"], point["second"]
        table.add_row(escape(point["word"]), signed(before), signed(after), signed(after - before))
    return table
