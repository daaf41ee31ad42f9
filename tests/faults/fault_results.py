"""Keep the results of the trials: `python tests/faults/fault_results.py FILE...` adds those that `fault_trials.py` printed."""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).with_name("RESULTS.md")
GROUPS = {
    "full disk": ("full-from", "full-bytes", "disk", "large"), "read-only": ("read-only", "read-only mount"),
    "SIGINT, SIGTERM": ("SIGINT event", "SIGINT moment", "SIGTERM event", "SIGTERM moment"), "no reader": ("pipe",),
    "full cache disk": ("cache disk",), "three at once": ("shared",), "new process": ("start",),
}  # fmt: skip
TEXT = """# Commands that write, under faults

`make faults` writes this page. Each row is a command on a small input, with an earlier result where it can have one.
A trial brings about one fault, reads the result as a user would, and runs the same command again. It fails unless the
result is the earlier one or the new one, whole; a command that returns 0 has written the new one; exit codes are as
documented; no temporary file is left unless the process was killed; and the second run gives the files of an
undisturbed run.

- **kill -9**: before or after a call that changes a file or folder (open, write, sync, rename, remove, ...; of a write,
  half is written), and at random moments of processor time. *before* and *after* say which result was then found.
- **full disk**: no call succeeds from one on, no byte fits from one on, a real file system of limited size, a limit on
  the size of files. **read-only**: calls fail with EROFS or EACCES, and a read-only mount.
- **SIGINT, SIGTERM**: at such calls and at random moments; exit codes 130 and 143, or 0 if the work was done.
- **no reader**: the reader of the output is gone, as with `| head`; exit code 0, and the result is complete.
- **full cache disk**: nothing fits into the cache. **three at once**: three processes run the command in one folder.
- **new process**: killed at a call, in an interpreter of its own; the other trials fork one that is warm.

"""


def add(results: list[dict[str, Any]]) -> None:
    """Add results to those that are kept, replacing those of the same scenarios, and write the page."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    versions = {name: metadata.version(name) for name in ("evenhand", "numpy", "polars")}
    about = {"date": datetime.now(tz=UTC).date().isoformat(), "python": platform.python_version(), **versions}
    for result in results:
        kept[result["scenario"]] = {**result, "run": about}
    RESULTS.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
    PAGE.write_text(page(dict(sorted(kept.items()))))


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    columns = ("scenario", "calls", "kill -9", "before", "after", *GROUPS, "problems")
    rows = []
    for name, result in results.items():
        trials, killed = result.get("trials", {}), result.get("killed", {})
        counts = [sum(trials.get(kind, 0) for kind in kinds) for kinds in GROUPS.values()]
        events = sum(result.get("events", {}).values())
        rows.append((name, events, trials.get("kill", 0), killed.get("before", 0), killed.get("after", 0), *counts,
                     len(result["problems"])))  # fmt: skip
    totals = [sum(int(row[column]) for row in rows) for column in range(1, len(columns))]
    lines = [columns, ("---", *["---:"] * len(totals)), *rows, ("**all**", "", *totals[1:])]
    table = "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
    runs = sorted({json.dumps(result["run"], sort_keys=True) for result in results.values()})
    about = "\n".join("- " + ", ".join(f"{key} {value}" for key, value in json.loads(run).items()) for run in runs)
    trials = sum(sum(result.get("trials", {}).values()) for result in results.values())
    found = [f"- {name}: {problem}" for name, result in results.items() for problem in result["problems"]]
    problems = "\n".join(["", "Problems:", "", *found, ""]) if found else ""
    skipped = [f"{name} ({result['skipped']})" for name, result in results.items() if "skipped" in result]
    left_out = f"\nLeft out: {', '.join(skipped)}.\n" if skipped else ""
    return (
        f"{TEXT}{trials:,} trials of {len(results) - len(skipped)} scenarios, {totals[-1]} problems.\n\n{table}\n"
        f"{problems}{left_out}\nRun with:\n\n{about}\n"
    )


if __name__ == "__main__":
    add([json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text().splitlines()])
