"""What depends on one word only, or on the words of one phrase only."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.arrays import Matrix
from evenhand.models.nli.backend import Array
from evenhand.models.nli.forward import Placed, apply, softmax


@dataclass(frozen=True)
class Words:
    """For each word: its attend vector, and the two halves of compare's first matrix applied to it."""

    attend: Array
    own: Array  # the half for the token itself, with the bias
    other: Array  # the half for what it is aligned with


def words(placed: Placed, vectors: Matrix) -> Words:
    """The three tables for the words of a probe."""
    x = placed.backend.put(vectors) @ placed.project
    matrix, bias = placed.compare[0]
    return Words(apply(placed.attend, x), x @ matrix[: placed.hidden] + bias, x @ matrix[placed.hidden :])


@dataclass(frozen=True)
class Attending:
    """Tokens that attend to a phrase: (phrases, tokens, hidden) mixtures, own halves added to them, (…) log sums."""

    mixture: Array
    with_own: Array
    log_sum: Array


def attending(placed: Placed, table: Words, queries: Array, phrase: Array) -> Attending:
    """How `queries` (tokens, or phrases x tokens) attend to the tokens of each phrase."""
    xp = placed.xp
    logits = table.attend[queries] @ table.attend[phrase].swapaxes(1, 2)
    top = xp.amax(logits, axis=-1)
    log_sum = top + xp.log(xp.exp(logits - top[..., None]).sum(axis=-1))
    mixture = softmax(logits, xp) @ table.other[phrase]
    return Attending(mixture, mixture + table.own[queries], log_sum)
