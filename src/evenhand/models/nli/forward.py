"""The plain forward pass over a batch of pairs of equal lengths: the reference for every faster way."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.arrays import Rows
from evenhand.models.nli.backend import Array, Backend
from evenhand.models.nli.weights import FARTHEST, Layer, Network, Weights


class Placed:
    """The weights on a backend, matrices turned so that rows times matrix is one product."""

    def __init__(self, weights: Weights, backend: Backend) -> None:
        self.backend, self.xp = backend, backend.xp

        def layer(given: Layer) -> tuple[Array, Array]:
            return backend.put(given.weight.T), backend.put(given.bias)

        def network(given: Network) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            return layer(given.first), layer(given.second)

        self.project = backend.put(weights.project.T)
        self.attend, self.compare = network(weights.attend), network(weights.compare)
        self.aggregate, self.output = network(weights.aggregate), layer(weights.output)
        self.hidden = weights.hidden
        self.intra = network(weights.intra.network) if weights.intra else None
        self.distance = weights.intra.distance if weights.intra else None


def probabilities(placed: Placed, premise: Array, hypothesis: Array) -> Array:
    """(pairs, 3) from vectors of the tokens: (pairs, premise length, dim) and (pairs, hypothesis length, dim)."""
    xp = placed.xp
    p, h = (within(placed, side @ placed.project) for side in (premise, hypothesis))
    scores = apply(placed.attend, p) @ apply(placed.attend, h).swapaxes(1, 2)
    to_h = softmax(scores, xp) @ h
    to_p = softmax(scores.swapaxes(1, 2), xp) @ p
    v_p = apply(placed.compare, xp.concatenate([p, to_h], -1)).sum(axis=1)
    v_h = apply(placed.compare, xp.concatenate([h, to_p], -1)).sum(axis=1)
    weight, bias = placed.output
    return softmax(apply(placed.aggregate, xp.concatenate([v_p, v_h], -1)) @ weight + bias, xp)


def within(placed: Placed, tokens: Array) -> Array:
    """Each token beside what it attends to in its own sentence (Parikh et al. 2016, section 3.4), where asked for."""
    if placed.intra is None or placed.distance is None:
        return tokens
    made = apply(placed.intra, tokens)
    biases = placed.backend.put(placed.distance[distances(tokens.shape[1])])
    attended = softmax(made @ made.swapaxes(1, 2) + biases, placed.xp) @ tokens
    return placed.xp.concatenate([tokens, attended], -1)


def distances(length: int) -> Rows:
    """(length, length): which bias a token at i has for one at j, by i - j."""
    places = np.arange(length)
    return np.asarray(np.clip(places[:, None] - places, -FARTHEST, FARTHEST) + FARTHEST, dtype=np.int64)


def apply(network: tuple[tuple[Array, Array], tuple[Array, Array]], x: Array) -> Array:
    """Two layers with max(0, x) after each."""
    for weight, bias in network:
        x = (x @ weight + bias).clip(0, None)
    return x


def softmax(x: Array, xp: Any) -> Array:
    """exp(x) divided by its sum over the last axis."""
    raised = x - xp.amax(x, axis=-1, keepdims=True)
    grown = xp.exp(raised)
    return grown / grown.sum(axis=-1, keepdims=True)
