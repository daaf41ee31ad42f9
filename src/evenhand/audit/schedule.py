"""Which cells a process measures next, and how long the rest takes, from the times of what is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evenhand.audit.plan import Question
from evenhand.progress import Progress
from evenhand.subjects import ViewName

# Cells of a model take longest, those of its input table least; known times replace this order.
SLOWEST_FIRST: tuple[ViewName, ...] = (
    *("text", "generation", "chat", "inference", "likelihood", "sentences", "labels", "outcomes", "vectors"),
)
FIRST_ESTIMATE = 5.0  # seconds of work before the first estimate of the rest
WORTH_FITTING = 2.0  # a second process fits a stage if the rest of it takes this many times as long as fitting


@dataclass(frozen=True)
class Unit:
    """Cells that one process measures together, because they read the same answers of a model."""

    stage: int
    keys: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def view(self) -> str:
        """The view that its measures take."""
        return self.questions[0].info.view


@dataclass
class CellSchedule:
    """The cells that are not measured yet, and the seconds that finished ones took.

    The same question takes about as long on every stage. A question that was not asked yet is taken to last as long as
    the mean of its view, or of all cells.
    """

    units: list[Unit]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    fitting: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, stages: Iterable[Mapping[str, Question]]) -> CellSchedule:
        """Group the missing cells of each stage; a model answers the questions about one probe or data set once."""
        units = []
        for number, cells in enumerate(stages):
            together: dict[object, list[str]] = {}
            for key, question in cells.items():
                view = question.info.view
                together.setdefault(key if view == "vectors" else (view, question.query), []).append(key)
            units += [Unit(number, tuple(keys), tuple(cells[key] for key in keys)) for keys in together.values()]
            units += [] if together else [Unit(number, (), ())]  # a stage whose report alone is missing
        return cls(units)

    def learn(self, question: Question, seconds: float) -> None:
        """Remember how long a cell took."""
        for name in (question.label(), f"view {question.info.view}", ""):
            self.seconds.setdefault(name, []).append(seconds)

    def expected(self, question: Question) -> float | None:
        """Return how long a cell takes, or None if nothing was measured yet."""
        for name in (question.label(), f"view {question.info.view}", ""):
            if known := self.seconds.get(name):
                return sum(known) / len(known)
        return None

    def is_known(self, question: Question) -> bool:
        """Return whether this question was measured on another stage."""
        return question.label() in self.seconds

    def rest(self, questions: Iterable[Question]) -> float | None:
        """Return how long questions take together, or None if nothing was measured yet."""
        times = [self.expected(question) for question in questions]
        known = [time for time in times if time is not None]
        return None if len(known) < len(times) else sum(known)

    def next(self, fitted: int | None, busy: Sequence[int]) -> Unit | None:
        """Take the next unit for a process: of the stage it has fitted, then of the one with most left.

        Args:
            fitted: the stage that the process holds, None for a new process.
            busy: the stages that other processes hold.
        """
        stages = list(dict.fromkeys(unit.stage for unit in self.units))
        if fitted not in stages:
            free = [stage for stage in stages if stage not in busy] or [s for s in stages if self._is_worth(s)]
            fitted = max(free, key=self._length, default=None)
        if fitted is None:
            return None
        unit = max((unit for unit in self.units if unit.stage == fitted), key=self._order)
        self.units.remove(unit)
        return unit

    def _length(self, stage: int) -> tuple[float, int]:
        questions = [question for unit in self.units if unit.stage == stage for question in unit.questions]
        return self.rest(questions) or 0.0, len(questions)

    def _is_worth(self, stage: int) -> bool:
        """Return whether a process that does not hold a stage should fit it to help."""
        if stage not in self.fitting:
            return False
        rest = self.rest(question for unit in self.units if unit.stage == stage for question in unit.questions)
        return not self.fitting[stage] or (rest is not None and rest > WORTH_FITTING * self.fitting[stage])

    def _order(self, unit: Unit) -> tuple[float, int]:
        """Return what is larger for units that should start earlier: those that last longest."""
        known = [self.expected(question) or 0.0 for question in unit.questions if self.is_known(question)]
        return sum(known), -SLOWEST_FIRST.index(unit.view) if unit.questions else 0


class OutOfTime(BaseException):
    """The budget is spent. Not an `Exception`, because measures may not take it for a failure of the model."""


@dataclass
class Running:
    """A cell that is being measured."""

    what: str
    question: Question | None = None
    started: float = field(default_factory=time.monotonic)
    part: tuple[int, int, str] = (0, 0, "")
    heard: float = 0.0
    """When `part` was last told."""
    pass_started: float = 0.0
    """When the present pass over its texts began; a cell may make several, each counted from 0."""

    def advance(self, done: int, total: int, unit: str) -> None:
        """Note how far the present pass is."""
        if done < self.part[0] or (total, unit) != self.part[1:]:
            self.pass_started = self.heard or self.started
        self.part, self.heard = (done, total, unit), time.monotonic()

    def rest(self, schedule: CellSchedule) -> float | None:
        """Return how many seconds are left of it: from its own progress, else from the same question elsewhere."""
        now, (done, total, _) = time.monotonic(), self.part
        if done:
            return (now - self.pass_started) * (total - done) / done
        if self.question is None:
            return 0.0
        known = schedule.expected(self.question) if schedule.is_known(self.question) else None
        return None if known is None else max(0.0, known - (now - self.started))

    def text(self) -> str:
        """Return what is running, with its own progress."""
        done, total, unit = self.part
        return f"{self.what}: {done:,} of {total:,} {unit}" if total > 1 else self.what


class Clock:
    """What is being measured, how far it is, how long the rest takes, and whether the budget is spent.

    Args:
        schedule: learns how long cells take.
        report: told about every change.
        waiting: the questions that are not asked yet, one for each missing cell.
        total: the number of all cells, stored ones included.
        jobs: the number of processes.
        budget: seconds after which no cell begins; None for no limit.
        tokens: tokens of servers that may be spent; None for no limit.
        spent: returns how many were spent so far.
        needs: how many each question will take, by its label.
    """

    def __init__(
        self,
        schedule: CellSchedule,
        report: Progress,
        waiting: Sequence[Question],
        *,
        total: int,
        jobs: int = 1,
        budget: float | None = None,
        tokens: int | None = None,
        spent: Callable[[], int] = lambda: 0,
        needs: Mapping[str, int] | None = None,
    ) -> None:
        self._tokens, self._spent, self._needs = tokens, spent, needs or {}
        self.schedule, self._report, self._waiting = schedule, report, list(waiting)
        self.total, self.done, self._jobs, self._budget = total, total - len(self._waiting), jobs, budget
        self._running: dict[int, Running] = {}
        self._started = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        """Seconds of the budget that are left; None without one."""
        return None if self._budget is None else self._budget - (time.monotonic() - self._started)

    def fits(self, question: Question) -> bool:
        """Return whether the budget has room for a question: as much time as it took before, or as many tokens."""
        if self._tokens is not None and self._spent() + self._needs.get(question.label(), 1) > self._tokens:
            return False
        left = self.seconds_left
        if left is None:
            return True
        return left > 0 and (not self.schedule.is_known(question) or (self.schedule.expected(question) or 0.0) <= left)

    def begin(self, what: str, question: Question | None = None, worker: int = 0) -> None:
        """Say what is measured, or fitted, now."""
        if question is not None:
            self._waiting.remove(question)
        self._running[worker] = Running(what, question)
        self.tell()

    def part(self, done: int, total: int, unit: str, worker: int = 0) -> None:
        """Say how far the running cell is; raise `OutOfTime` if the budget is spent."""
        self.note(done, total, unit, worker)
        left = self.seconds_left
        if (left is not None and left <= 0) or (self._tokens is not None and self._spent() > self._tokens):
            raise OutOfTime

    def note(self, done: int, total: int, unit: str, worker: int = 0) -> None:
        """Say how far the running cell is."""
        if worker in self._running:
            self._running[worker].advance(done, total, unit)
            self.tell()

    def end(self, question: Question, seconds: float, worker: int = 0) -> None:
        """Say that a cell is finished."""
        self._running.pop(worker, None)
        self.schedule.learn(question, seconds)
        self.done += 1

    def give_up(self, worker: int = 0) -> None:
        """Say that the running cell is left out."""
        self._running.pop(worker, None)

    def finish(self) -> None:
        """Report that nothing is left."""
        self._report(self.total, self.total, "done")

    def tell(self) -> None:
        """Report what is running."""
        what = "; ".join(running.text() for running in self._running.values())
        self._report(self.done, self.total, ", ".join(filter(None, (what, self.estimate()))))

    def estimate(self) -> str:
        """Return how long the rest takes, in words; empty while nothing is known."""
        if time.monotonic() - self._started < FIRST_ESTIMATE:
            return ""
        rests = [running.rest(self.schedule) for running in self._running.values()]
        known = [rest for rest in rests if rest is not None]
        seen = [q for q in self._waiting if self.schedule.is_known(q) or f"view {q.info.view}" in self.schedule.seconds]
        seconds = (sum(known) + (self.schedule.rest(seen) or 0.0)) / self._jobs
        if not known and not seen:
            return ""
        whole = len(known) == len(rests) and len(seen) == len(self._waiting)
        return f"{'about' if whole else 'at least'} {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Return a time in words that a person can remember.

    >>> duration(43), duration(100), duration(600), duration(9000)
    ('45 s', '2 min', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"
