"""Time every operation of benchmarks/operations, ours and theirs in turn, and write RESULTS.json and a table.

    python benchmarks/bench.py [--only load-first weat-p ...] [--repeats 5] [--growth] [--work FOLDER] [--out FILE]

Each run is a process of its own in the environment of the tool that is timed (environments.py creates them, once). A
process prints the seconds of the operation alone; the whole process, imports and inputs included, is timed from outside.
Ratios are those of the medians; their spread is that of the ratios of neighbouring runs. `--growth` repeats ours at 1/8,
1/4, 1/2 and all of the size, and fits the exponent. The limit is what the machine needs for the least possible work:
its speed at matrix products and at copying memory is measured in the same run.
"""

import argparse
import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from environments import OURS, python_of  # noqa: E402
from operation import Operation  # noqa: E402

SCALES = (1, 2, 4, 8)
FULL = 8


def modules() -> dict[Path, ModuleType]:
    """The modules of benchmarks/operations by file."""
    found = {}
    for path in sorted((HERE / "operations").glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{path} is not a module")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[path] = module
    return found


def run(file: Path, id: str, side: str, python: Path, folder: Path) -> dict[str, float]:
    """One run of one side."""
    command = [str(python), str(HERE / "run_operation.py"), str(file), id, side, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    whole = time.perf_counter() - start
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), "")
    if not line:
        raise RuntimeError(f"{id}, {side}: {done.stderr.strip()[-2000:]}")
    return {**json.loads(line.removeprefix("RESULT")), "process_seconds": whole}


def agree(one: Any, other: Any, tolerance: float | None) -> bool:
    """Whether two values agree."""
    return (
        tolerance is None
        or one is None
        or other is None
        or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    )


def compare(
    file: Path, id: str, operation: Operation, folder: Path, environments: Path, repeats: int
) -> dict[str, Any]:
    """Ours and theirs in turn."""
    sides: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    pythons = {"ours": Path(sys.executable)}
    if operation.theirs:
        pythons["theirs"] = python_of(operation.peer, environments)
    for _ in range(min(repeats, operation.repeats)):
        for side, python in pythons.items():
            sides[side].append(run(file, id, side, python, folder))
            print(f"  {id} {side} {sides[side][-1]['seconds']:.3f} s", file=sys.stderr, flush=True)
    row: dict[str, Any] = {"id": id, "title": operation.title, "peer": operation.peer_name, "bar": operation.bar}
    for side, runs in sides.items():
        if runs:
            row[side] = {
                key: statistics.median(r[key] for r in runs)
                for key in ("seconds", "cpu_seconds", "process_seconds", "peak_mib")
            }
            row[side]["all"] = [round(r["seconds"], 4) for r in runs]
    if sides["theirs"]:
        share = operation.theirs_share
        row["theirs_share"] = share
        ratios = [
            their["seconds"] / share / our["seconds"] for our, their in zip(sides["ours"], sides["theirs"], strict=True)
        ]
        row["ratio"] = row["theirs"]["seconds"] / share / row["ours"]["seconds"]
        row["ratio_spread"] = [min(ratios), max(ratios)]
        extra = row["theirs"]["process_seconds"] - row["theirs"]["seconds"]
        row["process_ratio"] = (row["theirs"]["seconds"] / share + extra) / row["ours"]["process_seconds"]
        row["agree"] = agree(sides["ours"][0]["value"], sides["theirs"][0]["value"], operation.tolerance)
        row["met"] = operation.bar is None or row["process_ratio" if id == "load-first" else "ratio"] >= operation.bar
    return row


def machine_speed() -> dict[str, float]:
    """Matrix products in GFLOP/s (float32, all cores) and copying of memory in GB/s, each the best of five."""
    import numpy as np

    a = np.random.default_rng(0).standard_normal((3000, 3000), dtype=np.float32)
    big = np.zeros(1 << 26, dtype=np.float32)
    products, copies = [], []
    for _ in range(5):
        start = time.perf_counter()
        a @ a
        products.append(2 * 3000**3 / (time.perf_counter() - start) / 1e9)
        start = time.perf_counter()
        big.copy()
        copies.append(2 * big.nbytes / (time.perf_counter() - start) / 1e9)
    return {"gflops": max(products), "gb_per_s": max(copies)}


def exponent(seconds: dict[int, float]) -> float:
    """The slope of log seconds on log size."""
    xs, ys = [math.log(scale) for scale in seconds], [math.log(value) for value in seconds.values()]
    mx, my = statistics.mean(xs), statistics.mean(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


def table(rows: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "| operation | ours s | theirs s | ratio (spread) | whole process | peak MiB | share of the limit | growth |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ours, theirs = row["ours"], row.get("theirs")
        their = f"{theirs['seconds'] / row['theirs_share']:.3g}, {row['peer']}" if theirs else ""
        ratio = f"{row['ratio']:.3g}x ({row['ratio_spread'][0]:.3g}-{row['ratio_spread'][1]:.3g})" if theirs else ""
        whole = f"{ours['process_seconds']:.3g} s" + (f", {row['process_ratio']:.3g}x" if theirs else "")
        peak = f"{ours['peak_mib']:.0f}" + (f" / {theirs['peak_mib']:.0f}" if theirs else "")
        limit = f"{row['limit_share']:.0%}" if "limit_share" in row else ""
        growth = f"{row['growth']['of']}^{row['growth']['exponent']:.2f}" if "growth" in row else ""
        lines.append(
            f"| {row['title']} | {ours['seconds']:.3g} | {their} | {ratio} | {whole} | {peak} | {limit} | {growth} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Time what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scale", type=int, default=FULL, choices=SCALES, help="eighths of the full size")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--work", type=Path, default=Path(".bench"), help="environments and inputs")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "bench.json")
    given = parser.parse_args()
    speed, rows = machine_speed(), []
    given.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.work) as temporary:
        for path, module in modules().items():
            wanted = {id: op for id, op in module.OPERATIONS.items() if not given.only or id in given.only}
            if not wanted:
                continue
            folders = {}
            for scale in SCALES if given.growth else (given.scale,):
                folders[scale] = Path(temporary) / f"{path.stem}-{scale}"
                folders[scale].mkdir()
                module.prepare(folders[scale], scale)
            for id, operation in wanted.items():
                try:
                    row = compare(path, id, operation, folders[given.scale], given.work.resolve(), given.repeats)
                except RuntimeError as error:
                    print(error, file=sys.stderr)
                    rows.append({"id": id, "failed": str(error)})
                    continue
                if operation.work:
                    work = operation.work(given.scale)
                    floor = max(work.flop / speed["gflops"] / 1e9, work.bytes / speed["gb_per_s"] / 1e9)
                    row |= {"limit_seconds": floor, "limit_share": floor / row["ours"]["seconds"], "limit": work.why}
                if given.growth and operation.growth:
                    seconds = {s: run(path, id, "ours", Path(sys.executable), folders[s])["seconds"] for s in SCALES}
                    row["growth"] = {"of": operation.growth, "seconds": seconds, "exponent": exponent(seconds)}
                rows.append(row)
    found = {
        "rows": rows,
        "machine": {"cores": os.cpu_count(), "architecture": platform.machine(), **speed},
        "versions": {name: version(name) for name in ("evenhand", "numpy", "polars", "scipy")}
        | {"python": platform.python_version()},
        "load": os.getloadavg(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "environment": OURS,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table([row for row in rows if "failed" not in row]))
    if failed := [row["id"] for row in rows if "failed" in row]:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
