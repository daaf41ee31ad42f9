"""`evenhand lm`: train language models, optionally with a bias penalty, sample from them and measure the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    Batch,
    Definition,
    Device,
    Json,
    Overwrite,
    Pairs,
    Precision,
    RecordFolder,
    Reduction,
    Samples,
    Seed,
    Temperature,
    Tokens,
    invocation,
    notes_on_stderr,
)
from evenhand.cli.screens.terminal import escape, note, progress, show, show_json, write_record
from evenhand.errors import UsageError
from evenhand.files import require_folder
from evenhand.outputs import output_file, require_own_folder, require_run_folder

if TYPE_CHECKING:
    from evenhand.audit.manifest import Invocation
    from evenhand.corpus.comparison import Comparison


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
    from evenhand.cli.verbs.lm_training import MODEL_FILES, is_training, plan, run_sweep, train_one

    planned = plan(
        text, valid, test, preset=preset, changes=_parse_changes(change or [], untied), epochs=epochs, pairs=pairs,
        definition=definition, reduction=reduction, where=where, samples=samples, tokens=tokens,
        permutations=permutations, device=device, precision=precision,
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
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Sample texts; reproducible for a given seed."""
    from evenhand.subjects.language_models import open_language_model, write_texts

    with output_file(out, sources=[model], overwrite=overwrite), notes_on_stderr(), progress("samples") as bar:
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


CEILING = " ceiling"
NAMES = ("training text", "generated text")


def measure(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL|TEXT", help="A language model, or a file of generated texts.")],
    training: Annotated[str, typer.Option("--train", help="The training text.", show_default=False)],
    pairs: Annotated[str, typer.Option(help="Word pairs or a concept: an id or a file.")] = "bordia2019-cnn-dm",
    test: Annotated[str | None, typer.Option(help="Text to compute the perplexity of the model on.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="words, or whitespace for tokenised text.", show_default="by the model")
    ] = None,
    stop_words: Annotated[str, typer.Option(help="Words to exclude: english, none, or a file.")] = "english",
    min_count: Annotated[int, typer.Option(help="Minimum count of a word to be scored.")] = 1,
    permutations: Annotated[int, typer.Option(help="Permutations for the shuffled baseline; 0 for none.")] = 20,
    samples: Samples = 2000,
    tokens: Tokens = 500,
    temperature: Temperature = 1.0,
    batch: Batch = None,
    keep: Annotated[Path | None, typer.Option(help="Save the generated texts to this file.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with a scatter plot of both contexts.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "auto",
    out: RecordFolder = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compare generated text with the training text: mean and standard deviation of |bias|, and their slope."""
    from evenhand.corpus import Corpus
    from evenhand.corpus.generated import against_training
    from evenhand.subjects.language_models import is_model

    if test and not is_model(model):
        raise UsageError(f"{model} is a text, which has no perplexity", hint="name the model, or omit --test")
    if out:
        require_folder(out)
        require_run_folder(out)
    kept, page = (output_file(path, sources=[model, training], overwrite=overwrite) for path in (keep, html))
    with kept, page, notes_on_stderr(), progress("lm measure") as bar:
        options: dict[str, Any] = {"temperature": temperature, "batch": batch}
        texts, tokenised, perplexity = _texts(model, samples, tokens, seed, device, precision, options, test, keep, bar)
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
        opening = {"device": device, "precision": precision} if is_model(model) else {}
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
    model: str, samples: int, tokens: int, seed: int, device: str, precision: str, options: dict[str, Any],
    test: str | None, keep: Path | None, bar: Any,
) -> tuple[list[list[str]], bool, dict[str, Any] | None]:  # fmt: skip
    """Return texts as words, whether they are tokenised, and the perplexity if a test text is given."""
    from evenhand.corpus.generated import read_samples
    from evenhand.subjects.language_models import is_model, open_language_model, write_texts

    if not is_model(model):
        return read_samples(model), True, None
    opened = open_language_model(model, device=device, precision=precision)
    texts = opened.texts(samples, tokens, seed=seed, progress=bar, **options)
    if keep:
        write_texts(keep, texts)
    return [text.split() for text in texts], opened.whitespace, opened.perplexity(test) if test else None


def _stop_words(name: str) -> tuple[str, ...]:
    from evenhand.corpus.counting.vocabulary import SPECIAL_TOKENS, load_stop_words

    return (*load_stop_words(name), *SPECIAL_TOKENS)


def _format_perplexity(perplexity: dict[str, Any] | None) -> str:
    if not perplexity:
        return ""
    by_token = f", {perplexity['token']:.1f} by token" if "token" in perplexity else ""
    return f"{perplexity['word']:.1f} by word{by_token}"


def _show(comparisons: dict[str, Comparison], perplexity: dict[str, Any] | None) -> None:
    from rich.table import Table

    contexts = [name for name in comparisons if not name.endswith(CEILING)]
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("")
    for name in contexts:
        table.add_column(f"{name} context", justify="right")
    for name, cells in _rows(comparisons, contexts).items():
        table.add_row(name, *map(escape, cells))
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
