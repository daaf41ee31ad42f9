"""Terminal tables of trained NLI models and their accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenhand.cli.screens.terminal import escape, show

if TYPE_CHECKING:
    from evenhand.models.nli.labelled_pairs import Accuracy


def show_models(models: list[dict[str, Any]], *, selected: bool = True) -> None:
    """Show one line per trained model; `selected` says whether dev accuracy chose the epoch."""
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    tests = [test["source"] for test in models[0]["test"]]
    for column in ("file", "seed", "epoch", "dev", *tests):
        table.add_column(escape(column), justify="left" if column == "file" else "right")
    for model in models:
        accuracies = [model["dev_accuracy"], *(test["accuracy"] for test in model["test"])]
        cells = (f"{accuracy:.1%}" for accuracy in accuracies)
        table.add_row(escape(model["file"]), str(model["seed"]), str(model["epoch"]), *cells)
    reason = " That on dev is optimistic, because it selected the epoch." if selected else ""
    show(table, f"[dim]Accuracy.{reason} Chance is about 33 %.[/]")


def show_accuracy(name: str, result: Accuracy) -> None:
    """Show accuracy, recall by label and confusion matrix."""
    from rich.table import Table

    low, high = result.interval
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("label", "recall", *(f"as {label}" for label in result.labels)):
        table.add_column(column, justify="left" if column == "label" else "right")
    for label, counts in zip(result.labels, result.confusion.tolist(), strict=True):
        share = result.by_label[label]
        table.add_row(label, "" if share is None else f"{share:.1%}", *(f"{count:,}" for count in counts))
    interval = escape(f"[{low:.1%}, {high:.1%}]")
    show(
        f"[bold]{escape(name)}[/]  {escape(result.source)}: [bold]{result.accuracy:.1%}[/] {interval} of "
        f"{result.n:,} pairs{escape(describe_skipped(result.skipped))}",
        table,
    )


def describe_skipped(counts: Mapping[str, int]) -> str:
    """Return how many pairs of a file were skipped, and why."""
    return "".join(f", {count:,} skipped ({reason})" for reason, count in counts.items())
