"""The whole gender probe through both models over word vectors: factorised against a torch loop over the pairs.

    python benchmarks/probes.py [--pairs 60000] [--models decomposable bilstm] [--device cpu|cuda]

On a processor, in one run with the same weights: all 1,936,512 pairs by the factorised evaluators (decomposable
attention over numpy and over torch, the BiLSTM over torch), and a well-batched torch loop (benchmarks/probe_loops.py)
over --pairs of them, every so many-th pair; the loop's time is scaled up to all pairs, which its constant rate allows.
Wall time and processor time, the largest difference of any probability on the loop's pairs, and the peak memory before
torch is loaded. The floor is the arithmetic of the factorised evaluation at the rate of matrix products, which is measured
before and after each evaluation (benchmarks/probe_floor.py); the share is the floor divided by the time. On a GPU: the same evaluators, after a warm-up, median of three, against the plain forward pass there.
Weights are random: times do not depend on them. Prints one JSON line.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import time
from typing import Any

import numpy as np

from evenhand.models.nli import BiLSTM, DecomposableAttention
from evenhand.models.nli.bilstm import random_arrays
from evenhand.models.nli.decomposable import Weights
from evenhand.models.nli.protocol import predict_points
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Points, Probe, probe
from probe_floor import flops, product_rate

MODELS = ("decomposable", "bilstm")
REPEATS = 3
HIDDEN = 200


def factorised(model: Any, asked: Probe) -> np.ndarray:
    """All probabilities; float32 throughout, 23 MB for two million pairs."""
    found = np.empty((*asked.shape, 3), np.float32)
    for grid in model.grids(asked):
        found[grid.phrases] = grid.probabilities
    return found


def evenly(asked: Probe, count: int) -> Points:
    """Every so many-th pair."""
    return Points(*np.unravel_index(np.linspace(0, asked.n_pairs - 1, count).astype(np.int64), asked.shape))


def model_over(backend: str, vectors: Vectors, kind: str) -> Any:
    """A model with random weights; `backend` is numpy, torch or torch:cuda."""
    if kind == "bilstm":
        return BiLSTM(random_arrays(vectors.dim, HIDDEN), vectors, device=backend.partition(":")[2] or "cpu")
    return DecomposableAttention(Weights.random(vectors.dim, HIDDEN), vectors, backend_name=backend)


def on_processor(kind: str, vectors: Vectors, asked: Probe, points: Points) -> dict[str, Any]:
    """One model: ours over all pairs, the loop over some."""
    ours: dict[str, tuple[np.ndarray, float, float]] = {}
    peak: dict[str, int] = {}
    rates: dict[str, float] = {}
    for backend in ("numpy", "torch") if kind == "decomposable" else ("torch",):
        model = model_over(backend, vectors, kind)
        before = product_rate(HIDDEN)
        wall, processor = time.perf_counter(), time.process_time()
        found = factorised(model, asked)
        ours[backend] = found, time.perf_counter() - wall, time.process_time() - processor
        rates[backend] = max(before, product_rate(HIDDEN))
        peak[backend] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    needed = flops(model, asked)
    floor = {name: sum(needed.values()) / rate for name, rate in rates.items()}
    from probe_loops import timed_loop  # here, because the memory of numpy alone is measured before torch is loaded

    reference, loop = timed_loop(model, asked, points)
    return {
        "loop": loop,
        "seconds": {name: round(wall, 2) for name, (_, wall, _) in ours.items()},
        "processor_seconds": {name: round(used, 2) for name, (_, _, used) in ours.items()},
        "ratio": {name: round(loop["seconds_for_all"] / wall, 1) for name, (_, wall, _) in ours.items()},
        "processor_ratio": {
            name: round(loop["processor_seconds_for_all"] / used, 1) for name, (_, _, used) in ours.items()
        },
        "largest_difference": {
            name: float(np.abs(found[tuple(points)] - reference).max()) for name, (found, _, _) in ours.items()
        },
        "peak_mb_so_far": peak,
        "gflop": {name: round(count / 1e9, 1) for name, count in needed.items()},
        "gflop_per_s_of_products": {name: round(rate / 1e9, 1) for name, rate in rates.items()},
        "floor_seconds": {name: round(seconds, 2) for name, seconds in floor.items()},
        "times_the_floor": {name: round(wall / floor[name], 2) for name, (_, wall, _) in ours.items()},
        "share_of_the_limit": {name: round(floor[name] / wall, 2) for name, (_, wall, _) in ours.items()},
    }


def on_gpu(kind: str, vectors: Vectors, asked: Probe, points: Points) -> dict[str, Any]:
    """One model: ours over all pairs, and the plain forward pass on the GPU and on the processor over some."""
    import torch

    model = model_over("torch:cuda", vectors, kind)
    seconds = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = factorised(model, asked)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    plain = {name: predict_points(model_over(name, vectors, kind), asked, points) for name in ("torch:cuda", "torch")}
    return {
        "seconds": round(statistics.median(seconds[1:]), 3),
        "seconds_each": [round(value, 3) for value in seconds[1:]],
        "seconds_first": round(seconds[0], 3),
        "largest_difference": {name: float(np.abs(found[tuple(points)] - p).max()) for name, p in plain.items()},
        "peak_gpu_mb": torch.cuda.max_memory_allocated() >> 20,
    }


def machine(device: str) -> dict[str, Any]:
    """Where it ran."""
    import torch

    found = {
        "load": [round(value, 1) for value in os.getloadavg()],
        "cores": len(os.sched_getaffinity(0)),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    if device != "cuda":
        return found
    return {**found, "gpu": torch.cuda.get_device_name(), "precision": torch.get_float32_matmul_precision()}


def main() -> None:
    """Time what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60_000, help="how many pairs the loop is timed on")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    asking = parser.parse_args()
    vectors, asked = Vectors.default(), probe("gender-occupation")
    points = evenly(asked, min(asking.pairs, asked.n_pairs))
    timed = on_gpu if asking.device == "cuda" else on_processor
    found = {kind: timed(kind, vectors, asked, points) for kind in asking.models}
    print(json.dumps({"pairs": asked.n_pairs, "device": asking.device, **found, **machine(asking.device)}))


if __name__ == "__main__":
    main()
