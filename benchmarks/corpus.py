"""Text to bias scores on one core: tokens per second, and memory over 1, 2, 4 and 8 times the text.

    [EVENHAND_DATA=folder] python benchmarks/corpus.py [FILE]

FILE is text with words between blanks; unless given, WikiText-2 of EVENHAND_DATA four times over, or else made-up words
with Zipf's frequencies. Each run is a process of its own, bound to one core where the system allows it, with one polars
thread. Prints one JSON line: seconds, million tokens a second and the greatest memory (MB) of each run.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

TIMES = (1, 2, 4, 8)
RUNS = {
    "window": {"window": 10, "tokenizer": "whitespace"},
    "decay": {"decay": 0.95, "tokenizer": "whitespace"},
    "words": {"window": 10, "tokenizer": "words"},
}


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


def measured(path: Path, how: str) -> dict[str, float]:
    """The numbers of a run in its own process, rounded."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--run", str(path), how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: round(value, 2) for name, value in json.loads(done.stdout).items()}


def main(given: str | None = None) -> None:
    """Time every way on the text, and the first on 2, 4 and 8 times of it."""
    text = sample(given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_text(text, encoding="utf-8")
        speeds = {how: measured(path, how) for how in RUNS}
        growth = {"1": speeds["window"]}
        for times in TIMES[1:]:
            with path.open("w", encoding="utf-8") as out:
                out.writelines(text for _ in range(times))
            growth[str(times)] = measured(path, "window")
    about = {"polars": version("polars"), "numpy": version("numpy"), "machine": platform.machine()}
    print(json.dumps({"characters": len(text), "ways": speeds, "times_the_text": growth, **about}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        one_run(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
