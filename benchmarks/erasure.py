"""RAN against a per-word optimiser of the same objective, and INLP and LEACE on 22,500 labelled words, on GoogleNews.

    python benchmarks/erasure.py [WORDS]

Real vectors: the catalog's `googlenews-small` (26,423 x 300, fetched when it is not here). The per-word optimiser is
torch's Adam on one word at a time, as the released code does it; WORDS of them (40) are timed, the rest extrapolated.
Needs the extra `models`. Prints one JSON line.
"""

import json
import sys
import time

import numpy as np
import torch

import evenhand as eh
from evenhand.arrays import unit_rows
from evenhand.mitigations import INLP, LEACE, RAN


def one_word(w: np.ndarray, near: np.ndarray, g: np.ndarray, weights: list[float]) -> np.ndarray:
    """300 Adam steps for one word: repelled by its neighbours, held by itself, pushed off the direction."""
    l1, l2, l3 = weights
    x = torch.tensor(w, requires_grad=True)
    others, own, along = torch.tensor(near), torch.tensor(w), torch.tensor(g)
    adam = torch.optim.Adam([x], lr=0.01)
    for _ in range(300):
        length = x.norm()
        away = (others @ x / length).abs().mean() if len(near) else 0.0
        loss = l1 * away + l2 * (1 - own @ x / length) / 2 + l3 * (x @ along).abs()
        adam.zero_grad()
        loss.backward()
        adam.step()
    return (x / x.norm()).detach().numpy()


def main() -> None:
    """Fit all three, then redo some words of RAN one by one."""
    v, gender = eh.Vectors.load("googlenews-small"), eh.concept("gender")
    found: dict[str, object] = {}
    for method in (INLP(variant="released"), LEACE()):
        start = time.perf_counter()
        report = method.fit(v, gender).report
        found[method.id] = {"seconds": round(time.perf_counter() - start, 2), "rank_removed": report["rank_removed"]}
    start = time.perf_counter()
    fitted = RAN().fit(v, gender)
    ours = time.perf_counter() - start
    changed, count = fitted(v), int(fitted.report["words_in_table"])
    seconds, difference = again(v, changed, fitted.report["weights"], int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    found["ran"] = {"words": count, "seconds": round(ours, 1), "per_word_seconds": round(seconds, 4)}
    found["ran"]["ratio"] = round(seconds * count / ours, 1)  # type: ignore[index]
    found["ran"]["largest_difference"] = difference  # type: ignore[index]
    print(json.dumps(found))


def again(v: eh.Vectors, changed: eh.Vectors, weights: list[float], some: int) -> tuple[float, float]:
    """Mean seconds a word, and the largest difference from ours."""
    unit = unit_rows(v.matrix)
    pairs = [pair for pair in eh.concept("gender").pairs if set(pair) != {"mary", "john"}]
    g = eh.subspaces.pairs(v, pairs, normalise=True).basis[0]
    off = unit_rows(unit - np.outer(unit @ g, g))
    moved = np.flatnonzero(np.abs(changed.matrix - unit).max(axis=1) > 1e-4)
    rows = np.random.default_rng(0).choice(moved, some, replace=False)
    spent, worst = 0.0, 0.0
    for row in rows:
        start = time.perf_counter()
        dots = unit @ unit[row]
        order = [other for other in np.argsort(-dots)[:200] if other != row][:199]
        hits = [other for other in order if (dots[other] - off[other] @ off[row]) / dots[other] >= 0.05][:100]
        mine = one_word(unit[row], unit[hits], g, weights)
        spent += time.perf_counter() - start
        worst = max(worst, float(np.abs(mine - changed.matrix[row]).max()))
    return spent / some, worst


if __name__ == "__main__":
    main()
