"""`evenhand lm`: train language models, optionally with a bias penalty, sample from them and measure the text."""

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
    text: Annotated[
        str, typer.Argument(metavar="TRAIN", help="Training text, or a folder with train, valid and test files.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder of the model or sweep.")],
    valid: Annotated[str | None, typer.Option(help="Validation text.", show_default="from the folder")] = None,
    test: Annotated[str | None, typer.Option(help="Test text.", show_default="from the folder")] = None,
    preset: Annotated[str, typer.Option(help="Published settings: ptb, wikitext-2, cnn-dailymail.")] = "ptb",
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, such as hidden=600; repeatable.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Total number of epochs.", show_default="preset")] = None,
    strength: Annotated[float, typer.Option("--lambda", help="Strength of the bias penalty; 0 for none.")] = 0.0,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep-lambda", help="Train, sample and measure for each strength, such as 0,0.001,0.01,0.1,1."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Sweep: number of seeds, starting at --seed.")] = 1,
    jobs: Annotated[int, typer.Option(help="Sweep: models trained in parallel.")] = 1,
    pairs: Pairs = None,
    definition: Definition = "printed",
    reduction: Reduction = "sum",
    where: Annotated[str, typer.Option(help="Embeddings to penalise: input, output or both.")] = "input",
    untied: Annotated[bool, typer.Option("--untied", help="Separate input and output embeddings.")] = False,
    samples: Samples = 2000,
    tokens: Tokens = 500,
    permutations: Annotated[int, typer.Option(help="Sweep: permutations for the shuffled baseline.")] = 20,
    seed: Seed = 1111,
    device: Device = "auto",
    precision: Precision = "auto",
    time_limit: Annotated[
        float | None, typer.Option(help="Time limit in seconds; rerun the same command to resume.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train an AWD-LSTM; rerun the same command to resume. With --sweep-lambda, reproduce the table of the paper."""
    from evenhand.cli.verbs.lm_training import plan, run_sweep, train_one

    planned = plan(
        text, valid, test, preset=preset, changes=_parse_changes(change or [], untied), epochs=epochs, pairs=pairs,
        definition=definition, reduction=reduction, where=where, samples=samples, tokens=tokens,
        permutations=permutations, device=device, precision=precision,
    )  # fmt: skip
    if where != "input" and not untied:
        note("note: input and output embeddings share one matrix, so --where has no effect; try --untied")
    if sweep is None:
        train_one(planned, strength, seed, out, time_limit=time_limit, as_json=as_json)
    else:
        strengths = _parse_numbers(sweep)
        run_sweep(
            planned, strengths, list(range(seed, seed + seeds)), out, jobs=jobs, time_limit=time_limit, as_json=as_json
        )


def generate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder of an evenhand or Hugging Face model, or a .gguf file.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output file: one text per line, or .jsonl with a field `text`.")
    ],
    samples: Samples = 2000,
    tokens: Tokens = 500,
    temperature: Temperature = 1.0,
    start: Annotated[
        str, typer.Option(help="First input: uniform or eos (AWD-LSTM), or a text to continue (Hugging Face).")
    ] = "",
    burn_in: Annotated[int, typer.Option(help="Tokens discarded at the start of each text (AWD-LSTM).")] = 0,
    batch: Batch = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Sample texts; reproducible for a given seed."""
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
    """Return the verbs as an app; `guarded` turns errors into messages and exit codes."""
    summary = "Language models: train (optionally with a bias penalty), sample and measure."
    app = typer.Typer(name="lm", help=summary, no_args_is_help=True)
    for verb in (train, generate, measure):
        app.command(verb.__name__)(guarded(verb))
    return app


def _parse_changes(texts: list[str], untied: bool) -> dict[str, float]:
    parts = [text.partition("=") for text in texts]
    wrong = next(("".join(part) for part in parts if not part[1] or not _number(part[2])), None)
    if wrong is not None:
        raise UsageError(f"--set {wrong}: not a setting and a number", hint="such as --set hidden=600")
    changes = {name.strip(): _number(value)[0] for name, _, value in parts}
    return {**changes, **({"tied": False} if untied else {})}


def _parse_numbers(text: str) -> list[float]:
    numbers = [_number(part) for part in text.split(",")]
    if not all(numbers):
        raise UsageError(f"--sweep-lambda {text}: not comma-separated numbers", hint="such as 0,0.001,0.01,0.1,1")
    return [float(number[0]) for number in numbers]


def _number(text: str) -> tuple[int | float, ...]:
    """Return the number of a text in a tuple, or an empty tuple if it is not a number."""
    for kind in (int, float):
        try:
            return (kind(text),)
        except ValueError:
            continue
    return ()
