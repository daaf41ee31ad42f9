"""The rival that benchmarks/probes.py times: the models as ordinary torch modules, asked pair after pair.

Well batched: pairs of equal lengths together, so that nothing is padded, inference mode, the best of several batch
sizes. Texts become rows of the table outside the clock, in the loop's favour.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import nn

from evenhand.engines.engine import cores
from evenhand.models.nli import BiLSTM, DecomposableAttention
from evenhand.words.probes import Points, Probe

BATCHES = (32, 64, 128, 256, 512, 1024)
TRIAL = 4_096
Part = tuple[np.ndarray, torch.Tensor, torch.Tensor]


def clocked(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, wall seconds and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = call()
    return found, time.perf_counter() - wall, time.process_time() - processor


class AttentionModule(nn.Module):
    """Decomposable attention."""

    def __init__(self, model: DecomposableAttention) -> None:
        super().__init__()
        arrays = model.arrays
        self.table = torch.tensor(np.concatenate([model.vectors.matrix, arrays["oov"]]))
        self.project = nn.Linear(model.vectors.dim, model.hidden, bias=False)
        self.project.weight.data = torch.tensor(arrays["project.weight"])
        self.attend, self.compare = mlp(arrays, "attend"), mlp(arrays, "compare")
        self.aggregate = nn.Sequential(mlp(arrays, "aggregate"), dense(arrays, "output"))

    def forward(self, premise: torch.Tensor, hypothesis: torch.Tensor) -> torch.Tensor:
        """Probabilities from rows of the table."""
        p, h = self.project(self.table[premise]), self.project(self.table[hypothesis])
        scores = self.attend(p) @ self.attend(h).transpose(1, 2)
        to_h, to_p = scores.softmax(2) @ h, scores.transpose(1, 2).softmax(2) @ p
        v_p = self.compare(torch.cat([p, to_h], 2)).sum(1)
        v_h = self.compare(torch.cat([h, to_p], 2)).sum(1)
        return self.aggregate(torch.cat([v_p, v_h], 1)).softmax(1)


class BiLSTMModule(nn.Module):
    """The BiLSTM, by torch's own LSTM; both sentences in one call where they are equally long."""

    def __init__(self, model: BiLSTM) -> None:
        super().__init__()
        arrays = model.arrays
        self.table = torch.tensor(np.concatenate([model.vectors.matrix, arrays["oov"], arrays["null"][None]]))
        self.lstm = nn.LSTM(model.vectors.dim, model.hidden // 2, batch_first=True, bidirectional=True)
        for place, suffix in enumerate(("", "_reverse")):
            for name, key in (("weight_ih", "lstm.input"), ("weight_hh", "lstm.recurrent"), ("bias_ih", "lstm.bias")):
                getattr(self.lstm, f"{name}_l0{suffix}").data = torch.tensor(arrays[key][place])
            getattr(self.lstm, f"bias_hh_l0{suffix}").data.zero_()
        self.compare = mlp(arrays, "compare")
        self.aggregate = nn.Sequential(mlp(arrays, "aggregate"), dense(arrays, "output"))

    def encoded(self, rows: torch.Tensor) -> torch.Tensor:
        """The states of sentences, the null token in front."""
        null = rows.new_full((len(rows), 1), len(self.table) - 1)
        return self.lstm(self.table[torch.cat([null, rows], 1)])[0]

    def forward(self, premise: torch.Tensor, hypothesis: torch.Tensor) -> torch.Tensor:
        """Probabilities from rows of the table."""
        if premise.shape == hypothesis.shape:
            p, h = self.encoded(torch.cat([premise, hypothesis])).chunk(2)
        else:
            p, h = self.encoded(premise), self.encoded(hypothesis)
        scores = p @ h.transpose(1, 2)
        to_h, to_p = scores.softmax(2) @ h, scores.transpose(1, 2).softmax(2) @ p
        v_p = self.compare(torch.cat([p, to_h], 2)).sum(1)
        v_h = self.compare(torch.cat([h, to_p], 2)).sum(1)
        return self.aggregate(torch.cat([v_p, v_h], 1)).softmax(1)


def dense(arrays: dict[str, np.ndarray], name: str) -> nn.Linear:
    """A linear layer with weights of ours."""
    weight, bias = torch.tensor(arrays[f"{name}.weight"]), torch.tensor(arrays[f"{name}.bias"])
    made = nn.Linear(weight.shape[1], weight.shape[0])
    made.weight.data, made.bias.data = weight, bias
    return made


def mlp(arrays: dict[str, np.ndarray], name: str) -> nn.Sequential:
    """Two layers with weights of ours."""
    return nn.Sequential(dense(arrays, f"{name}.0"), nn.ReLU(), dense(arrays, f"{name}.1"), nn.ReLU())


def buckets(model: Any, asked: Probe, points: Points) -> list[Part]:
    """Places and token rows of the pairs, by length."""
    sides = [[model.lookup.sentence(text) for text in texts] for texts in asked.texts(points)]
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, (p, h) in enumerate(zip(*sides, strict=True)):
        found[len(p), len(h)].append(place)
    return [
        (np.array(places), *(torch.tensor([side[place] for place in places]) for side in sides))
        for places in found.values()
    ]


def looped(module: nn.Module, parts: list[Part], batch: int, count: int) -> np.ndarray:
    """The pairs, batch after batch, dealt to as many threads as there are cores.

    torch splits products of this size badly: a thread of its own for each batch is faster than two threads for one.
    """
    found = np.empty((count, 3), np.float32)

    def answer(places: np.ndarray, premise: torch.Tensor, hypothesis: torch.Tensor) -> None:
        with torch.inference_mode():
            found[places] = module(premise, hypothesis).numpy()

    with ThreadPoolExecutor(cores(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for part in parts:
            for start in range(0, len(part[0]), batch):
                pool.submit(answer, *(side[start : start + batch] for side in part))
    return found


def timed_loop(model: Any, asked: Probe, points: Points) -> tuple[np.ndarray, dict[str, Any]]:
    """Answers to these pairs, and how long all pairs of the probe would take at this rate, which is constant."""
    module = (BiLSTMModule if isinstance(model, BiLSTM) else AttentionModule)(model).eval()
    parts, count = buckets(model, asked, points), len(points.phrase)
    trial = [(places[:TRIAL], p[:TRIAL], h[:TRIAL]) for places, p, h in parts]
    tried = sum(len(places) for places, _, _ in trial)
    seconds = {b: min(clocked(lambda b=b: looped(module, trial, b, count))[1] for _ in range(2)) for b in BATCHES}
    batch = min(seconds, key=lambda b: seconds[b])
    found, wall, processor = clocked(lambda: looped(module, parts, batch, count))
    scale = asked.n_pairs / count
    return found, {
        "pairs_timed": count,
        "batch": batch,
        "pairs_per_s": {b: round(tried / s) for b, s in seconds.items()},
        "seconds_for_all": round(wall * scale, 1),
        "processor_seconds_for_all": round(processor * scale, 1),
    }
