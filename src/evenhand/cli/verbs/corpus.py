"""`evenhand corpus`: bias of the words of a text, and comparison of two texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenhand.cli.corpus_options import (
    MEGABYTE,
    Bootstrap,
    Decay,
    Documents,
    Encoding,
    Field,
    Files,
    FormatOption,
    Groups,
    Least,
    Lower,
    MaxRecord,
    MinCount,
    Normalisation,
    OrderOption,
    Permutations,
    SkipBad,
    Smoothing,
    SpecialTokens,
    StopWords,
    TokenizerOption,
    Top,
    Window,
)
from evenhand.cli.options import Address, EngineOption, Json, Seed, Workers, notes_on_stderr
from evenhand.cli.screens.corpus import note_skipped, show_bias, show_comparison
from evenhand.cli.screens.terminal import note, progress, show_json
from evenhand.cli.verbs.corpus_vectors import cooccur, sgns
from evenhand.engines import open_engine
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.corpus import Comparison
    from evenhand.corpus.result import Order


def bias(
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
    as_json: Json = False,
) -> None:
    """Score every word by the group it co-occurs with more (Bordia & Bowman 2019)."""
    from evenhand.corpus import Corpus, CorpusOptions, score_corpus

    if order not in ("evidence", "ratio"):
        raise UsageError(f"unknown order {order!r}", hint="use --order evidence or --order ratio")
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
    if as_json:
        show_json(result.to_dict())
    else:
        show_bias(result, top, least, cast("Order", order))


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
    from evenhand.report.comparison_page import write_comparison

    context = "infinite" if comparison.second.params["decay"] else "fixed"
    short = Path(names[0]).name, Path(names[1]).name
    write_comparison({context: comparison}, path, names=names if short[0] == short[1] else short)
    note(f"page: {path}")
