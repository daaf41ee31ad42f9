"""Fuzz one reader after another with atheris: `python tests/fuzz/campaign.py SECONDS [TARGET]...`.

Each target runs in a process of its own under libFuzzer, which keeps the inputs that reach new code in the folder of
the corpus, so that the next campaign goes on where this one ended. An input that makes a reader fail is copied to
`tests/fuzz/found/TARGET`, where the default test run reads it. `tests/fuzz/RESULTS.md` states the numbers.

Environment variables: `FUZZ_CORPUS`, the folder of the corpus (default `.fuzz` in the repository), and `FUZZ_TIMEOUT`,
the seconds after which one execution counts as a hang (default 20).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = Path(os.environ.get("FUZZ_CORPUS", HERE.parents[1] / ".fuzz"))
FOUND = HERE / "found"
GOAL = 10_000_000
STRUCTURED = 0.7  # share of mutations that keep a JSON file JSON
RECORD = HERE / "results.json"
PAGE = HERE / "RESULTS.md"
TIMEOUT = int(os.environ.get("FUZZ_TIMEOUT", "20"))  # seconds of one execution; a busy machine needs more
LIMITS = (
    f"-timeout={TIMEOUT}", f"-report_slow_units={TIMEOUT}", "-rss_limit_mb=3000", "-max_len=8192", "-print_final_stats=1",
    "-len_control=20",
)  # fmt: skip


def fuzz(name: str, arguments: list[str]) -> None:
    """Run one target in this process; libFuzzer ends it."""
    import atheris

    sys.path.insert(0, str(HERE))
    with atheris.instrument_imports(include=["evenhand"]):
        from fuzz_targets import JSON_TOKENS, TARGETS, framed
    from fuzz_mutations import mutate_json

    chosen = TARGETS[name]
    for seed in chosen.seeds():  # also loads what is imported on first use
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, atheris.instrument_imports(include=["evenhand"]):
            chosen.execute(chosen.prepare(Path(folder)), seed)
    path = chosen.prepare(Path(tempfile.mkdtemp(dir="/dev/shm")))

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        choose = random.Random(seed)
        made = mutate_json(data, choose) if choose.random() < STRUCTURED else None
        return made if made is not None and len(made) <= most else atheris.Mutate(data, most)

    options = {"custom_mutator": mutated} if chosen.tokens is JSON_TOKENS or chosen.wrap is framed else {}
    atheris.Setup([sys.argv[0], *arguments], lambda data: chosen.execute(path, data) and None, **options)
    atheris.Fuzz()


def run(name: str, seconds: float) -> dict[str, object]:
    """Fuzz a target for some seconds, again after each failure; return the numbers."""
    sys.path.insert(0, str(HERE))
    from fuzz_targets import TARGETS

    chosen = TARGETS[name]
    if chosen.missing:
        return {"skipped": f"{chosen.missing} is not installed"}
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    for seed in chosen.seeds():
        (folder / f"seed-{hashlib.sha256(seed).hexdigest()[:12]}").write_bytes(seed)
    tokens = folder.with_suffix(".dict")
    escaped = ["".join(f"\\x{byte:02x}" for byte in token) for token in chosen.tokens]
    tokens.write_text("".join(f'"{token}"\n' for token in escaped))
    end, executions, failures = time.monotonic() + seconds, 0, []
    while (left := end - time.monotonic()) > 1 and len(failures) < 8:
        with tempfile.TemporaryDirectory() as artefacts:
            command = [sys.executable, __file__, "--target", name, str(folder), f"-max_total_time={int(left)}",
                       f"-artifact_prefix={artefacts}/", *LIMITS]  # fmt: skip
            command += [f"-dict={tokens}"] if chosen.tokens else []
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            log = done.stderr + done.stdout
            counts = re.findall(r"stat::number_of_executed_units:\s*(\d+)", log) or re.findall(r"^#(\d+)\s", log, re.M)
            executions += int(counts[-1]) if counts else 0
            for artefact in Path(artefacts).iterdir():
                failures.append(_keep(name, artefact, log))
        if done.returncode and not counts:
            raise RuntimeError(log[-3000:])
    kept = sum(1 for _ in folder.iterdir())
    return {"executions": executions, "seconds": round(seconds), "inputs": kept, "failures": failures}


def _keep(name: str, artefact: Path, log: str) -> str:
    (FOUND / name).mkdir(parents=True, exist_ok=True)
    content = artefact.read_bytes()
    (FOUND / name / f"{artefact.name.partition('-')[0]}-{hashlib.sha256(content).hexdigest()[:12]}").write_bytes(
        content
    )
    lines = [line for line in log.splitlines() if re.match(r"\S*(Error|Exception|ERROR)\b", line)]
    return (lines or [artefact.name])[0][:300]


def main() -> None:
    """Run the campaign and add its numbers to the record."""
    if sys.argv[1] == "--target":
        fuzz(sys.argv[2], sys.argv[3:])
        return
    sys.path.insert(0, str(HERE))
    from fuzz_targets import TARGETS

    for name in sys.argv[2:] or TARGETS:
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        now = run(name, float(sys.argv[1]))
        before = record.get(name, {})
        if "executions" in now:
            now["executions"] += before.get("executions", 0)
            now["seconds"] += before.get("seconds", 0)
            sys.stderr.write(f"{name}: {now}\n")
        record[name] = {key: value for key, value in now.items() if key != "failures"} or before
        record = {each: numbers for each, numbers in record.items() if each in TARGETS}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(record))


def page(record: dict[str, dict[str, int]]) -> str:
    """Return the numbers of all campaigns as a table."""
    from fuzz_targets import TARGETS

    done = {name: numbers for name, numbers in record.items() if "executions" in numbers and name in TARGETS}
    total = sum(numbers["executions"] for numbers in done.values())
    goal = "" if total >= GOAL else f" The goal is {GOAL:,}."
    lines = [
        "# Fuzzing: what was run",
        "",
        f"{total:,} executions under atheris (coverage-guided) of {len(done)} readers and groups of pages, in all campaigns "
        f"so far; readers that were removed are not counted.{goal} `make fuzz TIME=60` continues; the corpus of inputs is kept in `.fuzz`.",
        "",
        "Inputs that made a reader fail are in [found](found), by reader; the default test run reads all of them, and "
        "structured mutations of every valid file besides.",
        "",
        "Arrow and Parquet files are decoded by pyarrow in this process; the fuzzer sees our checks in front of it, and not "
        "its C++. The pages answer requests in process (`pages-`), and through the protocol of the server on a pair of "
        "sockets (`http-raw`: half requests, odd hosts, dropped forms, clients that break off): a request must not lead to "
        "an error of the server, to markup that is not of the templates, to an answer without its security headers, or to "
        "a written file. Chat templates are rendered in process with limits of time and memory, as the child process that "
        "renders them has (`chat-template`).",
        "",
        "| reader | executions | seconds | inputs that reach new code | kept failures |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, numbers in sorted(done.items()):
        kept = len(list((FOUND / name).glob("*")))
        lines.append(f"| {name} | {numbers['executions']:,} | {numbers['seconds']} | {numbers['inputs']} | {kept} |")
    if waiting := [name for name in TARGETS if name not in done]:
        lines += ["", f"No campaign yet, only the mutations of the test run: {', '.join(waiting)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
