"""Worker processes that keep what they have prepared, report while they work, and end with the process they serve."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

from evenhand.engines.engine import THREAD_VARIABLES, cores
from evenhand.errors import EvenhandError, WorkerError

Send: TypeAlias = Callable[[object], None]
"""Sends a message to the main process."""
Work: TypeAlias = Callable[[Any, Send], None]
"""Does one job in a worker, and sends messages meanwhile; it is pickled once for each worker."""
PR_SET_PDEATHSIG = 1
SECONDS_TO_END = 5.0  # after SIGKILL, which no process survives


@dataclass
class Worker:
    """A process, and what it is doing."""

    process: BaseProcess
    connection: Connection
    job: object = None
    """The job given to it; None while it waits for one."""
    doing: str = ""
    """What the job is about, for the message if the process is lost."""


@dataclass(frozen=True)
class _Finished:
    """The last message of a job."""


@dataclass(frozen=True)
class _Failed:
    """The last message of a job that raised an error."""

    error: BaseException


class WorkerPool:
    """Processes that do jobs one after the other, each with its share of the cores.

    Use it as a context manager: leaving it, also by an error or an interruption, ends every process at once. A process
    whose main process disappears ends by itself.

    Args:
        count: number of processes.
        work: does a job; see `Work`.
    """

    def __init__(self, count: int, work: Work) -> None:
        self.workers: list[Worker] = []
        self._count, self._pickled = count, pickle.dumps(work)

    def __enter__(self) -> WorkerPool:
        context = get_context("spawn")
        try:
            with _threads_of_workers(self._count):
                for _ in range(self._count):
                    here, there = context.Pipe()
                    process = context.Process(target=_serve, args=(there, self._pickled))
                    process.start()
                    there.close()  # the worker alone holds its end, so that its death is seen here
                    self.workers.append(Worker(process, here))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def idle(self) -> list[Worker]:
        """The workers without a job."""
        return [worker for worker in self.workers if worker.job is None]

    @property
    def busy(self) -> list[Worker]:
        """The workers with a job."""
        return [worker for worker in self.workers if worker.job is not None]

    def give(self, worker: Worker, job: object, doing: str) -> None:
        """Give a job to an idle worker."""
        worker.job, worker.doing = job, doing
        try:
            worker.connection.send(job)
        except OSError:
            raise self._lost(worker) from None

    def messages(self, seconds: float | None = None) -> Iterator[tuple[Worker, object]]:
        """Wait for the busy workers and yield what has arrived: their messages, and `None` when a job is finished.

        Raises:
            WorkerError: If a worker process has ended; the message says what it was doing.
            BaseException: What a job raised.
        """
        for ready in wait([worker.connection for worker in self.busy], seconds):
            worker = next(worker for worker in self.workers if worker.connection is ready)
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                raise self._lost(worker) from None
            if isinstance(message, _Failed):
                worker.job = None
                raise message.error
            if isinstance(message, _Finished):
                worker.job = message = None
            yield worker, message

    def _lost(self, worker: Worker) -> WorkerError:
        worker.process.join(SECONDS_TO_END)
        code = worker.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        others = [other.doing for other in self.busy if other is not worker]
        also = f"; {', '.join(others)} stopped with it" if others else ""
        return WorkerError(
            f"a worker process ended {how} while it was busy with {worker.doing}{also}",
            hint="if it ran out of memory, use fewer jobs; a script that starts processes needs the guard "
            'if __name__ == "__main__":',
        )

    def close(self) -> None:
        """End all processes now; they write nothing themselves that could be left half done."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.join(SECONDS_TO_END)
            worker.connection.close()
        self.workers = []


@contextmanager
def _threads_of_workers(count: int) -> Iterator[None]:
    """Let processes started meanwhile use their share of the cores, unless the user has configured the threads.

    Numerical libraries read these variables when they are loaded, which is before a worker runs any code of ours.
    """
    share = str(max(1, cores() // count))
    added: Mapping[str, str] = {name: share for name in THREAD_VARIABLES if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def end_with_parent() -> None:
    """Let this process end within a second of the process that started it; does nothing in a main process.

    On Linux the kernel ends it, whatever it is computing. Elsewhere a thread waits for the parent, and a library call
    that keeps the interpreter's lock delays it.
    """
    parent = parent_process()
    if parent is None:
        return
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent.pid:  # it ended before the call
            os._exit(1)


def _exit_after(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _serve(connection: Connection, pickled: bytes) -> None:
    """Do jobs in a worker process until the main process closes its end."""
    # Ctrl-C and a closed terminal reach every process of a group: the main process reports them and ends the workers.
    for name in ("SIGINT", "SIGHUP", "SIGTERM"):
        if number := getattr(signal, name, None):
            signal.signal(number, signal.SIG_IGN if name == "SIGINT" else signal.SIG_DFL)
    end_with_parent()
    work: Work | None = None
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        try:
            work = work or pickle.loads(pickled)
            work(job, connection.send)
            answer: object = _Finished()
        except Exception as error:
            answer = _Failed(_sendable(error))
        connection.send(answer)


def _sendable(error: Exception) -> Exception:
    """Return the error if it can be pickled, with its traceback as a note; otherwise one that describes it."""
    if isinstance(error, EvenhandError):
        return error
    error.add_note("In a worker process:\n" + traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
    return error
