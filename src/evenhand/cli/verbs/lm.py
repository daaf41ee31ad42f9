"""`evenhand lm`: train a language model, with or without a term against bias; its text; and what that text says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand.cli.lm_options import Batch, Definition, Device, Pairs, Precision, Reduction, Samples, Temperature, Tokens
from evenhand.cli.options import Json, Seed, notes_on_stderr
from evenhand.cli.screens.terminal import escape, note, progress, show, show_json
from evenhand.cli.verbs.lm_measure import measure
from evenhand.errors import UsageError
from evenhand.subjects.language_models import open_language_model


def train(
    text: Annotated[str, typer.Argument(metavar="TRAIN", help="Training text, or a folder with all parts.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the model, or of all models of a sweep.")],
    valid: Annotated[str | None, typer.Option(help="Validation text.", show_default="in the folder")] = None,
    test: Annotated[str | None, typer.Option(help="Test text.", show_default="in the folder")] = None,
    preset: Annotated[str, typer.Option(help="Published settings: ptb, wikitext-2, cnn-dailymail.")] = "ptb",
    change: Annotated[
        list[str] | None, typer.Option("--set", help="A setting that differs, such as hidden=600; may be repeated.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Readings of the text in all.", show_default="preset")] = None,
    strength: Annotated[float, typer.Option("--lambda", help="Strength of the term against bias; 0 for none.")] = 0.0,
    sweep: Annotated[
        str | None, typer.Option("--sweep-lambda", help="Train, generate and measure for each: 0,0.001,0.01,0.1,1.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="In a sweep: so many seeds from --seed on.")] = 1,
    jobs: Annotated[int, typer.Option(help="In a sweep: models trained side by side.")] = 1,
    pairs: Pairs = None,
    definition: Definition = "printed",
    reduction: Reduction = "sum",
    where: Annotated[str, typer.Option(help="Embeddings that the term looks at: input, output or both.")] = "input",
    untied: Annotated[bool, typer.Option("--untied", help="Input and output embeddings of their own.")] = False,
    samples: Samples = 2000,
    tokens: Tokens = 500,
    permutations: Annotated[int, typer.Option(help="In a sweep: shuffled labellings for the baseline.")] = 20,
    seed: Seed = 1111,
    device: Device = "auto",
    precision: Precision = "auto",
    time_limit: Annotated[float | None, typer.Option(help="Seconds; the same command goes on from there.")] = None,
    as_json: Json = False,
) -> None:
    """Train an AWD-LSTM; a stopped training goes on with the same command. With --sweep-lambda: the paper's table."""
    from evenhand.cli.verbs.lm_training import plan, run_sweep, train_one

    planned = plan(
        text, valid, test, preset=preset, changes=_changes(change or [], untied), epochs=epochs, pairs=pairs,
        definition=definition, reduction=reduction, where=where, samples=samples, tokens=tokens,
        permutations=permutations, device=device, precision=precision,
    )  # fmt: skip
    if where != "input" and not untied:
        note("note: input and output embeddings are one matrix here, so that --where changes nothing; try --untied")
    if sweep is None:
        train_one(planned, strength, seed, out, time_limit=time_limit, as_json=as_json)
    else:
        strengths = _numbers(sweep)
        chosen = list(range(seed, seed + seeds))
        run_sweep(planned, strengths, chosen, out, jobs=jobs, time_limit=time_limit, as_json=as_json)


def generate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, ours or of transformers; a .gguf.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File: one text a line, or .jsonl with a field `text`.")],
    samples: Samples = 2000,
    tokens: Tokens = 500,
    temperature: Temperature = 1.0,
    start: Annotated[
        str, typer.Option(help="What a text begins after: uniform or eos (AWD-LSTM); words (transformers).")
    ] = "",
    burn_in: Annotated[int, typer.Option(help="Tokens thrown away at the start of each text (AWD-LSTM).")] = 0,
    batch: Batch = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Write texts that a model draws, always the same ones for the same seed."""
    from evenhand.subjects.language_models import write_texts

    with notes_on_stderr(), progress("samples") as bar:
        opened_model = open_language_model(model, device=device, precision=precision)
        options: dict[str, Any] = {"temperature": temperature, "start": start, "burn_in": burn_in, "batch": batch}
        texts = opened_model.texts(samples, tokens, seed=seed, progress=bar, **options)
        write_texts(out, texts)
    count = sum(len(text.split()) for text in texts)
    record = {"model": model, **opened_model.describe(), "out": str(out), "samples": len(texts), "words": count}
    if as_json:
        show_json({**record, "tokens": tokens, "temperature": temperature, "seed": seed})
    else:
        show(escape(f"{len(texts):,} texts, {count:,} words in {out}"))
        note(f"seed {seed}")


def sub_app(guarded: Callable[[Callable[..., None]], Callable[..., None]] = lambda verb: verb) -> typer.Typer:
    """The verbs as an app of their own; `guarded` turns errors into messages and exit codes."""
    told = "Language models: train them, with a term against bias; draw text; measure it."
    app = typer.Typer(name="lm", help=told, no_args_is_help=True)
    for verb in (train, generate, measure):
        app.command(verb.__name__)(guarded(verb))
    return app


def _changes(given: list[str], untied: bool) -> dict[str, Any]:
    parts = [text.partition("=") for text in given]
    wrong = next(("".join(part) for part in parts if not part[1] or not _number(part[2])), None)
    if wrong is not None:
        raise UsageError(f"--set {wrong}: no setting and a number", hint="such as --set hidden=600")
    changes: dict[str, Any] = {name.strip(): _number(value)[0] for name, _, value in parts}
    return {**changes, **({"tied": False} if untied else {})}


def _numbers(text: str) -> list[float]:
    found = [_number(part) for part in text.split(",")]
    if not all(found):
        raise UsageError(f"--sweep-lambda {text}: not numbers parted by commas", hint="such as 0,0.001,0.01,0.1,1")
    return [float(number[0]) for number in found]


def _number(text: str) -> tuple[int | float, ...]:
    """The number that a text spells, alone in a tuple; an empty one where it spells none."""
    for kind in (int, float):
        try:
            return (kind(text),)
        except ValueError:
            continue
    return ()
