"""The arithmetic of the factorised evaluation of a probe, and the rate at which this machine multiplies matrices.

The floor that benchmarks/probes.py prints is the one divided by the other. It counts the products that no exact
rearrangement avoids: what depends on a phrase and both subjects, on a phrase and one subject, and on a distinct prefix
or suffix of a sentence. Additions, maxima, exponentials and the products of words (a few hundred rows) are left out.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from evenhand.engines.engine import cores
from evenhand.models.nli import BiLSTM, DecomposableAttention
from evenhand.models.nli.factorised import ON_CPU, PhraseGroup, probe_bags, probe_sentences
from evenhand.models.nli.protocol import LABELS
from evenhand.words.probes import Probe

ROWS = 984  # of a block of the gender probe
ROUNDS, ROUND_S = 5, 0.2


def product_rate(hidden: int) -> float:
    """FLOP per second of float32 products of a block's rows by a square matrix, all cores at once; the best round."""
    rng = np.random.default_rng(0)
    flops = 2 * ROWS * hidden**2

    def multiply(deadline: float) -> int:
        rows, matrix = (rng.normal(size=(size, hidden)).astype(np.float32) for size in (ROWS, hidden))
        out, count = np.empty_like(rows), 0
        while time.perf_counter() < deadline:
            np.matmul(rows, matrix, out=out)
            count += 1
        return count

    rates = []
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cores()) as pool:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            count = sum(pool.map(multiply, [start + ROUND_S] * cores()))
            rates.append(flops * count / (time.perf_counter() - start))
    return max(rates)


def flops(model: DecomposableAttention | BiLSTM, asked: Probe) -> dict[str, int]:
    """FLOP of each stage over all pairs of a probe."""
    return _bilstm(model, asked) if isinstance(model, BiLSTM) else _attention(model, asked)


def _attention(model: DecomposableAttention, asked: Probe) -> dict[str, int]:
    hidden = model.hidden
    found = dict.fromkeys(("attend", "compare, phrase and one subject", "compare, pairs", "aggregate, pairs"), 0)
    for group in probe_bags(asked, model.lookup.sentence).groups:
        phrases, length = group.around[0].shape
        for own in (*group.premise, *group.hypothesis):
            found["attend"] += 4 * phrases * length * own.tokens.size * hidden
            found["compare, phrase and one subject"] += 2 * phrases * length * len(own.tokens) * hidden**2
        for p in group.premise:
            for h in group.hypothesis:
                pairs = phrases * len(p.tokens) * len(h.tokens)
                found["compare, pairs"] += 2 * pairs * (p.tokens.shape[1] + h.tokens.shape[1]) * hidden**2
                found["aggregate, pairs"] += pairs * _aggregate(hidden)
    return found


def _bilstm(model: BiLSTM, asked: Probe) -> dict[str, int]:
    hidden, half = model.hidden, model.hidden // 2
    found = dict.fromkeys(("states", "attend, pairs", "compare, pairs", "aggregate, pairs"), 0)
    null = model.weights_on_device.null is not None
    for group in probe_sentences(asked, model.lookup.sentence, null=null, subjects=ON_CPU.subjects).groups:
        # A state is multiplied by the recurrent matrix and by both halves of compare's first matrix.
        found["states"] += _distinct_states(group) * 2 * half * (4 * half + 2 * hidden)
        around = sum(part.shape[1] for part in group.around)
        for p in group.premise:
            for h in group.hypothesis:
                pairs = len(group.phrases) * len(p.tokens) * len(h.tokens)
                lengths = around + p.tokens.shape[1], around + h.tokens.shape[1]
                found["attend, pairs"] += 6 * pairs * lengths[0] * lengths[1] * hidden
                found["compare, pairs"] += 2 * pairs * sum(lengths) * hidden**2
                found["aggregate, pairs"] += pairs * _aggregate(hidden)
    return found


def _aggregate(hidden: int) -> int:
    return 4 * hidden**2 + 2 * hidden**2 + 2 * hidden * len(LABELS)


def _distinct_states(group: PhraseGroup) -> int:
    """Distinct prefixes of all sentences, read forward and backward."""
    count = 0
    for groups in _by_length(group):
        sentences = np.concatenate(
            [
                np.concatenate(
                    [
                        np.repeat(group.around[0], len(tokens), 0),
                        np.tile(tokens, (len(group.phrases), 1)),
                        np.repeat(group.around[1], len(tokens), 0),
                    ],
                    axis=1,
                )
                for tokens in groups
            ]
        )
        for read in (sentences, sentences[:, ::-1]):
            prefix = np.zeros(len(read), np.int64)
            for column in read.T:
                distinct, prefix = np.unique(prefix * (sentences.max() + 1) + column, return_inverse=True)
                count += len(distinct)
    return count


def _by_length(group: PhraseGroup) -> list[list[np.ndarray]]:
    groups: dict[int, list[np.ndarray]] = {}
    for own in (*group.premise, *group.hypothesis):
        groups.setdefault(own.tokens.shape[1], []).append(own.tokens)
    return list(groups.values())
