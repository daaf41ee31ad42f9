"""The leading directions of a few difference vectors, from their small Gram matrix.

C has one row for each pair of words and a few hundred columns. The right singular vectors of C are C'u / sigma, with u
the eigenvectors of C C', which is no larger than the number of pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError

if TYPE_CHECKING:
    from torch.autograd.function import FunctionCtx

ROUNDING = 1e-12  # tolerance of a cumulative share
NEGLIGIBLE = 1e-12  # relative to the largest squared singular value; smaller ones are rounding error


class LeadingDirections(NamedTuple):
    """Squared singular values in descending order, eigenvectors in columns, and the number of leading ones."""

    squares: Vector64
    vectors: Matrix64
    k: int


def smallest_k(squares: Vector64, share: float) -> int:
    """Return the number of largest squared singular values that reach a share of their sum."""
    cumulative = np.cumsum(squares) / squares.sum()
    return int(np.searchsorted(cumulative, share - ROUNDING)) + 1


class HostCopy:
    """An asynchronous copy of a small matrix from the device to the host; started early, it is there when needed."""

    def __init__(self, matrix: torch.Tensor) -> None:
        on_gpu = matrix.is_cuda
        self._host = torch.empty(matrix.shape, dtype=matrix.dtype, pin_memory=on_gpu)
        self._host.copy_(matrix.detach(), non_blocking=True)
        self._event = torch.cuda.Event() if on_gpu else None
        if self._event is not None:
            self._event.record()

    def wait(self) -> Matrix64:
        """Return the matrix in double precision; waits for the copy, not for later work of the device."""
        if self._event is not None:
            self._event.synchronize()
        return np.asarray(self._host.double().numpy())


def decompose(gram: HostCopy, share: float, *, only_first: bool = False) -> LeadingDirections | None:
    """Return the leading directions of a Gram matrix, computed in double precision on the host; None if it holds NaN.

    torch would wait for the device in `eigh` and `svd`; a copy that was started before the model's own work does not.
    """
    table = gram.wait()
    if not np.isfinite(table).all():
        return None
    squares, vectors = np.linalg.eigh(table)
    squares, vectors = squares[::-1].clip(0), vectors[:, ::-1]
    if not squares[0] > 0:
        raise DegenerateError(
            "the two words of every pair have the same row, so the pairs span no subspace",
            hint="use pairs of different words and a matrix that is not all zeros",
        )
    rank = int(np.count_nonzero(squares > NEGLIGIBLE * squares[0]))
    return LeadingDirections(squares, vectors, 1 if only_first else min(smallest_k(squares, share), rank))


def directions(differences: torch.Tensor, leading: LeadingDirections) -> torch.Tensor:
    """Return the leading right singular vectors of the differences in columns, (dimensions, k)."""
    scaled = leading.vectors[:, : leading.k] / np.sqrt(leading.squares[: leading.k])
    return differences.T @ torch.as_tensor(scaled, dtype=differences.dtype, device=differences.device)


class LeadingInverse(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """sum_{j<=k} u_j u_j' / sigma_j^2 of a Gram matrix K; the projector on the leading directions is C' (.) C.

    As a function of K it is g(K) with g(x) = 1/x on the leading eigenvalues and 0 on the others, and its derivative is
    U (D * (U' dK U)) U' with the divided differences D of g (Daleckii and Krein). Between two leading eigenvalues
    D = -1/(x y), between a leading x and another y it is 1/(x (x - y)). Unlike a derivative through the singular
    vectors, it is finite when leading values coincide; it diverges only where k itself changes.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, gram: torch.Tensor, leading: LeadingDirections) -> torch.Tensor:
        """Return the matrix on the device and in the precision of the Gram matrix."""
        squares, vectors, k = leading
        ctx.leading = leading
        inverse = vectors[:, :k] / squares[:k] @ vectors[:, :k].T
        return torch.as_tensor(inverse, dtype=gram.dtype, device=gram.device)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: FunctionCtx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Apply the derivative to the gradient."""
        basis = torch.as_tensor(ctx.leading.vectors.copy(), dtype=gradient.dtype, device=gradient.device)
        divided = torch.as_tensor(_divided_differences(ctx.leading), dtype=gradient.dtype, device=gradient.device)
        symmetric = (gradient + gradient.T) / 2
        return basis @ (divided * (basis.T @ symmetric @ basis)) @ basis.T, None


def _divided_differences(leading: LeadingDirections) -> Matrix64:
    squares, _, k = leading
    table = np.zeros((len(squares), len(squares)))
    table[:k, :k] = -1 / np.multiply.outer(squares[:k], squares[:k])
    gap = np.subtract.outer(squares[:k], squares[k:])
    table[:k, k:] = 1 / (squares[:k, None] * np.maximum(gap, NEGLIGIBLE * squares[0]))
    table[k:, :k] = table[:k, k:].T
    return table
