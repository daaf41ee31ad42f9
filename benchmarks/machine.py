"""What the machine can do: the rates that floors are computed from, measured in the same run."""

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

TIMES = 5
SIDE, BYTES = 3000, 1 << 28


def _best(call: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def start_seconds(code: str, times: int) -> float:
    """Return the median time of a process that runs the code."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def rates(*, quick: bool = False) -> dict[str, float]:
    """Return matrix products, copies, reads of cached files, table look-ups per second, and the start of a process.

    The quick form takes small arrays, whose rates are those of the caches of the processor.
    """
    side, size, times = (500, BYTES >> 8, 1) if quick else (SIDE, BYTES, TIMES)
    rng = np.random.default_rng(0)
    square = rng.standard_normal((side, side), dtype=np.float32)
    source, target = np.ones(size // 4, dtype=np.float32), np.empty(size // 4, dtype=np.float32)
    table, places = np.arange(1 << 20), rng.integers(0, 1 << 20, size >> 6)
    np.copyto(target, source)  # touches the pages
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(memoryview(source).cast("B"))
        buffer = memoryview(target).cast("B")

        def read() -> None:
            file.seek(0)
            file.readinto(buffer)

        read()
        reading = _best(read, times)
    return {
        "flop_per_s": 2 * side**3 / _best(lambda: square @ square, times),
        "copied_bytes_per_s": 2 * size / _best(lambda: np.copyto(target, source), times),
        "read_bytes_per_s": size / reading,
        "lookups_per_s": len(places) / _best(lambda: table[places], times),
        "start_seconds": start_seconds("import numpy", times),
        "bare_start_seconds": start_seconds("pass", times),
    }


def about() -> dict[str, object]:
    """Return what is known about the machine."""
    return {
        "architecture": platform.machine(),
        "system": platform.system(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average": list(os.getloadavg()),
    }


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
