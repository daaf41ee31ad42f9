"""Text to bias scores: speed, memory over more and more text, against genbit, and two workers on two engines.

    [EVENHAND_DATA=folder] [EVENHAND_GENBIT_PYTHON=python] python benchmarks/corpus.py [FILE] [--large GB | --parts]

FILE is text with words between blanks; unless given, WikiText-2 of EVENHAND_DATA four times over, or else made-up words
with Zipf's frequencies. Each run is a process of its own, bound to one core where the system allows it, with one thread
of each library; seconds are wall and processor time, for a machine may be shared. Prints one JSON line:

- ways: a fixed window and decay on words between blanks, and a window on Unicode words: million tokens a second and the
  greatest memory (MB);
- times_the_text: the first way on 1, 2, 4 and 8 times the text;
- genbit: its counting and scoring of the same tokenised lines, its lemmatiser replaced by nothing; by the interpreter
  EVENHAND_GENBIT_PYTHON of an environment of its own (`pip install --no-deps genbit`, and numpy, scipy, nltk,
  stopwordsiso; stanza, the lemmatiser, is not needed);
- two_workers: 24 times the text by two local processes and by a Ray cluster of two cores, in turn. The start of the
  cluster is not counted, that of the processes is;
- large: instead of all that, a text of so many GB (its file is made for the run and removed);
- parts: instead of all that, the nanoseconds per token of each part, the least of several runs in one process, and the
  million tokens a second of the best run.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

TIMES = (1, 2, 4, 8)
FOR_WORKERS = 24
RUNS = {
    "window": {"window": 10, "tokenizer": "whitespace"},
    "decay": {"decay": 0.95, "tokenizer": "whitespace"},
    "words": {"window": 10, "tokenizer": "words"},
}
GENBIT = """
import json, sys, time, types
sys.modules["stanza"] = types.ModuleType("stanza")
from genbit import lemmatizer
lemmatizer.Lemmatizer.initialize_lemmatizer = lambda self: None
lemmatizer.Lemmatizer.lemmatize_token = lambda self, token: token
from genbit.genbit_metrics import GenBitMetrics
lines = [line.split() for line in open(sys.argv[1], encoding="utf-8")]
metrics = GenBitMetrics("en")
wall, cpu = time.perf_counter(), time.process_time()
metrics.add_data(lines, tokenized=True)
counted = time.process_time() - cpu
metrics.get_metrics()
print(json.dumps({"tokens": sum(map(len, lines)), "wall_s": time.perf_counter() - wall,
                  "cpu_s": time.process_time() - cpu, "cpu_s_counting": counted}))
"""


def made_up(words: int = 8_000_000, kinds: int = 50_000) -> str:
    """Words w0, w1, ... with frequencies 1/rank, and she and he among them."""
    import numpy as np

    shares = 1 / np.arange(1, kinds + 1)
    ids = np.random.default_rng(0).choice(kinds, size=words, p=shares / shares.sum())
    names = np.array(["the", "he", "she", *(f"w{i}" for i in range(3, kinds))])
    return "\n".join(" ".join(line) for line in names[ids].reshape(-1, 20))


def sample(given: str | None) -> str:
    """The text that is repeated."""
    if given:
        return Path(given).read_text(encoding="utf-8")
    corpus = Path(os.environ.get("EVENHAND_DATA", "")) / "wikitext-2" / "train.txt"
    return 4 * corpus.read_text(encoding="utf-8") if corpus.exists() else made_up()


def peak_memory() -> float:
    """The greatest memory of this process in MB.

    Not `ru_maxrss` where it can be helped: Linux carries it over exec, so that a child would report its parent's peak.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def one_run(path: str, how: str) -> None:
    """Score one file and print what it took."""
    import polars  # noqa: F401  (its import is not part of the counting)

    from evenhand import corpus

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    wall, cpu = time.perf_counter(), time.process_time()
    found = corpus.bias(path, lists="bordia2019-wt2", documents="line", **RUNS[how])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    speed = {"Mtokens_per_wall_s": found.tokens / wall / 1e6, "Mtokens_per_cpu_s": found.tokens / cpu / 1e6}
    print(json.dumps({"tokens": found.tokens, "wall_s": wall, "cpu_s": cpu, **speed, "peak_MB": peak_memory()}))


class PartClock:
    """Seconds spent in each part, without the parts that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []

    def call(self, part: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function on the account of a part."""
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            taken = time.perf_counter() - start
            self.seconds[part] = self.seconds.get(part, 0.0) + taken - self._inner.pop()
            if self._inner:
                self._inner[-1] += taken

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, or method, with its calls on the account of a part."""

        def call(*arguments: Any, **named: Any) -> Any:
            return self.call(part, function, *arguments, **named)

        return call

    def iterate(self, part: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Iterate over what a function returns, each step on the account of a part."""
        items, end = iter(function(*arguments, **named)), object()
        while (item := self.call(part, next, items, end)) is not end:
            yield item


def parts_of(path: str, how: str, repeats: int = 8) -> None:
    """Score one file several times and print the nanoseconds per token of each part."""
    import polars  # noqa: F401

    from evenhand import corpus
    from evenhand.corpus.counting import count, token_reader, windows

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    clock = PartClock()
    table, reader = token_reader.RunTable, token_reader.TokenReader
    for part, owner, name in (
        ("find runs", token_reader, "find_runs"),
        ("keys", token_reader, "_keys_of"),
        ("look up", table, "find"),
        ("new words", reader, "_learn"),
        ("encode", reader, "ids"),
        ("windows", windows.FixedWindow, "feed"),
        ("windows", windows.Decay, "feed"),
        ("sums", windows.Sums, "add"),
    ):
        setattr(owner, name, clock.timed(part, getattr(owner, name)))
    count.cut = partial(clock.iterate, "read", count.cut)
    count.blocks = partial(clock.iterate, "hits", count.blocks)
    least: dict[str, float] = {}
    totals = []
    for _ in range(repeats):
        clock.seconds.clear()
        start = time.perf_counter()
        found = corpus.bias(path, lists="bordia2019-wt2", documents="line", **RUNS[how])
        totals.append((time.perf_counter() - start) / found.tokens * 1e9)
        parts = {part: seconds / found.tokens * 1e9 for part, seconds in clock.seconds.items()}
        parts["rest"] = totals[-1] - sum(parts.values())
        least = {part: min(taken, least.get(part, taken)) for part, taken in parts.items()}
    print(json.dumps({**least, "total": min(totals), "Mtokens_per_s": 1e3 / min(totals)}))


def measured(path: Path, how: str, what: str = "--run") -> dict[str, float]:
    """The numbers of a run in its own process, rounded."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, what, str(path), how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: round(value, 2) for name, value in json.loads(done.stdout).items()}


def write(path: Path, text: str, times: int) -> Path:
    """The text so many times."""
    with path.open("w", encoding="utf-8") as out:
        out.writelines(text for _ in range(times))
    return path


def genbit(path: Path, ways: dict[str, dict[str, float]]) -> dict[str, Any] | None:
    """The same lines by genbit, where there is an environment with it."""
    python = os.environ.get("EVENHAND_GENBIT_PYTHON")
    if not python:
        return None
    done = subprocess.run([python, "-c", GENBIT, str(path)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    a_second = found["tokens"] / found["cpu_s"] / 1e6
    ratios = {how: round(ways[how]["Mtokens_per_cpu_s"] / a_second, 1) for how in ("window", "decay")}
    rounded = {name: round(value, 2) for name, value in found.items()}
    return {**rounded, "Mtokens_per_cpu_s": round(a_second, 3), "ratio": ratios}


def clocked(function: Callable[[Any], Any], job: Any) -> float:
    """The processor seconds of a job, whose result goes nowhere."""
    start = time.process_time()
    function(job)
    return time.process_time() - start


def by_engine(engine: Any, path: Path) -> dict[str, float]:
    """Wall seconds of scoring a file, and processor seconds of its shards when they are counted once more."""
    from evenhand import corpus
    from evenhand.corpus.bias import resolve_groups
    from evenhand.corpus.counting.count import CountingPlan, count_shard
    from evenhand.corpus.counting.tokens import make_tokeniser

    start = time.perf_counter()
    corpus.bias(path, lists="bordia2019-wt2", documents="line", engine=engine, **RUNS["window"])
    wall = time.perf_counter() - start
    source = corpus.Corpus(path, documents="line")
    groups, _ = resolve_groups(None, "bordia2019-wt2", lower=False)
    plan = CountingPlan(groups, 10, None, make_tokeniser("whitespace"))
    jobs = engine.map(partial(clocked, partial(_counted, count_shard, source, plan)), source.shards())
    return {"wall_s": round(wall, 2), "cpu_s_of_the_shards": round(sum(jobs), 2)}


def _counted(count_shard: Any, source: Any, plan: Any, shard: Any) -> Any:
    return count_shard(source, shard, plan)


def two_workers(path: Path) -> dict[str, Any] | None:
    """Two local processes and two cores of Ray, three times in turn."""
    from evenhand.engines import LocalEngine, RayEngine
    from evenhand.errors import MissingExtraError

    engines = {"local": LocalEngine(2), "ray": RayEngine(workers=2)}
    try:
        list(engines["ray"].map(str, range(4)))
    except MissingExtraError:
        return None
    found: dict[str, Any] = {name: [] for name in engines}
    for _ in range(3):
        for name, engine in engines.items():
            found[name].append(by_engine(engine, path))
    engines["ray"].close()
    best = {name: min(run["wall_s"] for run in runs) for name, runs in found.items()}
    return {**found, "ray_to_local": round(best["ray"] / best["local"], 2), "MB": path.stat().st_size // 10**6}


def main(given: str | None = None, large: float | None = None, parts: bool = False) -> None:
    """Time every way on the text, the first on more and more of it, and what else can be compared."""
    text = sample(given)
    about = {"polars": version("polars"), "numpy": version("numpy"), "machine": platform.machine()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        if large:
            write(path, text, round(large * 1e9 / len(text.encode())))
            run = {"GB": path.stat().st_size / 1e9, **measured(path, "window")}
            print(json.dumps({"large": run, **about}))
            return
        write(path, text, 1)
        if parts:
            print(json.dumps({"parts": {how: measured(path, how, "--parts-of") for how in RUNS}, **about}))
            return
        speeds = {how: measured(path, how) for how in RUNS}
        against = genbit(path, speeds)
        growth = {str(times): measured(write(path, text, times), "window") for times in TIMES}
        workers = two_workers(write(path, text, FOR_WORKERS))
    found = {"ways": speeds, "times_the_text": growth, "genbit": against, "two_workers": workers}
    print(json.dumps({"characters": len(text), **found, **about}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        one_run(*sys.argv[2:])
    elif sys.argv[1:2] == ["--parts-of"]:
        parts_of(*sys.argv[2:])
    else:
        asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        asked.add_argument("file", nargs="?")
        asked.add_argument("--large", type=float, metavar="GB")
        asked.add_argument("--parts", action="store_true")
        main(*vars(asked.parse_args()).values())
