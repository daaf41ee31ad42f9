"""Which vectors to embed: train the decomposable-attention NLI model over each candidate and compare accuracies.

Input: one .npz with token ids of the NLI pairs (`train_p`, `train_h`, `train_y`, likewise dev and test; 0 is padding)
and, for each candidate, its table `M_<name>` and the mask `has_<name>` of its words. Output: one JSON line a run.
Decision and result: docs/decisions/0002-embedded-vectors.md. Needs torch and a GPU.

    python benchmarks/embedded_choice.py pairs.npz CANDIDATE SEED...
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

HIDDEN, DROPOUT, BATCH, EPOCHS, OOV_VECTORS = 200, 0.2, 256, 18, 100


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Two ReLU layers with dropout before each, as Parikh et al. 2016."""
    drop = nn.Dropout(DROPOUT)
    return nn.Sequential(drop, nn.Linear(inputs, outputs), nn.ReLU(), drop, nn.Linear(outputs, outputs), nn.ReLU())


class DecomposableAttention(nn.Module):
    """Attend, compare, aggregate over frozen vectors."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.project = nn.Linear(table.shape[1], HIDDEN, bias=False)
        self.attend, self.compare = mlp(HIDDEN, HIDDEN), mlp(2 * HIDDEN, HIDDEN)
        self.aggregate = nn.Sequential(mlp(2 * HIDDEN, HIDDEN), nn.Linear(HIDDEN, 3))

    def forward(self, premise: torch.Tensor, hypothesis: torch.Tensor) -> torch.Tensor:
        """Logits of (entailment, neutral, contradiction)."""
        p, h = self.project(self.table[premise]), self.project(self.table[hypothesis])
        in_p, in_h = (premise > 0).unsqueeze(2), (hypothesis > 0).unsqueeze(2)
        scores = self.attend(p) @ self.attend(h).transpose(1, 2)
        beta = scores.masked_fill(~in_h.transpose(1, 2), -1e4).softmax(2) @ h
        alpha = scores.transpose(1, 2).masked_fill(~in_p.transpose(1, 2), -1e4).softmax(2) @ p
        v_p = (self.compare(torch.cat([p, beta], 2)) * in_p).sum(1)
        v_h = (self.compare(torch.cat([h, alpha], 2)) * in_h).sum(1)
        return self.aggregate(torch.cat([v_p, v_h], 1))


def load(path: Path, name: str, device: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Pairs on the device, and the table with words it lacks hashed onto fixed random vectors."""
    raw = np.load(path)
    table, has = raw[f"M_{name}"].astype(np.float32), raw[f"has_{name}"]
    spread = table[has].std()
    substitutes = np.random.default_rng(0).normal(0, spread, (OOV_VECTORS, table.shape[1])).astype(np.float32)
    missing = np.flatnonzero(~has[1:]) + 1
    table[missing] = substitutes[missing % OOV_VECTORS]
    keys = [key for key in raw.files if key.split("_")[0] in ("train", "dev", "test")]
    return {key: torch.from_numpy(raw[key].astype(np.int64)).to(device) for key in keys}, torch.from_numpy(table).to(
        device
    )


@torch.inference_mode()
def accuracy(model: nn.Module, data: dict[str, torch.Tensor], split: str) -> float:
    """Share of pairs whose most probable label is right."""
    model.eval()
    right = 0
    for start in range(0, len(data[f"{split}_y"]), 2048):
        rows = slice(start, start + 2048)
        guess = model(data[f"{split}_p"][rows], data[f"{split}_h"][rows]).argmax(1)
        right += int((guess == data[f"{split}_y"][rows]).sum())
    return right / len(data[f"{split}_y"])


def train(path: Path, name: str, seed: int, device: str) -> dict[str, object]:
    """One run; the epoch with the best dev accuracy counts."""
    torch.manual_seed(seed)
    data, table = load(path, name, device)
    model = DecomposableAttention(table).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    best, started = (0.0, 0.0, 0), time.perf_counter()
    for epoch in range(1, EPOCHS + 1):
        model.train()
        for rows in torch.randperm(len(data["train_y"]), device=device).split(BATCH):
            loss = nn.functional.cross_entropy(
                model(data["train_p"][rows], data["train_h"][rows]), data["train_y"][rows]
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        best = max(best, (accuracy(model, data, "dev"), accuracy(model, data, "test"), epoch))
    seconds = round(time.perf_counter() - started, 1)
    return {"vectors": name, "seed": seed, "dev": best[0], "test": best[1], "epoch": best[2], "seconds": seconds}


if __name__ == "__main__":
    file, candidate, *seeds = sys.argv[1:]
    where = "cuda" if torch.cuda.is_available() else "cpu"
    manifest = {
        "data_sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest(),
        "torch": torch.__version__,
        "device": where,
    }
    for given in seeds:
        print(json.dumps({**train(Path(file), candidate, int(given), where), **manifest}), flush=True)
