"""Run `evenhand lm train`: one model, or a sweep over strengths and seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenhand.cli.options import notes_on_stderr
from evenhand.cli.screens.terminal import escape, note, progress, show, show_json, show_table
from evenhand.errors import InputMissingError, UsageError
from evenhand.files import write_text
from evenhand.models import lm
from evenhand.models.lm.awd_lstm.model_folder import CONFIG, WEIGHTS, WORDS, is_saved
from evenhand.models.model_files import JSONObject
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
from evenhand.reproduce.table import PaperTable

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
        _show(record, out)


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


def _show(record: JSONObject, out: Path) -> None:
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
