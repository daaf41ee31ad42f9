"""Time every operation of benchmarks/operations, ours and theirs in turn, and write the results.

    python benchmarks/bench.py [OPERATION ...] [--list] [--repeats 5] [--quick | --tiny] [--resume] [--no-growth]
                               [--work FOLDER] [--environments FOLDER] [--out FILE] [--page FILE]

Each run is a process of its own, in the environment of the tool that is timed (environments.py installs them once, from
the package registry). A process reports the seconds of the operation alone; the whole process, from its start to the
result, is timed from outside. Ratios are those of the medians, with the smallest and largest ratio of neighbouring
runs. Results that must be equal are compared. The table of growth times ours at 1, 2, 4 and 8 times a small size. The
floor is what this machine needs for the least possible work, from rates measured at the start of the run.

Operations that need data of others look in EVENHAND_DATA, and are skipped with a line otherwise. The JSON file and the
page are written after every operation; `--resume` keeps the operations that are finished. `--quick` times one operation
of each area beside its peer, twice and without growth, in about five minutes on two quiet cores. `--tiny` takes tiny
sizes and one repeat, to try the benchmark. Both write into the work folder.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import arithmetic  # noqa: E402
import machine  # noqa: E402
from environments import OURS, python_of, versions_of  # noqa: E402
from operation import DataMissingError, Operation, Sizes  # noqa: E402
from results_page import write_page  # noqa: E402
from run_operation import load  # noqa: E402

FACTORS = (1, 2, 4, 8)
GROWTH_TIMES = 3
# One of each module, with a peer where the module has one.
QUICK_SET = (
    "analogies", "weat-p", "corpus-window", "hard", "leace", "gipe", "inlp", "causal-likelihood", "probe-decomposable",
    "report", "help", "probe-transformer", "load-first",
)  # fmt: skip
QUICK_REPEATS = 2
MAX_SECONDS = 1200
Row = dict[str, Any]


class FailedRunError(Exception):
    """A process did not report a result."""


class Inputs:
    """Folders with the inputs of a module, one for each choice of sizes; removed at the end."""

    def __init__(self, module: Any, folder: Path) -> None:
        self._module, self._folder = module, folder
        self.about: str = module.ABOUT
        self._ready: dict[str, Path] = {}
        self.digests: dict[Path, str] = {}

    def at(self, sizes: Sizes) -> Path:
        """Return the folder with inputs of these sizes, which are made where they are missing."""
        name = ",".join(f"{axis}={size}" for axis, size in sizes.items()) or "none"
        if name not in self._ready:
            folder = self._folder / name
            folder.mkdir(parents=True)
            (folder / "sizes.json").write_text(json.dumps(dict(sizes)))
            self._module.prepare(folder, sizes)
            self.digests[folder] = digest(folder)
            self._ready[name] = folder
        return self._ready[name]


def digest(folder: Path) -> str:
    """Return the SHA-256 of the input files, by name and content."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if "cache" in path.relative_to(folder).parts or "run" in path.relative_to(folder).parts:
            continue  # results, which hold times
        with path.open("rb") as file:
            whole.update(f"{path.relative_to(folder)} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def run(file: Path, id: str, side: str, python: Path, folders: list[Path], times: int = 1) -> Row:
    """Run one side once, and return what it reported and how long its process took to the result and to its end."""
    command = [python, HERE / "run_operation.py", file, id, side, *folders, "--times", times]
    inherited = os.environ.get("PYTHONPATH", "") if python == Path(sys.executable) else ""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), inherited]))}
    whole, reported = None, None
    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        with subprocess.Popen(
            [str(part) for part in command], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("FIRST"):
                    whole = time.perf_counter() - start
                elif line.startswith("RESULT"):
                    reported = json.loads(line.removeprefix("RESULT"))
            process.wait(MAX_SECONDS)
        ended = time.perf_counter() - start
        if reported is None:
            errors.seek(0)
            raise FailedRunError(f"{id}, {side}: {errors.read().strip()[-1500:]}")
    return {**reported, "whole_seconds": whole, "exit_seconds": ended}


def side_summary(runs: list[Row], share: float = 1.0) -> Row:
    """Return the medians of one side; seconds of a part are extrapolated to the whole."""
    alone = [each["seconds"] / share for each in runs]
    extra = [total - each["seconds"] for total, each in zip(alone, runs, strict=True)]
    return {
        "seconds": statistics.median(alone),
        "all_seconds": [round(value, 5) for value in alone],
        "whole_seconds": statistics.median(
            each["whole_seconds"] + more for each, more in zip(runs, extra, strict=True)
        ),
        "all_whole_seconds": [round(each["whole_seconds"] + more, 5) for each, more in zip(runs, extra, strict=True)],
        "exit_seconds": statistics.median(each["exit_seconds"] + more for each, more in zip(runs, extra, strict=True)),
        "cpu_seconds": statistics.median(each["cpu_seconds"] for each in runs) / share,
        "peak_mib": round(max(each["peak_mib"] for each in runs), 1),
    }


def compare(operation: Operation, sizes: Sizes, ours: list[Row], theirs: list[Row], rates: Mapping[str, float]) -> Row:
    """Return the row of one operation from its runs."""
    row: Row = {"title": operation.title.format(**{k: f"{v:,}" for k, v in sizes.items()}), "sizes": dict(sizes)}
    row["ours"] = side_summary(ours)
    if theirs:
        share = operation.share(sizes)
        row["peer"], row["peer_environment"] = operation.peer_name, operation.peer
        row["theirs"] = side_summary(theirs, share)
        row["share"], row["extrapolated"] = share, operation.extrapolated.format(**sizes)
        row["ratio"] = arithmetic.ratio(row["ours"]["all_seconds"], row["theirs"]["all_seconds"])
        row["whole_ratio"] = arithmetic.ratio(row["ours"]["all_whole_seconds"], row["theirs"]["all_whole_seconds"])
        if operation.bar:
            reached = row["whole_ratio" if operation.bar_of == "process" else "ratio"][0]
            row |= {"bar": operation.bar, "bar_of": operation.bar_of, "bar_met": reached >= operation.bar}
        if operation.tolerance is not None:
            apart = arithmetic.difference(ours[0]["value"], theirs[0]["value"])
            row |= {"difference": apart, "tolerance": operation.tolerance, "agree": apart <= operation.tolerance}
    if operation.work:
        work = operation.work(sizes)
        seconds, slowest = arithmetic.floor(work, rates)
        row["floor"] = {"seconds": seconds, "by": slowest, "share": seconds / row["ours"]["seconds"], "why": work.why}
    return row


def growth(file: Path, id: str, operation: Operation, inputs: Inputs, base: Sizes, times: int) -> Row:
    """Return seconds and exponent of ours over each axis that grows."""
    found: Row = {}
    for axis in operation.growth:
        sizes = [base[axis] * factor for factor in FACTORS]
        folders = [inputs.at({**base, axis: size}) for size in sizes]
        repeats = run(file, id, "ours", Path(sys.executable), folders, times)["seconds"]
        medians = [statistics.median(column) for column in zip(*repeats, strict=True)]
        found[axis] = {"sizes": sizes, "seconds": medians, "exponent": arithmetic.exponent(sizes, repeats)}
        print(f"  {id} over {axis}: exponent {found[axis]['exponent'][0]:.2f}", file=sys.stderr, flush=True)
    return found


def groups(operations: Mapping[str, Operation]) -> Iterator[dict[str, Operation]]:
    """Yield operations with the same other side together: that side runs once for all of them."""
    left = dict(operations)
    while left:
        first = next(iter(left.values()))
        same = {
            id: each
            for id, each in left.items()
            if each is first or (first.theirs and (each.theirs, each.sizes) == (first.theirs, first.sizes))
        }
        yield same
        for id in same:
            del left[id]


def time_group(
    file: Path, group: Mapping[str, Operation], inputs: Inputs, base: Sizes, given: argparse.Namespace, results: Row
) -> Iterator[tuple[str, Row]]:
    """Run ours and theirs in turn and yield the rows."""
    first = next(iter(group.values()))
    sizes = {**base, **({} if given.tiny else first.sizes)}
    folder = inputs.at(sizes)
    theirs_python = python_of(first.peer, given.environments) if first.theirs else None
    ours: dict[str, list[Row]] = {id: [] for id in group}
    theirs: list[Row] = []
    for _ in range(min([given.repeats, *(each.repeats for each in group.values() if each.repeats)])):
        for id in group:
            ours[id].append(run(file, id, "ours", Path(sys.executable), [folder]))
            print(f"  {id} ours {ours[id][-1]['seconds']:.4f} s", file=sys.stderr, flush=True)
        if theirs_python:
            theirs.append(run(file, next(iter(group)), "theirs", theirs_python, [folder]))
            print(f"  {next(iter(group))} theirs {theirs[-1]['seconds']:.4f} s", file=sys.stderr, flush=True)
    for id, operation in group.items():
        row = compare(operation, sizes, ours[id], theirs, results["rates"])
        row["data"] = {"sha256": inputs.digests[folder], "about": inputs.about}
        yield id, row


def measure(file: Path, module: Any, wanted: Mapping[str, Operation], given: argparse.Namespace, results: Row) -> None:
    """Time the operations of a module, and write after each group."""
    base = module.TINY if given.tiny else {**module.SIZES, **(getattr(module, "QUICK", {}) if given.quick else {})}
    with tempfile.TemporaryDirectory(dir=given.work, prefix="inputs-") as folder:
        inputs = Inputs(module, Path(folder))
        for group in groups(wanted):
            started = time.perf_counter()
            print(f"{', '.join(group)}", file=sys.stderr, flush=True)
            try:
                for id, row in time_group(file, group, inputs, base, given, results):
                    results["rows"][id] = row
                for id, operation in group.items():
                    if operation.growth and not given.no_growth:
                        start = module.TINY if given.tiny else module.GROWTH
                        results["rows"][id]["growth"] = growth(
                            file, id, operation, inputs, start, 1 if given.tiny else GROWTH_TIMES
                        )
            except DataMissingError as missing:
                print(f"  skipped: {missing}", file=sys.stderr, flush=True)
                results["rows"] |= {id: {"title": each.title, "skipped": str(missing)} for id, each in group.items()}
            except (FailedRunError, subprocess.SubprocessError) as error:
                print(f"  failed: {error}", file=sys.stderr, flush=True)
                results["rows"] |= {id: {"title": each.title, "failed": str(error)} for id, each in group.items()}
            spent = round(time.perf_counter() - started, 1)
            created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for id, operation in group.items():
                results["rows"][id] |= {"created": created, "repeats": given.repeats, "group_seconds": spent}
                with contextlib.suppress(subprocess.SubprocessError, KeyError):
                    results["versions"][operation.peer] = versions_of(python_of(operation.peer, given.environments))
            write(results, given)


def write(results: Row, given: argparse.Namespace) -> None:
    """Write the JSON file, whole or not at all, and the generated part of the page."""
    given.out.parent.mkdir(parents=True, exist_ok=True)
    partial = given.out.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    partial.replace(given.out)
    write_page(results, given.page)


def options() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operations", nargs="*", help="ids; all by default (--list shows them)")
    parser.add_argument("--list", action="store_true", help="show the operations and stop")
    parser.add_argument("--repeats", type=int)
    few = parser.add_mutually_exclusive_group()
    few.add_argument("--quick", action="store_true", help="one operation of each area, twice, without growth")
    few.add_argument("--tiny", action="store_true", help="tiny sizes, one repeat")
    parser.add_argument("--resume", action="store_true", help="keep the operations that are finished")
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--work", type=Path, default=HERE.parent / ".bench", help="where inputs are made")
    parser.add_argument("--environments", type=Path, help="default: EVENHAND_BENCH_ENVIRONMENTS, or the work folder")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/bench.json")
    parser.add_argument("--page", type=Path, help="default: benchmarks/RESULTS.md")
    given = parser.parse_args()
    given.work = given.work.resolve()
    given.environments = Path(
        given.environments or os.environ.get("EVENHAND_BENCH_ENVIRONMENTS") or given.work / "environments"
    ).resolve()
    given.repeats = given.repeats or (1 if given.tiny else QUICK_REPEATS if given.quick else 5)
    if given.quick:
        given.no_growth = True
        given.operations = given.operations or list(QUICK_SET)
    part = "tiny" if given.tiny else "quick" if given.quick else ""
    given.out = given.out or (given.work / f"{part}.json" if part else HERE / "results" / "bench.json")
    given.page = given.page or (given.work / f"{part.upper()}.md" if part else HERE / "RESULTS.md")
    return given


def main() -> None:
    """Time what is asked for."""
    given = options()
    modules = {path: load(str(path)) for path in sorted((HERE / "operations").glob("*.py"))}
    known = {id: operation for module in modules.values() for id, operation in module.OPERATIONS.items()}
    if given.list:
        for id, operation in known.items():
            print(f"{id:22} {operation.peer_name or '-'}")
        return
    if unknown := [id for id in given.operations if id not in known]:
        raise SystemExit(f"unknown operations {', '.join(unknown)}; known: {', '.join(known)}")
    given.work.mkdir(parents=True, exist_ok=True)
    results: Row = json.loads(given.out.read_text()) if given.out.exists() else {}
    kept = results.get("rows", {}) if given.resume or given.operations else {}
    finished = [id for id, row in kept.items() if given.resume and "ours" in row]
    print("measuring what the machine can do", file=sys.stderr, flush=True)
    results = {
        "machine": machine.about(),
        "rates": machine.rates(quick=given.quick or given.tiny),
        "versions": {**results.get("versions", {}), OURS: versions_of(Path(sys.executable))},
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rows": {id: kept[id] for id in known if id in kept},
    }
    for path, module in modules.items():
        wanted = {
            id: operation
            for id, operation in module.OPERATIONS.items()
            if id not in finished and (not given.operations or id in given.operations)
        }
        if wanted:
            measure(path, module, wanted, given, results)
    results["rows"] = {id: results["rows"][id] for id in known if id in results["rows"]}
    write(results, given)
    for leftover in given.work.glob("inputs-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    print(f"written: {given.out} and {given.page}", file=sys.stderr)
    failed = [id for id, row in results["rows"].items() if "failed" in row]
    differing = [id for id, row in results["rows"].items() if row.get("agree") is False]
    if failed or differing:
        raise SystemExit(f"failed: {', '.join(failed) or 'none'}; results differ: {', '.join(differing) or 'none'}")


if __name__ == "__main__":
    main()
