"""GloVe and GN-GloVe in blocks of counts, against one step for each count as the formula has it, in one run.

    [EVENHAND_DATA=folder] python benchmarks/gn_glove.py [FILE]

FILE is text with one document in a line; unless given, WikiText-2 of EVENHAND_DATA, or else made-up words with Zipf's
frequencies. Window 10, weights 1/distance, words that occur 5 times or more, 50 dimensions. The reference is a plain
loop of numpy over a random order of the counts with the same objective, start and optimiser, on one core; it runs over
the counts among the most frequent words only, and ours over the same counts, so that both losses can be compared. Ours
runs over all counts as well, with blocks of several sizes. Prints one JSON line: thousand counts per second (a count is
passed once in each epoch, and dealing them into blocks is part of the time), loss per count in each epoch, tokens of
text per second and epoch, and the ratios.
"""

import json
import os
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import corpus
from evenhand.corpus import Cooccurrence, Texts
from evenhand.mitigations import GNGloVe, glove
from evenhand.mitigations.training.glove import BLOCKS
from evenhand.mitigations.training.gn_glove import listed
from evenhand.words import pairs

DIM, EPOCHS, RATE, X_MAX, ALPHA, WEIGHT = 50, 3, 0.05, 100.0, 0.75, 0.8
BLOCK = BLOCKS["adagrad"]
OTHER_BLOCKS = (BLOCK // 16, BLOCK // 4)
FREQUENT = 400  # words of the comparison: some 150,000 counts, a few seconds of single steps for each epoch
COUNTING: dict[str, Any] = {"weighting": "harmonic", "min_count": 5, "tokenizer": "whitespace", "lower": True}


def counted(given: str | None) -> Cooccurrence:
    """The counts of the text."""
    path = Path(given or Path(os.environ.get("EVENHAND_DATA", "")) / "wikitext-2" / "train.txt")
    if path.is_file():
        return corpus.cooccurrence(str(path), 10, documents="line", **COUNTING)
    shares = 1 / np.arange(1, 20_001)
    ids = np.random.default_rng(0).choice(len(shares), size=1_000_000, p=shares / shares.sum())
    names = np.array(["the", "he", "she", "man", "woman", *(f"w{i}" for i in range(5, len(shares)))])
    return corpus.cooccurrence(Texts([" ".join(line) for line in names[ids].reshape(-1, 50)]), 10, **COUNTING)


def single_steps(counts: Cooccurrence, *, gendered: bool) -> tuple[float, list[float]]:
    """Seconds and the loss of each epoch, a step for each count: the formula of the papers as it stands."""
    rng, table, n = np.random.default_rng(0), counts.matrix.tocoo(), len(counts.words)
    words, contexts = ((rng.random((n, DIM + 1)) - 0.5) / DIM for _ in range(2))
    squares, context_squares = np.ones_like(words), np.ones_like(contexts)
    logs, weights = np.log(table.data), np.minimum(table.data / X_MAX, 1) ** ALPHA
    lists = listed(counts, tuple(pairs("gn-glove-pairs")), poles=("female", "male"))
    if gendered:
        words[:, -2] = np.where(lists.side == 0, words[:, -2], lists.side)
    losses, started = [], time.perf_counter()
    for turn in range(EPOCHS * len(logs)):
        if turn % len(logs) == 0:
            v_g, order = lists.direction(words), rng.permutation(len(logs))
            v_g[-2:] = 0
            losses.append(0.0)
        place = order[turn % len(logs)]
        i, j = table.row[place], table.col[place]
        w, c = words[i], contexts[j]
        error = w[:-1] @ c[:-1] + w[-1] + c[-1] - logs[place]
        weighted = weights[place] * error
        losses[-1] += 0.5 * weighted * error
        slope, context_slope = weighted * c, weighted * w
        slope[-1] = context_slope[-1] = weighted
        if gendered:
            for side, vector, change in ((lists.side[i], w, slope), (lists.side[j], c, context_slope)):
                if side:
                    change[-2] -= WEIGHT * side
                    losses[-1] -= WEIGHT * side * vector[-2]
                else:
                    along = vector @ v_g
                    change += 2 * WEIGHT * along * v_g
                    losses[-1] += WEIGHT * along**2
        for vector, change, sums in ((w, slope, squares[i]), (c, context_slope, context_squares[j])):
            step = RATE * change
            vector -= step / np.sqrt(sums)
            sums += step * step
            if gendered:
                np.clip(vector[:-1], -1, 1, out=vector[:-1])
    return time.perf_counter() - started, [loss / len(logs) for loss in losses]


def ours(counts: Cooccurrence, *, gendered: bool, block: int = BLOCK) -> tuple[float, list[float]]:
    """Seconds and the loss of each epoch."""
    started = time.perf_counter()
    method = GNGloVe(DIM, EPOCHS, block=block)
    found = method.train(counts, "gender") if gendered else glove(counts, DIM, epochs=EPOCHS, block=block)
    return time.perf_counter() - started, found.history[0]["losses"]


def compared(counts: Cooccurrence, few: Cooccurrence, *, gendered: bool) -> dict[str, Any]:
    """One kind of training: the reference and ours on the same counts, then ours on all."""
    runs = {
        "reference": (few, *single_steps(few, gendered=gendered)),
        "same_counts": (few, *ours(few, gendered=gendered)),
        **{f"all_counts_{b}": (counts, *ours(counts, gendered=gendered, block=b)) for b in (BLOCK, *OTHER_BLOCKS)},
    }
    speeds = {name: EPOCHS * table.matrix.nnz / seconds for name, (table, seconds, _) in runs.items()}
    whole = speeds[f"all_counts_{BLOCK}"]
    return {
        "kcounts_per_s": {name: round(speed / 1e3, 1) for name, speed in speeds.items()},
        "ktokens_per_s_and_epoch": round(whole * int(counts.occurrences.sum()) / counts.matrix.nnz / 1e3, 1),
        "ratio_same_counts": round(speeds["same_counts"] / speeds["reference"], 1),
        "ratio_all_counts": round(whole / speeds["reference"], 1),
        "losses": {name: [round(loss, 5) for loss in losses] for name, (_, _, losses) in runs.items()},
    }


def main(given: str | None = None) -> None:
    """Count, train both kinds both ways, print the numbers."""
    counts = counted(given)
    top = counts.matrix[:FREQUENT, :FREQUENT]
    few = replace(counts, words=counts.words[:FREQUENT], matrix=top, occurrences=counts.occurrences[:FREQUENT])
    kinds = {"glove": False, "gn-glove": True}
    runs = {name: compared(counts, few, gendered=gendered) for name, gendered in kinds.items()}
    about = {"words": len(counts.words), "counts": int(counts.matrix.nnz), "same_counts": int(top.nnz), "dim": DIM}
    print(json.dumps({**about, **runs, "numpy": np.__version__, "machine": platform.machine()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
