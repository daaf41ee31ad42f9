"""Tokens with the characters they cover, and logits at chosen positions: what masked and causal models share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.errors import FormatError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

LOGITS_AT_ONCE = {"cuda": 1 << 29}  # numbers in the matrix of logits of one batch
FEW_LOGITS = 1 << 23  # on a CPU, larger matrices cost more in memory traffic than they save in calls


def logits_at(model: PreTrainedModel, rows: torch.Tensor, columns: torch.Tensor, **inputs: Any) -> Any:
    """Return the output of a language model whose logits are those at chosen positions only, (positions, vocabulary).

    The head of a language model reads each position by itself, and its product with the whole vocabulary is a large
    part of the work. A hook passes only the states of the chosen positions to the head, whatever the head computes.

    Args:
        model: a masked or causal language model.
        rows: the text of each position, (positions,).
        columns: the token of each position, (positions,).
        **inputs: arguments of the model, such as input_ids.

    Raises:
        FormatError: If the model is not a body with a head that reads each position by itself.
    """
    body = model.base_model
    if body is model:
        raise FormatError(
            f"{type(model).__name__} is not a body with a language-model head", hint="use a language model"
        )

    def choose(module: Any, arguments: Any, output: Any) -> Any:
        chosen = output[0][rows, columns][None]
        if isinstance(output, tuple):
            return (chosen, *output[1:])
        output["last_hidden_state"] = chosen
        return output

    handle = body.register_forward_hook(choose)
    try:
        output = model(**inputs)
    finally:
        handle.remove()
    if tuple(output.logits.shape[:-1]) != (1, len(rows)):
        raise FormatError(
            f"the head of {type(model).__name__} returns {tuple(output.logits.shape)} for {len(rows)} positions",
            hint="use a model whose head predicts each token by itself",
        )
    output["logits"] = output.logits[0]
    return output


def vocabulary_size(model: PreTrainedModel) -> int:
    """Return the number of logits of a position."""
    head = model.get_output_embeddings()
    table = model.get_input_embeddings() if head is None or not hasattr(head, "weight") else head
    return int(table.weight.shape[0])


def positions_at_once(model: PreTrainedModel, device: str) -> int:
    """Return how many positions have logits at the same time, so that the matrix of logits stays small."""
    return max(1, LOGITS_AT_ONCE.get(device.partition(":")[0], FEW_LOGITS) // vocabulary_size(model))
