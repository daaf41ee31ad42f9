"""Several processes: their results, their ends, and what is said when one is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import evenhand as eh
from evenhand.audit import processes
from evenhand.audit.plan import Plan, Question
from evenhand.audit.runner import StageTask
from evenhand.audit.schedule import SLOWEST_FIRST, CellSchedule, Clock, OutOfTime, Running
from evenhand.engines.engine import cores
from evenhand.engines.processes import Send, WorkerPool
from evenhand.errors import WorkerError
from evenhand.progress import tell
from evenhand.subjects import VIEWS

ENDS_WITHIN = 2.0  # seconds on a machine that does nothing else; see `allowed`
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def children(pid: int) -> set[int]:
    """The processes that a process has started and that are still running."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(status.parent.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> float:
    """Wait until something holds, and return how long that took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, "waited too long"
        time.sleep(0.02)
    return time.monotonic() - started


def slowdown() -> float:
    """Return how much longer work takes than its processor time, because other processes run too."""
    wall, own = time.monotonic(), time.process_time()
    while time.process_time() - own < 0.05:
        pass
    return (time.monotonic() - wall) / 0.05


def allowed(before: float) -> float:
    """Return the seconds that an end may take; three processes share what other work leaves of the processors."""
    return ENDS_WITHIN * max(1.0, before, slowdown())


class Run:
    """An audit in two processes, begun and in the middle of its cells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "evenhand", "audit", "--jobs", "2", "-o", str(folder)]
        command += ["--measure", "weat", "--measure", "recoverability"]  # many quick cells, then one of seconds
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # tests under `nohup` inherit that it is ignored
        )  # fmt: skip
        wait_for(lambda: self.process.poll() is not None or self.cells() >= 3)
        assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
        tracked = {pid for pid in children(self.process.pid) if "resource_tracker" in self.command(pid)}
        self.workers = children(self.process.pid) - tracked
        assert len(self.workers) == 2

    def cells(self) -> int:
        return len(list(self.folder.glob("cells/*.json")))

    @staticmethod
    def command(pid: int) -> str:
        return Path(f"/proc/{pid}/cmdline").read_text()

    def end(self) -> tuple[float, str]:
        """Wait for the end, and return the seconds and what was written to stderr."""
        started = time.monotonic()
        _, text = self.process.communicate(timeout=60)
        return time.monotonic() - started, text


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / "run")
    yield run
    for pid in (run.process.pid, *run.workers):
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)
    run.process.communicate()


@on_linux
@pytest.mark.parametrize(("number", "code"), [
    (signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_signal_ends_all_processes_at_once(begun: Run, number: signal.Signals, code: int) -> None:
    busy = slowdown()
    begun.process.send_signal(number)
    seconds, text = begun.end()
    assert seconds < allowed(busy)
    assert begun.process.returncode == code
    assert "finished cells in" in text
    assert "run the same command again" in text
    assert "Traceback" not in text
    assert not any(map(is_running, begun.workers))


@on_linux
def test_workers_end_with_a_killed_parent(begun: Run) -> None:
    busy = slowdown()
    begun.process.kill()
    begun.process.wait()
    assert wait_for(lambda: not any(map(is_running, begun.workers))) < allowed(busy)
    stored = begun.cells()
    time.sleep(0.5)
    assert begun.cells() == stored


@on_linux
def test_the_error_names_the_cells_of_a_killed_worker(begun: Run) -> None:
    busy = slowdown()
    os.kill(min(begun.workers), signal.SIGKILL)
    seconds, text = begun.end()
    assert seconds < allowed(busy)
    assert begun.process.returncode == 1
    assert re.search(
        r"error: a worker process ended by signal 9 while it was busy with \S+, (original|linear|span)", text
    )
    assert "Traceback" not in text
    assert not any(map(is_running, begun.workers))
    assert begun.cells() >= 3


def echo(job: object, send: Send) -> None:
    """The job of a worker that answers what it is asked."""
    if job == "threads":
        send(os.environ["OMP_NUM_THREADS"])
    elif job == "fail":
        raise ValueError("no such thing")
    else:
        os._exit(7)


def answers(pool: WorkerPool, job: object) -> list[object]:
    found: list[object] = []
    pool.give(pool.idle[0], job, f"the job {job}")
    while pool.busy:
        found += [message for _, message in pool.messages()]
    return found


def test_each_worker_gets_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with WorkerPool(2, echo) as pool:
        assert answers(pool, "threads") == [str(max(1, cores() // 2)), None]
    assert "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with WorkerPool(1, echo) as pool:
        assert answers(pool, "threads") == ["3", None]


def test_an_error_of_a_job_is_raised_with_its_traceback_and_a_lost_worker_is_ours() -> None:
    with WorkerPool(1, echo) as pool:
        with pytest.raises(ValueError, match="no such thing") as caught:
            answers(pool, "fail")
        assert "in echo" in caught.value.__notes__[0]
        with pytest.raises(WorkerError, match=r"exit code 7 while it was busy with the job end"):
            answers(pool, "end")


def test_a_method_that_fails_in_a_worker_is_left_out_where_the_plan_allows_it(tmp_path: Path) -> None:
    text = "".join(f"{word} {number}.5 1 {-number}\n" for number, word in enumerate(["she", "he", "nurse", "doctor"]))
    (tmp_path / "v.txt").write_text(text)
    settings = {"methods": ["linear", "double-hard"], "measures": ["direct-bias"], "skip_failing": True}
    one = eh.Audit.run(str(tmp_path / "v.txt"), **settings)
    two = eh.Audit.run(str(tmp_path / "v.txt"), jobs=2, **settings)
    assert two.manifest["skipped"] == one.manifest["skipped"] != {}
    assert [r.to_dict() for r in two.results] == [r.to_dict() for r in one.results]


# The work of one process ---------------------------------------------------------------------------------------------


class Work:
    """A worker of two stages whose fits and cells take as long as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, measure: Callable[[float], None] = lambda left: None) -> None:
        self.now, self.fitted, self.sent = 100.0, [], []
        clock = SimpleNamespace(monotonic=lambda: self.now, perf_counter=lambda: self.now)
        monkeypatch.setattr(processes, "time", clock)

        def fit(task: StageTask, plan: Plan, concept: object) -> tuple[object, dict[str, object]]:
            self.fitted.append(task.name)
            self.now += 2
            if task.name == "hard":
                raise eh.errors.UsageError("no pairs")
            return object(), {"method": task.name}

        def cell(question: Question, *given: object, **more: object) -> str:
            self.now += 3
            measure(self.now)
            return question.query

        monkeypatch.setattr(processes, "fit_stage", fit)
        monkeypatch.setattr(processes, "measure_cell", cell)
        tasks = tuple(
            StageTask(None, name, f"s{name}", {"a": SIX, "b": SEVEN}) for name in ("original", "linear", "hard")
        )  # type: ignore[arg-type]
        self.worker = processes.StageWorker(tasks, Plan(()), eh.concept("gender"), None)

    def do(self, *job: object) -> list[object]:
        self.sent.clear()
        self.worker(processes.Job(*job), self.sent.append)  # type: ignore[arg-type]
        return list(self.sent)


def test_a_process_fits_a_stage_once_and_tells_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    begun, measured = processes.Begun, processes.Measured
    assert work.do(0, ("a",)) == [
        processes.Fitted({"method": "original"}, 2.0),
        begun("a"),
        measured("a", "weat-6", 3.0),
    ]
    assert work.do(0, ("b", "a")) == [
        begun("b"),
        measured("b", "weat-7", 3.0),
        begun("a"),
        measured("a", "weat-6", 3.0),
    ]
    assert work.do(1, ()) == [processes.Fitted({"method": "linear"}, 2.0)]
    (failed,) = work.do(2, ("a",))
    assert isinstance(failed, processes.Unfit)
    assert str(failed.error) == "no pairs"
    work.do(0, ())
    assert work.fitted == ["original", "linear", "hard", "original"]


def test_a_process_ends_a_cell_whose_time_is_over_and_tells_its_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(_: float) -> None:
        for done, seconds in enumerate((0.0, 0.2, 0.05, 0.01, 0.3), start=1):
            work.now += seconds
            tell(done, 9, "texts")

    work = Work(monkeypatch, measure)
    _, _, *parts, last = work.do(0, ("a",))
    assert [part.done for part in parts] == [1, 4, 5]
    assert parts[0] == processes.Part(1, 9, "texts")
    assert (last.cell, last.seconds) == ("weat-6", pytest.approx(3.56))
    *_, last = work.do(0, ("a",), 3.6)
    assert last.cell == "weat-6"
    *_, last = work.do(0, ("a",), 3.5)
    assert (last.cell, last.seconds) == (None, pytest.approx(3.56))
    *_, first, begun, last = work.do(0, ("a", "b"), 6.0)
    assert (first.cell, begun.key, last.cell) == ("weat-6", "b", None)


# Order and estimates -----------------------------------------------------------------------------------------------

GAP, NEUTRALITY = Question("nli-gap", "gender-occupation"), Question("nli-neutrality", "gender-occupation")
SIX, SEVEN = Question("weat", "weat-6"), Question("weat", "weat-7")


def schedule() -> CellSchedule:
    return CellSchedule.of([{f"{stage}{n}": q for n, q in enumerate((SIX, SEVEN, GAP, NEUTRALITY))} for stage in "ab"])


def test_cells_that_share_the_answers_of_a_model_stay_together_and_go_first() -> None:
    units = schedule()
    first = units.next(None, [])
    assert first is not None
    assert first.keys == ("a2", "a3")
    assert units.next(None, [0]).keys == ("b2", "b3")
    assert units.next(0, [1]).keys == ("a0",)


def test_longest_first_once_times_are_known() -> None:
    units = schedule()
    units.learn(SEVEN, 5.0)
    units.learn(SIX, 1.0)
    assert [units.next(0, [1]).keys for _ in range(3)] == [("a1",), ("a0",), ("a2", "a3")]


def test_cells_of_every_view_are_given_out() -> None:
    """Those of outcomes had no place in the order, and two processes could not measure a table."""
    assert set(SLOWEST_FIRST) == set(VIEWS)
    units = CellSchedule.of([{"a": Question("group-metrics", "sex"), "b": Question("decision-accuracy", "race")}])
    assert [unit is not None for unit in (units.next(0, []), units.next(0, []), units.next(0, []))] == [
        True,
        True,
        False,
    ]


def test_a_second_process_fits_a_stage_only_where_that_pays() -> None:
    units = CellSchedule.of([{"a": SIX, "b": SEVEN}])
    assert units.next(None, [0]) is None
    units.fitting[0] = 10.0
    units.learn(SIX, 6.0)
    assert units.next(None, [0]) is None
    units.learn(SEVEN, 60.0)
    assert units.next(None, [0]).keys == ("b",)


def clock(budget: float | None = None) -> tuple[Clock, list[tuple[int, int, str]]]:
    heard: list[tuple[int, int, str]] = []
    made = Clock(schedule(), lambda *news: heard.append(news), [SIX, SEVEN, SIX, SEVEN], total=6, budget=budget)
    return made, heard


def test_the_running_cell_is_named_with_its_own_progress_and_the_rest_is_estimated() -> None:
    watched, heard = clock()
    watched.begin("weat-6, original", SIX)
    assert heard[-1] == (2, 6, "weat-6, original")
    watched.part(120, 400, "texts")
    assert heard[-1] == (2, 6, "weat-6, original: 120 of 400 texts")
    watched._started -= 60
    watched._running[0].pass_started -= 60
    watched.tell()
    assert heard[-1][2] == "weat-6, original: 120 of 400 texts, at least 2 min left"
    watched.end(SIX, 200.0)
    watched.begin("weat-7, original", SEVEN)
    assert heard[-1] == (3, 6, "weat-7, original, at least 7 min left")


def test_a_budget_leaves_out_what_does_not_fit() -> None:
    watched, _ = clock(budget=100)
    assert watched.fits(SIX)
    watched.schedule.learn(SIX, 200.0)
    assert not watched.fits(SIX)
    assert watched.fits(SEVEN)
    watched._started -= 101
    assert not watched.fits(SEVEN)
    with pytest.raises(OutOfTime):
        watched.part(1, 2, "texts")


def test_what_is_left_of_a_cell() -> None:
    made = Running("x", SIX, started=time.monotonic() - 10)
    assert made.rest(schedule()) is None
    made.advance(5, 20, "texts")
    assert made.rest(schedule()) == pytest.approx(30, abs=1)
    made.advance(20, 20, "texts")
    made.heard -= 8
    made.advance(2, 10, "texts")  # a second pass, whose first fifth took 8 s
    assert made.rest(schedule()) == pytest.approx(32, abs=1)
    made.advance(4, 10, "texts")
    assert made.rest(schedule()) == pytest.approx(12, abs=1)
