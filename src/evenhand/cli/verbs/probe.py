"""`evenhand probe`: does an inference model draw conclusions from group words?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    MEGABYTE,
    EngineChoice,
    Json,
    LabelOrder,
    MaxRecord,
    Overwrite,
    RecordFolder,
    Seed,
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
from evenhand.errors import UsageError, unknown_name
from evenhand.outputs import output_file, require_run_folder

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from evenhand.audit.manifest import Invocation
    from evenhand.measures.inference import MarkedBias, ProbeComparison, SeedsResult, Spread
    from evenhand.measures.inference.seeds import ProbeOptions
    from evenhand.subjects.nli_models import NLISubject
    from evenhand.words.probes import Probe


@with_groups
def probe(
    context: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="A model file (.safetensors), a Hugging Face folder (hf:FOLDER), predictions (.jsonl, .csv), embedded "
            "or embedded:projected; several are seeds of one condition. Default: the three embedded models.",
        ),
    ] = None,
    *,
    which: Annotated[
        str, typer.Option("--probe", "-p", help="A probe: an id of `evenhand list probes`, or a file.")
    ] = "gender-occupation",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Some words of a slot, such as premise=nurse,doctor; may be repeated.",
            show_default=False,
        ),
    ] = None,
    surface: Annotated[
        str | None,
        typer.Option(
            help="How sentences are written: released (as the code of Dev et al. has them), or choices with commas "
            "between, such as articles=letter,case=lower.",
            show_default="as the probe says",
        ),
    ] = None,
    tau: Annotated[
        list[float] | None, typer.Option("--tau", help="A threshold of T:tau; may be repeated.", show_default="0.5 0.7")
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also the embedded models retrained without the he-she direction."),
    ] = False,
    vectors: Annotated[
        str, typer.Option("--vectors", help="The vectors that the model reads, or the folder of its ELMo model.")
    ] = "glove-embedded",
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="A fitted map, applied to the vectors first: at test time only, unless the model was trained with it.",
            show_default=False,
        ),
    ] = None,
    labels: LabelOrder = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", help="Ask about a stratified sample of about so many pairs.", show_default="all pairs"
        ),
    ] = None,
    max_record: MaxRecord = 128,
    device: Annotated[str, typer.Option("--device", help="numpy, torch, torch:cuda or auto.")] = "auto",
    engine: EngineChoice,
    force: Annotated[bool, typer.Option("--force", help="Go on though many fillers are not in the vectors.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            help="Only write the pairs: .jsonl, .csv, .parquet, or without suffix a folder that "
            "datasets.load_dataset reads; no model is asked.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    out: RecordFolder = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Ask a model about sentences that differ in one word, and score its answers."""
    from evenhand.measures.inference import compare as compare_results
    from evenhand.mitigations import VectorMap
    from evenhand.subjects.nli_models import open_models
    from evenhand.words import probes

    asked = restricted_probe(which, only=only or [], surface=surface)
    if export:
        with output_file(export, overwrite=overwrite):
            count = probes.export(asked, export, sample=sample, seed=seed)
        if as_json:
            show_json({"probe": asked.name, "pairs": count, "written": str(export)})
        note(f"wrote {count:,} pairs to {export}")
        return
    _check_compare(compare, model)
    if out and (only or surface):
        raise UsageError("--out records whole probes", hint="leave out --only and --surface")
    if out:
        require_run_folder(out)
    change = VectorMap.load(map_file) if map_file else None
    addresses = [model or ["embedded"], *([["embedded:projected"]] if compare else [])]
    with notes_on_stderr(), engine.open() as where:
        open_one = partial(open_models, vectors=vectors, change=change, device=device, labels=labels)
        subjects = [open_one(some, max_record=max_record * MEGABYTE) for some in addresses]
        options: ProbeOptions = {"sample": sample, "force": force, "engine": where}
        if tau:
            options["thresholds"] = tau
        results = [_run(subject, asked, seed, options) for subject in subjects]
    comparison = compare_results(*results) if compare else None
    if out:  # before the output, whose reader may go away
        _write_record(subjects, results, asked, sample, seed, out, invocation(context))
    if as_json:
        difference = comparison.to_dict() if comparison else {}
        compared = {"compared": difference["after"], "differences": difference["differences"]} if comparison else {}
        show_json({**results[0].to_dict(), **compared, "read": [subject.ensemble.note for subject in subjects]})
    else:
        show(*tables(results, comparison))
    for subject in subjects:
        if subject.ensemble.note:
            note(f"note: {subject.ensemble.note}")
    note(f"seed {seed}")


def _check_compare(compare: bool, models: list[str] | None) -> None:
    """Raise if there is nothing to compare with: only the embedded models come in two conditions."""
    if compare and (models or ["embedded"]) not in (["embedded"], ["embedded:original"]):
        raise UsageError(
            f"--compare is for the embedded models, not for {', '.join(models or [])}",
            hint="probe your own models before and after with --out, then `evenhand compare RUN_A RUN_B`",
        )


def _run(subject: NLISubject, asked: Probe, seed: int, options: ProbeOptions) -> SeedsResult:
    """Put the probe to all models of one subject."""
    from evenhand.measures.inference import probe_seeds

    with progress(asked.name) as bar:
        return probe_seeds(subject.ensemble.members, asked, condition=subject.name, seed=seed, progress=bar, **options)


def _write_record(
    subjects: list[NLISubject], results: list[SeedsResult], asked: Probe, sample: int | None, seed: int, out: Path,
    started: Invocation,
) -> None:  # fmt: skip
    """Write the scores as an audit, so that `check`, `compare` and `report` read them."""
    from evenhand.audit import Audit, Plan, Question

    whole = sample is None or sample >= asked.n_pairs
    for subject, result in zip(subjects, results, strict=True):
        for controls in (True, False):
            subject.ensemble.results[asked, None if whole else sample, seed, controls] = result
    names = ["nli-neutrality", *(["nli-gap", "mab"] if results[0].groups else [])]
    size = {"sample": 0 if whole else sample}
    questions = tuple(Question(name, asked.name, size, only_query=True) for name in names)
    plan = Plan(questions, concept=asked.concept or "gender", seed=seed)
    record = Audit.run(subjects, plan=plan, invocation=started)
    write_record(record, out)


RELEASED = "released"


def restricted_probe(which: str, *, only: list[str], surface: str | None) -> Probe:
    """The probe of that id or file, restricted and rewritten as the options say."""
    from evenhand.words.probes import probe

    found = probe(which)
    if only:
        chosen = dict(_pair(text, "--only", "premise=nurse,doctor") for text in only)
        found = found.restrict(**{slot: [word.strip() for word in words.split(",")] for slot, words in chosen.items()})
    return _written(found, surface) if surface else found


def _written(found: Probe, text: str) -> Probe:
    """`released`, or choices such as `articles=letter,case=lower`."""
    from evenhand.words.probes import RELEASED as AS_RELEASED
    from evenhand.words.probes.phrases import CHOICES

    if text == RELEASED:
        return found.with_surface(AS_RELEASED)
    choices: dict[str, Any] = dict(_pair(part, "--surface", "articles=letter,case=lower") for part in text.split(","))
    for name in choices:
        if name not in CHOICES:
            raise unknown_name("choice of --surface", name, CHOICES)
    return found.with_surface(**choices)


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value:
        raise UsageError(f"{option} {text}: no name and value", hint=f"write {option} {example}")
    return name.strip(), value


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


def _empty_table(*columns: str) -> Table:
    table = plain_table(*columns, left=("score", "better"))
    for column in table.columns[1:]:
        column.no_wrap = True
    return table


def _condition_table(condition: SeedsResult) -> Table:
    several = len(condition.results) > 1
    statistics = ("mean", "sd", "min", "max") if several else ("value",)
    table = _empty_table("score", "better", *statistics, "95 % interval")
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
    table = _empty_table("score", "better", *map(_short_name, sides), "difference", "95 % interval")
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
