"""The plain forward pass of the BiLSTM model over a batch of pairs of equal lengths: the reference for faster ways."""

from __future__ import annotations

from typing import Any

from evenhand.models.nli.backend import Array, Backend
from evenhand.models.nli.bilstm_weights import Arrays
from evenhand.models.nli.forward import apply

ONWARDS, BACKWARDS = 0, 1


class PlacedBiLSTM:
    """The weights on a torch backend, matrices turned so that rows times matrix is one product."""

    def __init__(self, arrays: Arrays, backend: Backend) -> None:
        self.backend, self.torch = backend, backend.xp

        def layer(name: str) -> tuple[Array, Array]:
            return backend.put(arrays[f"{name}.weight"].T), backend.put(arrays[f"{name}.bias"])

        self.input = backend.put(arrays["lstm.input"].swapaxes(1, 2))
        self.recurrent = backend.put(arrays["lstm.recurrent"].swapaxes(1, 2))
        self.bias = backend.put(arrays["lstm.bias"])
        self.half = int(arrays["lstm.recurrent"].shape[2])
        self.hidden = 2 * self.half
        self.compare = layer("compare.0"), layer("compare.1")
        self.aggregate = layer("aggregate.0"), layer("aggregate.1")
        self.output = layer("output")
        self.null = backend.put(arrays["null"]) if "null" in arrays else None


def probabilities(placed: PlacedBiLSTM, premise: Array, hypothesis: Array) -> Array:
    """(pairs, 3) from vectors of the tokens: (pairs, premise length, dim) and (pairs, hypothesis length, dim)."""
    p, h = encoded(placed, premise), encoded(placed, hypothesis)
    scores = p @ h.swapaxes(1, 2)
    to_h, to_p = scores.softmax(2) @ h, scores.softmax(1).swapaxes(1, 2) @ p
    cat = placed.torch.cat
    both = [apply(placed.compare, cat(pair, -1)).sum(1) for pair in ([p, to_h], [h, to_p])]
    weight, bias = placed.output
    return (apply(placed.aggregate, cat(both, -1)) @ weight + bias).softmax(1)


def encoded(placed: PlacedBiLSTM, vectors: Array) -> Array:
    """(sentences, tokens, hidden): what both directions make of each token, behind a null token if there is one."""
    if placed.null is not None:
        vectors = placed.torch.cat([placed.null.expand(len(vectors), 1, -1), vectors], 1)
    onwards = list(_states(placed, ONWARDS, vectors.unbind(1)))
    backwards = list(_states(placed, BACKWARDS, vectors.flip(1).unbind(1)))[::-1]
    return placed.torch.cat([placed.torch.stack(onwards, 1), placed.torch.stack(backwards, 1)], -1)


def _states(placed: PlacedBiLSTM, direction: int, vectors: Any) -> Any:
    hidden = cell = vectors[0].new_zeros(len(vectors[0]), placed.half)
    for x in vectors:
        gates = x @ placed.input[direction] + placed.bias[direction] + hidden @ placed.recurrent[direction]
        hidden, cell = step(gates, cell)
        yield hidden


def step(gates: Array, cell: Array) -> tuple[Array, Array]:
    """New hidden state and cell from the sums before the gates: (..., 4 half) in torch's order, and (..., half)."""
    let_in, forget, new, out = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + let_in.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell
