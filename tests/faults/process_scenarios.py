"""Commands of several processes: an audit with workers, and a page that shows the run which an audit writes anew."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import fault_injection
from fault_scenario import add, command
from run_scenarios import AUDIT, prepared, read_audit

JOBS = ("audit", "in.txt", "--measure", "direct-bias", "--measure", "ripa", "-m", "linear", "--jobs", "2", "-o", "run")
LOST = "a worker process ended by signal 9"
PATIENCE = 60.0  # seconds that a watcher may take to answer


def _forked(victim: str) -> Callable[[Path], int]:
    """Return the audit with workers that are forked, because starting two interpreters costs more than the audit.

    The fault happens in the first worker if that is the victim, otherwise in the process that the user has started.
    """
    call = command(*JOBS)

    def run(folder: Path) -> int:
        from evenhand.engines import processes

        fault, serve, first = fault_injection.armed(), processes._serve, multiprocessing.Value("i", 0)

        def serve_one(*arguments: object) -> None:
            fault_injection.disarm()
            with first:
                mine, first.value = first.value == 0, 1
            if victim == "worker" and mine:
                fault_injection.arm(fault, folder)
            serve(*arguments)  # type: ignore[arg-type]

        if victim == "worker":
            fault_injection.disarm()
        processes._serve = serve_one  # type: ignore[assignment]
        processes.get_context = lambda method: multiprocessing.get_context("fork")  # type: ignore[assignment]
        return call(folder)

    run.arguments = JOBS  # type: ignore[attr-defined]
    return run


add("audit-jobs-parent", prepared(*JOBS), _forked("parent"), read_audit, same_bytes=False, shares=True)
add("audit-jobs-worker", prepared(*JOBS), _forked("worker"), read_audit, same_bytes=False, shares=True, lost=LOST)


# A page that shows the run -----------------------------------------------------------------------------------------


def _watched(folder: Path) -> int:
    """Run an audit while a server shows its folder and a reader asks for every page, again and again."""
    call, (receive, send) = command(*AUDIT), os.pipe()
    told = folder.with_name(f"{folder.name}.watch-{os.getpid()}")  # outside the folder in which faults happen
    told.touch()
    if os.fork() == 0:
        os.dup2(send, 3)
        os.closerange(4, 256)  # what the trial waits for must not stay open here
        fault_injection.disarm()
        try:
            problem = _watch(folder, 3)
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
        told.with_suffix(".new").write_text(json.dumps(problem))
        told.with_suffix(".new").rename(told)
        os._exit(0)
    os.close(send)
    os.read(receive, 1)  # the audit begins when the page answers, or the watcher has failed
    os.close(receive)
    return call(folder)


def _watch(folder: Path, ready: int) -> str:
    """Ask a server for the pages about a run until the audit has ended; return what was wrong."""
    import uvicorn

    from evenhand.web import create_app
    from evenhand.web.connections import BoundedConnection

    parent = os.getppid()
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app([], [folder / "run"], read_only=True)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, http=BoundedConnection, ws="none", lifespan="off"
    )
    threading.Thread(target=uvicorn.Server(config).run, args=([listening],), daemon=True).start()
    seen: list[str] = []
    run = app.app.state.site.runs.listing()[0].id  # type: ignore[attr-defined]
    port, ended = listening.getsockname()[1], False
    while True:
        known = len(seen)
        status, body = _ask(port, f"/runs/{run}/audit.json")
        if status != 200:
            return f"the record answers {status}: {body[-300:]!r}"
        values = json.dumps(json.loads(body)["manifest"]["subjects"][0]["sha256"]) + json.dumps(
            [row["value"] for row in json.loads(body)["results"]]
        )
        seen += [values] if values not in seen[-1:] else []
        for page in ("/runs", f"/runs/{run}") if len(seen) > known or ended else ():
            status, body = _ask(port, page)
            if status != 200 or not body.rstrip().endswith(b"</html>"):
                return f"{page} answers {status}: {body[-300:]!r}"
        if len(seen) > 2:
            return f"the page showed {len(seen)} states"
        if len(seen) == 1 and ready:
            os.write(ready, b"r")
            os.close(ready)
            ready = 0
        if ended:
            return ""
        ended = os.getppid() != parent
        time.sleep(0.01)


def _ask(port: int, page: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", page, headers={"host": "127.0.0.1"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def _read_watched(folder: Path) -> object:
    """Return the values of the run; an error if what the server showed in the meantime was not whole."""
    deadline = time.monotonic() + PATIENCE
    for told in folder.parent.glob(f"{folder.name}.watch-*"):
        while not told.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        if problem := json.loads(told.read_text() or '"the watcher did not end"'):
            raise AssertionError(f"the server: {problem}")
    return read_audit(folder)


add(
    "serve-rewritten-run", prepared(*AUDIT), _watched, _read_watched, same_bytes=False, shares=True,
    needs=("starlette", "uvicorn"), modules=("starlette.applications", "uvicorn", "evenhand.web"),
)  # fmt: skip
