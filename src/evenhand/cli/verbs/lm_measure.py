"""`evenhand lm measure`: compare the bias of generated text with that of the training text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.lm_options import Batch, Device, Precision, Samples, Temperature, Tokens
from evenhand.cli.options import Json, Seed, notes_on_stderr
from evenhand.cli.screens.terminal import escape, note, progress, show, show_json
from evenhand.errors import UsageError
from evenhand.subjects.language_models import is_model, open_language_model

if TYPE_CHECKING:
    from evenhand.corpus.comparison import Comparison

CEILING = " ceiling"
NAMES = ("training text", "generated text")


def measure(
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
    as_json: Json = False,
) -> None:
    """Compare generated text with the training text: mean and standard deviation of |bias|, and their slope."""
    from evenhand.corpus import Corpus
    from evenhand.corpus.generated import against_training

    if test and not is_model(model):
        raise UsageError(f"{model} is a text, which has no perplexity", hint="name the model, or omit --test")
    with notes_on_stderr(), progress("lm measure") as bar:
        options: dict[str, Any] = {"temperature": temperature, "batch": batch}
        texts, tokenised, perplexity = _texts(model, samples, tokens, seed, device, precision, options, test, keep, bar)
        comparisons = against_training(
            Corpus([training]), texts, lists=pairs, tokenizer=tokenizer or ("whitespace" if tokenised else "words"),
            stop_words=_stop_words(stop_words), min_count=min_count, permutations=permutations, seed=seed, ceiling=True,
            progress=bar,
        )  # fmt: skip
    if html:
        from evenhand.report.comparison_page import write_comparison

        contexts = {name: c for name, c in comparisons.items() if not name.endswith(CEILING)}
        write_comparison(contexts, html, names=NAMES, perplexity=_format_perplexity(perplexity))
        note(f"page: {html}")
    if as_json:
        records = {name: c.to_dict(points=not name.endswith(CEILING)) for name, c in comparisons.items()}
        show_json({"model": model, "training": training, "perplexity": perplexity, **records, "seed": seed})
    else:
        _show(comparisons, perplexity)
        note(f"seed {seed}")


def _texts(
    model: str, samples: int, tokens: int, seed: int, device: str, precision: str, options: dict[str, Any],
    test: str | None, keep: Path | None, bar: Any,
) -> tuple[list[list[str]], bool, dict[str, Any] | None]:  # fmt: skip
    """Return texts as words, whether they are tokenised, and the perplexity if a test text is given."""
    from evenhand.corpus.generated import read_samples
    from evenhand.subjects.language_models import write_texts

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
        "  training text on itself": [comparisons[name + CEILING].text("beta", 2) for name in contexts],
    }


def _hits(hits: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in hits.items())


def _base(comparison: Comparison) -> str:
    base = comparison.second.baseline
    return (f"{base.mu:.3f}" + (f" (p = {base.p_value:.2f})" if base.p_value is not None else "")) if base else ""
