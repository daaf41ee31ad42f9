"""Simulate how often each kind of interval contains the true value; write the table of docs/explanation/intervals.md.

    python scripts/interval_coverage.py                     # all kinds, 1,000 samples each: five minutes on one core
    python scripts/interval_coverage.py mean divergence     # replace the rows of some kinds
    python scripts/interval_coverage.py mean -n 200         # fewer samples; nothing is written

Every kind calls the function that the measures call. Populations have a true value that is known, or computed from
millions of draws. Results: reproductions/intervals.json, with the seed, the versions and the standard error.
"""

import argparse
import json
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import numpy as np
from interval_populations import KINDS, Cell

from evenhand.files import write_text

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "reproductions/intervals.json", ROOT / "docs/explanation/intervals.md"
BEGIN, END = "<!-- coverage: written by scripts/interval_coverage.py -->", "<!-- end of coverage -->"
SAMPLES, SEED = 1_000, 0
LOW, HIGH = 0.93, 0.97  # the aim


def coverage(cell: Cell, samples: int, seed: int) -> tuple[float, float]:
    """Return the share of samples whose interval holds the true value, and the share without an interval."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{cell.population} {cell.size}".encode())])
    hits = none = 0
    for _ in range(samples):
        bounds, truth = cell.case(rng)
        none += bounds is None
        hits += bounds is not None and bounds[0] - 1e-12 <= truth <= bounds[1] + 1e-12
    return hits / max(1, samples - none), none / samples


def simulate(kinds: Sequence[str], samples: int = SAMPLES, seed: int = SEED) -> list[dict[str, object]]:
    """Return one row for each population and size of some kinds."""
    rows: list[dict[str, object]] = []
    for kind in kinds:
        for cell in KINDS[kind][1]():
            covered, none = coverage(cell, samples, seed)
            rows.append(
                {
                    "kind": kind, "population": cell.population, "size": cell.size, "samples": samples,
                    "coverage": round(covered, 4), "without_interval": round(none, 4), "fails": cell.fails,
                }
            )  # fmt: skip
            print(*rows[-1].values(), sep="\t", flush=True)
    return rows


def table(rows: Sequence[dict[str, object]]) -> str:
    """Return the table of the page: for each kind how many rows are inside the aim, and every row that is not."""
    lines = [
        f"| kind | interval | measures | sizes | inside {_short(LOW)} to {_short(HIGH)} | covers | outside |",
        "|---|---|---|---|--:|---|---|",
    ]
    for kind, (what, function) in KINDS.items():
        chosen = [row for row in rows if row["kind"] == kind]
        if not chosen:
            continue
        measures = str(function.__doc__).partition(": ")[2].rstrip(".") or kind
        sizes = ", ".join(dict.fromkeys(str(row["size"]) for row in chosen))
        outside = [row for row in chosen if not LOW <= float(str(row["coverage"])) <= HIGH]
        named = "; ".join(f"{_short(row['coverage'])}: {row['population']}, {row['size']}" for row in outside)
        inside = f"{len(chosen) - len(outside)} of {len(chosen)}"
        lines.append(f"| {kind} | {what} | {measures} | {sizes} | {inside} | {_range(chosen)} | {named} |")
    return "\n".join(lines)


def _short(share: object) -> str:
    return f"{share:.3f}".removeprefix("0")


def _range(rows: Sequence[dict[str, object]]) -> str:
    found = [float(str(row["coverage"])) for row in rows]
    return f"{_short(min(found))} to {_short(max(found))}" if found else ""


def main() -> None:
    """Simulate, and write the results and the table where all kinds were simulated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("-n", "--samples", type=int, default=SAMPLES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="number of processes")
    options = parser.parse_args()
    if unknown := set(options.kinds) - KINDS.keys():
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}")
    kinds = options.kinds or list(KINDS)
    with ProcessPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(simulate, [kind], options.samples, options.seed) for kind in kinds]
        found = {kind: task.result() for kind, task in zip(kinds, tasks, strict=True)}
    if options.samples >= SAMPLES:
        write(found, options.seed, options.results)


def write(found: dict[str, list[dict[str, object]]], seed: int, results: Path = RESULTS) -> None:
    """Replace the rows of some kinds in the results, and write the table of the page from them."""
    kept = json.loads(results.read_text(encoding="utf-8"))["rows"] if results.exists() else []
    by_kind = {kind: [row for row in kept if row["kind"] == kind] for kind in KINDS} | found
    record = {
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": python_version(), **{name: version(name) for name in ("evenhand", "numpy", "scipy")}},
        "rows": [row for kind in KINDS for row in by_kind[kind]],
    }
    write_text(results, json.dumps(record, indent=1) + "\n")
    if results == RESULTS:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        write_text(PAGE, f"{before}{BEGIN}\n{table(record['rows'])}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
