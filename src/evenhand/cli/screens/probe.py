"""Terminal tables of probe scores: one condition with its spread over seeds, or two and their difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evenhand.cli.screens.terminal import escape

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from evenhand.measures.inference import MarkedBias, ProbeComparison, SeedsResult, Spread
    from evenhand.words.probes import Filler, Probe
    from evenhand.words.template import Template


EXPLANATION = (
    "Net neutral is the mean probability of neutral, fraction neutral the share of pairs labelled neutral, T:tau the "
    "share above tau: 1 is best. Gaps between groups show which way a model leans: 0 is best. d and E are "
    "the distances of the groups' means from each other and from neutral: 0 is best. A distance is never below 0: "
    "judge d by its p."
)
LIMITS = (
    "The sentences come from templates in US English; the gender probes know two genders. A high score does not show "
    "the absence of bias: a model that always answers neutral scores 1."
)
WITH_CONTROLS = "Controls are pairs whose label is not neutral; they expose such a model."
WITHOUT_CONTROLS = "No controls were evaluated here that would expose such a model."
NOT_NEUTRAL = (
    "Neutrality scores apply to probes whose expected label is neutral. For this probe, read the accuracy (1 is best) "
    "and the gaps between groups (0 is best)."
)


def tables(conditions: list[SeedsResult], comparison: ProbeComparison | None) -> Iterator[RenderableType]:
    """Yield everything to print, in order."""
    first = conditions[0].first
    neutral = first.asked.expected == "neutral"
    of_all = f" of {first.params['all_pairs']:,}" if first.params["sample"] else ""
    yield f"[bold]{escape(first.probe)}[/]  {first.n_pairs:,}{of_all} pairs, expected label: {first.asked.expected}"
    yield from (f"[dim]{escape(_describe(condition))}[/]" for condition in conditions)
    if not neutral:
        accuracies = ", ".join(f"{condition.accuracy:z.3f}" for condition in conditions)
        yield f"accuracy: [bold]{accuracies}[/]"
    yield from (f"[bold]warning: {escape(warning)}[/]" for warning in _warnings(conditions))
    yield _comparison_table(comparison) if comparison else _condition_table(conditions[0])
    yield from _details(conditions)
    over = ", ".join(conditions[0].interval_over)
    intervals = f"95 % intervals over {over}." if over else "Too few words and models for intervals."
    groups = conditions[0].groups
    gaps = f"Gaps are {groups[0]} minus {groups[1]}. " if groups else ""
    yield f"[dim]{escape(gaps)}{intervals}[/]"
    if not neutral:
        yield f"[dim]{NOT_NEUTRAL}[/]"
        return
    yield f"[dim]{EXPLANATION}[/]"
    yield f"[dim]{LIMITS} {WITH_CONTROLS if conditions[0].controls else WITHOUT_CONTROLS}[/]"


def _warnings(conditions: Sequence[SeedsResult]) -> Iterator[str]:
    for condition in conditions:
        if condition.warning:
            yield _prefix(condition, conditions) + condition.warning


def _prefix(condition: SeedsResult, conditions: Sequence[SeedsResult]) -> str:
    """Return the name of a condition before a line about it, where there are several."""
    return f"{_short_name(condition)}: " if len(conditions) > 1 else ""


def _short_name(condition: SeedsResult) -> str:
    return condition.condition.removeprefix("embedded:")


def _describe(condition: SeedsResult) -> str:
    """Return the models of a condition, and what the embedded ones were trained on."""
    from evenhand.subjects.embedded_nli import TRAINED_ON

    count = len(condition.results)
    kind, _, name = condition.condition.partition(":")
    if kind == "embedded" and name in TRAINED_ON:
        return f"{name}: {count} embedded models trained on {TRAINED_ON[name]}"
    return f"{condition.condition}: {count} models" if count > 1 else condition.condition


def _label(name: str) -> str:
    from evenhand.measures.inference.run_probe import score_label

    return score_label(name)


def _target(name: str) -> str:
    return "→ 0" if name.startswith("gap_") or name in ("d", "E") else "→ 1"


def _empty_table(columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in columns:
        text = column in ("score", "better")
        table.add_column(escape(column), justify="left" if text else "right", no_wrap=column != "score")
    return table


def _condition_table(condition: SeedsResult) -> Table:
    several = len(condition.results) > 1
    statistics = ("mean", "sd", "min", "max") if several else ("value",)
    table = _empty_table(("score", "better", *statistics, "95 % interval"))
    neutral = condition.first.asked.expected == "neutral"
    for name, spread in condition.scores.items():
        others = (spread.sd or 0, min(spread.values), max(spread.values)) if several else ()
        target = _target(name) if neutral or name.startswith("gap_") else ""
        cells = [f"[bold]{spread.mean:z.3f}[/]", *(f"{value:z.3f}" for value in others), _interval(spread)]
        table.add_row(_label(name), target, *cells)
    return table


def _comparison_table(comparison: ProbeComparison) -> Table:
    """Return mean and standard deviation over seeds of each condition, and the paired difference."""
    sides = (comparison.before, comparison.after)
    table = _empty_table(("score", "better", *map(_short_name, sides), "difference", "95 % interval"))
    for name, difference in comparison.differences.items():
        cells = [_mean_and_sd(side.scores[name]) for side in sides]
        table.add_row(_label(name), _target(name), *cells, f"[bold]{difference.mean:+z.3f}[/]", _interval(difference))
    return table


def _mean_and_sd(spread: Spread) -> str:
    """Return mean and deviation, short enough for two conditions, difference and interval in 80 columns."""
    return f"{spread.mean:z.3f}" + (f" ±{spread.sd:z.3f}".replace("±0", "±") if spread.sd is not None else "")


def _interval(spread: Spread) -> str:
    return escape(f"[{spread.interval[0]:z.3f}, {spread.interval[1]:z.3f}]") if spread.interval else ""


def _details(conditions: list[SeedsResult]) -> Iterator[str]:
    """Yield controls, tests, sampling error, coverage and the most extreme pairs."""
    for condition in conditions:
        prefix = _prefix(condition, conditions)
        if condition.controls:
            accuracies = ", ".join(f"{control} {share:.1%}" for control, share in condition.controls.items())
            yield f"[dim]{escape(prefix)}accuracy on controls: {escape(accuracies)}[/]"
        yield from (f"[dim]{escape(prefix + line)}[/]" for line in (*_tests(condition), *_sampling(condition)))
    coverage, first = conditions[0].coverage, conditions[0].first
    missing = f" (out of vocabulary: {', '.join(coverage.missing[:12])})" if coverage.missing else ""
    yield f"[dim]fillers in vocabulary: {escape(str(coverage) + missing)}[/]"
    for label in ("entailment", "contradiction"):
        if label != first.asked.expected:
            pair = first.top(label, 1)[0]
            text = f"highest {label} {pair[label]:z.3f}: {pair['premise']} → {pair['hypothesis']}"
            yield f"[dim]{escape(text)}[/]"


def _tests(condition: SeedsResult) -> Iterator[str]:
    """Yield the permutation p-values of each model."""
    gaps = [result.gap.p_value for result in condition.results if result.gap and result.gap.p_value is not None]
    marked = [result.marked for result in condition.results if result.marked and result.marked.p_value is not None]
    of_gap = f"gap entailment {', '.join(f'{p:z.3f}' for p in gaps)}; " if gaps else ""
    if marked:
        of_d = ", ".join(f"{one.p_value:z.3f}" for one in marked)
        least = f" (minimum {_smallest_p(condition, marked[0]):.2g})" if marked[0].exact else ""
        yield f"permutation p over {marked[0].partitions:,} group assignments{least}: {of_gap}d {of_d}"


def _smallest_p(condition: SeedsResult, marked: MarkedBias) -> float:
    """Return the smallest possible p: exchanging two groups of equal size does not change their distance."""
    sizes = {condition.first.groups[name].words for name in (marked.first, marked.second)}
    return (2 if len(sizes) == 1 else 1) / marked.partitions


def _sampling(condition: SeedsResult) -> Iterator[str]:
    """Yield the intervals for the scores over all pairs, if a sample was evaluated."""
    intervals = {_label(name): spread.sampling for name, spread in condition.scores.items() if spread.sampling}
    if intervals:
        listing = ", ".join(f"{name} [{low:z.3f}, {high:z.3f}]" for name, (low, high) in intervals.items())
        yield f"95 % range expected over all pairs: {listing}"


def probe_record(name: str) -> dict[str, Any]:
    """Return templates, fillers, counts, source, expected label and an example."""
    from evenhand.words import probes
    from evenhand.words.probes.catalog import variants

    probe, parts = probes.probe(name), name.split("+")
    others = variants(parts[0]) if parts[0] in probes.ids() else ()
    phrases, premises, hypotheses = probe.shape
    example = probe.pair(probe.n_pairs // 2)
    return {
        "kind": "probe",
        "id": name,
        "pairs": f"{premises:,} x {hypotheses:,} x {phrases:,} = {probe.n_pairs:,} (premise x hypothesis x phrases)",
        "example": {"premise": example.premise, "hypothesis": example.hypothesis},
        "expected label": probe.expected,
        "premise": _side(probe.premise),
        "hypothesis": _side(probe.hypothesis),
        "gap": _gap(probe),
        "templates": [_template(template, probe) for template in probe.templates],
        "surface": {key: value for key, value in vars(probe.surface).items() if value},
        "variants": [f"{name}+{variant}" for variant in others if variant not in parts],
        "controls": list(probe.controls),
        "note": probe.note,
        "source": probe.source.reference if probe.source else "",
        "bibtex": probe.citation,
    }


def models_record(name: str) -> dict[str, Any]:
    """Return training vectors, accuracy and model card of the embedded models of one condition."""
    from evenhand.subjects import embedded_nli as embedded
    from evenhand.subjects.nli_models import EMBEDDED

    condition: Any = EMBEDDED[name]
    return {
        "kind": "models",
        "id": f"embedded:{condition}",
        "trained on": embedded.TRAINED_ON[condition],
        "accuracy": {
            f"seed {seed}, {data}": share
            for seed, config in zip(embedded.SEEDS, embedded.settings(condition), strict=True)
            for data, share in dict(config.get("accuracy", {})).items()  # type: ignore[call-overload]
        },
        "card": embedded.card(),
    }


def _side(fillers: tuple[Filler, ...]) -> dict[str, Any]:
    """Return the words of a side by group, each group with its size."""
    groups: dict[str, list[str]] = {}
    for filler in fillers:
        groups.setdefault(filler.group or "all", []).append(filler.word)
    return {f"{group} ({len(words)})": words for group, words in groups.items()}


def _gap(probe: Probe) -> str:
    if probe.contrast:
        return " minus ".join(probe.contrast)
    return "between the two groups that differ most" if len(probe.groups) > 1 else "none: there is one group"


def _template(template: Template, probe: Probe) -> dict[str, Any]:
    from evenhand.words.probes.phrases import DETERMINER

    fillers = {f"{slot} ({len(words)})": list(words) for slot, words in template.fillers.items()}
    front, mark, back = template.text.partition("{" + probe.differs + "}")
    text = DETERMINER.sub(lambda match: probe.surface.determiner_for(match[1]) + " ", front) + mark + back
    return {"text": probe.surface.end(text), "phrases": template.size, "differs": probe.differs, **fillers}
