"""The whole gender probe through decomposable attention: factorised against a torch loop over the pairs, in one run.

    python benchmarks/probes.py [LOOP_PAIRS]

All 1,936,512 pairs by the factorised evaluator, over numpy and over torch, and a well-batched torch loop (pairs of
equal lengths, no padding, inference mode, its best batch size) with the same weights over LOOP_PAIRS of them (default
60,000, every so many-th pair; its time is scaled up, which the loop's constant rate allows). Wall time and processor
time of all three, the largest difference of any probability on the loop's pairs, and the peak memory before torch is
loaded. Prints one JSON line.
"""

import json
import os
import platform
import resource
import sys
import time
from collections import defaultdict
from typing import Any

import numpy as np

from evenhand.models.nli import DecomposableAttention, Grid
from evenhand.models.nli.weights import Weights
from evenhand.models.vectors import Vectors
from evenhand.words.probes import Points, Probe, probe

BATCHES = (64, 128, 256, 512, 1024)
TRIAL = 4_096


def clocked(call: Any) -> tuple[Any, float, float]:
    """The result, wall seconds and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = call()
    return found, time.perf_counter() - wall, time.process_time() - processor


def factorised(model: DecomposableAttention, asked: Probe) -> np.ndarray:
    """All probabilities; float32 throughout, 23 MB for two million pairs."""
    found = np.empty((*asked.shape, 3), np.float32)
    grid: Grid
    for grid in model.grids(asked):
        found[grid.phrases] = grid.probabilities
    return found


def loop_model(model: DecomposableAttention) -> Any:
    """The same weights as an ordinary torch module."""
    import torch
    from torch import nn

    def dense(layer: Any) -> nn.Linear:
        made = nn.Linear(layer.weight.shape[1], layer.weight.shape[0])
        made.weight.data, made.bias.data = torch.tensor(layer.weight), torch.tensor(layer.bias)
        return made

    def mlp(network: Any) -> nn.Sequential:
        return nn.Sequential(dense(network.first), nn.ReLU(), dense(network.second), nn.ReLU())

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weights = model.weights
            self.table = torch.tensor(np.concatenate([model.vectors.matrix, weights.oov]))
            self.project = nn.Linear(weights.dim, weights.hidden, bias=False)
            self.project.weight.data = torch.tensor(weights.project)
            self.attend, self.compare = mlp(weights.attend), mlp(weights.compare)
            self.aggregate = nn.Sequential(mlp(weights.aggregate), dense(weights.output))

        def forward(self, premise: torch.Tensor, hypothesis: torch.Tensor) -> torch.Tensor:
            p, h = self.project(self.table[premise]), self.project(self.table[hypothesis])
            scores = self.attend(p) @ self.attend(h).transpose(1, 2)
            to_h, to_p = scores.softmax(2) @ h, scores.transpose(1, 2).softmax(2) @ p
            v_p = self.compare(torch.cat([p, to_h], 2)).sum(1)
            v_h = self.compare(torch.cat([h, to_p], 2)).sum(1)
            return self.aggregate(torch.cat([v_p, v_h], 1)).softmax(1)

    return Attention().eval()


def buckets(model: DecomposableAttention, asked: Probe, points: Points) -> list[tuple[np.ndarray, Any, Any]]:
    """Places and token rows of the pairs, by length; made outside the clock, in the loop's favour."""
    import torch

    sides = [[model.lookup.sentence(text) for text in texts] for texts in asked.texts(points)]
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, (p, h) in enumerate(zip(*sides, strict=True)):
        found[len(p), len(h)].append(place)
    return [
        (np.array(places), *(torch.tensor([side[place] for place in places]) for side in sides))
        for places in found.values()
    ]


def looped(module: Any, parts: list[tuple[np.ndarray, Any, Any]], batch: int, count: int) -> np.ndarray:
    """The pairs, batch after batch."""
    import torch

    found = np.empty((count, 3), np.float32)
    with torch.inference_mode():
        for places, premise, hypothesis in parts:
            for start in range(0, len(places), batch):
                some = slice(start, start + batch)
                found[places[some]] = module(premise[some], hypothesis[some]).numpy()
    return found


def main(loop_pairs: str = "60000") -> None:
    """Time all three on the same weights."""
    vectors, asked = Vectors.default(), probe("gender-occupation")
    weights = Weights.random(vectors.dim, 200)
    ours, *numpy_time = clocked(lambda: factorised(DecomposableAttention(weights, vectors), asked))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    model = DecomposableAttention(weights, vectors, backend_name="torch")
    over_torch, *torch_time = clocked(lambda: factorised(model, asked))
    chosen = np.linspace(0, asked.n_pairs - 1, int(loop_pairs)).astype(np.int64)
    points = Points(*np.unravel_index(chosen, asked.shape))
    module, parts = loop_model(model), buckets(model, asked, points)
    trial = [(places[:TRIAL], p[:TRIAL], h[:TRIAL]) for places, p, h in parts]
    counted = sum(len(places) for places, _, _ in trial)
    seconds = {b: min(clocked(lambda b=b: looped(module, trial, b, len(chosen)))[1] for _ in range(2)) for b in BATCHES}
    batch = min(seconds, key=lambda b: seconds[b])
    reference, *loop_time = clocked(lambda: looped(module, parts, batch, len(chosen)))
    scale = asked.n_pairs / len(chosen)
    loop = [value * scale for value in loop_time]
    print(
        json.dumps(
            {
                "pairs": asked.n_pairs,
                "loop_pairs": len(chosen),
                "loop_batch": batch,
                "loop_pairs_per_s": {b: round(counted / s) for b, s in seconds.items()},
                "seconds": {
                    "loop": round(loop[0], 1),
                    "numpy": round(numpy_time[0], 2),
                    "torch": round(torch_time[0], 2),
                },
                "processor_seconds": {
                    "loop": round(loop[1], 1),
                    "numpy": round(numpy_time[1], 2),
                    "torch": round(torch_time[1], 2),
                },
                "ratio": {"numpy": round(loop[0] / numpy_time[0], 1), "torch": round(loop[0] / torch_time[0], 1)},
                "processor_ratio": {
                    "numpy": round(loop[1] / numpy_time[1], 1),
                    "torch": round(loop[1] / torch_time[1], 1),
                },
                "largest_difference": {
                    "numpy_loop": float(np.abs(ours[tuple(points)] - reference).max()),
                    "torch_loop": float(np.abs(over_torch[tuple(points)] - reference).max()),
                    "numpy_torch": float(np.abs(ours - over_torch).max()),
                },
                "peak_mb": round(peak),
                "load": [round(value, 1) for value in os.getloadavg()],
                "cores": os.cpu_count(),
                "numpy": np.__version__,
                "machine": platform.machine(),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
