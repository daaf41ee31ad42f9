"""`evenhand probe`: what a model of natural language inference concludes from who did it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json, Seed, load, notes_on_stderr
from evenhand.cli.screen import escape, note, progress, show, show_json
from evenhand.errors import UsageError

if TYPE_CHECKING:
    from evenhand.measures.inference import ProbeResult, Score

PREDICTIONS = (".jsonl", ".csv", ".jsonl.gz", ".csv.gz", ".jsonl.zst", ".csv.zst")


def probe(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file (.safetensors) or predictions (.jsonl, .csv).")
    ],
    which: Annotated[str, typer.Option("--probe", "-p", help="A probe: an id or a file.")] = "gender-occupation",
    vectors: Annotated[str, typer.Option("--vectors", help="The vectors that the model reads.")] = "glove-embedded",
    map_file: Annotated[
        Path | None,
        typer.Option("--map", help="A fitted map, applied to the vectors at test time only.", show_default=False),
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", help="Ask about so many pairs only.", show_default="all pairs")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="numpy, torch, torch:cuda or auto.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Go on though many fillers are not in the vectors.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Only write the pairs (.jsonl, .csv, .parquet); MODEL is not read."),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Ask a model about sentences that differ in one word, and score its answers."""
    from evenhand.measures.inference import probe as run
    from evenhand.words import probes

    if export:
        count = probes.export(probes.probe(which), export, sample=sample, seed=seed)
        note(f"wrote {count:,} pairs to {export}")
        return
    asked = probes.probe(which)
    with notes_on_stderr(), progress(asked.name) as told:
        result = run(
            _model(model, vectors, map_file, device), asked, sample=sample, seed=seed, force=force, progress=told
        )
    if as_json:
        show_json(result.to_dict())
    else:
        _show(result)
    note(f"seed {seed}")


def _model(text: str, vectors: str, map_file: Path | None, device: str) -> Any:
    """The model that a file name means; a map changes what it reads, not how it was trained."""
    from evenhand.models.nli import DecomposableAttention, PredictionsFile

    if text.lower().endswith(PREDICTIONS):
        return PredictionsFile(Path(text))
    if not text.lower().endswith(".safetensors"):
        raise UsageError(
            f"{text!r} is no model file", hint="give a .safetensors model, or predictions as .jsonl or .csv"
        )
    read = load(vectors)
    if map_file:
        from evenhand.mitigations import VectorMap

        read = VectorMap.load(map_file)(read)
        note("the map is applied at test time only: the model was trained without it")
    return DecomposableAttention.load(Path(text), read, backend_name="numpy" if device == "auto" else device)


def _show(result: ProbeResult) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("score", "value", "95 % interval"):
        table.add_column(column, justify="left" if column == "score" else "right")
    neutral = result.neutrality
    rows = {"net neutral": neutral.net_neutral, "fraction neutral": neutral.fraction_neutral}
    rows |= {f"T:{tau:g}": score for tau, score in neutral.threshold.items()}
    if result.gap:
        between = f"{result.gap.first} - {result.gap.second}"
        rows |= {f"entailment, {between}": result.gap.entailment, f"contradiction, {between}": result.gap.contradiction}
    for name, score in rows.items():
        table.add_row(escape(name), f"[bold]{score.value:.3f}[/]", escape(_interval(score)))
    show(f"[bold]{result.probe}[/]  {result.model}, {result.n_pairs:,} pairs", table)
    for name, right in result.controls.items():
        show(f"[dim]{name}: {right:.1%} right[/]")
    for label in ("entailment", "contradiction"):
        pair = result.top(label, 1)[0]
        show(f"[dim]highest {label} {pair[label]:.3f}: {escape(pair['premise'])} → {escape(pair['hypothesis'])}[/]")
    over = " and ".join(result.interval_over) or "nothing"
    show(f"[dim]Intervals over {over}. 1 is neutral throughout; a gap of 0 leans neither way.[/]")
    if result.coverage.missing:
        show(f"[dim]lost: {escape(', '.join(result.coverage.missing[:12]))}[/]")


def _interval(score: Score) -> str:
    return f"[{score.interval[0]:.3f}, {score.interval[1]:.3f}]" if score.interval else ""
