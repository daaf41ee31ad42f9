"""The pairs of one block: a few phrases, some premise subjects, some hypothesis subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenhand.arrays import Matrix
from evenhand.models.nli.backend import Array
from evenhand.models.nli.decomposable_network import Placed, apply, softmax


@dataclass(frozen=True)
class Side:
    """The subjects of one side inside the block's phrases, and the other sentence's shared rows that saw them."""

    tokens: Array  # (fillers, tokens of each)
    subject: Attending  # fillers and their tokens flattened
    shared: Array  # (phrases, fillers, hidden): behind its half of aggregate's first matrix


class Kernel:
    """The formulas, with the constants that they fold the biases into.

    max(0, x + b) = max(x, -b) + b, and what follows is linear: the bias is added once at the end instead of to every
    row. Every step writes into the array of the step before, which keeps a block inside the cache.
    """

    def __init__(self, placed: Placed, table: Words) -> None:
        self.placed, self.table, self.xp = placed, table, placed.xp
        self.zero = placed.backend.put([0.0])
        (_, _), (self.compare, bias) = placed.compare
        (first, self.first_bias), (self.second, second_bias) = placed.aggregate
        matrix, output_bias = placed.output
        self.compare_floor, self.compare_bias = -bias, bias
        self.first = first
        self.halves = first[: placed.hidden], first[placed.hidden :]
        self.second_floor = -second_bias
        self.output, self.output_bias = matrix, second_bias @ matrix + output_bias

    def side(self, phrase: Array, tokens: Array, *, premise: bool) -> Side:
        """What a block of phrases and one side's subjects give, without the other side."""
        flat = tokens.reshape(-1)
        subject = attending(self.placed, self.table, flat, phrase)
        seen = self._seen_by_shared(phrase, tokens)
        # The shared rows that saw this side's subjects stand in the other sentence.
        rows = phrase.shape[1] + tokens.shape[1]
        here, there = self.halves if premise else self.halves[::-1]
        constant = (rows * self.compare_bias) @ here
        shared = seen @ there + (constant + self.first_bias if premise else constant)
        return Side(tokens, subject, shared)

    def _seen_by_shared(self, phrase: Array, tokens: Array) -> Array:
        """Sum over the shared tokens of their compared rows, each attending to its own phrase and one subject."""
        shared = attending(self.placed, self.table, phrase, phrase)
        logits = self.table.attend[phrase] @ self.table.attend[tokens.reshape(-1)].T
        logits = logits.reshape(*phrase.shape, *tokens.shape)
        rows = self.placed.backend.empty((*phrase.shape, len(tokens), self.placed.hidden))
        self._mix(rows, _spread(shared, 2), logits, self.table.other[tokens][None, None])
        return self._compared(rows).sum(axis=1)

    def _mix(self, rows: Array, base: Attending, logits: Array, others: Array) -> None:
        """Rows = own + mixture of the phrase and of the further tokens, whose logits and vectors have a last axis more.

        With the phrase's log sum L and shares s_k = exp(e_k - L) / (1 + sum exp(e - L)) the row is
        own + mixture + sum_k s_k (other_k - mixture). The largest exponent is taken out first, as in any softmax.
        """
        xp = self.xp
        raised = logits - base.log_sum[..., None]
        top = xp.amax(raised, axis=-1, keepdims=True).clip(0, None)
        grown = xp.exp(raised - top)
        shares = grown / (xp.exp(-top) + grown.sum(axis=-1, keepdims=True))
        xp.subtract(others[..., 0, :], base.mixture, out=rows)
        xp.multiply(rows, shares[..., 0, None], out=rows)
        xp.add(rows, base.with_own, out=rows)
        for k in range(1, shares.shape[-1]):
            rows += (others[..., k, :] - base.mixture) * shares[..., k, None]
        xp.maximum(rows, self.zero, out=rows)

    def _compared(self, rows: Array) -> Array:
        """The second layer of compare, its bias left out; `rows` are contiguous."""
        out = self.placed.backend.empty(tuple(rows.shape))
        flat = out.reshape(-1, self.placed.hidden)
        self.xp.matmul(rows.reshape(-1, self.placed.hidden), self.compare, out=flat)
        self.xp.maximum(flat, self.compare_floor, out=flat)
        return out

    def pairs(self, premise: Side, hypothesis: Side, some: slice) -> Array:
        """Probabilities of (phrases, some premise subjects, hypothesis subjects, labels)."""
        xp = self.xp
        a, b = premise.tokens[some], hypothesis.tokens
        rows = self._subject_rows(premise, hypothesis, some)
        compared = self._compared(rows)
        if rows.shape[3] == 2:
            both = compared.reshape(-1, 2 * self.placed.hidden)
        else:
            k = a.shape[1]
            parts = [compared[..., :k, :].sum(axis=3), compared[..., k:, :].sum(axis=3)]
            both = xp.concatenate(parts, -1).reshape(-1, 2 * self.placed.hidden)
        top = xp.matmul(both, self.first).reshape(-1, len(a), len(b), self.placed.hidden)
        xp.add(top, premise.shared[:, some, None], out=top)
        xp.add(top, hypothesis.shared[:, None], out=top)
        xp.maximum(top, self.zero, out=top)
        last = xp.matmul(top.reshape(-1, self.placed.hidden), self.second)
        xp.maximum(last, self.second_floor, out=last)
        answers = softmax(last @ self.output + self.output_bias, xp)
        return answers.reshape(-1, len(a), len(b), answers.shape[-1])

    def _subject_rows(self, premise: Side, hypothesis: Side, some: slice) -> Array:
        """First-layer rows of every subject token of every pair: (phrases, premises, hypotheses, tokens, hidden)."""
        a, b = premise.tokens[some], hypothesis.tokens
        phrases, width = premise.shared.shape[0], a.shape[1] + b.shape[1]
        rows = self.placed.backend.empty((phrases, len(a), len(b), width, self.placed.hidden))
        attend, other = self.table.attend, self.table.other
        scores = (attend[a.reshape(-1)] @ attend[b.reshape(-1)].T).reshape(*a.shape, *b.shape)
        for k in range(a.shape[1]):
            base = _spread(_token(premise.subject, premise.tokens.shape, k, some), 2)
            self._mix(rows[..., k, :], base, scores[None, :, k], other[b][None, None])
        turned = scores.swapaxes(1, 2)  # (premises, hypotheses, tokens of a, tokens of b)
        for k in range(b.shape[1]):
            base = _spread(_token(hypothesis.subject, b.shape, k, slice(None)), 1)
            self._mix(rows[..., a.shape[1] + k, :], base, turned[None, ..., k], other[a][None, :, None])
        return rows


def _token(subject: Attending, shape: Any, k: int, some: slice) -> Attending:
    """The k-th token of some of the subjects."""

    def pick(array: Array) -> Array:
        return array.reshape(array.shape[0], *shape, *array.shape[2:])[:, some, k]

    return Attending(pick(subject.mixture), pick(subject.with_own), pick(subject.log_sum))


def _spread(base: Attending, axis: int) -> Attending:
    """With a new axis, along which it is the same: that of the other side's subjects."""
    before = (slice(None),) * axis

    def widen(array: Array) -> Array:
        return array[(*before, None)]

    return Attending(widen(base.mixture), widen(base.with_own), widen(base.log_sum))


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
