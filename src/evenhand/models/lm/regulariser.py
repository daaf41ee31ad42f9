"""A loss term that penalises words along the directions in which pairs of words differ (Bordia & Bowman 2019).

The directions are the right singular vectors of the matrix C of differences. C has one row for each pair of words and a
few hundred columns, so they are computed as C'u / sigma, with u the eigenvectors of the small Gram matrix C C'.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from evenhand import words
from evenhand.arrays import Matrix64, Vector64
from evenhand.errors import DegenerateError, FormatError, UsageError, VocabularyError
from evenhand.models.tokenizing import encode_one

if TYPE_CHECKING:
    from torch.autograd.function import FunctionCtx
    from transformers import PreTrainedTokenizerBase


PenaltyReduction = Literal["sum", "mean"]
RegulariserVariant = Literal["paper", "released"]


class BiasRegulariser(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """strength * ||N B||_F^2: the energy of a table's rows in the subspace of the pairs' differences.

    The rows of C are (u_i - v_i) / 2 for the pairs (u_i, v_i) of rows of the table. B has the first k right singular
    vectors of C, with the smallest k whose squared singular values are at least `share` of their sum. N has all rows of
    the table except those of the pairs and of `exempt`. Everything is recomputed from the table at each call (Bordia &
    Bowman 2019).

    Limits: the term changes embeddings in k directions only. A small term does not imply that words no longer cluster
    by gender, nor that generated text is less biased; measure both.

    Args:
        pairs: pairs of rows.
        strength: lambda of the paper. With `sum`, its effect grows with the vocabulary.
        share: minimum share of the squared singular values that the subspace holds.
        normalise: scale rows to length 1 first, as the released code does; the term is then a sum of squared cosines.
        reduction: `sum` over the rows of N (paper), or `mean`, independent of vocabulary size.
        detach: treat the subspace as a constant; False differentiates through it, as the released code does.
        variant: `released` uses the first direction only, whatever its share, due to a slip in the released code.
        exempt: further rows that are not penalised.

    Attributes:
        lost: pairs of words that are not in the vocabulary, if the module was made from words.
        k: number of directions of the subspace at the last call.
    """

    first: Tensor
    second: Tensor
    spared: Tensor

    def __init__(
        self,
        pairs: Iterable[tuple[int, int]],
        *,
        strength: float = 1.0,
        share: float = 0.5,
        normalise: bool = False,
        reduction: PenaltyReduction = "sum",
        detach: bool = True,
        variant: RegulariserVariant = "paper",
        exempt: Iterable[int] = (),
    ) -> None:
        super().__init__()
        rows = [(int(one), int(other)) for one, other in pairs]
        _check(rows, strength, share, reduction, variant)
        spared = sorted({row for pair in rows for row in pair} | {int(row) for row in exempt})
        # Not persistent: the checkpoint of a model that holds this module stays that of the model.
        for name, values in (("first", [a for a, _ in rows]), ("second", [b for _, b in rows]), ("spared", spared)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.long), persistent=False)
        self.strength, self.share, self.normalise, self.detach = float(strength), share, normalise, detach
        self.reduction, self.variant = reduction, variant
        self._last = spared[-1]  # stored, because reading a tensor on a device waits for it
        self._pending: tuple[int, int, HostCopy] | None = None
        self.lost: tuple[tuple[str, str], ...] = ()
        self.k = 0

    @classmethod
    def from_words(cls, pairs: Iterable[tuple[str, str]], index: Mapping[str, int], **options: Any) -> BiasRegulariser:
        """Return the module for pairs of words and the row of each word.

        A word whose partner has no row is not penalised either.

        Args:
            pairs: pairs of words.
            index: the row of each word.
            **options: arguments of `BiasRegulariser`.
        """
        word_pairs = list(pairs)
        rows = [(index[one], index[other]) for one, other in word_pairs if one in index and other in index]
        if not rows:
            shown = ", ".join("-".join(pair) for pair in word_pairs[:4])
            raise VocabularyError(
                f"none of the {len(word_pairs)} pairs is in the vocabulary ({shown})",
                hint="check the spelling and the case of the pairs against the vocabulary",
            )
        exempt = {index[word] for pair in word_pairs for word in pair if word in index}
        regulariser = cls(rows, **{**options, "exempt": exempt | set(options.get("exempt", ()))})
        regulariser.lost = tuple(pair for pair in word_pairs if pair[0] not in index or pair[1] not in index)
        return regulariser

    def forward(self, weight: Tensor) -> Tensor:
        """Return the term for a table (rows, dimensions)."""
        return self.strength * self.energy(weight)

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def expect(self, weight: Tensor) -> None:
        """Start copying what the subspace is computed from to the host, at the beginning of a training step.

        Optional: a GPU then does not pause when the term is computed. The result is the same.
        """
        self._check_table(weight)
        with torch.autocast(weight.device.type, enabled=False):
            differences = self._differences(_exact(weight))
            self._pending = id(weight), weight._version, HostCopy(differences @ differences.T)

    def energy(self, weight: Tensor) -> Tensor:
        """Return the term without its strength: ||N B||_F^2, or its mean over the rows of N."""
        self._check_table(weight)
        pending, self._pending = self._pending, None
        gram = pending[2] if pending and pending[:2] == (id(weight), weight._version) else None
        # In half precision, the sum of many small squares would be rounded away.
        with torch.autocast(weight.device.type, enabled=False):
            total = self._row_energies(_exact(weight), gram).index_fill(0, self.spared, 0.0).sum()
        return total / (len(weight) - len(self.spared)) if self.reduction == "mean" else total

    def on(self, where: Where = "input") -> EmbeddingTerm:
        """Return the term as a function of a model: of its input or output embeddings, or both.

        If the model uses one matrix for both, all three are the same, and the matrix counts once.
        """
        return EmbeddingTerm(self, where)

    def extra_repr(self) -> str:
        """Return the parameters as records show them."""
        choices = f"share={self.share:g}, normalise={self.normalise}, reduction={self.reduction}, detach={self.detach}"
        return f"pairs={len(self.first)}, strength={self.strength:g}, {choices}, variant={self.variant}"

    def _row_energies(self, table: Tensor, gram: HostCopy | None) -> Tensor:
        """Return the squared length of each row's projection on the subspace."""
        squares = (self._project_constant if self.detach else self._project)(table, gram)
        return squares / _lengths(table).square() if self.normalise else squares

    def _project_constant(self, table: Tensor, gram: HostCopy | None) -> Tensor:
        with torch.no_grad():
            differences = self._differences(table)
            leading = self._decompose(gram or HostCopy(differences @ differences.T))
            basis = directions(differences, leading) if leading else table.new_full((table.shape[1], 1), math.nan)
        return (table @ basis).square().sum(dim=1)

    def _project(self, table: Tensor, gram: HostCopy | None) -> Tensor:
        differences = self._differences(table)
        products = differences @ differences.T
        along = table @ differences.T
        leading = self._decompose(gram or HostCopy(products))
        inverse = LeadingInverse.apply(products, leading) if leading else products * math.nan
        return ((along @ inverse) * along).sum(dim=1)

    def _differences(self, table: Tensor) -> Tensor:
        one, other = table[self.first], table[self.second]
        if self.normalise:
            one, other = one / _lengths(one)[:, None], other / _lengths(other)[:, None]
        return (one - other) / 2

    def _decompose(self, gram: HostCopy) -> LeadingDirections | None:
        leading = decompose(gram, self.share, only_first=self.variant == "released")
        self.k = leading.k if leading else 0
        return leading

    def _check_table(self, weight: Tensor) -> None:
        """Raise an error for a table that does not fit the pairs; move the rows to its device."""
        if weight.ndim != 2:
            raise UsageError(f"a table of embeddings must have rows and columns, got the shape {tuple(weight.shape)}")
        if self._last >= len(weight):
            raise UsageError(
                f"row {self._last} is beyond the table, which has {len(weight):,} rows",
                hint="make the regulariser with the vocabulary of the table",
            )
        self.to(weight.device)


class EmbeddingTerm:
    """A regulariser bound to a place in a model; call it with the model. `description` is its text in records."""

    def __init__(self, regulariser: BiasRegulariser, where: Where) -> None:
        self.regulariser, self.where = regulariser, check_where(where)
        rows = hashlib.sha256(str((regulariser.first.tolist(), regulariser.second.tolist())).encode()).hexdigest()
        self.description = f"BiasRegulariser({regulariser.extra_repr()}, where={where}, rows={rows[:8]})"

    def expect(self, model: nn.Module) -> None:
        """Call `BiasRegulariser.expect` if there is one table."""
        tables = distinct_weights(model, self.where)
        if len(tables) == 1:
            self.regulariser.expect(tables[0])

    def __call__(self, model: nn.Module) -> Tensor:
        """Return the sum over the tables, each counted once."""
        terms = [self.regulariser(weight) for weight in distinct_weights(model, self.where)]
        return terms[0] if len(terms) == 1 else torch.stack(terms).sum()


def regularised(
    loss: Callable[..., Tensor], term: Callable[[nn.Module], Tensor], model: nn.Module
) -> Callable[..., Tensor]:
    """Return a loss function with the term of a model added, for your own training loop.

    If gradients of several batches are accumulated, divide the result by their number, as you do with the loss.
    """
    return lambda *args, **kwargs: loss(*args, **kwargs) + term(model)


def _exact(weight: Tensor) -> Tensor:
    return weight if weight.dtype in (torch.float32, torch.float64) else weight.float()


def _lengths(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows, dim=1).clamp_min(1e-12)


def _check(rows: list[tuple[int, int]], strength: float, share: float, reduction: str, variant: str) -> None:
    if not rows:
        raise UsageError("a regulariser needs at least one pair of rows")
    same = next((pair for pair in rows if pair[0] == pair[1]), None)
    if same or min(min(pair) for pair in rows) < 0:
        raise UsageError(f"{same or min(rows)} is not a pair of two rows", hint="rows are numbered from 0")
    if not (math.isfinite(strength) and strength >= 0):
        raise UsageError(f"strength must be at least 0, got {strength}", hint="the paper uses 0 to 1")
    if not 0 < share <= 1:
        raise UsageError(f"share must be above 0 and at most 1, got {share}", hint="the paper uses 0.5")
    for value, option, choices in (
        (reduction, "reduction", PenaltyReduction),
        (variant, "variant", RegulariserVariant),
    ):
        if value not in get_args(choices):
            raise UsageError(f"unknown {option} {value!r}", hint=f"use {' or '.join(get_args(choices))}")


Where = Literal["input", "output", "both"]


def distinct_weights(model: nn.Module, where: Where = "both") -> list[Tensor]:
    """Return the tables that `where` names, each once: a model whose input and output share a matrix has one."""
    check_where(where)
    weights: list[Tensor] = []
    for side in ("input", "output") if where == "both" else (where,):
        weight = _weight(model, side)
        if not any(same(weight, other) for other in weights):
            weights.append(weight)
    return weights


def check_where(where: Where) -> Where:
    """Return the place, or raise an error that names the valid ones."""
    if where not in get_args(Where):
        raise UsageError(f"unknown place {where!r}", hint="use input, output or both")
    return where


def tied(model: nn.Module) -> bool:
    """Return whether input and output embeddings are one matrix."""
    return len(distinct_weights(model)) == 1


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are views of the same numbers."""
    return one is other or (one.shape == other.shape and one.data_ptr() == other.data_ptr() and one.numel() > 0)


def _weight(model: nn.Module, side: str) -> Tensor:
    """Return a table by the methods of `transformers`, or by the names `encoder` and `decoder` of word-level models."""
    method = getattr(model, f"get_{side}_embeddings", None)
    layer = method() if callable(method) else getattr(model, {"input": "encoder", "output": "decoder"}[side], None)
    weight: Tensor | None = getattr(layer, "weight", None)
    if weight is None or weight.ndim != 2:
        raise FormatError(
            f"a {type(model).__name__} has no matrix of {side} embeddings",
            hint="call the regulariser on the matrix itself: BiasRegulariser(...)(matrix)",
        )
    return weight


FORMS = ("{}", " {}")  # at the beginning of a text and within it


@dataclass(frozen=True)
class TokenPairs:
    """Pairs of rows, rows of all words that are single tokens, and the pairs of words without a pair of rows."""

    pairs: tuple[tuple[int, int], ...]
    alone: frozenset[int]
    lost: tuple[tuple[str, str], ...]


def token_pairs(pairs: str | Path | Iterable[tuple[str, str]], tokenizer: PreTrainedTokenizerBase | None) -> TokenPairs:
    """Return the rows of pairs whose words are single tokens, both with a space before them or both without.

    A word of several tokens has no row of its own, so its pair cannot be used; its pieces belong to other words too.
    """
    if tokenizer is None:
        raise UsageError("without a tokenizer, the rows of words are unknown", hint="give tokenizer=")
    word_pairs = [(one, other) for one, other in (words.pairs(pairs) if isinstance(pairs, str | Path) else pairs)]
    row_pairs: dict[tuple[int, int], None] = {}
    single: set[int] = set()
    lost = []
    for pair in word_pairs:
        rows = [tuple(_row(form.format(word), tokenizer) for word in pair) for form in FORMS]
        complete = [(one, other) for one, other in rows if one is not None and other is not None]
        row_pairs |= dict.fromkeys(complete)
        single |= {row for both in rows for row in both if row is not None}
        if not complete:
            lost.append(pair)
    if not row_pairs:
        raise VocabularyError(
            f"none of the {len(word_pairs)} pairs has two words that are single tokens",
            hint="use pairs of more frequent words, or the model's own tokenizer",
        )
    return TokenPairs(tuple(row_pairs), frozenset(single), tuple(lost))


def _row(text: str, tokenizer: PreTrainedTokenizerBase) -> int | None:
    ids = encode_one(tokenizer, text)
    return int(ids[0]) if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None


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
