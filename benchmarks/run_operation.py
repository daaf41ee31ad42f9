"""Run one side of one operation in a process of its own and print what it took, as JSON.

    python benchmarks/run_operation.py FILE OPERATION ours|theirs FOLDER [FOLDER ...] [--times N]

FILE is a module of benchmarks/operations. It runs in the environment of the tool that is timed, which may lack
everything but the standard library and numpy. The line FIRST marks the first result, up to which a user waits. With
several folders, the operation is timed on each in turn, at most N times: the table of growth.
"""

import argparse
import gc
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONG = 15.0  # seconds of growth after which nothing is repeated


def peak_mib() -> float:
    """Return the greatest memory of this process or of one that it started.

    Linux carries `ru_maxrss` of a process over exec, so it is not used there for this one.
    """
    import resource

    unit = 1 << (10 if sys.platform == "linux" else 20)  # kilobytes on Linux, bytes on macOS
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return max(started, int(line.split()[1]) / 1024)
    return max(started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def load(file: str) -> Any:
    """Import a module of operations under a name that hides no other module."""
    name = f"operations_{Path(file).stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        sys.exit(f"{file} is not a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def clocked(call: Callable[[], object]) -> dict[str, Any]:
    """Return wall and processor seconds of a call, and its result."""
    wall, processor = time.perf_counter(), time.process_time()
    value = call()
    return {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - processor,
        "value": value,
        "peak_mib": peak_mib(),
    }


def main() -> None:
    """Set the operation up, then time it alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("operation")
    parser.add_argument("side", choices=("ours", "theirs"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--times", type=int, default=1)
    given = parser.parse_args()
    operation = load(given.file).OPERATIONS[given.operation]
    setup = getattr(operation, given.side)
    if len(given.folders) == 1:
        call = setup(given.folders[0])
        timed = clocked(call)
        print("FIRST", flush=True)
        result = clocked(call) if operation.warm else timed
    else:
        setup(given.folders[0])()  # imports and first calls are not part of the growth
        seconds: list[list[float]] = []
        started = time.perf_counter()
        while len(seconds) < given.times and (not seconds or time.perf_counter() - started < LONG):
            seconds.append([])
            for folder in given.folders:
                call = setup(folder)
                seconds[-1].append(clocked(call)["seconds"])
                del call
                gc.collect()
        result = {"seconds": seconds}
    print("RESULT" + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
