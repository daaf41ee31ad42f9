"""The objective of RAN for many words at once, its gradient written out, and Adam over them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Floats

Weights = tuple[float, float, float]  # of repulsion, attraction and neutralisation
DECAY = (0.9, 0.999)  # Adam's usual constants
EPSILON = 1e-8


class Block(NamedTuple):
    """Some words, each with as many rows as the others; where it has fewer repelling neighbours the rest are zero."""

    rows: Floats
    """(n, r + 2, d): the repelling neighbours, the word itself, and g; unit or zero."""
    weights: Floats
    """(n, r): weight of repulsion over the number of neighbours that are there."""

    @property
    def words(self) -> Floats:
        """(n, d): where each word starts, and what attracts it."""
        return self.rows[:, -2]


def block_of(words: Floats, repel: Sequence[Floats], g: Floats, weights: Weights) -> Block:
    """Words (n, d) with the neighbours that repel each, as one array."""
    sizes = [len(some) for some in repel]
    rows = np.zeros((len(words), max(sizes) + 2, words.shape[1]), dtype=words.dtype)
    share = np.zeros((len(words), max(sizes)), dtype=words.dtype)
    for place, some in enumerate(repel):
        rows[place, : len(some)] = some
        share[place, : len(some)] = weights[0] / max(1, len(some))
    rows[:, -2], rows[:, -1] = words, g
    return Block(rows, share)


def objective(x: Floats, block: Block, weights: Weights) -> Floats:
    """What is minimised, one number for each word."""
    _, attract, neutral = weights
    dots = np.matmul(block.rows, x[:, :, None])[:, :, 0]
    cosines = dots[:, :-1] / np.linalg.norm(x, axis=1)[:, None]
    away = (block.weights * np.abs(cosines[:, :-1])).sum(axis=1)
    return np.asarray(away + attract * np.abs(cosines[:, -1] - 1) / 2 + neutral * np.abs(dots[:, -1]))


def gradient(x: Floats, block: Block, weights: Weights) -> Floats:
    """Of the objective, for every word of the block at once; |.| has slope 0 at 0, and |cos - 1| is 1 - cos.

    With c = <x, n> / |x| the slope of cos is n / |x| - c x / |x|^2: one weight for each row of the block, and one
    for x itself.
    """
    _, attract, neutral = weights
    squares = np.einsum("ij,ij->i", x, x)[:, None]
    dots = np.matmul(block.rows, x[:, :, None])[:, :, 0]
    signs = np.sign(dots)
    signs[:, :-2] *= block.weights
    signs[:, -2] = -attract / 2
    own = (signs[:, :-1] * dots[:, :-1]).sum(axis=1, keepdims=True) / (squares * np.sqrt(squares))
    signs[:, :-1] /= np.sqrt(squares)
    signs[:, -1] *= neutral
    slope: Floats = np.matmul(signs[:, None, :], block.rows)[:, 0]
    slope -= own * x
    return slope


def descend(block: Block, weights: Weights, *, steps: int, rate: float) -> Floats:
    """Adam (Kingma & Ba 2015) from the words themselves, in place: its cost is that of passes over memory."""
    x = block.words.copy()
    mean, square = np.zeros_like(x), np.zeros_like(x)
    first, second = DECAY
    for step in range(1, steps + 1):
        slope = gradient(x, block, weights)
        mean *= first
        mean += (1 - first) * slope
        slope *= slope
        slope *= 1 - second
        square *= second
        square += slope
        larger = float(np.sqrt(1 - second**step))
        np.sqrt(square, out=slope)
        slope += EPSILON * larger
        np.divide(mean, slope, out=slope)
        slope *= rate * larger / (1 - first**step)
        x -= slope
    return x
