"""The whole gender probe through both models over word vectors: factorised against a torch loop over the pairs.

    python benchmarks/probes.py [--pairs 60000] [--models decomposable bilstm] [--verbs N] [--repeats 3]
                                [--device cpu|cuda]

On a processor, in one run with the same weights: all 1,936,512 pairs by the factorised evaluators (decomposable
attention over numpy and over torch, the BiLSTM over torch), and a well-batched torch loop (benchmarks/probe_loops.py)
over --pairs of them, every so many-th pair; the loop's time is scaled up to all pairs, which its constant rate allows.
Wall time and processor time, the largest difference of any probability on the loop's pairs, and the peak memory before
torch is loaded. The evaluation is repeated, and the median counts. The floor is its arithmetic at the rate of matrix
products, which is measured before and after each repeat (benchmarks/probe_floor.py). On a GPU: the same evaluators,
after a warm-up, against the plain forward pass there. Weights are random: times do not depend on them. Prints one JSON
line.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import time
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evenhand.models.nli import BiLSTM, DecomposableAttention, bilstm, decomposable
from evenhand.models.nli.protocol import predict_points
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Points, Probe, probe

MODELS = ("decomposable", "bilstm")
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
        return BiLSTM(bilstm.random_arrays(vectors.dim, HIDDEN), vectors, device=backend)
    return DecomposableAttention(decomposable.random_arrays(vectors.dim, HIDDEN), vectors, device=backend)


def on_processor(kind: str, vectors: Vectors, asked: Probe, points: Points, repeats: int) -> dict[str, Any]:
    """One model: ours over all pairs, the loop over some."""
    ours: dict[str, Timed] = {}
    peak: dict[str, int] = {}
    for backend in ("numpy", "torch") if kind == "decomposable" else ("torch",):
        model = model_over(backend, vectors, kind)
        ours[backend] = timed_evaluations(model, asked, repeats)
        peak[backend] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    from probe_loops import timed_loop  # here, because the memory of numpy alone is measured before torch is loaded

    reference, loop = timed_loop(model, asked, points)
    return {
        "loop": loop,
        "seconds": {name: round(timed.seconds, 2) for name, timed in ours.items()},
        "seconds_each": {name: [round(value, 2) for value in timed.walls] for name, timed in ours.items()},
        "processor_seconds": {name: round(timed.processor, 2) for name, timed in ours.items()},
        "ratio": {name: round(loop["seconds_for_all"] / timed.seconds, 1) for name, timed in ours.items()},
        "processor_ratio": {
            name: round(loop["processor_seconds_for_all"] / timed.processor, 1) for name, timed in ours.items()
        },
        "largest_difference": {
            name: float(np.abs(timed.found[tuple(points)] - reference).max()) for name, timed in ours.items()
        },
        "peak_mb_so_far": peak,
        "floor": {name: timed.floor for name, timed in ours.items()},
    }


class Timed(NamedTuple):
    """Repeated evaluations: all probabilities, times, and the floor."""

    found: np.ndarray
    walls: list[float]
    processor: float
    floor: dict[str, Any]

    @property
    def seconds(self) -> float:
        """The median wall time."""
        return statistics.median(self.walls)


def timed_evaluations(model: Any, asked: Probe, repeats: int) -> Timed:
    """All pairs, several times, with the rate of products before and after each."""
    from probe_floor import flops, product_rate  # here, because it is not part of what others time

    walls, used, rates = [], [], [product_rate(HIDDEN)]
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        found = factorised(model, asked)
        walls.append(time.perf_counter() - wall)
        used.append(time.process_time() - processor)
        rates.append(product_rate(HIDDEN))
    needed = flops(model, asked)
    floors = [2 * sum(needed.values()) / (one + other) for one, other in pairwise(rates)]
    floor = {
        "gflop": {name: round(count / 1e9, 1) for name, count in needed.items()},
        "gflop_per_s_of_products": [round(rate / 1e9) for rate in rates],
        "seconds": round(statistics.median(floors), 2),
        "times_the_floor": [round(wall / floor, 2) for wall, floor in zip(walls, floors, strict=True)],
    }
    return Timed(found, walls, statistics.median(used), floor)


def on_gpu(kind: str, vectors: Vectors, asked: Probe, points: Points, repeats: int) -> dict[str, Any]:
    """One model: ours over all pairs, and the plain forward pass on the GPU and on the processor over some."""
    import torch

    model = model_over("torch:cuda", vectors, kind)
    seconds = []
    for _ in range(repeats + 1):
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
    parser.add_argument("--verbs", type=int, help="ask with the first verbs of the probe only")
    parser.add_argument("--repeats", type=int, default=3, help="how often all pairs are evaluated")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    asking = parser.parse_args()
    vectors, asked = Vectors.default(), probe("gender-occupation")
    if asking.verbs:
        asked = asked.restrict(verb=list(asked.templates[0].fillers["verb"].words)[: asking.verbs])
    points = evenly(asked, min(asking.pairs, asked.n_pairs))
    timed = on_gpu if asking.device == "cuda" else on_processor
    found = {kind: timed(kind, vectors, asked, points, asking.repeats) for kind in asking.models}
    print(json.dumps({"pairs": asked.n_pairs, "device": asking.device, **found, **machine(asking.device)}))


if __name__ == "__main__":
    main()
