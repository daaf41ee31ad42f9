"""A term for a loss that keeps words off the directions in which pairs of words differ (Bordia & Bowman 2019)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from evenhand import words
from evenhand.errors import FormatError, UsageError, VocabularyError
from evenhand.models.lm.spectrum import Copy, Leading, LeadingInverse, directions, leading

Reduction = Literal["sum", "mean"]
Variant = Literal["paper", "released"]


class BiasRegulariser(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """strength * ||N B||_F^2: how far the rows of a table reach into the subspace of the pairs' differences.

    The rows of C are (u_i - v_i) / 2 for the pairs (u_i, v_i) of rows of the table. B has the first k right singular
    vectors of C, with the smallest k whose squared singular values are at least `share` of their sum. N has all rows of
    the table but those of the pairs and of `exempt`. Everything is computed anew from the table at each call (Bordia &
    Bowman 2019).

    What it does not tell you: the term moves embeddings in k directions only. That it falls does not say that words no
    longer cluster by gender, nor that generated text is less biased: measure that.

    Args:
        pairs: pairs of rows.
        strength: lambda of the paper. With the sum it works the harder the larger the vocabulary is.
        share: of the squared singular values that the subspace holds at least.
        normalise: bring rows to length 1 first, as the released code does: the term is then a sum of squared cosines.
        reduction: `sum` over the rows of N (paper), or `mean`, whose strength does not hang on the vocabulary.
        detach: take the subspace as a constant; False differentiates through it too, as the released code does.
        variant: `released` takes the first direction only, whatever its share, as a slip in the released code does.
        exempt: further rows that the term leaves alone.

    Attributes:
        lost: pairs of words that are not in the vocabulary, where the module was made from words.
        k: directions of the subspace at the last call.
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
        reduction: Reduction = "sum",
        detach: bool = True,
        variant: Variant = "paper",
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
        self._last = spared[-1]  # kept here, since asking a tensor on a device means waiting for it
        self._coming: tuple[int, int, Copy] | None = None
        self.lost: tuple[tuple[str, str], ...] = ()
        self.k = 0

    @classmethod
    def from_words(cls, pairs: Iterable[tuple[str, str]], index: Mapping[str, int], **options: Any) -> BiasRegulariser:
        """For pairs of words and the row of each word; a word whose partner has no row is spared all the same."""
        given = list(pairs)
        found = [(index[one], index[other]) for one, other in given if one in index and other in index]
        if not found:
            raise VocabularyError(
                f"none of the {len(given)} pairs is in the vocabulary ({', '.join('-'.join(p) for p in given[:4])})",
                hint="check the spelling and the case of the pairs against the vocabulary",
            )
        alone = {index[word] for pair in given for word in pair if word in index}
        made = cls(found, **{**options, "exempt": alone | set(options.get("exempt", ()))})
        made.lost = tuple(pair for pair in given if pair[0] not in index or pair[1] not in index)
        return made

    def forward(self, weight: Tensor) -> Tensor:
        """The term for a table (rows, dimensions)."""
        return self.strength * self.energy(weight)

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def expect(self, weight: Tensor) -> None:
        """Optional, at the beginning of a training step: a GPU then need not pause when the term itself is asked for.

        What the subspace is computed from is sent to the processor while the model works. The result is the same.
        """
        self._follow(weight)
        with torch.autocast(weight.device.type, enabled=False):
            differences = self._differences(_exact(weight))
            self._coming = id(weight), weight._version, Copy(differences @ differences.T)

    def energy(self, weight: Tensor) -> Tensor:
        """The term without its strength: ||N B||_F^2, or its mean over the rows of N."""
        self._follow(weight)
        coming, self._coming = self._coming, None
        expected = coming[2] if coming and coming[:2] == (id(weight), weight._version) else None
        # In half precision the sum of many small squares would be rounded away.
        with torch.autocast(weight.device.type, enabled=False):
            kept = self._by_row(_exact(weight), expected).index_fill(0, self.spared, 0.0).sum()
        return kept / (len(weight) - len(self.spared)) if self.reduction == "mean" else kept

    def on(self, where: Where = "input") -> EmbeddingTerm:
        """The term as a function of a model: of its input or output embeddings, or both.

        Where the model uses one matrix for both, the three are the same and the matrix is counted once.
        """
        return EmbeddingTerm(self, where)

    def extra_repr(self) -> str:
        """The choices, as they stand in records."""
        choices = f"share={self.share:g}, normalise={self.normalise}, reduction={self.reduction}, detach={self.detach}"
        return f"pairs={len(self.first)}, strength={self.strength:g}, {choices}, variant={self.variant}"

    def _by_row(self, table: Tensor, expected: Copy | None) -> Tensor:
        """The squared length of each row's projection on the subspace."""
        squares = (self._onto_constant if self.detach else self._onto)(table, expected)
        return squares / _lengths(table).square() if self.normalise else squares

    def _onto_constant(self, table: Tensor, expected: Copy | None) -> Tensor:
        with torch.no_grad():
            differences = self._differences(table)
            found = self._leading(expected or Copy(differences @ differences.T))
            basis = directions(differences, found) if found else table.new_full((table.shape[1], 1), math.nan)
        return (table @ basis).square().sum(dim=1)

    def _onto(self, table: Tensor, expected: Copy | None) -> Tensor:
        differences = self._differences(table)
        gram = differences @ differences.T
        along = table @ differences.T
        found = self._leading(expected or Copy(gram))
        inverse = LeadingInverse.apply(gram, found) if found else gram * math.nan
        return ((along @ inverse) * along).sum(dim=1)

    def _differences(self, table: Tensor) -> Tensor:
        one, other = table[self.first], table[self.second]
        if self.normalise:
            one, other = one / _lengths(one)[:, None], other / _lengths(other)[:, None]
        return (one - other) / 2

    def _leading(self, gram: Copy) -> Leading | None:
        found = leading(gram, self.share, only_first=self.variant == "released")
        self.k = found.k if found else 0
        return found

    def _follow(self, weight: Tensor) -> None:
        if weight.ndim != 2:
            raise UsageError(f"a table of embeddings has rows and columns, got the shape {tuple(weight.shape)}")
        if self._last >= len(weight):
            raise UsageError(
                f"row {self._last} is beyond the table, which has {len(weight):,} rows",
                hint="make the regulariser with the vocabulary that the table belongs to",
            )
        if self.first.device != weight.device:
            self.to(weight.device)


class EmbeddingTerm:
    """A regulariser bound to a place in a model: call it with the model; `description` tells it in records."""

    def __init__(self, regulariser: BiasRegulariser, where: Where) -> None:
        self.regulariser, self.where = regulariser, checked(where)
        rows = hashlib.sha256(str((regulariser.first.tolist(), regulariser.second.tolist())).encode()).hexdigest()
        self.description = f"BiasRegulariser({regulariser.extra_repr()}, where={where}, rows={rows[:8]})"

    def expect(self, model: nn.Module) -> None:
        """As `BiasRegulariser.expect`, where there is one table."""
        tables = distinct_weights(model, self.where)
        if len(tables) == 1:
            self.regulariser.expect(tables[0])

    def __call__(self, model: nn.Module) -> Tensor:
        """The sum over the tables, each once."""
        terms = [self.regulariser(weight) for weight in distinct_weights(model, self.where)]
        return terms[0] if len(terms) == 1 else torch.stack(terms).sum()


def regularised(
    loss: Callable[..., Tensor], term: Callable[[nn.Module], Tensor], model: nn.Module
) -> Callable[..., Tensor]:
    """The same loss function with the term of a model added, for a training loop of your own.

    Where gradients of several batches are accumulated, divide the result by their number as you do with the loss.
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
        raise UsageError(f"{same or min(rows)} is no pair of two rows", hint="rows are counted from 0")
    if not (math.isfinite(strength) and strength >= 0):
        raise UsageError(f"strength is a number of at least 0, got {strength}", hint="the paper goes from 0 to 1")
    if not 0 < share <= 1:
        raise UsageError(f"share lies above 0 and up to 1, got {share}", hint="the paper has 0.5")
    for given, what, known in ((reduction, "reduction", Reduction), (variant, "variant", Variant)):
        if given not in get_args(known):
            raise UsageError(f"unknown {what} {given!r}", hint=f"use {' or '.join(get_args(known))}")


Where = Literal["input", "output", "both"]


def distinct_weights(model: Any, where: Where = "both") -> list[Any]:
    """The tables that `where` names, each once: a model whose input and output share a matrix has one."""
    checked(where)
    found: list[Any] = []
    for place in ("input", "output") if where == "both" else (where,):
        weight = _weight(model, place)
        if not any(same(weight, other) for other in found):
            found.append(weight)
    return found


def checked(where: Where) -> Where:
    """The place itself, or an error with the known ones."""
    if where not in get_args(Where):
        raise UsageError(f"unknown place {where!r}", hint="use input, output or both")
    return where


def tied(model: Any) -> bool:
    """Whether input and output embeddings are one matrix."""
    return len(distinct_weights(model)) == 1


def same(one: Any, other: Any) -> bool:
    """Whether two tensors are views of the same numbers."""
    return one is other or (one.shape == other.shape and one.data_ptr() == other.data_ptr() and one.numel() > 0)


def _weight(model: Any, place: str) -> Any:
    """By the methods of `transformers`, or the names `encoder` and `decoder` that word-level models use."""
    asked = getattr(model, f"get_{place}_embeddings", None)
    layer = asked() if callable(asked) else getattr(model, {"input": "encoder", "output": "decoder"}[place], None)
    weight = getattr(layer, "weight", None)
    if weight is None or weight.ndim != 2:
        raise FormatError(
            f"a {type(model).__name__} has no matrix of {place} embeddings",
            hint="call the regulariser on the matrix itself: BiasRegulariser(...)(matrix)",
        )
    return weight


FORMS = ("{}", " {}")  # at the beginning of a text, and inside it


@dataclass(frozen=True)
class TokenPairs:
    """Pairs of rows, rows of words whose partner is more than one token, and the pairs of words that have no rows."""

    pairs: tuple[tuple[int, int], ...]
    alone: frozenset[int]
    lost: tuple[tuple[str, str], ...]


def token_pairs(pairs: str | Path | Iterable[tuple[str, str]], tokenizer: Any) -> TokenPairs:
    """The rows of pairs whose words are single tokens, both with a blank before them or both without.

    A word of several tokens has no row of its own, so that its pair cannot be used; its pieces belong to other words.
    """
    if tokenizer is None:
        raise UsageError("without a tokenizer the rows of words are not known", hint="give tokenizer=")
    given = [(one, other) for one, other in (words.pairs(pairs) if isinstance(pairs, str | Path) else pairs)]
    found: dict[tuple[int, int], None] = {}
    single: set[int] = set()
    lost = []
    for pair in given:
        rows = [tuple(_row(form.format(word), tokenizer) for word in pair) for form in FORMS]
        whole = [(one, other) for one, other in rows if one is not None and other is not None]
        found |= dict.fromkeys(whole)
        single |= {row for both in rows for row in both if row is not None}
        if not whole:
            lost.append(pair)
    if not found:
        raise VocabularyError(
            f"none of the {len(given)} pairs has two words that are single tokens",
            hint="use pairs of more frequent words, or the tokenizer that belongs to the model",
        )
    return TokenPairs(tuple(found), frozenset(single), tuple(lost))


def _row(text: str, tokenizer: Any) -> int | None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return int(ids[0]) if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None
