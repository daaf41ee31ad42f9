"""Run scenarios under faults: `python tests/faults/fault_trials.py FOLDER TRIALS [SCENARIO]...`; prints JSON lines.

One interpreter imports everything and forks a process for each trial, because starting Python costs more than most
commands here. The parent never computes: libraries with threads must not be used before a fork.

Faults: `event` kills the process before its n-th change of a file or folder, `moment` after some processor time,
`full` makes every such change from the n-th on fail as on a full disk, `large` limits the size of files, and
`read-only` makes all of them fail.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from fault_scenarios import BODY, SCENARIOS, Scenario

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FAULTS = ("event", "event", "event", "moment", "moment", "full", "large", "read-only")
NOTHING = "nothing"  # what is read where there is no result


class Fault(NamedTuple):
    """A kind of fault, and at which event, moment or size it happens."""

    kind: str
    place: float = 0


QUIET = Fault("none")


class Outcome(NamedTuple):
    """What a forked process returned: exit code or negative signal, its answer, events and processor seconds."""

    code: int
    answer: object
    events: int
    seconds: float


def install(fault: Fault, folder: Path, count: list[int]) -> None:
    """Count changes below the folder in this process, and bring about the fault."""
    root = str(folder)
    if fault.kind == "large":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(fault.place), resource.RLIM_INFINITY))
    elif fault.kind == "moment":
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process at once, as SIGKILL does
        signal.setitimer(signal.ITIMER_PROF, max(fault.place, 1e-3))

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & WRITING:
                return
        elif event in CHANGES:
            path = arguments[0]
        else:
            return
        if not isinstance(path, (str, bytes, os.PathLike)) or not str(folder / os.fsdecode(path)).startswith(root):
            return
        count[0] += 1
        if fault.kind == "event" and count[0] == fault.place:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.kind == "read-only" or (
            fault.kind == "full" and count[0] >= fault.place and event not in ("os.remove", "os.rmdir")
        ):
            code = errno.EROFS if fault.kind == "read-only" else errno.ENOSPC
            raise OSError(code, os.strerror(code))

    sys.addaudithook(hook)


def forked(work: Callable[[], object], folder: Path, fault: Fault = QUIET) -> Outcome:
    """Call a function in a process of its own, in a folder, with a fault."""
    receive, send = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        code = 70
        try:
            os.chdir(folder)
            os.environ["EVENHAND_CACHE"] = str(folder / "cache")
            quiet = fault.kind in ("none", "large")  # a limit on the size of files also limits the log
            log = os.open(os.devnull if quiet else f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            count = [0]
            started = time.process_time()
            install(fault, folder, count)
            answer: object = None
            try:
                answer = work()
                code = answer if type(answer) is int else 0
            except BaseException as error:
                answer, code = f"{type(error).__name__}: {error}", 71
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            report = [
                answer,
                count[0],
                time.process_time() - started,
                sorted(sys.modules) if fault.kind == "none" else [],
            ]
            os.write(send, json.dumps(report).encode() + b"\n")
        finally:
            os._exit(code if code < 128 else 1)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        text = stream.read()
    _, status = os.waitpid(pid, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    answer, events, seconds, modules = json.loads(text) if text else (None, 0, 0.0, [])
    for name in modules:  # later processes have them already
        if name not in sys.modules and name.partition(".")[0] in (
            "evenhand",
            "polars",
            "scipy",
            "sklearn",
            "rich",
            "typer",
        ):
            try:
                importlib.import_module(name)
            except Exception:
                continue
    return Outcome(code, answer, events, seconds)


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

    outcome = forked(work, folder)
    return outcome.answer


def trials(scenario: Scenario, folder: Path, number: int, seed: int) -> dict[str, object]:
    """Run a scenario undisturbed, then under faults; return counts and problems."""
    for module in ("evenhand.cli", "evenhand.audit", *scenario.modules):
        importlib.import_module(module)
    template, whole = folder / "template", folder / "whole"
    template.mkdir(parents=True)
    prepared = forked(lambda: scenario.prepare(template), template)
    if prepared.code:
        return {"scenario": scenario.name, "problems": [f"prepare: {prepared.answer}"]}
    shutil.copytree(template, whole)
    undisturbed = forked(lambda: scenario.run(whole), whole, Fault("count"))
    old, new = read(scenario, template), read(scenario, whole)
    problems = [] if undisturbed.code == 0 else [f"undisturbed: exit {undisturbed.code}, {_log(whole)}"]
    if isinstance(new, str) or (scenario.kept and isinstance(old, str)):
        problems.append(f"read: before {old}, after {new}")
    choose, done = random.Random(f"{scenario.name} {seed}"), dict.fromkeys(FAULTS, 0)
    for trial in range(number if not problems else 0):
        kind = FAULTS[trial % len(FAULTS)]
        place = {
            "event": 1 + choose.randrange(max(undisturbed.events, 1)),
            "full": 1 + choose.randrange(max(undisturbed.events, 1)),
            "moment": choose.random() * undisturbed.seconds,
            "large": choose.choice((0, 1, 100, 1000, 5000)),
            "read-only": 0,
        }[kind]
        done[kind] += 1
        problem = one_trial(scenario, folder / str(trial), template, Fault(kind, place), old, new, visible(whole))
        if problem:
            problems.append(f"{kind} {place}: {problem}")
    return {"scenario": scenario.name, "trials": done, "events": undisturbed.events, "problems": problems}


def one_trial(
    scenario: Scenario, folder: Path, template: Path, fault: Fault, old: object, new: object, files: dict[str, str]
) -> str:
    """Run once under a fault, look at what is there, run again; return the first problem or an empty text."""
    shutil.copytree(template, folder)
    outcome = forked(lambda: scenario.run(folder), folder, fault)
    killed = outcome.code in (-signal.SIGKILL, -signal.SIGPROF)
    if not killed and outcome.code not in ((0,) if scenario.ignores_errors else (0, 1, 4)):
        return f"exit {outcome.code}: {outcome.answer} {_log(folder)}"
    seen = read(scenario, folder)
    allowed = [old, new] if scenario.kept else [NOTHING, new]
    if outcome.code == 0 and not killed:
        allowed = [new]
    if seen not in allowed:
        return f"after exit {outcome.code} the result is {str(seen)[:300]}"
    if (
        not killed
        and (left := [path.name for path in folder.rglob("*.partial") if "cache" not in str(path)])
        and fault.kind != "read-only"
    ):
        return f"exit {outcome.code} left {left}"
    again = forked(lambda: scenario.run(folder), folder, Fault("count"))
    if again.code:
        return f"the second run: exit {again.code}: {again.answer} {_log(folder)}"
    if (last := read(scenario, folder)) != new:
        return f"the second run gives {str(last)[:300]}"
    now = visible(folder)
    if now.keys() != files.keys():
        return f"other files: {sorted(now.keys() ^ files.keys())}"
    if scenario.same_bytes and now != files:
        return f"other bytes: {[name for name in now if now[name] != files[name]]}"
    shutil.rmtree(folder)
    return ""


def _log(folder: Path) -> str:
    path = Path(f"{folder}.log")
    return path.read_text(errors="replace")[-600:] if path.exists() else ""


class _Handler(BaseHTTPRequestHandler):
    """Answers with the same bytes, also from the middle on."""

    def do_GET(self) -> None:
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"v1"')
        self.send_header("Content-Length", str(len(BODY) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.end_headers()
        try:
            self.wfile.write(BODY[start:])
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve() -> int:
    """Start a web server in a process of its own; return its id."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    os.environ["FAULT_SERVER"] = f"http://127.0.0.1:{server.server_port}/set.txt"
    pid = os.fork()
    if pid == 0:
        server.serve_forever()
    server.server_close()
    return pid


def main() -> None:
    """Run the named scenarios, or all."""
    folder, number, names = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:] or list(SCENARIOS)
    os.environ["EVENHAND_OFFLINE"] = "1"
    server = serve()
    try:
        for name in names:
            scenario = SCENARIOS[name]
            if scenario.needs and importlib.util.find_spec(scenario.needs) is None:
                result: dict[str, object] = {
                    "scenario": name,
                    "skipped": f"{scenario.needs} is not installed",
                    "problems": [],
                }
            else:
                result = trials(scenario, folder / name, number, int(os.environ.get("FAULT_SEED", "0")))
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


if __name__ == "__main__":
    main()
