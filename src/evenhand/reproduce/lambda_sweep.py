"""Train models with several strengths of the bias regulariser, sample text from them, and measure it.

Each strength and seed is a cell with its own folder. A finished cell is read instead of computed again, and a stopped
training resumes from its checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from evenhand import words
from evenhand.audit.validation import DIGEST, UNREADABLE, content_digest
from evenhand.corpus import Corpus
from evenhand.corpus.comparison import against_training
from evenhand.errors import EvenhandError, EvenhandWarning, UsageError, unknown_name
from evenhand.files import open_bytes, write_text
from evenhand.models import lm
from evenhand.models.device import device_kind, resolve_device, resolve_precision
from evenhand.models.model_files import JSONObject
from evenhand.reproduce.bordia2019 import DEFINITIONS

if TYPE_CHECKING:
    from evenhand.models.lm import BiasRegulariser, LMCorpus, LMSettings, TrainedLM
    from evenhand.models.lm.regulariser import Where

Progress: TypeAlias = Callable[[int, int, str], None] | None
REDUCTIONS = ("sum", "mean")
RESULT, CHECKPOINT, SAMPLES, MODEL = "result.json", "checkpoint.safetensors", "samples.txt.zst", "model"


@dataclass(frozen=True)
class SweepPlan:
    """Everything that determines the numbers of a sweep, except strength and seed of each cell."""

    train: str
    valid: str
    test: str
    pairs: str
    preset: str = "ptb"
    changes: tuple[tuple[str, Any], ...] = ()
    epochs: int | None = None
    where: Where = "input"
    options: tuple[tuple[str, Any], ...] = ()
    samples: int = 2000
    tokens: int = 500
    permutations: int = 20
    device: str = "auto"
    precision: str = "auto"

    @property
    def settings(self) -> LMSettings:
        """Sizes and rates of the models."""
        return lm.settings_of(self.preset, **dict(self.changes))

    def corpus(self) -> LMCorpus:
        """Return the three splits of the text as token numbers."""
        return lm.LMCorpus.read(self.train, self.valid, self.test or None)

    def identity(self) -> JSONObject:
        """Return what must be the same for a finished cell to be reused."""
        texts = {name: digest(getattr(self, name)) for name in ("train", "valid", "test")}
        where = resolve_device(self.device)
        resolved = {"device": device_kind(where), "precision": resolve_precision(self.precision, where)}
        values = asdict(self) | texts | resolved | {"pairs_digest": _words_of(self.pairs).digest}
        identity: JSONObject = json.loads(json.dumps(values))  # with the types of a file that is read back
        return identity


def _words_of(pairs: str) -> words.Pairs | words.Concept:
    """Return the pairs, or the concept whose groups are counted."""
    try:
        return words.pairs(pairs)
    except EvenhandError:
        return words.concept(pairs)


@lru_cache(maxsize=64)
def digest(path: str) -> str:
    """Return the hash of a text file, so that a sweep can be moved to another folder or machine."""
    if not path:
        return ""
    with open_bytes(Path(path)) as raw:
        return hashlib.sha256(raw.read()).hexdigest()


@dataclass(frozen=True, order=True)
class SweepCell:
    """One model: a strength of the term and a seed."""

    strength: float
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"lambda-{self.strength:g}-seed-{self.seed}"


@dataclass(frozen=True)
class SweepOutcome:
    """The record of a cell, or the reason why there is none yet."""

    cell: SweepCell
    record: JSONObject = field(default_factory=dict)
    reason: str = ""


def term_options(definition: str = "printed", reduction: str = "sum") -> tuple[tuple[str, Any], ...]:
    """Return the options of `BiasRegulariser` for a definition, as a plan stores them."""
    for value, option, choices in ((definition, "definition", DEFINITIONS), (reduction, "reduction", REDUCTIONS)):
        if value not in choices:
            raise unknown_name(option, value, choices)
    options = {**DEFINITIONS[definition], **({} if reduction == "sum" else {"reduction": reduction})}
    return tuple(sorted(options.items()))


def cells(strengths: list[float], seeds: list[int]) -> list[SweepCell]:
    """Return all cells ordered by seed, so that an early stop leaves complete rows of the table."""
    wrong = next((value for value in strengths if not 0 <= value < float("inf")), None)
    if wrong is not None or not strengths or not seeds:
        raise UsageError(
            f"strengths must be numbers of at least 0, got {wrong}", hint="such as 0,0.001,0.01,0.1,0.5,0.8,1"
        )
    return [SweepCell(strength, seed) for seed in dict.fromkeys(seeds) for strength in dict.fromkeys(strengths)]


def run_cell(
    plan: SweepPlan, cell: SweepCell, folder: Path, *, deadline: float | None = None, progress: Progress = None
) -> SweepOutcome:
    """Train, sample and measure one cell, or as much of it as fits before the deadline (`time.time()`)."""
    cell_folder = folder / cell.name
    if (record := finished(plan, cell_folder)) is not None:
        return SweepOutcome(cell, record)
    remaining = None if deadline is None else deadline - time.time()
    if remaining is not None and remaining <= 0:
        return SweepOutcome(cell, reason="no time left to start it")
    try:
        corpus = plan.corpus()
        trained = train_cell(plan, cell, corpus, cell_folder / CHECKPOINT, time_limit=remaining, progress=progress)
        trained.save(cell_folder / MODEL)
        if trained.manifest["stopped_by"] != "epochs":
            return SweepOutcome(cell, reason=f"stopped after {trained.manifest['epochs']} epochs")
        record = {**asdict(cell), **_measure(plan, cell, corpus, trained, cell_folder, progress)}
    except EvenhandError as error:
        return SweepOutcome(cell, reason=error.message)
    content = {"identity": plan.identity(), "record": record}
    write_text(cell_folder / RESULT, json.dumps(content | {DIGEST: content_digest(content)}, indent=1) + "\n")
    return SweepOutcome(cell, record)


def finished(plan: SweepPlan, folder: Path) -> JSONObject | None:
    """Return the record of a cell that was finished with the same plan, or None; an edited one is not believed."""
    path = folder / RESULT
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop(DIGEST) != content_digest(content):
            raise ValueError("the content does not have its digest")
        record: JSONObject | None = content["record"] if content["identity"] == plan.identity() else None
    except (OSError, *UNREADABLE):
        warnings.warn(
            f"{path} was damaged, edited or written by an earlier version, and is computed again",
            EvenhandWarning,
            stacklevel=2,
        )
        return None
    return record


def run_cells(
    plan: SweepPlan,
    cells: list[SweepCell],
    folder: Path,
    *,
    jobs: int = 1,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Iterator[SweepOutcome]:
    """Yield the outcome of every cell as it finishes; `jobs` processes share a device."""
    deadline = None if time_limit is None else time.time() + time_limit
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}")
    if jobs == 1:
        for cell in cells:
            yield run_cell(plan, cell, folder, deadline=deadline, progress=progress)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    from evenhand.engines.processes import end_with_parent

    # A device cannot be used in a fork of a process that has used it, so processes are spawned.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        running = [pool.submit(run_cell, plan, cell, folder, deadline=deadline) for cell in cells]
        try:
            for done, future in enumerate(as_completed(running), start=1):
                yield future.result()
                if progress:
                    progress(done, len(running), "cells")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def train_cell(
    plan: SweepPlan,
    cell: SweepCell,
    corpus: LMCorpus,
    checkpoint: Path,
    *,
    time_limit: float | None = None,
    progress: Progress = None,
) -> TrainedLM:
    """Train one model, from its checkpoint if there is one; with a strength of 0, no term is computed."""
    term = _term(plan, corpus.vocabulary.index, cell.strength).on(plan.where) if cell.strength else None
    return lm.train(
        corpus, settings=plan.settings, regulariser=term, seed=cell.seed, device=plan.device, precision=plan.precision,
        epochs=plan.epochs, time_limit=time_limit, checkpoint=checkpoint, save_every=60.0, progress=progress,
    )  # fmt: skip


def _term(plan: SweepPlan, index: Mapping[str, int], strength: float) -> BiasRegulariser:
    return lm.BiasRegulariser.from_words(words.pairs(plan.pairs), index, strength=strength, **dict(plan.options))


def _measure(
    plan: SweepPlan, cell: SweepCell, corpus: LMCorpus, trained: TrainedLM, folder: Path, progress: Progress
) -> JSONObject:
    model, vocabulary = trained.model, trained.vocabulary
    samples = lm.generate(
        model, vocabulary, samples=plan.samples, tokens=plan.tokens, seed=cell.seed, progress=progress
    )
    lm.write_samples(folder / SAMPLES, samples, vocabulary)
    comparisons = against_training(
        Corpus([plan.train]), [vocabulary.decode(row) for row in samples], lists=plan.pairs,
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
        **{name: comparison.to_dict(points=False) for name, comparison in comparisons.items()},
    }


def _energy(plan: SweepPlan, trained: TrainedLM) -> JSONObject:
    """Return ||N B||_F^2 of the trained model, whatever its strength, to show the effect of the term."""
    term = _term(plan, trained.vocabulary.index, 1.0)
    value = float(term.on(plan.where)(trained.model).detach())
    return {"energy": value, "directions": term.k, "pairs_lost": [list(pair) for pair in term.lost]}
