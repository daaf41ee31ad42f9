"""Dropout rates in the configuration of a transformer, whose names differ between architectures."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from evenhand.errors import FormatError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

HIDDEN = ("hidden_dropout_prob", "dropout", "mlp_dropout", "embedding_dropout", "resid_pdrop", "embd_pdrop")
ATTENTION = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


def with_dropout(
    model: PreTrainedModel, hidden: float | None, attention: float | None
) -> tuple[PretrainedConfig, dict[str, float]]:
    """Return a configuration with other dropout rates, and all its rates by name.

    Raises:
        FormatError: If the configuration has no rate of the kind.
    """
    config = copy.deepcopy(model.config)
    for names, rate, what in ((HIDDEN, hidden, "hidden"), (ATTENTION, attention, "attention")):
        present = [name for name in names if isinstance(getattr(config, name, None), int | float)]
        if rate is not None and not present:
            raise FormatError(
                f"{config.model_type} models have no {what} dropout (none of {', '.join(names)})",
                hint=f"leave {what} dropout out",
            )
        for name in present if rate is not None else ():
            setattr(config, name, rate)
    rates = {name: float(getattr(config, name)) for name in (*HIDDEN, *ATTENTION) if _is_rate(config, name)}
    return config, rates


def _is_rate(config: PretrainedConfig, name: str) -> bool:
    return isinstance(getattr(config, name, None), int | float)
