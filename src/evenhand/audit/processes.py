"""Measure the cells of an audit in several processes; the main one gives out the work and writes the cells."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evenhand.audit.cells import Cell, CellStore
from evenhand.audit.plan import Plan
from evenhand.audit.runner import Outcome, StageTask, fit_stage, measure_cell, skip_or_raise
from evenhand.audit.schedule import Clock, OutOfTime, Unit
from evenhand.engines.processes import Send, Worker, WorkerPool
from evenhand.errors import EvenhandError
from evenhand.progress import followed
from evenhand.subjects import Subject
from evenhand.words import Concept

SECONDS_BETWEEN_PARTS = 0.25  # two messages of a worker about the progress of one cell


@dataclass(frozen=True)
class Job:
    """Cells of one stage, and the time that is left for them."""

    stage: int
    keys: tuple[str, ...]
    seconds: float | None = None


@dataclass(frozen=True)
class Fitted:
    """A stage was fitted."""

    account: dict[str, object]
    seconds: float


@dataclass(frozen=True)
class Unfit:
    """A stage could not be fitted, or a cell of it could not be measured."""

    error: EvenhandError


@dataclass(frozen=True)
class Begun:
    """The measuring of a cell began."""

    key: str


@dataclass(frozen=True)
class Part:
    """How far the cell is."""

    done: int
    total: int
    unit: str


@dataclass(frozen=True)
class Measured:
    """A cell; None if it did not fit into the time."""

    key: str
    cell: Cell | None
    seconds: float


@dataclass
class StageWorker:
    """Measures cells in a worker, and keeps the stage that it fitted last."""

    tasks: tuple[StageTask, ...]
    plan: Plan
    concept: Concept
    folder: Path | None
    _stage: int = -1
    _changed: Subject | None = field(default=None, repr=False)

    def __call__(self, job: Job, send: Send) -> None:
        """Do a job; see `evenhand.engines.processes.Work`."""
        started = time.monotonic()
        task = self.tasks[job.stage]
        try:
            subject = self._fitted(job.stage, send)
            for key in job.keys:
                left = None if job.seconds is None else job.seconds - (time.monotonic() - started)
                self._measure(task, key, subject, send, left)
        except EvenhandError as error:
            send(Unfit(error))

    def _fitted(self, stage: int, send: Send) -> Subject:
        if self._changed is None or self._stage != stage:
            started = time.perf_counter()
            self._changed = None  # frees the stage before
            self._changed, account = fit_stage(self.tasks[stage], self.plan, self.concept)
            self._stage = stage
            send(Fitted(account, time.perf_counter() - started))
        return self._changed

    def _measure(self, task: StageTask, key: str, subject: Subject, send: Send, left: float | None) -> None:
        started = sent = time.monotonic()

        def part(done: int, total: int, unit: str) -> None:
            nonlocal sent
            now = time.monotonic()
            if left is not None and now - started > left:
                raise OutOfTime
            if now - sent > SECONDS_BETWEEN_PARTS:
                sent = now
                send(Part(done, total, unit))

        send(Begun(key))
        cell = None
        try:
            with followed(part):
                cell = measure_cell(task.cells[key], subject, task, self.plan, self.concept, folder=self.folder)
        except OutOfTime:
            pass
        send(Measured(key, cell, time.monotonic() - started))


def measure_in_processes(
    pending: Sequence[tuple[StageTask, list[str]]],
    plan: Plan,
    concept: Concept,
    store: CellStore,
    outcome: Outcome,
    clock: Clock,
    *,
    jobs: int,
) -> None:
    """Give the processes cells one by one, those that last longest first, and store what comes back.

    A process goes on with the stage that it has fitted. It helps with another one when its own has no cells left.
    """
    tasks = tuple(task for task, _ in pending)
    schedule, held = clock.schedule, dict[int, int]()
    schedule.fitting |= {number: 0.0 for number, task in enumerate(tasks) if not task.chain}
    with WorkerPool(min(jobs, len(schedule.units)), StageWorker(tasks, plan, concept, store.folder)) as pool:
        while True:
            for worker in pool.idle:
                _give(pool, worker, held, tasks, outcome, clock)
            if not pool.busy:
                break
            for worker, message in pool.messages():
                number = pool.workers.index(worker)
                if isinstance(message, Unfit):
                    _leave_stage(held[number], tasks, plan, outcome, clock, message.error)
                    clock.give_up(number)
                else:
                    _receive(message, worker, number, held[number], tasks, store, outcome, clock)
    clock.finish()


def _give(
    pool: WorkerPool, worker: Worker, held: dict[int, int], tasks: Sequence[StageTask], outcome: Outcome, clock: Clock
) -> None:
    """Give a worker its next cells; those without time are left out."""
    number = pool.workers.index(worker)
    others = [stage for other, stage in held.items() if other != number]
    while unit := clock.schedule.next(held.get(number), others):
        task = tasks[unit.stage]
        keys = tuple(key for key in unit.keys if clock.fits(task.cells[key]))
        outcome.left_out |= {(task.key, key) for key in unit.keys if key not in keys}
        if unit.keys and not keys:
            continue
        held[number] = unit.stage
        pool.give(worker, Job(unit.stage, keys, clock.seconds_left), _doing(task, unit))
        clock.begin(worker.doing, worker=number)
        return


def _doing(task: StageTask, unit: Unit) -> str:
    names = [task.title(key) for key in unit.keys] or [f"fitting {task.name}"]
    return " and ".join(names)


def _receive(
    message: object,
    worker: Worker,
    number: int,
    stage: int,
    tasks: Sequence[StageTask],
    store: CellStore,
    outcome: Outcome,
    clock: Clock,
) -> None:
    task = tasks[stage]
    if isinstance(message, Fitted):
        clock.schedule.fitting[stage] = message.seconds if task.chain else 0.0
        if store.stage(task.key) is None:
            store.put_stage(task.key, message.account)
    elif isinstance(message, Begun):
        worker.doing = task.title(message.key)
        clock.begin(worker.doing, task.cells[message.key], worker=number)
    elif isinstance(message, Part):
        clock.note(message.done, message.total, message.unit, number)
    elif isinstance(message, Measured):
        if message.cell is None:
            outcome.left_out.add((task.key, message.key))
            clock.give_up(number)
            return
        store.put_cell(message.key, message.cell)
        outcome.computed += 1
        clock.end(task.cells[message.key], message.seconds, number)


def _leave_stage(
    stage: int, tasks: Sequence[StageTask], plan: Plan, outcome: Outcome, clock: Clock, error: EvenhandError
) -> None:
    """Give no more cells of a stage out that cannot be measured, where the plan allows it."""
    skip_or_raise(tasks[stage], plan, outcome, error)
    clock.schedule.units = [unit for unit in clock.schedule.units if unit.stage != stage]
