"""How the bias of texts looks on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from evenhand.cli.screens.terminal import escape, note, show
from evenhand.errors import counted

if TYPE_CHECKING:
    from evenhand.corpus import Comparison, CorpusBias


def show_bias(result: CorpusBias, top: int, least: int) -> None:
    """Mean, deviation, and the words that lean most to either side."""
    from rich.table import Table

    spread = f"[bold]mean |bias| {result.mu:.3f}[/]   sd {result.sigma:.3f}   words scored {result.n:,}"
    show(*_about(result), spread)
    if base := result.baseline:
        low, high = base.interval
        among = f"{base.mu:.3f} \\[{low:.3f}, {high:.3f}] in {base.permutations} labellings"
        show(f"shuffled labels: mean |bias| {among}, p = {base.p_value:.3f}")
    table = Table(box=None, header_style="dim", pad_edge=False)
    for end in (result.positive, _other(result)):
        table.add_column(escape(f"leaning {end}"), overflow="fold")
        table.add_column("bias", justify="right")
        table.add_column("count", justify="right")
    for ends in zip_longest(result.leaning(top, least=least), result.leaning(-top, least=least)):
        table.add_row(*(text for end in ends for text in (_cells(result, *end) if end else ("", "", ""))))
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
    reach = f"decay {decay}" if decay else f"window {counted(window, 'word')} each side"
    documents = f"{counted(result.documents, 'document')} ({result.empty_documents:,} empty)"
    read = f"{counted(result.tokens, 'token')}, {counted(result.vocabulary, 'distinct word')}"
    lines = [f"{documents}, {read}; {reach}"]
    for name, words in result.groups.items():
        absent = result.missing[name]
        never = f", never seen: {', '.join(absent[:6])}{' ...' if len(absent) > 6 else ''}" if absent else ""
        seen = f"{counted(result.hits[name], 'occurrence')} of {counted(len(words), 'word')}"
        lines.append(escape(f"{name}: {seen}{never}"))
    return lines


def _notes(result: CorpusBias, least: int) -> list[str]:
    lost = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in result.lost.items())
    params = result.params
    lines = (
        f"Above 0: company with {result.positive}; below 0: with {_other(result)}. Natural log of the ratio, "
        f"{params['normalisation']}; shown are words with at least {counted(least, 'occurrence')}.",
        f"Not scored: {lost}.",
        f"tokenizer {params['tokenizer']}, lower-cased {'yes' if params['lower'] else 'no'}, lists {params['lists']}, "
        f"seed {result.seed}",
    )
    return [f"[dim]{escape(line)}[/]" for line in lines]


def note_bad(account: Mapping[str, Any]) -> None:
    """What was left out because it could not be read."""
    for bad in account["bad_files"]:
        note(f"note: {bad['reason']} (read up to the break: {counted(bad['documents_before'], 'document')})")
    if records := account["bad_records"]:
        note(f"note: {counted(records, 'record')} left out; the first: {account['first_bad_records'][0]}")


def show_comparison(found: Comparison, top: int, least: int) -> None:
    """The regression of two texts, and the words that moved most."""
    from rich.table import Table

    one, other, beta = found.first, found.second, found.beta
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("", "first", "second"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("tokens", f"{one.tokens:,}", f"{other.tokens:,}")
    table.add_row("words scored", f"{one.n:,}", f"{other.n:,}")
    table.add_row("mean |bias|", escape(found.text("first_mu", 2)), escape(found.text("mu", 2)))
    table.add_row("sd", escape(found.text("first_sigma", 2)), escape(found.text("sigma", 2)))
    low, high = beta.theil_sen_interval
    show(
        table,
        f"[bold]beta {escape(found.text('beta', 2))}[/] over {counted(beta.words - beta.removed, 'word')} scored in "
        f"both ({counted(beta.removed, 'outlier')} removed)",
        f"beta {beta.untrimmed:.3f} with outliers, {beta.theil_sen:.3f} \\[{low:.3f}, {high:.3f}] Theil-Sen",
        _moved(found, top, least),
        f"[dim]beta: slope of the second text's scores on the first's; 1 as biased, above 1 amplified. Above 0 is "
        f"{one.positive}. Noise in the first text pulls beta towards 0. {_sureness(found)} seed {other.seed}[/]",
    )
    if not 0.8 <= one.tokens / max(other.tokens, 1) <= 1.25:
        note("note: the texts differ in size; mean |bias|, sd and beta all change with it: compare equal sizes")


def _sureness(found: Comparison) -> str:
    if all(found.interval(name) for name in ("first_mu", "beta")):
        return "In brackets: 95 % intervals over documents; of Theil-Sen, over words."
    return "Intervals over documents need two documents or more in each text (--documents line)."


def _moved(found: Comparison, top: int, least: int) -> Any:
    from rich.table import Table

    table = Table(title="moved most", title_justify="left", box=None, header_style="dim", pad_edge=False)
    for column in ("word", "first", "second", "change"):
        table.add_column(column, justify="left" if column == "word" else "right")
    for point in found.moved(top, least=least):
        before, after = point["first"], point["second"]
        table.add_row(escape(point["word"]), f"{before:+.2f}", f"{after:+.2f}", f"{after - before:+.2f}")
    return table
