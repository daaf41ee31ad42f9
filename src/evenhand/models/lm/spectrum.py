"""The leading directions of a few difference vectors, by way of their small Gram matrix.

C has one row for each pair of words and some hundred columns. The right singular vectors of C are C'u / sigma, with u
the eigenvectors of C C', which is no larger than the number of pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError

ROUNDING = 1e-12  # a share of exactly one half may come out this much too small
NOTHING = 1e-12  # of the largest squared singular value: below it a direction is rounding error


class Leading(NamedTuple):
    """Squared singular values from the largest on, eigenvectors in columns, and how many of them are leading."""

    squares: Vector64
    vectors: Matrix64
    k: int


def smallest_k(squares: Vector64, share: float) -> int:
    """How many squared singular values, largest first, it takes to reach a share of their sum."""
    reached = np.cumsum(squares) / squares.sum()
    return int(np.searchsorted(reached, share - ROUNDING)) + 1


class Copy:
    """A small matrix on its way from the device to the processor: asked for early, it has arrived when it is needed."""

    def __init__(self, matrix: torch.Tensor) -> None:
        on_gpu = matrix.is_cuda
        self._here = torch.empty(matrix.shape, dtype=matrix.dtype, pin_memory=on_gpu)
        self._here.copy_(matrix.detach(), non_blocking=True)
        self._arrival = torch.cuda.Event() if on_gpu else None
        if self._arrival is not None:
            self._arrival.record()

    def arrived(self) -> Matrix64:
        """The matrix, in double precision; waits for its arrival, not for what the device was asked to do since."""
        if self._arrival is not None:
            self._arrival.synchronize()
        return np.asarray(self._here.double().numpy())


def leading(gram: Copy, share: float, *, only_first: bool = False) -> Leading | None:
    """Decompose a Gram matrix in double precision on the processor; None where training has run into NaN.

    torch waits for the device in `eigh` and `svd` anyway; a copy that was asked for before the model's own work was
    queued does not.
    """
    table = gram.arrived()
    if not np.isfinite(table).all():
        return None
    squares, vectors = np.linalg.eigh(table)
    squares, vectors = squares[::-1].clip(0), vectors[:, ::-1]
    if not squares[0] > 0:
        raise DegenerateError(
            "the two words of every pair have the same row, so that they span no subspace",
            hint="give pairs of different words, and a matrix that is not all zeros",
        )
    rank = int(np.count_nonzero(squares > NOTHING * squares[0]))
    return Leading(squares, vectors, 1 if only_first else min(smallest_k(squares, share), rank))


def directions(differences: torch.Tensor, found: Leading) -> torch.Tensor:
    """The leading right singular vectors of the differences, in columns: (dimensions, k)."""
    scaled = found.vectors[:, : found.k] / np.sqrt(found.squares[: found.k])
    return differences.T @ torch.as_tensor(scaled, dtype=differences.dtype, device=differences.device)


class LeadingInverse(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """sum_{j<=k} u_j u_j' / sigma_j^2 of a Gram matrix K: with it the projector on the leading directions is C' (.) C.

    As a function of K it is g(K) with g(x) = 1/x on the leading eigenvalues and 0 on the others, and its derivative is
    U (D * (U' dK U)) U' with the divided differences D of g (Daleckii and Krein). Between two leading eigenvalues
    D = -1/(x y), between a leading x and another y it is 1/(x (x - y)): unlike a derivative through the singular
    vectors it is finite when leading values coincide, and breaks down only when k itself is about to change.
    """

    @staticmethod
    def forward(ctx: Any, gram: torch.Tensor, found: Leading) -> torch.Tensor:
        """The matrix, on the device and in the precision of the Gram matrix."""
        squares, vectors, k = found
        ctx.decomposed = found
        inverse = vectors[:, :k] / squares[:k] @ vectors[:, :k].T
        return torch.as_tensor(inverse, dtype=gram.dtype, device=gram.device)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The derivative above, applied to the gradient."""
        basis = torch.as_tensor(ctx.decomposed.vectors.copy(), dtype=gradient.dtype, device=gradient.device)
        divided = torch.as_tensor(_divided(ctx.decomposed), dtype=gradient.dtype, device=gradient.device)
        symmetric = (gradient + gradient.T) / 2
        return basis @ (divided * (basis.T @ symmetric @ basis)) @ basis.T, None


def _divided(found: Leading) -> Matrix64:
    squares, _, k = found
    table = np.zeros((len(squares), len(squares)))
    table[:k, :k] = -1 / np.multiply.outer(squares[:k], squares[:k])
    gap = np.subtract.outer(squares[:k], squares[k:])
    table[:k, k:] = 1 / (squares[:k, None] * np.maximum(gap, NOTHING * squares[0]))
    table[k:, :k] = table[:k, k:].T
    return table
