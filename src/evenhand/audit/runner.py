"""Carry out a plan: fit each stage that has unfinished cells, measure them, store each as it finishes."""

from __future__ import annotations

import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from threadpoolctl import threadpool_limits

from evenhand import measures, words
from evenhand.audit.cells import Cell, CellStore, cell_key, change_key, resolve_query
from evenhand.audit.manifest import Invocation, manifest, with_command
from evenhand.audit.plan import Plan, Question, check_chain, method_of, split_chain
from evenhand.audit.record import ORIGINAL, Audit, Result, Stage
from evenhand.audit.schedule import CellSchedule, Clock, OutOfTime
from evenhand.audit.tradeoff import cost_note
from evenhand.audit.workload import Foreseen, budget_note, budget_text, foresee, outlook, sample_notes
from evenhand.errors import EvenhandError, EvenhandWarning, TextTooLongError, UsageError, WorkerError
from evenhand.measures.groups import measure_groups, needs_table
from evenhand.measures.measurement import undefined
from evenhand.measures.registry import as_measurements
from evenhand.mitigations.method import apply_methods, chain_report
from evenhand.models.endpoint.client import keeping_answers
from evenhand.models.lm.causal import keeping_texts
from evenhand.models.vectors import Coverage, Vectors
from evenhand.progress import Progress, followed
from evenhand.subjects import Subject
from evenhand.subjects.subject import ViewName
from evenhand.words import Concept, Query

WORKER_OVERHEAD = 400 << 20  # bytes that a worker process needs before it holds a subject
TEXTS = "texts"  # the folder of a run with what its models wrote
ANSWERS = "answers"  # and with what servers answered
COPIES = 3  # of the vectors, at most, that a method or a measure holds at once
CellListener: TypeAlias = Callable[[str, str, Question, Cell], None]
"""Called with subject, stage, question and cell when a cell is finished."""


@dataclass(frozen=True)
class StageTask:
    """A stage of one subject, with its key and those of its cells."""

    subject: Subject
    name: str
    key: str
    cells: Mapping[str, Question]

    @property
    def chain(self) -> str:
        """The methods applied; empty for the original."""
        return "" if self.name == ORIGINAL else self.name

    def title(self, key: str) -> str:
        """Return what a cell is, for messages."""
        return f"{self.cells[key].label()}, {self.name}"


@dataclass
class Outcome:
    """What running the stages left beside the cells."""

    skipped: dict[tuple[str, str], str] = field(default_factory=dict)
    """Subject and method that could not be fitted, with the reason."""
    left_out: set[tuple[str, str]] = field(default_factory=set)
    """Keys of stage and cell that the budget left no time for."""
    computed: int = 0

    def reasons(self) -> dict[str, str]:
        """Return the reasons by method; with the subject where several were audited."""
        several = len({subject for subject, _ in self.skipped}) > 1
        return {f"{m} ({s})" if several else m: reason for (s, m), reason in self.skipped.items()}


def run(
    subjects: Sequence[Subject],
    plan: Plan,
    *,
    concept: Concept | None = None,
    invocation: Invocation | None = None,
    folder: Path | None = None,
    jobs: int = 1,
    memory: float | None = None,
    progress: Progress | None = None,
    arrived: CellListener | None = None,
    announce: Callable[[str], None] | None = None,
) -> Audit:
    """Ask every question on every stage of every subject.

    Args:
        subjects: what is audited, in the order of the plan.
        plan: methods and questions.
        concept: the concept of the plan, where it is not an id or a file.
        invocation: how the run was started, for the record; the command that asks the same is added if it has none.
        folder: where finished cells are stored; they are reused by a later run.
        jobs: number of processes.
        memory: gigabytes that the processes may use together; None for four fifths of what is free.
        progress: called with (cells done, all cells, what is being measured).
        arrived: called with each cell that this process measures, once it is stored; needs one job.
        announce: called once before anything is measured, with what will be asked.
    """
    if arrived and jobs > 1:
        raise UsageError("cells can be followed one by one with a single job only", hint="use jobs=1")
    started = time.perf_counter()
    about = concept or words.concept(plan.concept)
    store, outcome = CellStore(folder), Outcome()
    if not plan.skip_failing:
        for subject in subjects:
            for chain in plan.methods:
                check_chain(chain, about, subject)  # before the original is measured, which may take an hour
    tasks = [task for subject in subjects for task in _stage_tasks(subject, plan, about)]
    for task in tasks:
        store.stage(task.key)  # so that damage is noticed also where the stage is fitted again for other reasons
    report = progress or (lambda done, total, what: None)
    changes = [] if folder is None else [subject.change_since(folder / ANSWERS) for subject in subjects]
    foreseen = foresee(tasks, plan, about, store) if announce or plan.most_tokens else Foreseen()
    if announce:
        announce("\n".join(filter(None, [*changes, outlook(tasks, plan, about, store, foreseen)])))
    if plan.most_tokens and jobs > 1:
        raise UsageError("a budget in tokens is kept by one process", hint="use jobs=1 and more requests at a time")
    try:
        _compute(
            tasks,
            plan,
            about,
            store,
            outcome,
            jobs=_workers(jobs, subjects, memory),
            report=report,
            arrived=arrived,
            foreseen=foreseen,
        )
    except KeyboardInterrupt:
        where = f" in {folder}; run the same command again to continue" if folder else ""
        raise KeyboardInterrupt(f"{store.finished()}{where}") from None
    results, notes = _collect(tasks, plan, store, outcome)
    notes += sample_notes(subjects, plan)
    notes += filter(None, [*changes, store.damage(), cost_note(results), budget_note(tasks, plan, outcome.left_out)])
    started_by = with_command(invocation or Invocation(), subjects, plan, about, skipped=outcome.skipped)
    record = manifest(
        subjects, about, plan.to_dict(), invocation=started_by, seconds=time.perf_counter() - started, warnings=notes,
        running={"jobs": jobs, "memory": memory, **foreseen.to_dict()},
        skipped=outcome.reasons(),
        cells_computed=outcome.computed,
    )  # fmt: skip
    stages = [
        Stage(task.name, task.subject.name, store.stage(task.key) or {}) for task in tasks if _is_done(task, outcome)
    ]
    return Audit(record, tuple(stages), tuple(results))


def run_pair(
    before: Subject,
    after: Subject,
    plan: Plan,
    *,
    progress: Progress | None = None,
    invocation: Invocation | None = None,
) -> Audit:
    """Ask every question of two subjects, the second as a stage of the first."""
    started = time.perf_counter()
    concept, report = words.concept(plan.concept), progress or (lambda done, total, what: None)
    questions = plan.for_subject(before)
    name = after.name if after.name != ORIGINAL else "after"
    results: list[Result] = []
    with collected_warnings() as notes:
        for done, question in enumerate(questions):
            report(done, len(questions), question.label())
            for stage, subject in ((ORIGINAL, before), (name, after)):
                measured = ask(question, subject, concept, reference=before, seed=plan.seed)
                results += [Result(before.name, stage, question, m) for m in as_measurements(measured)]
    seconds = time.perf_counter() - started
    record = manifest(
        [before], concept, plan.to_dict(), invocation=invocation, seconds=seconds, warnings=notes,
        cells_computed=len(results),
    )  # fmt: skip
    record["subjects"][0]["compared_with"] = after.describe()
    return Audit(record, (Stage(ORIGINAL, before.name), Stage(name, before.name)), tuple(results))


def _stage_tasks(subject: Subject, plan: Plan, concept: Concept) -> Iterator[StageTask]:
    questions = plan.for_subject(subject)
    for name in (ORIGINAL, *plan.methods):
        key = change_key(subject.opening_digest, "" if name == ORIGINAL else name, concept, plan.seed)
        yield StageTask(subject, name, key, {cell_key(key, q, concept, plan.seed): q for q in questions})


def _compute(
    tasks: Sequence[StageTask],
    plan: Plan,
    concept: Concept,
    store: CellStore,
    outcome: Outcome,
    *,
    jobs: int,
    report: Progress,
    arrived: CellListener | None = None,
    foreseen: Foreseen | None = None,
) -> None:
    """Measure what is missing, here or in several processes."""
    pending = [(task, [key for key in task.cells if store.cell(key) is None]) for task in tasks]
    pending = [(task, keys) for task, keys in pending if keys or store.stage(task.key) is None]
    schedule = CellSchedule.of([{key: task.cells[key] for key in keys} for task, keys in pending])
    clock = Clock(
        schedule, report, [task.cells[key] for task, keys in pending for key in keys], jobs=jobs, budget=plan.budget,
        total=sum(len(task.cells) for task in tasks), tokens=plan.most_tokens, spent=_counter(tasks),
        needs={label: demand.tokens for label, demand in foreseen.demands.items()} if foreseen else {},
    )  # fmt: skip
    if jobs > 1 and pending:
        from evenhand.audit.processes import measure_in_processes

        measure_in_processes(pending, plan, concept, store, outcome, clock, jobs=jobs)
        return
    for task, keys in pending:
        try:
            for key, cell in measure_stage(task, keys, plan, concept, store, clock):
                if cell is None:
                    outcome.left_out.add((task.key, key))
                    continue
                store.put_cell(key, cell)
                outcome.computed += 1
                if arrived:
                    arrived(task.subject.name, task.name, task.cells[key], cell)
        except EvenhandError as error:
            skip_or_raise(task, plan, outcome, error)
    clock.finish()


def _counter(tasks: Sequence[StageTask]) -> Callable[[], int]:
    """Return a function that counts the tokens which servers read and wrote from now on."""
    subjects = list({id(task.subject): task.subject for task in tasks}.values())
    before = sum(subject.tokens_spent for subject in subjects)
    return lambda: sum(subject.tokens_spent for subject in subjects) - before


def skip_or_raise(task: StageTask, plan: Plan, outcome: Outcome, error: EvenhandError) -> None:
    """Record that a method cannot be fitted, where the plan allows it; otherwise raise the error."""
    if not plan.skip_failing or not task.chain or isinstance(error, WorkerError):
        raise error
    outcome.skipped[task.subject.name, task.name] = error.message


def measure_stage(
    task: StageTask, keys: Sequence[str], plan: Plan, concept: Concept, store: CellStore, clock: Clock
) -> Iterator[tuple[str, Cell | None]]:
    """Fit a stage and yield its missing cells as they are measured; None for one that the budget leaves no time for."""
    if keys and not any(clock.fits(task.cells[key]) for key in keys):
        yield from ((key, None) for key in keys)
        return
    clock.begin(f"fitting {task.name}" if task.chain else task.subject.name)
    changed, account = fit_stage(task, plan, concept)
    store.put_stage(task.key, account)
    # Most products of a measure are short, and threads that share them spend their time waiting for the next one.
    with threadpool_limits(1, user_api="blas"):
        for key in keys:
            question, cell = task.cells[key], None
            if clock.fits(question):
                clock.begin(task.title(key), question)
                started = time.perf_counter()
                try:
                    with followed(clock.part):
                        cell = measure_cell(question, changed, task, plan, concept, folder=store.folder)
                    clock.end(question, time.perf_counter() - started)
                except OutOfTime:
                    clock.give_up()
            yield key, cell


def fit_stage(task: StageTask, plan: Plan, concept: Concept) -> tuple[Subject, dict[str, object]]:
    """Return the subject of a stage, and what its methods say about what they did."""
    with collected_warnings() as notes:
        changed, account = apply_chain(task.chain, task.subject, concept, seed=plan.seed)
    return changed, {**account, "warnings": notes}


def measure_cell(
    question: Question, changed: Subject, task: StageTask, plan: Plan, concept: Concept, *, folder: Path | None
) -> Cell:
    """Put one question to the subject of a stage; texts that it writes are kept in the folder of the run."""
    with (
        collected_warnings() as notes,
        keeping_texts(folder / TEXTS if folder else None, task.key),
        keeping_answers(folder / ANSWERS if folder else None),
    ):
        result = ask(question, changed, concept, reference=task.subject, seed=plan.seed)
    return Cell(as_measurements(result), tuple(notes))


def apply_chain(chain: str, subject: Subject, concept: Concept, *, seed: int = 0) -> tuple[Subject, dict[str, object]]:
    """Fit and apply methods from left to right ("hard.misp"), each on the result of the one before.

    A method is fitted to the vectors of a subject, or at its site in a transformer.
    """
    methods = [method_of(step) for step in split_chain(chain)] if chain else []
    changed, changes = apply_methods(methods, subject, concept, seed=seed)
    return changed, chain_report(changes) | ({"method": chain} if len(changes) > 1 else {})


def _view(subject: Subject, name: ViewName, concept: Concept) -> Any:
    """Return a view; words of vectors are looked up by the rules of the concept's language unless theirs is known."""
    view = subject.view(name)
    return view.in_language(concept.language) if isinstance(view, Vectors) else view


def ask(
    question: Question, subject: Subject, concept: Concept, *, reference: Subject | None = None, seed: int = 0
) -> measures.registry.Measured:
    """Put one question to one subject."""
    info, function = question.info, measures.get(question.measure)
    accepted = inspect.signature(function).parameters
    arguments: dict[str, Any] = {"seed": seed, **question.options}
    if "sample" in arguments and not arguments["sample"]:
        arguments["sample"] = None
    if "concept" in accepted:
        arguments["concept"] = concept
    if "reference" in accepted:
        arguments["reference"] = _view(reference or subject, info.view, concept)
    if info.view == "text":  # how much a model writes; a corpus is read as it is
        view: Any = subject.text(
            samples=arguments.pop("samples", None), tokens=arguments.pop("tokens", None), seed=arguments["seed"]
        )
    else:
        view = _view(subject, info.view, concept)
    asked = resolve_query(question, concept)
    try:
        if isinstance(asked, Query) and needs_table(info, asked):
            return measure_groups(function, view, asked, **arguments)
        return function(view, asked, **arguments)
    except TextTooLongError as error:
        return undefined(info.id, error.message, Coverage(()), query=question.query, seed=seed)


def _collect(
    tasks: Sequence[StageTask], plan: Plan, store: CellStore, outcome: Outcome
) -> tuple[list[Result], list[str]]:
    results: list[Result] = []
    notes: dict[str, None] = {}
    for task in tasks:
        if not _is_done(task, outcome):
            continue
        notes |= dict.fromkeys((store.stage(task.key) or {}).get("warnings", ()))
        for key, question in task.cells.items():
            cell = store.cell(key)
            if (task.key, key) in outcome.left_out:
                reason = f"left out: the budget of {budget_text(plan)} was spent, or too small"
                missing = undefined(question.measure, reason, Coverage(()), query=question.query, seed=plan.seed)
                results.append(Result(task.subject.name, task.name, question, missing))
                continue
            if cell is None:
                raise UsageError(f"the cell {question.label()} of {task.name} was not measured", hint="run again")
            notes |= dict.fromkeys(cell.warnings)
            results += [Result(task.subject.name, task.name, question, m) for m in cell.measurements]
    return results, list(notes)


def _is_done(task: StageTask, outcome: Outcome) -> bool:
    return (task.subject.name, task.name) not in outcome.skipped


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect evenhand's own warnings for the record; pass all others on."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EvenhandWarning)
        yield notes
    for warning in caught:
        if issubclass(warning.category, EvenhandWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


# Several processes -------------------------------------------------------------------------------------------------


def _workers(jobs: int, subjects: Sequence[Subject], memory: float | None) -> int:
    """Return how many processes fit into the memory budget."""
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}")
    if jobs == 1:
        return 1
    if any(not subject.address for subject in subjects):
        raise UsageError("several jobs need subjects opened from an address", hint="save the vectors and name the file")
    largest = max(_vector_bytes(subject) for subject in subjects)
    budget = memory * (1 << 30) if memory else 0.8 * _free_memory()
    fitting = int(budget // (WORKER_OVERHEAD + COPIES * largest))
    if fitting < jobs:
        warnings.warn(
            f"{jobs} jobs need about {jobs * (WORKER_OVERHEAD + COPIES * largest) / (1 << 30):.1f} GB; running "
            f"{max(1, fitting)} at a time",
            EvenhandWarning,
            stacklevel=3,
        )
    return max(1, min(jobs, fitting))


def _vector_bytes(subject: Subject) -> int:
    return int(subject.view("vectors").matrix.nbytes) if "vectors" in subject.offers else 0


def _free_memory() -> float:
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # not every platform tells
        return float(4 << 30)
