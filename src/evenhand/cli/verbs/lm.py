"""`evenhand lm`: train language models, optionally with a bias penalty, sample from them and measure the text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json, Only, Overwrite, RecordFolder, Seed, invocation, with_groups
from evenhand.cli.terminal import (
    escape,
    note,
    notes_on_stderr,
    plain_table,
    progress,
    show,
    show_json,
    show_table,
    write_record,
)
from evenhand.errors import InputMissingError, UsageError
from evenhand.files import write_text
from evenhand.models import lm
from evenhand.models.lm.awd_lstm.model_folder import CONFIG, WEIGHTS, WORDS, is_saved
from evenhand.models.model_files import JSONObject
from evenhand.outputs import output_file, require_own_folder, require_run_folder
from evenhand.reproduce import bordia2019
from evenhand.reproduce.bordia2019 import (
    CHECKPOINT,
    SweepCell,
    SweepOutcome,
    SweepPlan,
    cells,
    run_cells,
    term_options,
    train_cell,
)
from evenhand.reproduce.comparison import PaperTable

if TYPE_CHECKING:
    from evenhand.audit.manifest import Invocation
    from evenhand.corpus.comparison import Comparison
    from evenhand.progress import Progress


Batch = Annotated[int | None, typer.Option("--batch", help="Texts sampled at once.", show_default="by device")]


@dataclass(frozen=True)
class Sampling:
    """How many texts a model writes, and how."""

    samples: Annotated[int, typer.Option(help="Number of texts; 2,000 in the paper.")] = 2000
    tokens: Annotated[int, typer.Option(help="Tokens per text; 500 in the paper.")] = 500
    temperature: Annotated[float, typer.Option(help="Sampling temperature.")] = 1.0
    batch: Batch = None


@dataclass(frozen=True)
class ModelDevice:
    """Where a model runs, and in which precision."""

    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto"
    precision: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto"


@with_groups
def train(
    text: Annotated[
        str, typer.Argument(metavar="TRAIN", help="Training text, or a folder with train, valid and test files.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder of the model or sweep.")],
    *,
    valid: Annotated[str | None, typer.Option(help="Validation text.", show_default="from the folder")] = None,
    test: Annotated[str | None, typer.Option(help="Test text.", show_default="from the folder")] = None,
    preset: Annotated[str, typer.Option(help="Published settings: ptb, wikitext-2, cnn-dailymail.")] = "ptb",
    setting: Annotated[
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
    pairs: Annotated[str | None, typer.Option(help="Word pairs: an id or a file.", show_default="by preset")] = None,
    definition: Annotated[
        str,
        typer.Option(
            help="Definition of the bias penalty: printed (paper) or released (unit rows, first direction only)."
        ),
    ] = "printed",
    reduction: Annotated[str, typer.Option(help="Reduction of the bias penalty over words: sum (paper) or mean.")] = (
        "sum"
    ),
    where: Annotated[str, typer.Option(help="Embeddings to penalise: input, output or both.")] = "input",
    untied: Annotated[bool, typer.Option("--untied", help="Separate input and output embeddings.")] = False,
    sampling: Annotated[Sampling, Only("samples", "tokens")],
    permutations: Annotated[int, typer.Option(help="Sweep: permutations for the shuffled baseline.")] = 20,
    seed: Seed = 1111,
    device: ModelDevice,
    time_limit: Annotated[
        float | None, typer.Option(help="Time limit in seconds; rerun the same command to resume.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train an AWD-LSTM; rerun the same command to resume. With --sweep-lambda, reproduce the table of the paper."""
    planned = plan(
        text, valid, test, preset=preset, changes=_parse_changes(setting or [], untied), epochs=epochs, pairs=pairs,
        definition=definition, reduction=reduction, where=where, samples=sampling.samples, tokens=sampling.tokens,
        permutations=permutations, **asdict(device),
    )  # fmt: skip
    require_own_folder(out, MODEL_FILES, is_training)
    if where != "input" and not untied:
        note("note: input and output embeddings share one matrix, so --where has no effect; try --untied")
    if sweep is None:
        train_one(planned, strength, seed, out, time_limit=time_limit, as_json=as_json)
    else:
        strengths = _parse_numbers(sweep)
        run_sweep(
            planned, strengths, list(range(seed, seed + seeds)), out, jobs=jobs, time_limit=time_limit, as_json=as_json
        )


@with_groups
def generate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder of an evenhand or Hugging Face model, or a .gguf file.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output file: one text per line, or .jsonl with a field `text`.")
    ],
    *,
    sampling: Annotated[Sampling, Only("samples", "tokens", "temperature")],
    start: Annotated[
        str, typer.Option(help="First input: uniform or eos (AWD-LSTM), or a text to continue (Hugging Face).")
    ] = "",
    burn_in: Annotated[int, typer.Option(help="Tokens discarded at the start of each text (AWD-LSTM).")] = 0,
    batch: Batch = None,
    seed: Seed = 0,
    device: ModelDevice,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Sample texts; reproducible for a given seed."""
    from evenhand.subjects.language_models import open_language_model, write_texts

    with output_file(out, sources=[model], overwrite=overwrite), notes_on_stderr(), progress("samples") as bar:
        opened = open_language_model(model, **asdict(device))
        options = asdict(sampling) | {"start": start, "burn_in": burn_in, "batch": batch}
        texts = opened.texts(seed=seed, progress=bar, **options)
        write_texts(out, texts)
    count = sum(len(text.split()) for text in texts)
    record = {"model": model, **opened.describe(), "out": str(out), "samples": len(texts), "words": count}
    if as_json:
        show_json({**record, "tokens": sampling.tokens, "temperature": sampling.temperature, "seed": seed})
    else:
        show(escape(f"{len(texts):,} texts, {count:,} words in {out}"))
        note(f"seed {seed}")


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


CEILING = " ceiling"
NAMES = ("training text", "generated text")


@with_groups
def measure(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL|TEXT", help="A language model, or a file of generated texts.")],
    training: Annotated[str, typer.Option("--train", help="The training text.", show_default=False)],
    *,
    pairs: Annotated[str, typer.Option(help="Word pairs or a concept: an id or a file.")] = "bordia2019-cnn-dm",
    test: Annotated[str | None, typer.Option(help="Text to compute the perplexity of the model on.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="words, or whitespace for tokenised text.", show_default="by the model")
    ] = None,
    stop_words: Annotated[str, typer.Option(help="Words to exclude: english, none, or a file.")] = "english",
    min_count: Annotated[int, typer.Option(help="Minimum count of a word to be scored.")] = 1,
    permutations: Annotated[int, typer.Option(help="Permutations for the shuffled baseline; 0 for none.")] = 20,
    sampling: Sampling,
    keep: Annotated[Path | None, typer.Option(help="Save the generated texts to this file.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with a scatter plot of both contexts.")
    ] = None,
    seed: Seed = 0,
    device: ModelDevice,
    out: RecordFolder = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compare generated text with the training text: mean and standard deviation of |bias|, and their slope."""
    from evenhand.corpus import Corpus
    from evenhand.corpus.comparison import against_training
    from evenhand.subjects.language_models import is_model

    if test and not is_model(model):
        raise UsageError(f"{model} is a text, which has no perplexity", hint="name the model, or omit --test")
    if out:
        require_run_folder(out)
    kept, page = (output_file(path, sources=[model, training], overwrite=overwrite) for path in (keep, html))
    with kept, page, notes_on_stderr(), progress("lm measure") as bar:
        texts, tokenised, perplexity = _texts(model, sampling, device, seed, test, keep, bar)
        comparisons = against_training(
            Corpus([training]), texts, lists=pairs, tokenizer=tokenizer or ("whitespace" if tokenised else "words"),
            stop_words=_stop_words(stop_words), min_count=min_count, permutations=permutations, seed=seed, ceiling=True,
            progress=bar,
        )  # fmt: skip
        if html:
            from evenhand.report.text_comparison import write_comparison

            contexts = {name: c for name, c in comparisons.items() if not name.endswith(CEILING)}
            write_comparison(contexts, html, names=NAMES, perplexity=_format_perplexity(perplexity))
            note(f"page: {html}")
    if out:  # before the output, whose reader may go away
        opening = asdict(device) if is_model(model) else {}
        _write_record(model, opening, comparisons, pairs, seed, out, invocation(context))
    if as_json:
        records = {name: c.to_dict(points=not name.endswith(CEILING)) for name, c in comparisons.items()}
        show_json({"model": model, "training": training, "perplexity": perplexity, **records, "seed": seed})
    else:
        _show(comparisons, perplexity)
        note(f"seed {seed}")


def _write_record(
    model: str, opening: dict[str, str], comparisons: dict[str, Comparison], pairs: str, seed: int, out: Path,
    started: Invocation,
) -> None:  # fmt: skip
    """Write the scores of the generated text as an audit, so that `check`, `compare` and `report` read them."""
    from evenhand import words
    from evenhand.audit import Question
    from evenhand.audit.record import record_measured
    from evenhand.measures.text.corpus_bias import comparison_measurements
    from evenhand.subjects import open_subject
    from evenhand.subjects.language_models import is_model

    subject = open_subject(model if is_model(model) else f"corpus:{model}", **opening)
    rows = [
        measurement
        for name, comparison in comparisons.items()
        if not name.endswith(CEILING)
        for measurement in comparison_measurements(comparison, model=subject.name, seed=seed, prefix=f"{name}-")
    ]
    is_list = pairs in words.ids("pairs")
    concept = words.Concept("groups", pairs=words.pairs(pairs)) if is_list else words.concept(pairs)
    asked = [(Question("corpus-bias", "words", only_query=True), rows)]
    write_record(record_measured(subject, asked, concept, seed=seed, invocation=started), out)


def _texts(
    model: str, sampling: Sampling, device: ModelDevice, seed: int, test: str | None, keep: Path | None,
    bar: Progress | None,
) -> tuple[list[list[str]], bool, dict[str, float] | None]:  # fmt: skip
    """Return texts as words, whether they are tokenised, and the perplexity if a test text is given."""
    from evenhand.corpus.comparison import read_samples
    from evenhand.subjects.language_models import is_model, open_language_model, write_texts

    if not is_model(model):
        return read_samples(model), True, None
    opened = open_language_model(model, **asdict(device))
    texts = opened.texts(seed=seed, progress=bar, **asdict(sampling))
    if keep:
        write_texts(keep, texts)
    return [text.split() for text in texts], opened.whitespace, opened.perplexity(test) if test else None


def _stop_words(name: str) -> tuple[str, ...]:
    from evenhand.corpus.counting.tokens import SPECIAL_TOKENS, load_stop_words

    return (*load_stop_words(name), *SPECIAL_TOKENS)


def _format_perplexity(perplexity: dict[str, float] | None) -> str:
    if not perplexity:
        return ""
    by_token = f", {perplexity['token']:.1f} by token" if "token" in perplexity else ""
    return f"{perplexity['word']:.1f} by word{by_token}"


def _show(comparisons: dict[str, Comparison], perplexity: dict[str, float] | None) -> None:
    contexts = [name for name in comparisons if not name.endswith(CEILING)]
    table = plain_table("", *(f"{name} context" for name in contexts), left=[""])
    for name, values in _rows(comparisons, contexts).items():
        table.add_row(name, *map(escape, values))
    show(table)
    if perplexity:
        show(f"perplexity {_format_perplexity(perplexity)}")
    first, halves = comparisons[contexts[0]], comparisons[contexts[0] + CEILING]
    show(
        f"[dim]95 % intervals over documents. Positive: {escape(first.second.positive)}. beta: slope of the "
        "generated text's scores on the training text's. Both texts have the same size. Noise pulls beta towards 0: "
        f"'training text on itself' is one half on the other, {halves.second.tokens:,} tokens each. A text with more "
        "group words has a lower mean |bias|, so compare models with similar counts.[/]"
    )


def _rows(comparisons: dict[str, Comparison], contexts: list[str]) -> dict[str, list[str]]:
    chosen = [comparisons[name] for name in contexts]
    return {
        "tokens each": [f"{c.second.tokens:,}" for c in chosen],
        "training: group words": [_hits(c.first.hits) for c in chosen],
        "generated: group words": [_hits(c.second.hits) for c in chosen],
        "training: mean |bias|": [c.text("first_mu", 2) for c in chosen],
        "generated: mean |bias|": [c.text("mu", 2) for c in chosen],
        "  shuffled labels": [_base(c) for c in chosen],
        "training: sd": [c.text("first_sigma", 2) for c in chosen],
        "generated: sd": [c.text("sigma", 2) for c in chosen],
        "[bold]beta[/]": [c.text("beta", 2) for c in chosen],
        "  words in both": [f"{c.beta.words:,}" for c in chosen],
        "  corrected for noise": [c.corrected_text("beta") or "fixed window only" for c in chosen],
        "  training text on itself": [comparisons[name + CEILING].text("beta", 2) for name in contexts],
    }


def _hits(hits: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in hits.items())


def _base(comparison: Comparison) -> str:
    base = comparison.second.baseline
    return (f"{base.mu:.3f}" + (f" (p = {base.p_value:.2f})" if base.p_value is not None else "")) if base else ""


TABLE, RECORD = "table.md", "sweep.json"
MODEL_FILES = (CONFIG, WEIGHTS, WORDS, TABLE, RECORD)


def is_training(folder: Path) -> bool:
    """Return whether a folder holds a model, a sweep or the checkpoint of one."""
    return is_saved(folder) or any((folder / name).is_file() for name in (CHECKPOINT, RECORD))


def plan(
    text: str, valid: str | None, test: str | None, *, changes: JSONObject, pairs: str | None,
    definition: str = "printed", reduction: str = "sum", **rest: Any,
) -> SweepPlan:  # fmt: skip
    """Return the plan of a run: locate the files, check the settings, and choose the pairs by the preset."""
    lm.settings_of(rest["preset"], **changes)
    train, valid, test = _find_splits(text, valid, test)
    pair_list = pairs or bordia2019.PAIRS.get(rest["preset"], "bordia2019-cnn-dm")
    options = term_options(definition, reduction)
    return SweepPlan(
        train, valid, test, pairs=pair_list, changes=tuple(sorted(changes.items())), options=options, **rest
    )


def train_one(
    planned: SweepPlan, strength: float, seed: int, out: Path, *, time_limit: float | None, as_json: bool
) -> None:
    """Train a model into a folder, from its checkpoint if there is one."""
    corpus = planned.corpus()
    with _resume_hint(), notes_on_stderr(), progress("lm train") as bar:
        cell = SweepCell(strength, seed)
        trained = train_cell(planned, cell, corpus, out / CHECKPOINT, time_limit=time_limit, progress=bar)
    trained.save(out)
    manifest = trained.manifest
    done = manifest["stopped_by"] == "epochs"
    test = lm.perplexity(trained.model, corpus.test) if done and len(corpus.test) > 1 else None
    last = manifest["history"][-1] if manifest["history"] else None
    if as_json:
        show_json({**manifest, "out": str(out), "finished": done, "test_perplexity": test})
        return
    best = min((epoch["valid_perplexity"] for epoch in manifest["history"]), default=None)
    show(escape(f"{manifest['epochs']} epochs, {manifest['parameters']:,} parameters, in {out}"))
    if best is not None:
        reached = f", test {test:.2f}" if test is not None else ""
        show(f"[bold]perplexity: validation {best:.2f}[/] (epoch {manifest['best_epoch']}){reached}")
        show(f"[dim]{last['tokens_per_second']:,.0f} tokens a second in the last epoch[/]" if last else "")
    note(f"seed {seed}" if done else "stopped by the time limit; rerun the same command to resume")


def run_sweep(
    planned: SweepPlan, strengths: list[float], seeds: list[int], out: Path, *, jobs: int, time_limit: float | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Train, sample and measure every cell; write the table of the finished ones."""
    if not planned.test:
        raise UsageError("a sweep needs a test text for the perplexities", hint="give --test")
    todo = cells(strengths, seeds)
    outcomes: list[SweepOutcome] = []
    with _resume_hint(), notes_on_stderr(), progress("sweep") as bar:
        for outcome in run_cells(planned, todo, out, jobs=jobs, time_limit=time_limit, progress=bar):
            outcomes.append(outcome)
            note(f"{outcome.cell.name}: {outcome.reason or 'finished'}")
            _write(planned, outcomes, out)
    record = _write(planned, outcomes, out)
    if as_json:
        show_json(record)
    else:
        _show_sweep(record, out)


@contextmanager
def _resume_hint() -> Iterator[None]:
    """Say how to resume when a sweep is interrupted between two trainings; a training says it itself."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(str(error) or "rerun the same command to resume") from None


def _write(planned: SweepPlan, outcomes: list[SweepOutcome], out: Path) -> JSONObject:
    """Write table and record after every cell, so that a killed sweep leaves the finished ones."""
    records = [outcome.record for outcome in sorted(outcomes, key=lambda o: o.cell) if outcome.record]
    rows = bordia2019.summary(records)
    unfinished = {outcome.cell.name: outcome.reason for outcome in outcomes if outcome.reason}
    corpus = bordia2019.corpus_of(records, planned.preset)
    record = {"plan": planned.identity(), "corpus": corpus, "rows": rows, "cells": records, "unfinished": unfinished}
    write_text(out / RECORD, json.dumps(record, indent=1, allow_nan=False) + "\n")
    write_text(out / TABLE, "\n".join(bordia2019.markdown(table) for table in _tables(record)))
    return record


def _tables(record: JSONObject) -> list[PaperTable]:
    table = bordia2019.sweep_table(record["rows"], record["corpus"])
    term = ", ".join(f"{name} {value}" for name, value in record["plan"]["options"])
    lines = [f"The term differs from the printed one: {term}."] if term else []
    lines += [f"Not in the table: {name} ({reason})." for name, reason in record["unfinished"].items()]
    results = replace(table, notes=(*table.notes, *lines))
    return [results, bordia2019.words_table(record["rows"])] if record["rows"] else [results]


def _show_sweep(record: JSONObject, out: Path) -> None:
    for table in _tables(record):
        _show_table(table)
    note(f"written: {out / TABLE}, {out / RECORD}")


def _show_table(result: PaperTable) -> None:
    rows = [["" if cell is None else str(cell) for cell in row] for row in result.rows]
    show_table(result.title, result.columns, rows)
    for text in result.notes:
        show(f"[dim]{escape(text)}[/]")


def _find_splits(text: str, valid: str | None, test: str | None) -> tuple[str, str, str]:
    """Return training, validation and test file; a folder has one of each."""
    folder = Path(text)
    if not folder.is_dir():
        if valid is None:
            raise UsageError("a validation text is required to select the best epoch", hint="give --valid")
        return text, valid, test or ""
    files = {part: sorted(p for p in folder.iterdir() if part in p.name.lower()) for part in ("train", "valid", "test")}
    for part in ("train", "valid"):
        if len(files[part]) != 1:
            raise InputMissingError(
                f"{folder}: {len(files[part])} files have {part!r} in their name, expected one",
                hint="name the files one by one: TRAIN --valid FILE --test FILE",
            )
    test_file = str(files["test"][0]) if len(files["test"]) == 1 else ""
    return str(files["train"][0]), valid or str(files["valid"][0]), test or test_file


VERBS = {"train": train, "generate": generate, "measure": measure}
