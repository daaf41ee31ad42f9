"""Keep the results of the trials: `python tests/faults/fault_results.py FILE...` takes those that `fault_trials.py` printed.

They replace earlier ones of the same scenarios, or are added to them with `--more`.
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from fault_scenarios import SCENARIOS

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
  half is written), and at random moments of processor time. *before* and *after* say which result was then found;
  the other processes ended before their moment came.
- **full disk**: no call succeeds from one on, no byte fits from one on, a real file system of limited size, a limit on
  the size of files. **read-only**: calls fail with EROFS or EACCES, and a read-only mount.
- **SIGINT, SIGTERM**: at such calls and at random moments; exit codes 130 and 143, or 0 if the work was done.
- **no reader**: the reader of the output is gone, as with `| head`; exit code 0, and the result is complete.
- **full cache disk**: nothing fits into the cache. **three at once**: three processes run the command in one folder.
- **audit-jobs**: the process that the user started, or one of its two workers, is killed; none may stay behind (**audit-spawned**: the same with new interpreters). **serve-rewritten-run**:
  a server shows the run while the audit that writes it anew is killed; every answer is 200, whole, and of the earlier run or of the new one.
  **ray-workers-count**: workers of a Ray cluster are killed while they count; the count is that of one process. **full-machine**: home, temporary
  files, cache and results share one small disk, and commands run as it fills.
- **new process**: killed at a call, in an interpreter of its own; the other trials fork one that is warm.

"""

FOUND = """
## What the trials found

All of it is fixed, with a test. The scenarios in brackets failed once and were run again after the fix, with the number of
kills in the table.

- Half a `.npy` file and exit code 0 on a full disk (convert-npy, of 100 kills before).
- A traceback when the weights of a model did not fit on the disk (debias-model, of 30 before).
- A hidden temporary folder was left when SIGTERM arrived during its removal (probe-export-folder and sgns, of 100 before).
- Exit code 1 for `| head`, and no record of `corpus bias`, `probe` and `lm measure` then.
- Exit code 130 for SIGTERM before the verb began, and a temporary file when a signal arrived during its creation.
- A download without a hash could be completed with parts of two versions; this was seen in the code before its trials.
- debias-map failed once by an error of the trials themselves (of 100 before).
- `debias --sweep` failed for every vector file, with no fault at all.
- The trials of audits stopped working when a filter of the page took arguments; the process that is forked kept another one in its place.
"""


def add(results: list[dict[str, Any]], *, more: bool = False) -> None:
    """Add results to those that are kept, replacing those of the same scenarios or adding to them; write the page."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    versions = {name: metadata.version(name) for name in ("evenhand", "numpy", "polars")}
    about = {"date": datetime.now(tz=UTC).date().isoformat(), "python": platform.python_version(), **versions}
    for result in results:
        earlier = kept.get(result["scenario"], {}) if more else {}
        counts = {
            name: dict(Counter(earlier.get(name, {})) + Counter(result.get(name, {}))) for name in ("trials", "killed")
        }
        problems = [*earlier.get("problems", []), *result["problems"]]
        seconds = earlier.get("seconds", 0) + result.get("seconds", 0)
        kept[result["scenario"]] = {**result, **counts, "problems": problems, "seconds": seconds, "run": about}
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
    missing = [name for name in SCENARIOS if name not in results]
    skipped_or_missing = skipped + [f"{name} (not run)" for name in missing]
    left_out = f"\nLeft out: {', '.join(skipped_or_missing)}.\n" if skipped_or_missing else ""
    return (
        f"{TEXT}{trials:,} trials of {len(results) - len(skipped)} scenarios, {totals[-1]} problems.\n\n{table}\n"
        f"{problems}{left_out}\nVersions of the last run of each scenario:\n\n{about}\n{FOUND}"
    )


if __name__ == "__main__":
    files = [name for name in sys.argv[1:] if name != "--more"]
    found = [json.loads(line) for name in files for line in Path(name).read_text().splitlines()]
    add(found, more="--more" in sys.argv)
