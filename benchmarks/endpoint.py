"""Continuations from one server, asked by evenhand and by lm-eval's local-completions in turn: rate, and equal answers.

    python benchmarks/endpoint.py --latency 0.05 --concurrency 8 --items 400
    python benchmarks/endpoint.py --model smollm2-135m --items 60

With --latency the server answers every request after this time, however many there are, so that only the clients differ
and the best rate is known: concurrency / latency. With --model it is llama.cpp (xllamacpp) with a GGUF file. The server
runs in a process of its own, and so does each side; the time of the requests alone is measured.
Results are added to benchmarks/results/endpoint.json.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from environments import python_of, versions_of

HERE = Path(__file__).parent
PEOPLE = ("nurse", "doctor", "teacher", "engineer", "cook", "judge", "farmer", "clerk", "pilot", "writer")
TOKENS = 8

SERVER = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), 4096, 4
server = xllamacpp.Server(params)
print("ready", flush=True)
time.sleep(3600)
"""
FIXED = """
import asyncio, json, sys

async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            size = next((int(line[15:]) for line in head.split(b"\\r\\n") if line.startswith(b"content-length:")), 0)
            prompt = json.loads(await reader.readexactly(size))["prompt"]
            await asyncio.sleep(float(sys.argv[1]))
            prompts = prompt if isinstance(prompt, list) else [prompt]
            choices = [{"index": n, "text": text[::-1], "finish_reason": "length"} for n, text in enumerate(prompts)]
            body = json.dumps({"choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 8}}).encode()
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\n"
                         b"content-length: %d\\r\\n\\r\\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[2]))
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
OURS = """
import json, sys, time
import tenacity  # theirs are imported before the clock starts, too
from evenhand.models.endpoint.client import Client
from evenhand.models.endpoint.server import Server
from evenhand.models.endpoint.views import RemoteModel, RemoteWriter
task = json.load(sys.stdin)
client = Client(task["base"], concurrency=task["concurrency"])
writer = RemoteWriter(RemoteModel(client, Server("m", completion=True), "d"))
started, used = time.perf_counter(), time.process_time()
texts = [row[0] for row in writer.continuations(task["prompts"], samples=1, tokens=task["tokens"], temperature=0)]
json.dump({"seconds": time.perf_counter() - started, "cpu": time.process_time() - used, "texts": texts}, sys.stdout)
"""
THEIRS = """
import json, sys, time
out, sys.stdout = sys.stdout, sys.stderr
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
task = json.load(sys.stdin)
model = LocalCompletionsAPI(base_url=task["base"] + "/completions", model="m", tokenizer_backend="none",
    tokenized_requests=False, num_concurrent=task["concurrency"], batch_size=1)
settings = {"until": [], "max_gen_toks": task["tokens"], "temperature": 0}
asked = [Instance("generate_until", {}, (text, dict(settings)), number) for number, text in enumerate(task["prompts"])]
started, used = time.perf_counter(), time.process_time()
texts = model.generate_until(asked)
json.dump({"seconds": time.perf_counter() - started, "cpu": time.process_time() - used, "texts": texts}, out)
"""


def main() -> None:
    """Run both sides in turn and write the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--environments", type=Path, default=HERE.parent / ".bench")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "endpoint.json")
    given = parser.parse_args()
    pythons = {"evenhand": Path(sys.executable), "lm-eval": python_of("lm-eval", given.environments.absolute())}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if given.latency:
        name, code, what = f"{given.latency:g} s for every answer", FIXED, str(given.latency)
    else:
        from evenhand import data

        file = Path(given.model) if given.model.endswith(".gguf") else data.fetch(given.model)
        name, code, what = f"llama.cpp with {given.model}", SERVER, str(file)
    server = subprocess.Popen(
        [sys.executable, "-c", code, what, str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        while "ready" not in (line := server.stdout.readline()):
            if not line:
                raise SystemExit("the server ended")
        rows = compare(pythons, f"http://127.0.0.1:{port}/v1", given)
    finally:
        server.kill()
        server.wait()
    found = {"server": name, **summary(rows, pythons, given)}
    before = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else []
    kept = [row for row in before if (row["server"], row["concurrency"]) != (name, given.concurrency)]
    given.out.write_text(json.dumps([*kept, found], indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))


def compare(pythons: dict[str, Path], base: str, given: argparse.Namespace) -> list[dict]:
    """Return a row for each turn of each side; the first turn warms the server up."""
    rows = []
    for turn in range(given.rounds + 1):
        # A real server keeps the prompts that it read, so the side that asks second is served from memory: each side is
        # first in every other turn, and only first ones are compared.
        sides = [("evenhand", OURS), ("lm-eval", THEIRS)]
        for place, (name, code) in enumerate(sides if turn % 2 else sides[::-1]):
            prompts = [f"In story {turn}, number {n}, the {PEOPLE[n % 10]} said that" for n in range(given.items)]
            task = {"base": base, "prompts": prompts, "tokens": TOKENS, "concurrency": given.concurrency}
            done = subprocess.run(
                [pythons[name], "-c", code], input=json.dumps(task), capture_output=True, text=True, check=True
            )
            rows.append({"turn": turn, "side": name, "first": not place, **json.loads(done.stdout)})
            print(name, turn, f"{given.items / rows[-1]['seconds']:.2f} items a second", flush=True)
    return rows


def summary(rows: list[dict], pythons: dict[str, Path], given: argparse.Namespace) -> dict:
    """Return rates, processor time and versions."""
    measured = [row for row in rows if row["turn"] and (row["first"] or given.latency)]
    rates = {side: sorted(given.items / r["seconds"] for r in measured if r["side"] == side) for side in pythons}
    computing = {side: [r["cpu"] / given.items for r in measured if r["side"] == side] for side in pythons}
    ask = "import importlib.metadata as m; print(m.version('lm-eval'))"
    lm_eval = subprocess.run([pythons["lm-eval"], "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "items": given.items, "tokens": TOKENS, "concurrency": given.concurrency,
        "equal": all(a["texts"] == b["texts"] for a, b in zip(rows[::2], rows[1::2], strict=True)),
        "best_rate": given.concurrency / given.latency if given.latency else None,
        "median_rate": {side: statistics.median(values) for side, values in rates.items()},
        "items_a_second": rates,
        "cpu_seconds_an_item": {side: statistics.median(values) for side, values in computing.items()},
        "cores": os.cpu_count(), "load_average": os.getloadavg(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions_of(Path(sys.executable)) | {"lm-eval": lm_eval}, "machine": platform.machine(),
    }  # fmt: skip


if __name__ == "__main__":
    main()
