"""The layers that every pair of a probe passes: compare's second layer, aggregate and the output layer."""

from __future__ import annotations

from math import prod
from threading import local

import numpy as np

from evenhand.models.nli.backend import Array, ArrayBackend

TILE_ROWS = 32

Layer = tuple[Array, Array]  # a matrix to the right of the rows, and a bias


class PairLayers:
    """The layers on a backend, with biases folded into constants.

    max(0, x + b) = max(x, -b) + b, and what follows is linear: a bias is added once at the end instead of to every
    row. The constant is the sum of three terms, of which two are multiplied by the lengths of the sentences, because
    each row of compare adds its bias. Every step writes into an array of the workspace.
    """

    def __init__(
        self, backend: ArrayBackend, compare: Layer, aggregate: tuple[Layer, Layer], output: Layer, hidden: int
    ) -> None:
        xp = backend.xp
        self.backend, self.hidden, self.workspace = backend, hidden, Workspace(backend, hidden)
        self.matrix, bias = compare
        (self.first, first_bias), (self.second, second_bias) = aggregate
        matrix, output_bias = output
        self.output = backend.put(backend.get(matrix).T)
        self.zero, self.compare_floor = backend.put(np.zeros(hidden)), -bias
        self.first_terms = xp.stack([first_bias, bias @ self.first[:hidden], bias @ self.first[hidden:]])
        self.second_terms = self.first_terms @ self.second
        self.second_terms[0] += second_bias
        self.output_terms = self.second_terms @ matrix
        self.output_terms[0] += output_bias

    def rows(self, shape: tuple[int, ...]) -> Array:
        """Return the array that `compare` reads, in this shape."""
        return self.workspace.array(0, shape)

    def compare(self, tokens: int, rows: int) -> Array:
        """Return max(0, rows) after compare's second layer, without its bias.

        The (tokens, rows, hidden) rows are those that were written last, and the result is (rows, tokens, hidden).
        """
        own = self.workspace.array(0, (tokens, rows, self.hidden))
        compared = self.workspace.array(1, (rows, tokens, self.hidden))
        self.workspace.floor(0, tokens * rows, self.zero)
        for token in range(tokens):
            self.backend.xp.matmul(own[token], self.matrix, out=compared[:, token])
        self.workspace.floor(1, tokens * rows, self.compare_floor)
        return compared

    def classify(self, sums: Array, lengths: tuple[int, int]) -> Array:
        """Return (labels, pairs) probabilities from (pairs, 2, hidden) sums of compared rows.

        `lengths` are the tokens of both sentences.
        """
        xp, pairs = self.backend.xp, len(sums)
        factors = self.backend.put(np.array([1, *lengths], np.float32))
        top = self.workspace.array(0, (pairs, self.hidden))
        xp.matmul(sums.reshape(pairs, -1), self.first, out=top)
        self.workspace.floor(0, pairs, -(factors @ self.first_terms))
        last = self.workspace.array(1, (pairs, self.hidden))
        xp.matmul(top, self.second, out=last)
        self.workspace.floor(1, pairs, -(factors @ self.second_terms))
        return softmax(self.output @ last.T + (factors @ self.output_terms)[:, None], 0, self.backend)


class Workspace(local):
    """Two arrays for each thread, which its steps write to in turn: a block stays in the cache."""

    def __init__(self, backend: ArrayBackend, hidden: int) -> None:
        self.backend, self.tile = backend, TILE_ROWS * hidden
        self.arrays = [backend.empty((0,)), backend.empty((0,))]

    def array(self, index: int, shape: tuple[int, ...]) -> Array:
        """Return the first or second array in this shape; it holds what was written to it last."""
        size = prod(shape)
        if len(self.arrays[index]) < size:
            self.arrays[index] = self.backend.empty((-(-size // self.tile) * self.tile,))
            self.arrays[index][:] = 0  # the last tile may reach beyond what is written
        return self.arrays[index][:size].reshape(shape)

    def floor(self, index: int, rows: int, row: Array) -> None:
        """Replace the first rows of an array by their maximum with `row`.

        The row is repeated: numpy takes the maximum of two long rows several times faster than that of many short
        ones, or of an array and a scalar.
        """
        xp = self.backend.xp
        tiles = self.arrays[index][: -(-rows // TILE_ROWS) * self.tile].reshape(-1, self.tile)
        xp.maximum(tiles, xp.concatenate([row] * TILE_ROWS), out=tiles)


def softmax(x: Array, axis: int, backend: ArrayBackend) -> Array:
    """Return the softmax over an axis, which is much faster for any axis but the last."""
    x -= backend.xp.amax(x, axis=axis, keepdims=True)
    powers = backend.xp.exp(x, out=x)
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers
