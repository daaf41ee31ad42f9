"""Run one side of one operation in a process of its own and print what it took, as JSON.

    python benchmarks/run_operation.py FILE OPERATION ours|theirs FOLDER

FILE is a module of benchmarks/operations. It runs in the environment of the tool that is timed, which may lack
everything but the standard library and numpy.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path


def peak_mib() -> float:
    """Return the greatest memory of this process. Linux carries `ru_maxrss` over exec, so it is not used there."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def main(file: str, operation: str, side: str, folder: str) -> None:
    """Set the operation up, then time it alone."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        sys.exit(f"{file} is not a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    call = getattr(module.OPERATIONS[operation], side)(Path(folder))
    wall, processor = time.perf_counter(), time.process_time()
    value = call()
    seconds, cpu = time.perf_counter() - wall, time.process_time() - processor
    found = {"seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak_mib(), "value": value}
    print("RESULT" + json.dumps(found), flush=True)
    os._exit(0)  # what the process does while it ends belongs to neither side


if __name__ == "__main__":
    main(*sys.argv[1:])
