"""Continuations from one server, asked by evenhand and by lm-eval's local-completions in turn: rate, and equal answers.

    python benchmarks/endpoint.py --items 60 --rounds 6

The server is llama.cpp (xllamacpp) with a GGUF file, in a process of its own. So is each side; the time of the requests
alone is measured. Results: benchmarks/results/endpoint.json.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from environments import python_of

HERE = Path(__file__).parent
PEOPLE = ("nurse", "doctor", "teacher", "engineer", "cook", "judge", "farmer", "clerk", "pilot", "writer")
CONCURRENCY, TOKENS = 8, 8

SERVER = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), 4096, 4
server = xllamacpp.Server(params)
print("ready", flush=True)
time.sleep(3600)
"""
OURS = """
import json, sys, time
import httpx, tenacity  # theirs are imported before the clock starts, too
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--environments", type=Path, default=HERE.parent / ".bench")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "endpoint.json")
    given = parser.parse_args()
    from evenhand import data

    pythons = {"evenhand": Path(sys.executable), "lm-eval": python_of("lm-eval", given.environments)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = Path(given.model) if given.model.endswith(".gguf") else data.fetch(given.model)
    command = [sys.executable, "-c", SERVER, str(file), str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while "ready" not in (server.stdout.readline() if server.stdout else "ready"):
            time.sleep(0.1)
        rows = []
        for turn in range(given.rounds + 1):  # the first one warms the server up
            # The server keeps the prompts that it read, so the side that asks second is served from memory: each side
            # is first in every other turn, and only first ones are compared.
            sides = [("evenhand", OURS), ("lm-eval", THEIRS)]
            for place, (name, code) in enumerate(sides if turn % 2 else sides[::-1]):
                prompts = [f"In story {turn}, number {n}, the {PEOPLE[n % 10]} said that" for n in range(given.items)]
                task = {"base": f"http://127.0.0.1:{port}/v1", "prompts": prompts, "tokens": TOKENS}
                task |= {"concurrency": CONCURRENCY}
                done = subprocess.run(
                    [pythons[name], "-c", code], input=json.dumps(task), capture_output=True, text=True, check=True
                )
                rows.append({"turn": turn, "side": name, "first": not place, **json.loads(done.stdout)})
                print(name, turn, f"{given.items / rows[-1]['seconds']:.2f} items a second", flush=True)
    finally:
        server.kill()
        server.wait()
    measured = [row for row in rows if row["turn"] and row["first"]]
    rates = {side: sorted(given.items / r["seconds"] for r in measured if r["side"] == side) for side in pythons}
    computing = {side: min(r["cpu"] for r in rows if r["side"] == side) / given.items for side in pythons}
    equal = all(a["texts"] == b["texts"] for a, b in zip(rows[::2], rows[1::2], strict=True))
    found = {
        "model": given.model, "items": given.items, "tokens": TOKENS, "concurrency": CONCURRENCY, "equal": equal,
        "items_a_second": rates, "cpu_seconds_an_item": computing, "load_average": os.getloadavg(),
    }  # fmt: skip
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
