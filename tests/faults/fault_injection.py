"""Bring about faults in this process or in one that is started: at changes of files, at moments, on real disks."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("file_events.c")
KINDS = {"count": 1, "kill-before": 2, "kill-after": 3, "signal": 4, "full-from": 5, "full-bytes": 6, "read-only": 7}
EVENTS = {"o": "open", "w": "write", "s": "sync", "r": "rename", "u": "remove", "m": "make folder", "l": "link",
          "t": "truncate", "c": "change mode"}  # fmt: skip
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 0x4000, 1 << 18


class Fault(NamedTuple):
    """What happens to a process.

    Attributes:
        kind: a kind of `KINDS`; `moment` (a signal after some processor time), `large` (a limit on the size of files),
            `pipe` (nobody reads the output) or `none`.
        place: the number of the event, the seconds, or the bytes.
        number: the signal that is sent.
    """

    kind: str
    place: float = 0
    number: int = signal.SIGKILL


QUIET = Fault("none")
_armed = [QUIET]


def unavailable() -> str:
    """Return why no faults can be brought about on this machine, or an empty text."""
    if not sys.platform.startswith("linux"):
        return "faults are brought about on Linux only"
    return "" if shutil.which("cc") else "a C compiler is needed"


def compile_library(folder: Path) -> Path:
    """Compile the library that is loaded before the C library."""
    target = folder / "file_events.so"
    subprocess.run(
        ["cc", "-std=gnu11", "-shared", "-fPIC", "-O1", "-w", "-o", str(target), str(SOURCE), "-ldl", "-lrt"],
        check=True, capture_output=True,
    )  # fmt: skip
    return target


def arm(fault: Fault, folder: Path) -> None:
    """Let the fault happen in this process."""
    _armed[0] = fault
    if fault.kind in KINDS:
        _library().fault_arm(KINDS[fault.kind], ctypes.c_long(int(fault.place)), fault.number, os.fsencode(folder))
    elif fault.kind == "moment":
        _library().fault_arm(KINDS["count"], ctypes.c_long(0), 0, os.fsencode(folder))
        _library().fault_timer(fault.number, ctypes.c_double(max(fault.place, 1e-3)))
    elif fault.kind == "large":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(fault.place), resource.RLIM_INFINITY))
    elif fault.kind == "pipe":
        receive, send = os.pipe()
        os.close(receive)
        os.dup2(send, 1)
        os.close(send)


def armed() -> Fault:
    """Return the fault that happens in this process, or in the one that it was forked from."""
    return _armed[0]


def disarm() -> None:
    """Let nothing more happen in this process."""
    _library().fault_disarm()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def environment(fault: Fault, folder: Path) -> dict[str, str]:
    """Return the variables that arm a process when it starts."""
    return {"FAULT": f"{KINDS[fault.kind]} {int(fault.place)} {int(fault.number)} {folder}"}


def seen() -> str:
    """Return the events of this process, a letter each."""
    return bytes(_library().fault_seen()).decode()


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.fault_seen.restype = ctypes.c_char_p
    return library


def own_mounts() -> bool:
    """Give this process mounts that no other process sees; return False where that is not allowed."""
    library = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or library.unshare(CLONE_NEWNS):
        return False
    return bool(library.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) == 0)


def mount(*arguments: str) -> None:
    """Mount, or change a mount."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def unmount(folder: Path) -> None:
    """Remove a mount."""
    subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)
