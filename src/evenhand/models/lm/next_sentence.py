"""The next-sentence head of a BERT model: how probable is it that one sentence follows another?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenhand.arrays import Rows, Vector64
from evenhand.errors import DegenerateError, require
from evenhand.models.batching import run_in_batches, tokens_at_once
from evenhand.models.huggingface_folder import read_weight_headers
from evenhand.models.tokenizing import check_texts, encode
from evenhand.models.transformer import Transformer

if TYPE_CHECKING:
    import torch

POOLER, RELATION = "bert.pooler.dense", "cls.seq_relationship"
IS_NEXT = 0  # class of BERT's head: the second sentence follows the first


class NextSentenceHead:
    """BERT's next-sentence head over the body of a loaded model.

    Args:
        transformer: the model that reads the two sentences.
        weights: `bert.pooler.dense` and `cls.seq_relationship`, weight and bias of each.
    """

    def __init__(self, transformer: Transformer, weights: dict[str, torch.Tensor]) -> None:
        self.transformer, self.weights = transformer, weights

    @classmethod
    def load(cls, folder: Path, transformer: Transformer) -> NextSentenceHead | None:
        """Return the head that a model folder holds, or None if it holds none."""
        from safetensors import safe_open

        names = [f"{layer}.{part}" for layer in (POOLER, RELATION) for part in ("weight", "bias")]
        stored = read_weight_headers(folder)
        if any(name not in stored for name in names):
            return None
        weights = {}
        for name in names:
            with safe_open(str(stored[name].path), framework="pt") as file:
                weights[name] = file.get_tensor(name).float().to(transformer.device)
        return cls(transformer, weights)

    def log_probabilities(
        self, contexts: Sequence[str], sentences: Sequence[str], *, tokens: int | None = None
    ) -> Vector64:
        """Return the log-probability that each sentence follows its context; NaN for pairs beyond the window."""
        torch = require("torch", extra="models")
        tokenizer, window = self.transformer.tokenizer, self.transformer.window
        encoded = encode(tokenizer, list(check_texts(contexts)), list(check_texts(sentences)), verbose=False)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        fitting = np.flatnonzero(np.array(lengths) <= window)
        logs = np.full(len(lengths), np.nan)

        def compute(chosen: Rows) -> None:
            rows = fitting[chosen]
            batch = {name: [encoded[name][row] for row in rows] for name in encoded}
            padded = tokenizer.pad(batch, return_tensors="pt", verbose=False).to(self.transformer.device)
            state = self.transformer.model.base_model(**padded).last_hidden_state[:, 0].float()
            pooled = torch.tanh(state @ self.weights[f"{POOLER}.weight"].T + self.weights[f"{POOLER}.bias"])
            logits = pooled @ self.weights[f"{RELATION}.weight"].T + self.weights[f"{RELATION}.bias"]
            logs[rows] = logits.log_softmax(dim=-1)[:, IS_NEXT].double().cpu().numpy()

        with torch.inference_mode():
            run_in_batches(
                np.array(lengths, dtype=np.int64)[fitting],
                compute,
                tokens=tokens or tokens_at_once(self.transformer.device),
            )
        if not np.isfinite(logs[fitting]).all():
            raise DegenerateError(
                f"{self.transformer.name}: a log-probability is NaN or infinite", hint="check the weights"
            )
        return logs
