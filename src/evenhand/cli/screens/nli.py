"""Trained models and their accuracy on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenhand.cli.screens.terminal import escape, show

if TYPE_CHECKING:
    from evenhand.models.nli.evaluation import Accuracy


def show_models(models: list[dict[str, Any]]) -> None:
    """A line for each model that was trained."""
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    tests = [test["source"] for test in models[0]["test"]]
    for column in ("file", "seed", "epoch", "dev", *tests):
        table.add_column(escape(column), justify="left" if column == "file" else "right")
    for one in models:
        shares = [one["dev_accuracy"], *(test["accuracy"] for test in one["test"])]
        table.add_row(one["file"], str(one["seed"]), str(one["epoch"]), *(f"{share:.1%}" for share in shares))
    show(table, "[dim]Accuracy; dev chose the epoch, so it flatters. Chance is about 33 %.[/]")


def show_accuracy(name: str, found: Accuracy) -> None:
    """How often a model was right, and what it took for what."""
    from rich.table import Table

    low, high = found.interval
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in ("label", "right", *(f"as {label}" for label in found.labels)):
        table.add_column(column, justify="left" if column == "label" else "right")
    for label, counts in zip(found.labels, found.confusion.tolist(), strict=True):
        share = found.by_label[label]
        table.add_row(label, "" if share is None else f"{share:.1%}", *(f"{count:,}" for count in counts))
    show(
        f"[bold]{escape(name)}[/]  {escape(found.source)}: [bold]{found.accuracy:.1%}[/] \\[{low:.1%}, {high:.1%}] of "
        f"{found.n:,} pairs{skipped(found.skipped)}",
        table,
    )


def skipped(counts: Mapping[str, int]) -> str:
    """What was left out of a file, and why."""
    return "".join(f", {count:,} skipped ({reason})" for reason, count in counts.items())
