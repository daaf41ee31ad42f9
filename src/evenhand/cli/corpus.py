"""`evenhand corpus`: which words of a text keep company with which group, and how two texts compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json, Seed, notes_on_stderr
from evenhand.cli.screen import escape, note, progress, show, show_json
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.corpus import Beta, CorpusBias

Files = Annotated[list[str], typer.Argument(help="Files, folders, globs or addresses.", show_default=False)]
Window = Annotated[int | None, typer.Option(help="Words on each side that count as company.", show_default="10")]
Decay = Annotated[float | None, typer.Option(help="Instead of a window: weight of one step of distance, such as 0.95.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        help="An id or file of pairs or of a concept; or name=word,word for each group, the positive one first.",
        show_default="bordia2019-cnn-dm",
    ),
]
TokenizerOption = Annotated[str, typer.Option("--tokenizer", help="words, or whitespace for text that is tokenised.")]
Lower = Annotated[bool | None, typer.Option(help="Lower-case the text.", show_default="yes for words")]
StopWords = Annotated[str, typer.Option(help="Words that are not scored: english, none, or a file.")]
MinCount = Annotated[int, typer.Option(help="Words that occur less often are not scored.")]
Smoothing = Annotated[float, typer.Option(help="Added to every count, so that a zero count has a score.")]
Normalisation = Annotated[str, typer.Option(help="conditional, literal (as printed in the paper) or joint.")]
Documents = Annotated[str, typer.Option(help="In plain text: file or line is one document.")]
Field = Annotated[str, typer.Option(help="The field or column with the text (JSONL, CSV, TSV, Parquet, Arrow).")]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="Where names do not tell: text, jsonl, csv, tsv, parquet, arrow, warc.")
]
Encoding = Annotated[str, typer.Option("--encoding-errors", help="strict, or replace for broken UTF-8.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read; it is counted and named.")]
Bootstrap = Annotated[int, typer.Option(help="Draws of documents for an interval of each word, such as 1000.")]
Permutations = Annotated[int, typer.Option(help="Shuffled labellings for the baseline of the mean, such as 20.")]
Top = Annotated[int, typer.Option(help="Words shown at each end.")]
Least = Annotated[int, typer.Option(help="Occurrences that a word needs to be shown; all are scored.")]


def bias(
    files: Files,
    groups: Groups = None,
    window: Window = None,
    decay: Decay = None,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    stop_words: StopWords = "none",
    min_count: MinCount = 1,
    smoothing: Smoothing = 0.0,
    normalisation: Normalisation = "conditional",
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    bootstrap: Bootstrap = 0,
    permutations: Permutations = 0,
    top: Top = 10,
    least: Least = 10,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score every word by the group whose words it keeps company with (Bordia & Bowman 2019)."""
    options = {**locals()}
    for name in ("files", "groups", "top", "least", "as_json"):
        options.pop(name)
    result = _scored(files, groups, options)
    if as_json:
        show_json(result.to_dict())
    else:
        _show(result, top, least)


def compare(
    first: Annotated[str, typer.Argument(help="The text to compare with, such as training text.", show_default=False)],
    second: Annotated[str, typer.Argument(help="The other text, such as generated text.", show_default=False)],
    groups: Groups = None,
    window: Window = None,
    decay: Decay = None,
    tokenizer: TokenizerOption = "words",
    lower: Lower = None,
    stop_words: StopWords = "none",
    min_count: MinCount = 1,
    documents: Documents = "file",
    field: Field = "text",
    format: FormatOption = None,
    encoding_errors: Encoding = "strict",
    skip_bad: SkipBad = False,
    top: Top = 10,
    least: Least = 10,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Regress the scores of the second text on those of the first: how much of the bias is found again."""
    options = {**locals()}
    for name in ("first", "second", "groups", "top", "least", "as_json"):
        options.pop(name)
    one, other = (_scored([path], groups, options) for path in (first, second))
    beta = other.beta(one, seed=seed)
    if as_json:
        show_json(_document(one, other, beta))
    else:
        _show_comparison(one, other, beta, top, least)


def sub_app(guarded: Callable[[Callable[..., None]], Callable[..., None]] = lambda verb: verb) -> typer.Typer:
    """The verbs as an app of their own; `guarded` turns errors into messages and exit codes."""
    app = typer.Typer(
        name="corpus", help="Bias in text: which words keep company with which group.", no_args_is_help=True
    )
    for verb in (bias, compare):
        app.command(verb.__name__)(guarded(verb))
    return app


def _scored(files: list[str], groups: list[str] | None, options: dict[str, Any]) -> CorpusBias:
    from evenhand import corpus

    with progress("corpus") as bar, notes_on_stderr():
        result = corpus.bias(files, **_groups(groups or []), **options, progress=bar)
    for bad in result.account["bad_files"]:
        note(f"note: {bad['reason']} (read up to the break: {bad['documents_before']} documents)")
    if records := result.account["bad_records"]:
        note(f"note: {records:,} records left out; the first: {result.account['first_bad_records'][0]}")
    return result


def _groups(given: list[str]) -> dict[str, Any]:
    """Either one id or file, or several name=word,word."""
    if not given:
        return {}
    if len(given) == 1 and "=" not in given[0]:
        return {"lists": given[0]}
    parts = [text.partition("=") for text in given]
    if any(not name or not sign for name, sign, _ in parts):
        raise UsageError(
            f"--groups {' '.join(given)}: neither one id nor groups of words",
            hint="write --groups gender, or --groups old=old,elderly --groups young=young,youth",
        )
    return {"groups": {name.strip(): [w.strip() for w in words.split(",") if w.strip()] for name, _, words in parts}}


def _show(result: CorpusBias, top: int, least: int) -> None:
    from rich.table import Table

    show(*_about(result))
    show(f"[bold]mean |bias| {result.mu:.3f}[/]   sd {result.sigma:.3f}   words scored {result.n:,}")
    if base := result.baseline:
        low, high = base.interval
        among = f"{base.mu:.3f} \\[{low:.3f}, {high:.3f}] in {base.permutations} labellings"
        show(f"shuffled labels: mean |bias| {among}, p = {base.p_value:.3f}")
    table = Table(box=None, header_style="dim", pad_edge=False)
    for end in (result.positive, _other(result)):
        table.add_column(escape(f"leaning {end}"), overflow="fold")
        table.add_column("bias", justify="right")
        table.add_column("count", justify="right")
    for ends in zip(result.top(top, least=least), result.top(-top, least=least), strict=True):
        table.add_row(*(text for word, value in ends for text in _cells(result, word, value)))
    show(table)
    show(*_notes(result, least))


def _cells(result: CorpusBias, word: str, value: float) -> tuple[str, str, str]:
    bounds = result.interval(word)
    shown = f"{value:+.2f}" + (f"\n[dim]{bounds[0]:.2f} {bounds[1]:.2f}[/]" if bounds else "")
    return escape(word), shown, f"{int(result.occurrences[result.words.index(word)]):,}"


def _other(result: CorpusBias) -> str:
    others = [name for name in result.groups if name != result.positive]
    return others[0] if len(others) == 1 else "others"


def _about(result: CorpusBias) -> list[str]:
    window, decay = result.params["window"], result.params["decay"]
    reach = f"decay {decay}" if decay else f"window {window} words each side"
    documents = f"{result.documents:,} documents ({result.empty_documents:,} empty)"
    lines = [f"{documents}, {result.tokens:,} tokens, {result.vocabulary:,} distinct words; {reach}"]
    for name, words in result.groups.items():
        absent = result.missing[name]
        never = f", never seen: {', '.join(absent[:6])}{' ...' if len(absent) > 6 else ''}" if absent else ""
        lines.append(escape(f"{name}: {result.hits[name]:,} occurrences of {len(words)} words{never}"))
    return lines


def _notes(result: CorpusBias, least: int) -> list[str]:
    lost = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in result.lost.items())
    params = result.params
    lines = (
        f"Above 0: company with {result.positive}; below 0: with {_other(result)}. Natural log of the ratio, "
        f"{params['normalisation']}; shown are words with at least {least} occurrences.",
        f"Not scored: {lost}.",
        f"tokenizer {params['tokenizer']}, lower-cased {'yes' if params['lower'] else 'no'}, lists {params['lists']}, "
        f"seed {result.seed}",
    )
    return [f"[dim]{escape(line)}[/]" for line in lines]


def _document(one: CorpusBias, other: CorpusBias, beta: Beta) -> dict[str, Any]:
    summaries = [{key: value for key, value in b.to_dict().items() if key != "items"} for b in (one, other)]
    shared = [word for word in one.scores if word in other.scores]
    points = [{"word": word, "first": one.scores[word], "second": other.scores[word]} for word in shared]
    return {"first": summaries[0], "second": summaries[1], "beta": beta.to_dict(), "points": points}


def _show_comparison(one: CorpusBias, other: CorpusBias, beta: Beta, top: int, least: int) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("", "first", "second"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("tokens", f"{one.tokens:,}", f"{other.tokens:,}")
    table.add_row("words scored", f"{one.n:,}", f"{other.n:,}")
    table.add_row("mean |bias|", f"{one.mu:.3f}", f"{other.mu:.3f}")
    table.add_row("sd", f"{one.sigma:.3f}", f"{other.sigma:.3f}")
    low, high = beta.theil_sen_interval
    show(
        table,
        f"[bold]beta {beta.trimmed:.3f}[/] over {beta.words - beta.removed:,} words scored in both "
        f"({beta.removed} outliers removed)",
        f"beta {beta.untrimmed:.3f} with outliers, {beta.theil_sen:.3f} \\[{low:.3f}, {high:.3f}] Theil-Sen",
        _moved(one, other, top, least),
        f"[dim]beta: slope of the second text's scores on the first's; 1 as biased, above 1 amplified. Above 0 is "
        f"{one.positive}. Noise in the first text pulls beta towards 0. seed {other.seed}[/]",
    )
    if not 0.8 <= one.tokens / max(other.tokens, 1) <= 1.25:
        note("note: the texts differ in size; mean |bias|, sd and beta all change with it: compare equal sizes")


def _moved(one: CorpusBias, other: CorpusBias, top: int, least: int) -> Any:
    from rich.table import Table

    rare = {word for b in (one, other) for word, count in zip(b.words, b.occurrences, strict=True) if count < least}
    shared = [word for word in one.scores if word in other.scores and word not in rare]
    shared.sort(key=lambda word: -abs(other.scores[word] - one.scores[word]))
    table = Table(title="moved most", title_justify="left", box=None, header_style="dim", pad_edge=False)
    for column in ("word", "first", "second", "change"):
        table.add_column(column, justify="left" if column == "word" else "right")
    for word in shared[:top]:
        before, after = one.scores[word], other.scores[word]
        table.add_row(escape(word), f"{before:+.2f}", f"{after:+.2f}", f"{after - before:+.2f}")
    return table
