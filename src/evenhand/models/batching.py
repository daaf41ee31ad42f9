"""Process sequences in batches of similar length, within a number of tokens; a batch that does not fit is halved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from evenhand.arrays import Rows
from evenhand.errors import EvenhandError, UsageError
from evenhand.progress import tell

TOKENS_AT_ONCE = {"cuda": 65_536}  # tokens in a batch, padding included
FEW_TOKENS = 2_048  # on a CPU, a batch should stay in the cache


def tokens_at_once(device: str) -> int:
    """Return the default number of tokens in a batch on a device."""
    return TOKENS_AT_ONCE.get(device.partition(":")[0], FEW_TOKENS)


def run_in_batches(
    lengths: Sequence[int] | Rows, compute: Callable[[Rows], None], *, tokens: int, most: int | None = None
) -> None:
    """Call `compute` with the indices of sequences of similar length, longest first.

    A batch holds at most `tokens` tokens, padding included, or a single sequence. When the device runs out of memory,
    the batch is split in two and computed again, and later batches have its size at most.

    Args:
        lengths: number of tokens of each sequence.
        compute: processes the sequences with these indices; it must be repeatable.
        tokens: the largest number of tokens in a batch.
        most: the largest number of sequences in a batch.

    Raises:
        EvenhandError: If a single sequence does not fit into memory.
    """
    if tokens < 1:
        raise UsageError(f"a batch must have at least 1 token, got {tokens}")
    if most is not None and most < 1:
        raise UsageError(f"batch must be at least 1, got {most}")
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, int(sizes[order[start]]))
        count = max(1, tokens // longest)
        rows = order[start : start + (count if most is None else min(count, most))]
        try:
            compute(rows)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                raise EvenhandError(
                    f"a single text of {longest:,} tokens does not fit into memory",
                    hint="use shorter texts, a lower precision or device='cpu'",
                ) from error
            free_cache()
            tokens = longest * (len(rows) // 2)
            continue
        start += len(rows)
        tell(start, len(order), "texts")


def is_out_of_memory(error: Exception) -> bool:
    """Return whether torch ran out of memory, on a GPU or on the CPU."""
    return type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and "not enough memory" in str(error)
    )


def free_cache() -> None:
    """Give memory that torch keeps for later back to the GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Padded(NamedTuple):
    """Token ids (sequences, longest length), and the length of each sequence."""

    ids: Rows
    lengths: Rows


def pad(sequences: Sequence[np.ndarray]) -> Padded:
    """Return sequences as one array, each continued with its own last token; a causal model does not look there."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ids = np.empty((len(sequences), int(lengths.max())), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        ids[row, len(sequence) :] = sequence[-1]
    return Padded(ids, lengths)
