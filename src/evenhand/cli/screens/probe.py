"""The scores of a probe on the terminal: one condition with its spread over seeds, or two and their difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenhand.cli.screens.terminal import escape

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evenhand.measures.inference import Comparison, SeedsResult, Spread
    from evenhand.measures.inference.scores import Marked

NAMES = {"net_neutral": "net neutral", "fraction_neutral": "fraction neutral"}
MEANINGS = (
    "Better: net neutral (mean probability of neutral), fraction neutral (share of pairs called neutral) and T:tau "
    "(share above tau) near 1; gaps between groups near 0, they tell which way a model leans; d and E (distance of the "
    "groups' means from each other and from neutral) near 0. A distance is never below 0: judge d by its p."
)
COVER = (
    "These sentences come from templates in US English; the gender probes know two genders. A high score is not the "
    "absence of bias, and a model that always answers neutral would score 1"
)
OTHERWISE = (
    "The scores above are those of probes whose right answer is neutral; here another one is, so that the share "
    "answered as expected is what counts, near 1, and gaps between groups near 0."
)
CONTROLLED, UNCONTROLLED = ": hence the controls.", ". No controls were asked here that would tell."


def tables(found: list[SeedsResult], both: Comparison | None) -> Iterator[RenderableType]:
    """Everything to print, in order."""
    first = found[0].first
    of_all = f" of {first.params['all_pairs']:,}" if first.params["sample"] else ""
    yield f"[bold]{escape(first.probe)}[/]  {first.n_pairs:,}{of_all} pairs, expected answer: {first.asked.expected}"
    yield from (f"[dim]{escape(_described(condition))}[/]" for condition in found)
    if first.asked.expected != "neutral":
        shares = (f"{condition.accuracy:.3f}" for condition in found)
        yield f"answered as expected: [bold]{', '.join(shares)}[/]"
    yield _compared(both) if both else _alone(found[0])
    yield from _asides(found)
    over = ", ".join(found[0].interval_over)
    intervals = f"95 % intervals over {over}." if over else "Too few words and models for intervals."
    gaps = f"Gaps are {found[0].groups[0]} minus {found[0].groups[1]}. " if found[0].groups else ""
    yield f"[dim]{escape(gaps)}{intervals}[/]"
    if first.asked.expected != "neutral":
        yield f"[dim]{OTHERWISE}[/]"
        return
    yield f"[dim]{MEANINGS}[/]"
    yield f"[dim]{COVER}{CONTROLLED if found[0].controls else UNCONTROLLED}[/]"


def _described(condition: SeedsResult) -> str:
    """Which models, and what they were trained on where that is known."""
    from evenhand.subjects.embedded_nli import TRAINED_ON

    kind, _, trained = condition.condition.partition(":")
    if kind == "embedded" and trained in TRAINED_ON:
        return f"{trained}: {len(condition.results)} embedded models trained on {TRAINED_ON[trained]}"
    return (
        f"{condition.condition}: {len(condition.results)} models" if len(condition.results) > 1 else condition.condition
    )


def _label(name: str) -> str:
    """A score as people call it."""
    return NAMES.get(name, name.replace("_", " "))


def _better(name: str) -> str:
    return "→ 0" if name.startswith("gap_") or name in ("d", "E") else "→ 1"


def _alone(found: SeedsResult) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    several = len(found.results) > 1
    spread = ("mean", "sd", "min", "max") if several else ("value",)
    for column in ("score", "better", *spread, "95 % interval"):
        table.add_column(
            column, justify="left" if column in ("score", "better") else "right", no_wrap=column != "score"
        )
    for name, score in found.scores.items():
        ends = (f"{score.sd or 0:.3f}", f"{min(score.values):.3f}", f"{max(score.values):.3f}") if several else ()
        better = _better(name) if found.first.asked.expected == "neutral" or name.startswith("gap_") else ""
        row = (_label(name), better, f"[bold]{score.mean:.3f}[/]", *ends, _interval(score))
        table.add_row(*row)
    return table


def _compared(both: Comparison) -> RenderableType:
    """Mean and standard deviation over seeds of each condition, and the paired difference."""
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    before, after = (side.condition.removeprefix("embedded:") for side in (both.before, both.after))
    for column in ("score", "better", before, after, "difference", "95 % interval"):
        table.add_column(
            column, justify="left" if column in ("score", "better") else "right", no_wrap=column != "score"
        )
    for name, difference in both.differences.items():
        cells = (_mean_and_sd(side.scores[name]) for side in (both.before, both.after))
        change = f"[bold]{difference.mean:+.3f}[/]"
        table.add_row(_label(name), _better(name), *cells, change, _interval(difference))
    return table


def _mean_and_sd(score: Spread) -> str:
    """Short, so that two conditions, their difference and its interval fit into 80 columns."""
    return f"{score.mean:.3f}" + (f" ±{score.sd:.3f}".replace("±0", "±") if score.sd is not None else "")


def _interval(score: Spread) -> str:
    return escape(f"[{score.interval[0]:.3f}, {score.interval[1]:.3f}]") if score.interval else ""


def _asides(found: list[SeedsResult]) -> Iterator[str]:
    """Controls, lost words, and the pair that the first model is surest about."""
    for condition in found:
        name = f"{condition.condition.removeprefix('embedded:')}: " if len(found) > 1 else ""
        if condition.controls:
            right = ", ".join(f"{control} {share:.1%}" for control, share in condition.controls.items())
            yield f"[dim]{escape(name)}right on controls: {right}[/]"
        yield from _tested(condition, name)
        yield from _sampled(condition, name)
    coverage = found[0].coverage
    lost = f" (lost: {', '.join(coverage.missing[:12])})" if coverage.missing else ""
    yield f"[dim]fillers known: {escape(str(coverage) + lost)}[/]"
    first = found[0].first
    for wrong in ("entailment", "contradiction"):
        if wrong != first.asked.expected:
            pair = first.top(wrong, 1)[0]
            text = f"highest {wrong} {pair[wrong]:.3f}: {pair['premise']} → {pair['hypothesis']}"
            yield f"[dim]{escape(text)}[/]"


def _tested(condition: SeedsResult, name: str) -> Iterator[str]:
    """How often other words in the two groups would be as far apart, for each model."""
    gaps = [found.gap.p_value for found in condition.results if found.gap and found.gap.p_value is not None]
    marked = [found.marked for found in condition.results if found.marked and found.marked.p_value is not None]
    of_gap = f"gap entailment {', '.join(f'{p:.3f}' for p in gaps)}; " if gaps else ""
    if marked:
        of_d = ", ".join(f"{one.p_value:.3f}" for one in marked)
        least = f" ({_least(condition, marked[0]):.3f} at least)" if marked[0].exact else ""
        text = f"p over {marked[0].partitions:,} ways to deal the words to the groups{least}: {of_gap}d {of_d}"
        yield f"[dim]{escape(name + text)}[/]"


def _least(condition: SeedsResult, marked: Marked) -> float:
    """The smallest p that so few words can have: groups of one size can change places without changing a distance."""
    sizes = {condition.first.groups[name].words for name in (marked.first, marked.second)}
    return (2 if len(sizes) == 1 else 1) / marked.partitions


def _sampled(condition: SeedsResult, name: str) -> Iterator[str]:
    """Where the scores over all pairs lie, when a sample was asked."""
    reaches = {_label(score): spread.sampling for score, spread in condition.scores.items() if spread.sampling}
    if reaches:
        shown = ", ".join(f"{score} [{low:.3f}, {high:.3f}]" for score, (low, high) in reaches.items())
        yield f"[dim]{escape(f'{name}all pairs instead of this sample, 95 %: {shown}')}[/]"
