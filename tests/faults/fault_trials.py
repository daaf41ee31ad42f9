"""Run scenarios under faults: `python tests/faults/fault_trials.py FOLDER KILLS [SCENARIO]...`; prints JSON lines.

With FAULT_ONLY_KILLS=1 nothing but kills, and FAULT_SEED chooses other moments: `fault_results.py --more` adds them.

One interpreter imports everything and forks a process for each trial, because starting Python costs more than most
commands here. The parent never computes: libraries with threads must not be used before a fork. What does not touch
files (the pictures of a page, the options of the command) is computed once and kept. A few trials start Python anew.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import importlib.util
import json
import math
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import fault_injection
from cache_scenarios import serve
from fault_injection import EVENTS, QUIET, Fault
from fault_scenario import Scenario
from fault_scenarios import SCENARIOS
from warm_process import DRAWN, keep_what_is_not_written

NOTHING = "nothing"  # what is read where there is no result
SECONDS = 600  # after which a process counts as hanging; background work may be frozen for a minute
SECONDS_TO_END = 20.0  # for the processes that a trial has started
PR_SET_CHILD_SUBREAPER = 36
KEPT_CHILDREN: set[int] = set()
NOT_KEPT = ("ray", "vl_convert")  # they start threads when they are imported
SIGNALS = {"SIGINT": (signal.SIGINT, 130), "SIGTERM": (signal.SIGTERM, 143)}
OTHERS = {"full-from": 5, "full-bytes": 5, "disk": 3, "large": 2, "read-only": 2, "read-only mount": 1,
          "SIGINT event": 4, "SIGINT moment": 3, "SIGTERM event": 4, "SIGTERM moment": 3, "pipe": 1, "cache disk": 1,
          "shared": 2, "start": 1}  # fmt: skip
"""Trials beside every 100 kills. `disk`, `read-only mount` and `cache disk` mount file systems, where that is allowed."""
SHORT = ("full-bytes", "SIGTERM event", "pipe")  # once each where there are fewer than ten kills
ONLY_KILLS = bool(os.environ.get("FAULT_ONLY_KILLS"))
MOST_ATTEMPTS = 3  # for each kill that is asked for
MOUNTS = ("disk", "read-only mount", "cache disk")


class Outcome(NamedTuple):
    """What a process returned: exit code or negative signal, its answer, events and processor seconds."""

    code: int
    answer: object = None
    events: str = ""
    seconds: float = 0.0

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.code == -signal.SIGKILL


def begin(work: Callable[[], object], folder: Path, fault: Fault = QUIET) -> tuple[int, int]:
    """Start a function in a process of its own, in a folder, with a fault; return its id and where it answers."""
    receive, send = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(send)
        return pid, receive
    os.close(receive)
    code, known = 70, len(DRAWN)
    try:
        os.chdir(folder)
        os.environ["EVENHAND_CACHE"] = str(folder / "cache")
        quiet = fault.kind in ("none", "large")  # a limit on the size of files also limits the log
        log = os.open(os.devnull if quiet else f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        started = time.process_time()
        fault_injection.arm(fault, folder)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")  # not what the parent opened
        answer: object = None
        try:
            answer = work()
            code = answer if type(answer) is int else 0
        except KeyboardInterrupt:  # after the command was done
            code = 130 if fault.number == signal.SIGINT else 143
        except BaseException as error:
            answer, code = f"{type(error).__name__}: {error}", 71
        fault_injection.disarm()
        modules = sorted(sys.modules) if fault.kind in ("none", "count") else []
        drawn = dict(list(DRAWN.items())[known:])
        report = [answer, fault_injection.seen(), time.process_time() - started, modules, drawn]
        with os.fdopen(send, "wb") as stream:
            stream.write(json.dumps(report).encode())
    finally:
        os._exit(code)


def end(pid: int, receive: int) -> Outcome:
    """Wait for a process, and keep in this one what later processes need again."""
    deadline, text = time.monotonic() + SECONDS, b""
    with os.fdopen(receive, "rb", buffering=0) as stream:
        while time.monotonic() < deadline:
            if select.select([stream], [], [], 1)[0]:
                part = stream.read(1 << 16)
                if not part:
                    break
                text += part
        else:
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if time.monotonic() >= deadline:
        return Outcome(72, f"still running after {SECONDS} s")
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    answer, events, seconds, modules, drawn = json.loads(text) if text else (None, "", 0.0, [], {})
    DRAWN.update(drawn)
    for name in modules:
        if name not in sys.modules and name.partition(".")[0] not in NOT_KEPT:
            try:
                importlib.import_module(name)
            except Exception:
                continue
    return Outcome(code, answer, events, seconds)


def forked(work: Callable[[], object], folder: Path, fault: Fault = QUIET) -> Outcome:
    """Call a function in a process of its own, in a folder, with a fault."""
    return end(*begin(work, folder, fault))


def started(scenario: Scenario, folder: Path, fault: Fault) -> Outcome:
    """Run the command of a scenario in a new interpreter."""
    variables = {**os.environ, "EVENHAND_CACHE": str(folder / "cache"), **fault_injection.environment(fault, folder)}
    command = [sys.executable, "-m", "evenhand", *scenario.arguments]
    with Path(f"{folder}.log").open("wb") as log:
        done = subprocess.run(command, cwd=folder, env=variables, stdout=log, stderr=log, check=False)
    return Outcome(done.returncode)


def visible(folder: Path) -> dict[str, str]:
    """Return the digest of each file but hidden ones and those of the cache."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = {path: path.relative_to(folder).parts for path in files}
    kept = {path: parts for path, parts in names.items() if not any(part.startswith(".") for part in parts)}
    return {
        "/".join(parts): hashlib.sha256(path.read_bytes()).hexdigest()
        for path, parts in kept.items()
        if parts[0] != "cache"
    }


def read(scenario: Scenario, folder: Path) -> object:
    """Return what a reader gets: the content, NOTHING, or a text that says what is broken."""
    from evenhand.errors import FetchError, InputMissingError

    def work() -> object:
        try:
            return {"found": scenario.read(folder)}
        except (InputMissingError, FileNotFoundError, FetchError):
            return NOTHING

    return forked(work, folder).answer


class Trials:
    """A scenario, its undisturbed result, and what was found in its trials."""

    def __init__(self, scenario: Scenario, folder: Path, *, mounts: bool, seed: int) -> None:
        for module in ("evenhand.cli", "evenhand.audit", *scenario.modules):
            importlib.import_module(module)
        if scenario.warm:
            scenario.warm()
        self.scenario, self.folder, self.mounts = scenario, folder, mounts
        self.template, whole = folder / "template", folder / "whole"
        self.choose = random.Random(f"{scenario.name} {seed}")
        self.template.mkdir(parents=True)
        self.done: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self.problems: list[str] = []
        prepared = forked(lambda: scenario.prepare(self.template), self.template)
        shutil.copytree(self.template, whole, symlinks=True)
        self.undisturbed = forked(lambda: scenario.run(whole), whole, Fault("count"))
        warm = folder / "warm"  # the first run imports and draws, so that its time is not that of a trial
        shutil.copytree(self.template, warm, symlinks=True)
        self.seconds = forked(lambda: scenario.run(warm), warm, Fault("count")).seconds
        self.old, self.new, self.files = read(scenario, self.template), read(scenario, whole), visible(whole)
        if prepared.code or self.undisturbed.code:
            self.problems.append(f"undisturbed: {prepared.answer}, {self.undisturbed.answer} {_log(whole)}")
        elif isinstance(self.new, str) or isinstance(self.old, str) == scenario.kept:
            self.problems.append(f"read: before {self.old}, after {self.new}")
        elif self.old == self.new and not scenario.repeats:
            self.problems.append("the command changes nothing")
        self.bytes = _size(whole) - _size(self.template) + (1 << 16)

    def faults(self, kills: int) -> list[tuple[str, Fault]]:
        """Return the faults of all trials: each event if there are few, and random moments."""
        events, seconds = range(1, max(len(self.undisturbed.events), 1) + 1), self.seconds
        at_events = [("kill", Fault(kind, place)) for place in events for kind in ("kill-before", "kill-after")]
        self.choose.shuffle(at_events)
        chosen = [] if self.scenario.lost else at_events[: math.ceil(0.7 * kills)]  # a worker changes no files
        chosen += [("kill", Fault("moment", self.choose.random() * seconds)) for _ in range(kills - len(chosen))]
        for name, number in () if ONLY_KILLS or self.scenario.lost else OTHERS.items():
            if (
                (name in MOUNTS and not self.mounts)
                or (name == "start" and not self.scenario.arguments)
                or (name.startswith("SIG") and not self.scenario.catches_signals)
            ):
                continue
            for _ in range(math.ceil(number * kills / 100) if kills >= 10 else int(name in SHORT)):
                chosen.append((name, self._other(name, self.choose.choice(events), self.choose.random() * seconds)))
        return chosen

    def _other(self, name: str, event: int, moment: float) -> Fault:
        if name.startswith("SIG"):
            number, at = SIGNALS[name.split()[0]][0], name.split()[1]
            return Fault("signal", event, number) if at == "event" else Fault("moment", moment, number)
        return {
            "full-from": Fault("full-from", event),
            "full-bytes": Fault("full-bytes", self.choose.randrange(self.bytes)),
            "disk": Fault("count", 4096 * self.choose.randrange(math.ceil(self.bytes / 4096))),
            "large": Fault("large", self.choose.choice((0, 1, 100, 1000, 5000))),
            "read-only": Fault("read-only", self.choose.choice((0, 13))),
            "pipe": Fault("pipe"),
            "start": Fault(self.choose.choice(("kill-before", "kill-after")), event),
        }.get(name, Fault("count"))

    def run(self, kills: int) -> dict[str, object]:
        """Run all trials; return counts and problems. A kill that came too late is replaced by an earlier one."""
        faults = self.faults(kills) if not self.problems else []
        for number, (name, fault) in enumerate(faults):  # the list grows
            folder = self.folder / str(number)
            killed = self.killed.total()
            problem = self.one(name, fault, folder)
            self.done[name] += 1
            if problem:
                self.problems.append(f"{name}, {fault.kind} {fault.place}: {problem}")
                continue
            shutil.rmtree(folder)
            if name == "kill" and self.killed.total() == killed and self.done["kill"] < MOST_ATTEMPTS * kills:
                if fault.kind == "moment":  # the command took less time than this
                    self.seconds = min(self.seconds, fault.place)
                faults.append(("kill", Fault("moment", self.choose.random() * self.seconds)))
        events = Counter(EVENTS[letter] for letter in self.undisturbed.events)
        return {"scenario": self.scenario.name, "trials": dict(self.done), "killed": dict(self.killed),
                "events": dict(events), "problems": self.problems}  # fmt: skip

    def one(self, name: str, fault: Fault, folder: Path) -> str:
        """Run once under a fault, look at what is there, run again; return the first problem or an empty text."""
        scenario = self.scenario
        mounted = self._set_up(name, fault, folder)
        try:
            if name == "shared":
                running = [begin(lambda: scenario.run(folder), folder, fault) for _ in range(3)]
                codes = [end(*process).code for process in running]
                outcome = Outcome(max(codes))
            elif name == "start":
                outcome = started(scenario, folder, fault)
            else:
                outcome = forked(lambda: scenario.run(folder), folder, fault)
            if name == "disk":
                fault_injection.mount("-o", "remount,size=1g", str(folder))
            elif mounted:
                fault_injection.unmount(mounted)
                mounted = None
            return self._wrong(name, outcome, folder) or self._wrong_again(folder)
        finally:
            if mounted:
                fault_injection.unmount(mounted)

    def _set_up(self, name: str, fault: Fault, folder: Path) -> Path | None:
        """Copy inputs and earlier result into the folder of a trial; return what was mounted."""
        if name == "disk":
            folder.mkdir()
            room = 4096 * sum(1 + path.lstat().st_size // 4096 for path in self.template.rglob("*"))
            fault_injection.mount("-t", "tmpfs", "-o", f"size={room + int(fault.place) + 8192}", "none", str(folder))
        shutil.copytree(self.template, folder, symlinks=True, dirs_exist_ok=True)
        if name == "read-only mount":
            fault_injection.mount("--bind", str(folder), str(folder))
            fault_injection.mount("-o", "remount,ro,bind", str(folder))
        elif name == "cache disk":
            (folder / "cache").mkdir(exist_ok=True)
            fault_injection.mount("-t", "tmpfs", "-o", "size=4k", "none", str(folder / "cache"))
            (folder / "cache" / "filled").write_bytes(bytes(4096))
            return folder / "cache"
        return folder if name in MOUNTS else None

    def _wrong(self, name: str, outcome: Outcome, folder: Path) -> str:
        """Return what is wrong after a fault."""
        scenario, code = self.scenario, outcome.code
        if left := _left_behind():
            return f"exit {code} left processes: {left}"
        done = code == 0
        allowed = {0, 1, 4}
        if (
            name == "pipe"
            or (name == "cache disk" and not scenario.keeps_in_cache)
            or (name == "shared" and scenario.shares)
        ):
            allowed = {0}
        elif name.startswith("SIG"):
            allowed = {0, SIGNALS[name.split()[0]][1]}
        elif scenario.ignores_errors:
            allowed = {0}
        if not outcome.killed and code not in allowed:
            return f"exit {code}: {outcome.answer} {_log(folder)}"
        if not outcome.killed and "Traceback" in _log(folder) and "Exception ignored in" not in _log(folder):
            return f"exit {code}: {_log(folder)}"
        seen = read(scenario, folder)
        if seen not in ([self.new] if done else [self.old if scenario.kept else NOTHING, self.new]):
            return f"after exit {code} the result is {str(seen)[:300]} {_log(folder)}"
        if (scenario.lost in _log(folder) and code if scenario.lost else outcome.killed) and name == "kill":
            self.killed["after" if seen == self.new and seen != self.old else "before"] += 1
        elif not outcome.killed and name not in ("read-only", "shared") and (left := _partials(folder)):
            return f"exit {code} left {left}"
        return ""

    def _wrong_again(self, folder: Path) -> str:
        """Return what is wrong after the same command was run again, undisturbed."""
        again = forked(lambda: self.scenario.run(folder), folder, Fault("count"))
        if again.code and not (self.scenario.refuses_again and read(self.scenario, folder) == self.new):
            return f"the second run: exit {again.code}: {again.answer} {_log(folder)}"
        if (last := read(self.scenario, folder)) != self.new:
            return f"the second run gives {str(last)[:300]}"
        now = visible(folder)
        if now.keys() != self.files.keys():
            return f"other files: {sorted(now.keys() ^ self.files.keys())}"
        if self.scenario.same_bytes and now != self.files:
            return f"other bytes: {[name for name in now if now[name] != self.files[name]]}"
        return ""


def _left_behind() -> list[str]:
    """Return the processes that a trial has left; orphans are children of this process. A loaded machine takes a while."""
    deadline = time.monotonic() + SECONDS_TO_END
    while True:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        left = [pid for pid in children if int(pid) not in KEPT_CHILDREN]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _partials(folder: Path) -> list[str]:
    paths = [path.relative_to(folder) for path in folder.rglob("*.partial")]
    return [str(path) for path in paths if path.parts[0] != "cache"]


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def _log(folder: Path) -> str:
    path = Path(f"{folder}.log")
    return path.read_text(errors="replace")[-600:] if path.exists() else ""


def main() -> None:
    """Run the named scenarios, or all."""
    folder, kills, names = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:] or list(SCENARIOS)
    if "FAULT_LIBRARY" not in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        library = str(fault_injection.compile_library(folder))
        more = {"FAULT_LIBRARY": library, "LD_PRELOAD": library, "EVENHAND_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **more})
    mounts = fault_injection.own_mounts()
    server = serve()
    KEPT_CHILDREN.add(server)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    keep_what_is_not_written()
    try:
        for name in names:
            scenario, begun = SCENARIOS[name], time.monotonic()
            if missing := [package for package in scenario.needs if importlib.util.find_spec(package) is None]:
                result: dict[str, object] = {"scenario": name, "skipped": f"{missing} not installed", "problems": []}
            else:
                seed = int(os.environ.get("FAULT_SEED", "0"))
                result = Trials(scenario, folder / name, mounts=mounts, seed=seed).run(kills)
                result["seconds"] = round(time.monotonic() - begun)
                if not result["problems"]:
                    shutil.rmtree(folder / name)
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


if __name__ == "__main__":
    main()
