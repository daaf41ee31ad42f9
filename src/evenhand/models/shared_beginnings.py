"""Texts that share their beginning, read by a causal model in one row, so that the beginning is read once.

The tokens of a row form trees: each knows the token before it in its texts. A token is read at its position in these
texts, and attends to the tokens before it there, so that it has the states that it would have in a row of its own. The
numbers of a text differ from those of a row of its own by rounding only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.arrays import Rows
from evenhand.errors import require
from evenhand.models.device import pad

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

LONGEST_ROW = 256  # tokens; every two tokens of a row meet in its attention, although few of them are related
FILLED_ROW = 128  # shorter rows take up unrelated texts: rows of one length need no padding
LEAST_SHARED = 0.25  # of a text: below it, reading the beginning again costs less than the larger attention
# Models that take positions and an attention mask for every two tokens; tests compare each with rows of single texts.
READ_TREES = frozenset(
    ("cohere", "gemma", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "granite", "llama", "mistral", "olmo", "olmo2",
     "phi", "phi3", "qwen2", "qwen3", "smollm3", "stablelm", "starcoder2")
)  # fmt: skip


@dataclass(eq=False)
class TokenTree:
    """A row with the tokens of texts that share their beginnings; it may hold several trees.

    Attributes:
        ids: of each token.
        depths: position of each token in its texts.
        paths: the places of the tokens of each text, by the number of the text.
    """

    ids: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    paths: dict[int, Rows] = field(default_factory=dict)
    branches: list[tuple[Rows, int]] = field(default_factory=list)
    """Places of the tokens of each added text, and how many of them were in the tree before."""

    def add(self, number: int, ids: Rows, after: Rows) -> Rows:
        """Add a text that goes on after tokens of the tree, and return the places of its tokens."""
        shared, size = len(after), len(self.ids)
        self.ids += ids[shared:].tolist()
        self.depths += range(shared, len(ids))
        path = np.concatenate([after, np.arange(size, len(self.ids), dtype=np.int64)])
        self.paths[number] = path
        self.branches.append((path, shared))
        return path

    @property
    def is_chain(self) -> bool:
        """Whether each token follows the one before it in the row, as in a single text."""
        return self.depths[-1] == len(self.ids) - 1

    def visible(self, size: int) -> NDArray[np.bool_]:
        """Return which tokens each token attends to in a row of a size, (size, size); padding attends to itself."""
        seen = np.eye(size, dtype=bool)
        for path, shared in self.branches:
            new = path[shared:]
            if len(new):
                own = slice(int(new[0]), int(new[-1]) + 1)
                seen[own, path[:shared]] = True
                seen[own, own] = np.tri(len(new), dtype=bool)
        return seen


def reads_trees(model: PreTrainedModel, longest: int) -> bool:
    """Return whether a model can read texts of up to a number of tokens as trees."""
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) or longest
    attention = getattr(model.config, "_attn_implementation", "eager")
    return config.model_type in READ_TREES and longest <= window and attention in ("eager", "sdpa")


def tree_inputs(trees: Sequence[TokenTree], dtype: torch.dtype, device: str) -> dict[str, torch.Tensor]:
    """Return the inputs of a model for trees, one row each: ids, and positions and mask unless all are single texts.

    Rows are padded on the right, where no token of a text looks.
    """
    torch = require("torch", extra="models")
    ids, _ = pad([np.array(tree.ids, dtype=np.int64) for tree in trees])
    inputs = {"input_ids": torch.from_numpy(ids).to(device)}
    if not all(tree.is_chain for tree in trees):
        depths, _ = pad([np.array(tree.depths, dtype=np.int64) for tree in trees])
        hidden = torch.from_numpy(~np.stack([tree.visible(ids.shape[1]) for tree in trees])[:, None]).to(device)
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        mask.masked_fill_(hidden, torch.finfo(dtype).min)
        inputs |= {"position_ids": torch.from_numpy(depths).to(device), "attention_mask": mask}
    return inputs


def plant(texts: Sequence[Rows], *, longest: int = LONGEST_ROW) -> list[TokenTree]:
    """Return rows that hold all texts; equal texts are one path, and neighbours in alphabetical order share a row.

    Args:
        texts: token ids, of one token at least.
        longest: the largest number of tokens in a row of several texts; 0 for a row for each text.
    """
    trees: list[TokenTree] = []
    last = path = np.zeros(0, dtype=np.int64)
    for number in sorted(range(len(texts)), key=lambda number: texts[number].tolist()):
        ids = texts[number]
        shared = _common(last, ids)
        shared = shared if shared >= LEAST_SHARED * len(ids) else 0
        grown = len(trees[-1].ids) + len(ids) - shared if trees else 0
        full = not trees or longest < grown > len(trees[-1].ids) or (not shared and len(trees[-1].ids) >= FILLED_ROW)
        if full:
            trees.append(TokenTree())
            shared = 0
        path = trees[-1].add(number, ids, path[:shared])
        last = ids
    return trees


def _common(first: Rows, second: Rows) -> int:
    """Return how many tokens two texts share at the beginning."""
    size = min(len(first), len(second))
    differ = np.flatnonzero(first[:size] != second[:size])
    return int(differ[0]) if len(differ) else size
