"""Change the code a little and see whether the tests notice: `python tests/mutants/campaign.py [--sample N] [FOLDER]...`.

A mutant is one small change of one module: an operator, a comparison, a constant, a condition. A mutant that no test
notices survives. It points to a missing test, or it is equivalent: nothing that a user sees depends on it.
`tests/mutants/equivalent.json` lists such mutants with the reason; they are not counted.

First every default test is run once on instrumented modules, which gives the tests that run each block of code. The map
is kept in `.mutants`; a later run traces only what has changed. Then each mutant of the sample runs in a process of its
own with the tests that run its block: those that mirror the module first, the fastest first, until their usual
processor time reaches a budget. A survivor is tried once more on further tests. A mutant in a block that no test runs
survives at once.

The sample is drawn by a seed, in proportion from each folder, so the same command runs the same mutants. `results.json`
keeps every sample, and `RESULTS.md` states the numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from block_map import (
    BUDGET,
    DECLARED,
    FOLDERS,
    LEFT_OUT,
    MAP,
    OPTIONS,
    ROOT,
    Index,
    entry_of,
    file_of,
    is_current,
    test_files,
    trace,
)
from mutations import Loader, Mutant, apply, live, modules, mutants, mutation

HERE = Path(__file__).parent
RECORD, PAGE, EQUIVALENT = HERE / "results.json", HERE / "RESULTS.md", HERE / "equivalent.json"
OVERTIME = 1.5  # after this many times the budget no further test is tried; fixtures take time as well
THOROUGH = 60  # seconds of processor time of the tests on which a survivor is tried once more
GOAL, CONFIDENCE_Z = 0.85, 1.959964
PRELOADED = ("numpy", "scipy.stats", "sklearn.linear_model", "sklearn.svm", "polars", "torch", "transformers")


def sample(every: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """Draw mutants from each folder in proportion to its share, the largest remainders rounded up."""
    strata: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in every:
        strata[folder_of(mutant.module)].append(mutant)
    size = min(size, len(every))
    exact = {name: size * len(group) / len(every) for name, group in strata.items()}
    counts = {name: int(value) for name, value in exact.items()}
    for name in sorted(exact, key=lambda name: counts[name] - exact[name])[: size - sum(counts.values())]:
        counts[name] += 1
    draw = random.Random(seed)
    drawn = [mutant for name, group in strata.items() for mutant in draw.sample(group, counts[name])]
    return draw.sample(drawn, len(drawn))  # in any order, so the first ones are a sample as well


def folder_of(module: str) -> str:
    """Return the folder of the campaign that has a module."""
    return next((name for name in FOLDERS if module.startswith(f"{name}/")), module.split("/")[0])


def run_tests(mutant: Mutant | None, items: Sequence[pytest.Item], told: Path, most: float) -> None:
    """Run tests on a mutant in this process and end it: with 1 at the first failure, whose name is written, else with 0.

    After `most` seconds of processor time no further test is tried.
    """
    if mutant is not None:
        apply(mutant)
    plugins = items[0].config.pluginmanager
    plugins.register(Teller(told))
    for item, following in zip(items, [*items[1:], None], strict=True):
        if time.process_time() > most:
            break
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    os._exit(0)


class Teller:
    """Ends the process at the first failure."""

    def __init__(self, told: Path) -> None:
        self.told = told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the name of a test that failed."""
        if report.failed:
            self.told.write_text(report.nodeid)
            os._exit(1)


@dataclass(frozen=True)
class Run:
    """Tests to run on a mutant, or on the modules as they are."""

    mutant: Mutant | None
    tests: tuple[str, ...]
    seconds: float
    most: float

    @classmethod
    def of(cls, mutant: Mutant | None, tests: Sequence[str], index: Index, budget: float = BUDGET) -> Run:
        """Return the run with the time that its tests usually take."""
        return cls(mutant, tuple(tests), sum(index.seconds[name] for name in tests), OVERTIME * budget)


def started(run: Run, child: Callable[[Run, Path], None]) -> tuple[int, Path]:
    """Start a run in a process of its own with a folder of its own and limits relative to its usual time."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    pid = os.fork()
    if pid == 0:
        os.setsid()
        limit = int(5 * run.seconds) + 30
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        signal.alarm(int(20 * run.seconds) + 240)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        try:
            child(run, folder / "told")
        except BaseException as error:
            (folder / "told").write_text(f"{type(error).__name__}: {error}")
        os._exit(3)
    return pid, folder


def ending(status: int, told: str) -> tuple[str, str]:
    """Say how a run ended, and what noticed the mutant."""
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return "survived", ""
    if code in (1, 2, 4):  # a test failed; a file of tests could not be imported
        return "noticed", told or "the import fails"
    if code == -signal.SIGXCPU:
        return "noticed", "takes more than five times as long"
    if code == 3 or code == -signal.SIGALRM:
        return "unclear", told or "waits for something"
    return "noticed", f"the process ends with {code}"


def run_all(
    runs: Iterable[Run], child: Callable[[Run, Path], None], jobs: int, done: Callable[[Run, str, str, float], None]
) -> None:
    """Run each in a process of its own, some at a time; tell how each ended."""
    waiting = iter(runs)
    running: dict[int, tuple[Run, Path]] = {}
    while True:
        while len(running) < jobs and (run := next(waiting, None)) is not None:
            pid, folder = started(run, child)
            running[pid] = run, folder
        if not running:
            return
        pid, status, used = os.wait4(-1, 0)
        if pid not in running:
            continue
        run, folder = running.pop(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what the tests started and the change kept from ending
        told = (folder / "told").read_text() if (folder / "told").exists() else ""
        shutil.rmtree(folder, ignore_errors=True)
        done(run, *ending(status, told), used.ru_utime + used.ru_stime)


class Session:
    """Collects tests, then does something else with them than running them all."""

    def __init__(self, loop: Callable[[dict[str, pytest.Item]], None]) -> None:
        self.loop = loop

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Hand over the tests by their names."""
        if session.testsfailed:
            raise session.Interrupted("a file of tests cannot be imported")
        self.loop({item.nodeid: item for item in session.items})
        return True


def collect(tests: Iterable[str], loop: Callable[[dict[str, pytest.Item]], None]) -> int:
    """Import the files of tests and hand over what they contain."""
    files = sorted({str(file_of(name)) for name in tests})
    return int(pytest.main([*OPTIONS, *files], plugins=[Session(loop)]))


def run_fresh(run: Run, told: Path) -> None:
    """Import the changed module first, then its tests: for code that runs on import."""
    if run.mutant is not None:
        sys.meta_path.insert(0, Loader([run.mutant.path], mutation(run.mutant)))
    os._exit(collect(run.tests, lambda items: run_tests(None, [items[name] for name in run.tests], told, run.most)))


class Campaign:
    """Runs mutants, repeats without the change what noticed them, and keeps the records."""

    def __init__(
        self, index: Index, jobs: int, keep: Callable[[dict[str, Any]], None], further: float = THOROUGH
    ) -> None:
        self.index, self.jobs, self.keep, self.further = index, jobs, keep, further
        self.survivors: set[Mutant] = set()
        self.noticing: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)

    def run(self, chosen: Sequence[Mutant]) -> None:
        """Run all mutants: first those that need a fresh import, then the others after one import for all."""
        runs = [Run.of(mutant, self.index.tests(mutant), self.index) for mutant in chosen]
        for run in runs:
            if not run.tests:
                self.done(run, "survived", "", 0.0)
        fresh = [run for run in runs if run.tests and run.mutant is not None and run.mutant.imported]
        self.run_twice(fresh, run_fresh)
        rest = [run for run in runs if run.tests and run not in fresh]
        names = {name for run in runs if run.mutant for name in self.index.tests(run.mutant, self.further)}
        if names:
            collect(names, lambda items: self.run_collected(rest, items))

    def run_twice(self, runs: Sequence[Run], child: Callable[[Run, Path], None]) -> None:
        """Run mutants, then the survivors once more on the further tests that run their block."""
        run_all(runs, child, self.jobs, self.done)
        longer = []
        for run in runs:
            if run.mutant is not None and run.mutant in self.survivors:
                more = [name for name in self.index.tests(run.mutant, self.further) if name not in run.tests]
                longer += [Run.of(run.mutant, more, self.index, THOROUGH)] if more else []
        run_all(longer, child, self.jobs, self.done)

    def run_collected(self, runs: Sequence[Run], items: dict[str, pytest.Item]) -> None:
        """Run mutants whose code does not run on import, then the tests that noticed something on the modules as they are."""
        gone = [name for run in runs for name in run.tests if name not in items]
        if gone:
            raise SystemExit(f"collected no test {gone[0]}; remove {MAP} and try again")

        def child(run: Run, told: Path) -> None:
            run_tests(run.mutant, [items[name] for name in run.tests if name in items], told, run.most)

        live()
        self.run_twice(runs, child)
        controls = [Run.of(None, tests, self.index, THOROUGH) for tests in self.noticing]
        run_all(controls, child, self.jobs, self.controlled)

    def done(self, run: Run, outcome: str, by: str, seconds: float) -> None:
        """Keep the record of a mutant; one that was noticed is controlled at the end."""
        assert run.mutant is not None
        record = {
            "mutant": run.mutant,
            "outcome": outcome,
            "by": by,
            "tests": len(run.tests),
            "seconds": round(seconds, 2),
        }
        print(f"{outcome}: {run.mutant.key} (line {run.mutant.line}, {seconds:.1f} s, {by})", flush=True)  # noqa: T201
        if outcome == "survived":
            self.survivors.add(run.mutant)
        if outcome == "noticed":
            upto = run.tests.index(by) + 1 if by in run.tests else len(run.tests)
            self.noticing[run.tests[:upto]].append(record)
        self.keep(record)

    def controlled(self, run: Run, outcome: str, by: str, _: float) -> None:
        """Do not count what was noticed by tests that fail without the change as well."""
        for record in self.noticing[run.tests] if outcome != "survived" else ():
            print(f"fails without a change, {by}: {record['mutant'].key}", flush=True)  # noqa: T201
            self.keep({**record, "outcome": "unclear"})


# What is recorded


def interval(noticed: int, counted: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    if not counted:
        return 0.0, 1.0
    share, z = noticed / counted, CONFIDENCE_Z
    middle = share + z * z / (2 * counted)
    half = z * math.sqrt(share * (1 - share) / counted + z * z / (4 * counted * counted))
    return (middle - half) / (1 + z * z / counted), (middle + half) / (1 + z * z / counted)


def record_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result as it is written."""
    mutant: Mutant = result["mutant"]
    place = {"module": mutant.module, "number": mutant.number, "line": mutant.line, "key": mutant.key}
    return {**place, **{name: value for name, value in result.items() if name != "mutant"}}


def state(record: dict[str, Any], equivalent: dict[str, str], name: str = "outcome") -> str:
    """Say how a record counts: by its first outcome, or by that of `again` where it was run again."""
    outcome = str(record.get(name, record["outcome"]))
    return "equivalent" if outcome != "noticed" and record["key"] in equivalent else outcome


def is_of(mutant: Mutant, record: dict[str, Any], every: Sequence[Mutant]) -> bool:
    """Whether a record is about a mutant; where the same change of the same text occurs again, the number decides."""
    if record["module"] != mutant.module or record["key"] != mutant.key:
        return False
    return bool(record["number"] == mutant.number) or sum(one.key == mutant.key for one in every) == 1


def table(records: Sequence[dict[str, Any]], equivalent: dict[str, str]) -> list[str]:
    """Return the table of one sample and the sentence with its share."""
    by_folder: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        by_folder[folder_of(record["module"])][state(record, equivalent)] += 1
    total = sum(by_folder.values(), Counter())
    lines = ["| folder | changes | noticed | equivalent | not noticed | share |", "|---|--:|--:|--:|--:|--:|"]
    for name, counts in [*sorted(by_folder.items()), ("all", total)]:
        counted = counts.total() - counts["equivalent"]
        cells = [counts.total(), counts["noticed"], counts["equivalent"], counted - counts["noticed"]]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} | {100 * counts['noticed'] / max(1, counted):.0f} % |")
    counted = total.total() - total["equivalent"]
    low, high = interval(total["noticed"], counted)
    share = 100 * total["noticed"] / max(1, counted)
    lines += [
        "",
        f"**{share:.1f} %** of {counted} changes that are not equivalent, 95 % interval {100 * low:.0f} to {100 * high:.0f} %.",
    ]
    if share < 100 * GOAL:
        lines[-1] += f" **The aim of {100 * GOAL:.0f} % is not reached.**"
    declared = sum(str(record["by"]).startswith(DECLARED) for record in records if record["outcome"] == "noticed")
    lines[-1] += f" {declared} were noticed by the record of constants and defaults, which is tried first for them."
    now = sum(state(record, equivalent, "again") == "noticed" for record in records)
    if now > total["noticed"]:
        lines[-1] += f" With the tests that were written for the others since, {100 * now / counted:.1f} %."
    return lines


def page(
    samples: dict[str, list[dict[str, Any]]], equivalent: dict[str, str], there: Container[str] | None = None
) -> str:
    """Return the results in words and tables; of survivors, those whose code is still there."""
    lines = [
        "# Do the tests notice?",
        "",
        "Small changes of the code (an operator, a comparison, a constant, a condition), drawn at random from all places, each run against",
        "the default tests that run its block of code. `python tests/mutants/campaign.py --sample 40 --seed 7` draws and runs a new sample;",
        "`results.json` has every change and the test that noticed it.",
        "",
        "Each share is the one of the first run, before any test was written for what that sample showed. A change is tried on",
        f"tests that usually take {BUDGET} s of processor time together at most and, if none notices it, on further ones of {THOROUGH} s (samples 1 and 2: not). Sample 3 leaves out what",
        "cannot decide a number by construction: `strict=` of zip, open lengths of shapes, and constants that say how much is computed at once.",
        f"The folders {', '.join(LEFT_OUT)} and tests that need real data or a Ray cluster are not run, so the whole of the default tests",
        f"notices more; the aim is {100 * GOAL:.0f} %. `equivalent.json` lists the equivalent changes, which are not counted, with the reason.",
        "",
    ]
    for seed, records in samples.items():
        lines += [f"## Sample of seed {seed}", "", *table(records, equivalent), ""]
    lines += ["## Not noticed today", ""]
    left = [
        r
        for records in samples.values()
        for r in records
        if state(r, equivalent, "again") not in ("noticed", "equivalent") and (there is None or r["key"] in there)
    ]
    texts = sorted({f"- line {record['line']} of `{record['key'].replace('`', '')}`" for record in left})
    return "\n".join([*lines, *(texts or ["None."]), ""])


def main() -> None:
    """Draw, run, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=list(FOLDERS), metavar="FOLDER", help="of the package")
    parser.add_argument("--sample", type=int, default=40, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="mutants that run at the same time")
    parser.add_argument("--again", action="store_true", help="run the recorded survivors again")
    parser.add_argument("--map", action="store_true", help="only bring the map up to date")
    parser.add_argument("--stale-map", action="store_true", help="use the map as it is")
    parser.add_argument("--scratch", action="store_true", help="record nothing, and try survivors on no further tests")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    samples = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    equivalent = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    if not given.page:
        prepare(given)
    if not (given.page or given.map):
        every = [mutant for path in modules(given.folders) for mutant in mutants(path)]
        if given.again:
            left = [r for records in samples.values() for r in records if state(r, equivalent, "again") == "survived"]
            chosen = [mutant for mutant in every if any(is_of(mutant, record, every) for record in left)]
        else:
            records = samples.setdefault(str(given.seed), [])
            done = {record["key"] + str(record["number"]) for record in records}
            chosen = [m for m in sample(every, given.sample, given.seed) if m.key + str(m.number) not in done]

        def keep(result: dict[str, Any]) -> None:
            if given.scratch:
                return
            new = record_of(result)
            if not given.again:
                records[:] = [old for old in records if (old["key"], old["number"]) != (new["key"], new["number"])]
                records.append(new)
            for old in (
                r for kept in samples.values() for r in kept if given.again and is_of(result["mutant"], r, every)
            ):
                old["again"], old["by"] = result["outcome"], result["by"]
            partial = RECORD.with_suffix(".unfinished")
            partial.write_text(json.dumps(samples, indent=1) + "\n")
            partial.replace(RECORD)

        index = Index(path for path in test_files() if entry_of(path).exists())
        Campaign(index, given.jobs, keep, BUDGET if given.scratch else THOROUGH).run(chosen)
    if not given.scratch:
        there = {mutant.key for path in modules(FOLDERS) for mutant in mutants(path)}
        PAGE.write_text(page(samples, equivalent, there))


def prepare(given: argparse.Namespace) -> None:
    """Import what does not belong to us once, before the forks, and bring the map up to date."""
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    for name in PRELOADED:
        if importlib.util.find_spec(name.split(".")[0]):
            importlib.import_module(name)
    MAP.mkdir(exist_ok=True)
    stale = [path for path in test_files() if not given.stale_map and not is_current(path)]
    shares = [stale[number :: given.jobs] for number in range(given.jobs)]
    if stale:
        print(f"tracing {len(stale)} files of tests", flush=True)  # noqa: T201
    tracers = [fork_tracer(share) for share in shares if share]
    for pid in tracers:
        os.waitpid(pid, 0)


def fork_tracer(files: Sequence[Path]) -> int:
    """Trace tests in a process of its own."""
    pid = os.fork()
    if pid == 0:
        trace(files)
        os._exit(0)
    return pid


if __name__ == "__main__":
    main()
