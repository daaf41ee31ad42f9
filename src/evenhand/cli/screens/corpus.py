"""Screens of `evenhand corpus`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from evenhand.cli.screens.terminal import escape, note, show
from evenhand.errors import counted

if TYPE_CHECKING:
    from rich.table import Table

    from evenhand.corpus import Comparison, CorpusBias
    from evenhand.corpus.readers.stream import BadFile
    from evenhand.corpus.result import Order


def show_bias(result: CorpusBias, top: int, least: int, order: Order) -> None:
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


def note_skipped(read_log: Mapping[str, object]) -> None:
    """Note on stderr what was skipped because it could not be read."""
    for bad in cast("list[BadFile]", read_log["bad_files"]):
        note(f"note: {bad['reason']} (read up to the damage: {counted(bad['documents_before'], 'document')})")
    if records := cast(int, read_log["bad_records"]):
        first = cast("list[str]", read_log["first_bad_records"])[0]
        note(f"note: {counted(records, 'record')} skipped; the first: {first}")


def show_comparison(comparison: Comparison, top: int, least: int) -> None:
    """Show the regression of two texts, and the words that moved most."""
    from rich.table import Table

    one, other, beta = comparison.first, comparison.second, comparison.beta
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("", "first", "second"):
        table.add_column(column, justify="left" if not column else "right")
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
    from rich.table import Table

    from evenhand.corpus.result import signed

    table = Table(title="moved most", title_justify="left", box=None, header_style="dim", pad_edge=False)
    for column in ("word", "first", "second", "change"):
        table.add_column(column, justify="left" if column == "word" else "right")
    for point in comparison.moved(top, min_occurrences=least):
        before, after = point["first"], point["second"]
        table.add_row(escape(point["word"]), signed(before), signed(after), signed(after - before))
    return table
