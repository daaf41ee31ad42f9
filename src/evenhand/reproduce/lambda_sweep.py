"""Models trained with the term against bias in several strengths, and the text that they write, measured.

It lives here because it joins two layers that do not know each other: models are trained, and what they write is scored
as a corpus. Each strength and seed is a cell with a folder of its own. What is in it is not computed again: a finished
result is read, and a training that stopped goes on from its checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from evenhand import words
from evenhand.corpus import Corpus
from evenhand.corpus.generated import against_training
from evenhand.errors import EvenhandError, UsageError, unknown_name
from evenhand.files import open_bytes, write_text
from evenhand.models import lm
from evenhand.reproduce.bordia2019 import DEFINITIONS

if TYPE_CHECKING:
    from evenhand.models.lm import LMCorpus, TrainedLM

Progress: TypeAlias = Callable[[int, int, str], None] | None
REDUCTIONS = ("sum", "mean")
RESULT, CHECKPOINT, SAMPLES, MODEL = "result.json", "checkpoint.safetensors", "samples.txt.zst", "model"


@dataclass(frozen=True)
class Plan:
    """Everything that decides the numbers of a sweep but strength and seed of each cell."""

    train: str
    valid: str
    test: str
    pairs: str
    preset: str = "ptb"
    changes: tuple[tuple[str, Any], ...] = ()
    epochs: int | None = None
    where: str = "input"
    options: tuple[tuple[str, Any], ...] = ()
    samples: int = 2000
    tokens: int = 500
    permutations: int = 20
    device: str = "auto"
    precision: str = "auto"

    @property
    def settings(self) -> Any:
        """Sizes and rates of the models."""
        return lm.settings_of(self.preset, **dict(self.changes))

    def corpus(self) -> LMCorpus:
        """The three parts of the text as numbers."""
        return lm.LMCorpus.read(self.train, self.valid, self.test or None)

    def identity(self) -> dict[str, Any]:
        """What a finished cell must agree with to be used."""
        texts = {name: digest(getattr(self, name)) for name in ("train", "valid", "test")}
        apart = ("device", "precision", *texts)
        kept = {name: value for name, value in asdict(self).items() if name not in apart} | texts
        return json.loads(json.dumps(kept))  # type: ignore[no-any-return]  # as it comes back from a file


@lru_cache(maxsize=64)
def digest(path: str) -> str:
    """Hash of a text, so that a sweep can be moved to another folder or machine."""
    if not path:
        return ""
    with open_bytes(Path(path)) as raw:
        return hashlib.sha256(raw.read()).hexdigest()


@dataclass(frozen=True, order=True)
class Cell:
    """One model: a strength of the term and a seed."""

    strength: float
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"lambda-{self.strength:g}-seed-{self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: its record, or why there is none yet."""

    cell: Cell
    record: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def term_options(definition: str = "printed", reduction: str = "sum") -> tuple[tuple[str, Any], ...]:
    """The options of `BiasRegulariser` for a definition by name, as a plan keeps them."""
    for given, what, known in ((definition, "definition", DEFINITIONS), (reduction, "reduction", REDUCTIONS)):
        if given not in known:
            raise unknown_name(what, given, known)
    chosen = {**DEFINITIONS[definition], **({} if reduction == "sum" else {"reduction": reduction})}
    return tuple(sorted(chosen.items()))


def cells(strengths: list[float], seeds: list[int]) -> list[Cell]:
    """All cells, one seed after the other, so that an early stop leaves whole rows of the table."""
    wrong = next((value for value in strengths if not 0 <= value < float("inf")), None)
    if wrong is not None or not strengths or not seeds:
        raise UsageError(f"strengths are numbers of at least 0, got {wrong}", hint="such as 0,0.001,0.01,0.1,0.5,0.8,1")
    return [Cell(strength, seed) for seed in dict.fromkeys(seeds) for strength in dict.fromkeys(strengths)]


def run_cell(
    plan: Plan, cell: Cell, folder: Path, *, deadline: float | None = None, progress: Progress = None
) -> Outcome:
    """Train, generate and measure one cell, or as much of it as fits before the deadline (`time.time()`)."""
    place = folder / cell.name
    if (known := finished(plan, place)) is not None:
        return Outcome(cell, known)
    left = None if deadline is None else deadline - time.time()
    if left is not None and left <= 0:
        return Outcome(cell, reason="no time left to start it")
    try:
        corpus = plan.corpus()
        trained = train_cell(plan, cell, corpus, place / CHECKPOINT, time_limit=left, progress=progress)
        trained.save(place / MODEL)
        if trained.manifest["stopped_by"] != "epochs":
            return Outcome(cell, reason=f"stopped after {trained.manifest['epochs']} epochs")
        record = {**asdict(cell), **_measured(plan, cell, corpus, trained, place, progress)}
    except EvenhandError as error:
        return Outcome(cell, reason=error.message)
    write_text(place / RESULT, json.dumps({"identity": plan.identity(), "record": record}, indent=1) + "\n")
    return Outcome(cell, record)


def finished(plan: Plan, place: Path) -> dict[str, Any] | None:
    """The record of a cell that was finished with this very plan."""
    try:
        kept = json.loads((place / RESULT).read_text(encoding="utf-8"))
        record: dict[str, Any] | None = kept["record"] if kept["identity"] == plan.identity() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record


def run_cells(
    plan: Plan,
    wanted: list[Cell],
    folder: Path,
    *,
    jobs: int = 1,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Iterator[Outcome]:
    """The outcome of every cell, as they come; several processes share a device that one of them would leave idle."""
    deadline = None if time_limit is None else time.time() + time_limit
    if jobs < 1:
        raise UsageError(f"jobs start at 1, got {jobs}")
    if jobs == 1:
        for cell in wanted:
            yield run_cell(plan, cell, folder, deadline=deadline, progress=progress)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Spawned, for a device cannot be used in a fork of a process that has used it.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(run_cell, plan, cell, folder, deadline=deadline) for cell in wanted]
        try:
            for done, future in enumerate(as_completed(running), start=1):
                yield future.result()
                if progress:
                    progress(done, len(running), "cells")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def train_cell(
    plan: Plan,
    cell: Cell,
    corpus: LMCorpus,
    checkpoint: Path,
    *,
    time_limit: float | None = None,
    progress: Progress = None,
) -> TrainedLM:
    """Train one model, from its checkpoint if there is one; without a strength there is no term to compute."""
    term = _term(plan, corpus.vocabulary.index, cell.strength).on(plan.where) if cell.strength else None
    return lm.train(
        corpus, settings=plan.settings, regulariser=term, seed=cell.seed, device=plan.device, precision=plan.precision,
        epochs=plan.epochs, time_limit=time_limit, checkpoint=checkpoint, save_every=60.0, progress=progress,
    )  # fmt: skip


def _term(plan: Plan, index: Mapping[str, int], strength: float) -> Any:
    return lm.BiasRegulariser.from_words(words.pairs(plan.pairs), index, strength=strength, **dict(plan.options))


def _measured(
    plan: Plan, cell: Cell, corpus: LMCorpus, trained: TrainedLM, place: Path, progress: Progress
) -> dict[str, Any]:
    model, vocabulary = trained.model, trained.vocabulary
    drawn = lm.generate(model, vocabulary, samples=plan.samples, tokens=plan.tokens, seed=cell.seed, progress=progress)
    lm.write_samples(place / SAMPLES, drawn, vocabulary)
    found = against_training(
        Corpus([plan.train]), [vocabulary.decode(row) for row in drawn], lists=plan.pairs,
        permutations=plan.permutations, seed=cell.seed, ceiling=True, progress=progress,
    )  # fmt: skip
    history = trained.manifest["history"]
    return {
        "training_tokens": len(corpus.train),
        "epochs": trained.manifest["epochs"],
        "best_epoch": trained.manifest["best_epoch"],
        "valid_perplexity": min(epoch["valid_perplexity"] for epoch in history),
        "test_perplexity": lm.perplexity(model, corpus.test),
        "seconds": sum(epoch["seconds"] for epoch in history),
        "device": trained.manifest["device_name"],
        "precision": trained.manifest["precision"],
        **_energy(plan, trained),
        **{name: comparison.to_dict(points=False) for name, comparison in found.items()},
    }


def _energy(plan: Plan, trained: TrainedLM) -> dict[str, Any]:
    """||N B||_F^2 of the finished model, whatever the strength was: did the term do what it should?"""
    term = _term(plan, trained.vocabulary.index, 1.0)
    value = float(term.on(plan.where)(trained.model).detach())
    return {"energy": value, "directions": term.k, "pairs_lost": [list(pair) for pair in term.lost]}
